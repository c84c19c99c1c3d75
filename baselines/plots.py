"""What a run shows of itself: its learning curve, and the signs of collapse."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from turngym.baselines.diagnostics import spike_ratios

_SIGNALS = {
    "success": "success, training episodes",
    "group_reward_std": "deviation of the return within groups",
    "entropy": "entropy, nats a token",
    "gradient_norm": "gradient norm (crosses: more than 5 times those before it)",
    "mutual_information": "mutual information of level and thought, nats",
}
_SPIKE = 5.0


def learning_curve(metrics: Sequence[dict[str, Any]], reference: tuple[float, float], title: str, path: Path) -> None:
    """Draw success against time: training episodes, validation levels, and the random and oracle lines.

    Args:
        metrics: Lines of `metrics.jsonl`; those with `success` or `validation_success` are drawn.
        reference: Success of the random agent and of the oracle.
        title: Over the plot.
        path: The PNG to write.
    """
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    stage = next((line["stage"] for line in reversed(metrics) if line["stage"] != "sft"), "")
    label = stage.upper().replace("_", "-")
    series = (
        ("sft", "validation_success", "SFT, validation", "o-", "tab:orange"),
        (stage, "success", f"{label}, training episodes", "-", "tab:blue"),
        (stage, "validation_success", f"{label}, validation", "o-", "tab:green"),
    )
    for stage, key, label, style, colour in series:
        points = [(line["wall_s"] / 60, line[key]) for line in metrics if line["stage"] == stage and key in line]
        if points:
            alpha = 0.4 if key == "success" else 1.0
            axes.plot(*zip(*points, strict=True), style, label=label, color=colour, alpha=alpha, markersize=4)
    for value, label, colour in ((reference[0], "random", "tab:red"), (reference[1], "oracle", "black")):
        axes.axhline(value, linestyle="--", linewidth=1, color=colour, label=f"{label} ({value:.2f})")
    axes.set(xlabel="minutes", ylabel="success", ylim=(0, 1.05), title=title)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def collapse_dashboard(metrics: Sequence[dict[str, Any]], title: str, path: Path) -> None:
    """Draw, one below the other, what moves before success does where a policy collapses (`diagnostics.py`).

    Args:
        metrics: Lines of `metrics.jsonl`; signals that none of them has are left out, and iterations without an update.
        title: Over the plot.
        path: The PNG to write.
    """
    lines = [line for line in metrics if line["stage"] != "sft"]
    shown = {name: label for name, label in _SIGNALS.items() if any(name in line for line in lines)}
    figure, axes = plt.subplots(len(shown), 1, figsize=(8, 2 * len(shown)), sharex=True, layout="constrained")
    for axis, (name, label) in zip(axes, shown.items(), strict=True):
        steps, values = zip(*((line["step"], line[name]) for line in lines if name in line), strict=True)
        axis.plot(steps, values, color="tab:blue", linewidth=1)
        if name == "gradient_norm":
            moved = [(step, norm) for step, norm in zip(steps, values, strict=True) if norm > 0]
            ratios = spike_ratios([norm for _, norm in moved])
            spikes = [place for place, ratio in zip(moved, ratios, strict=True) if ratio > _SPIKE]
            axis.plot([step for step, _ in spikes], [norm for _, norm in spikes], "x", color="tab:red")
        axis.set_title(label, fontsize="small", loc="left")
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("iteration")
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    plt.close(figure)
