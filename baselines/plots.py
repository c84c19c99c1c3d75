"""The learning curve of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def learning_curve(metrics: Sequence[dict[str, Any]], reference: tuple[float, float], title: str, path: Path) -> None:
    """Draw success against time: training episodes, validation levels, and the random and oracle lines.

    Args:
        metrics: Lines of `metrics.jsonl`; those with `success` or `validation_success` are drawn.
        reference: Success of the random agent and of the oracle.
        title: Over the plot.
        path: The PNG to write.
    """
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    series = (
        ("sft", "validation_success", "SFT, validation", "o-", "tab:orange"),
        ("ppo", "success", "PPO, training episodes", "-", "tab:blue"),
        ("ppo", "validation_success", "PPO, validation", "o-", "tab:green"),
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
