"""Train the variants of a study on several seeds and tabulate success on held-out levels; what is done is kept.

    python benchmarks/learning.py text_frozen_lake --jobs 2
    python benchmarks/learning.py --help                      # the studies

Each variant and seed (studies.py) is one run of a recipe in `runs/results/`, gone on with where it was interrupted, and
then played once more with sampled replies (`baselines/evaluate.py`). Its summary is added to
`docs/results/<study>.json` as soon as it is done, and `docs/results/<study>.md` is written anew: every run, and means
over seeds with 95% intervals (Student's t). Nothing is chosen on the levels of the table.
"""

import argparse
import json
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies import STUDIES, Study
from study_runs import SAMPLES, TRAINED, run_study

from turngym.baselines.run_folder import write_whole

TOOL_USE = ("success", "call_rate", "error_rate", "fixed", "wasted")  # explained in docs/retool.md
_T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


def main() -> None:
    """Run what is missing, and write the page after each run."""
    listed = "\n".join(f"  {name:<22} {study.question}" for name, study in STUDIES.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\nstudies:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=STUDIES, metavar="STUDY")
    parser.add_argument("--seeds", type=int, nargs="+", help="only these of the study's seeds")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, each with a share of the cores")
    parser.add_argument("--workers", type=int, help="threads of a run, in place of its share of the cores")
    parser.add_argument("--quick", action="store_true", help="one seed, cut short, into runs/quick: whether it runs")
    arguments = parser.parse_args()
    options = {"seeds": arguments.seeds, "jobs": arguments.jobs, "workers": arguments.workers}
    run_study(arguments.study, write, **options, quick=arguments.quick)


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean over seeds, and half the width of its 95% interval (NaN for a single seed)."""
    if len(values) < 2:
        return values[0], float("nan")
    return statistics.mean(values), _T_95[len(values)] * statistics.stdev(values) / len(values) ** 0.5


def write(path: Path, name: str, runs: dict[str, dict[str, Any]]) -> None:
    """The record and the page."""
    study = STUDIES[name]
    runs = {variant: dict(sorted(runs[variant].items())) for variant in study.variants if variant in runs}
    if not runs:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "variants": study.variants, "runs": runs}
    save(path, json.dumps(record, indent=1) + "\n")
    save(path.with_suffix(".md"), page(name, study, runs))
    if study.axis:
        draw(path.with_suffix(".png"), study, runs)


def save(path: Path, text: str) -> None:
    """Write a file whole or not at all: it holds what hours were spent on."""
    write_whole(path, lambda scratch: scratch.write_text(text, encoding="utf-8"))


def page(name: str, study: Study, runs: dict[str, dict[str, Any]]) -> str:
    """The results as Markdown."""
    some = next(iter(next(iter(runs.values())).values()))
    lines = [
        f"# {study.question}",
        "",
        f"`python benchmarks/learning.py {name}`",
        "",
        f"{some['env_id']}: success on {some['random']['episodes']} {some['split']} levels; in brackets normalised, "
        "from the random agent (0) to the oracle (1). The policy is the `tiny` model, which learned from "
        "demonstrations and then from its own episodes: it is not a language model. Replies are greedy, but for pass@1 "
        f"and pass@{SAMPLES}, where they are sampled at temperature 1, on {study.levels:,} levels.",
        *(["", "**Cut short by --quick: whether it runs, and not a result.**"] if some["quick"] else []),
        "",
        f"| variant | policy | success (normalised) | pass@1 | pass@{SAMPLES} | turns in training | CPU minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    for variant, by_seed in runs.items():
        lines += variant_rows(variant, list(by_seed.values()))
    lines += ["", *every_run(runs), *planning(runs), *tool_use(runs), *(["", study.notes] if study.notes else [])]
    lines += ["", "Settings, beyond the recipes' defaults:", ""]
    lines += [f"- {variant}: `python {' && python '.join(study.commands(variant))}`" for variant in runs]
    if study.data:
        lines += ["", "Made before:", "", *(f"- `python {command}`" for command in study.data.values())]
    if study.axis:
        lines += ["", f"![success against {study.axis}]({name}.png)"]
    lines += ["", f"Machine: {machine()}. ± is a 95% interval over training seeds (Student's t).", ""]
    return "\n".join(lines)


def variant_rows(variant: str, runs: list[dict[str, Any]]) -> list[str]:
    """A row for each policy of a variant, means over its seeds."""
    rows, trained = [], [each for each in TRAINED if each in runs[0]][-1]
    for policy in [each for each in ("random", *TRAINED, "oracle") if each in runs[0]]:
        success, normalized = (spread([run[policy][key] for run in runs]) for key in ("success", "normalized"))
        sampled = [
            spread([run["sampled"][policy][k]["mean"] for run in runs]) if policy in runs[0]["sampled"] else ""
            for k in ("pass@1", f"pass@{SAMPLES}")
        ]
        cost = ["", ""]
        if policy == trained:
            cost = [f"{statistics.mean(run['training_turns'] for run in runs):,.0f}"]
            cost += [f"{statistics.mean(run['cpu_s'] for run in runs) / 60:.0f}"]
        cells = [variant, policy, f"{success} ({normalized})", *sampled, *cost]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def spread(values: Sequence[float]) -> str:
    """A mean and its interval."""
    mean, half = mean_and_interval(values)
    return f"{mean:.3f}" if half != half else f"{mean:.3f} ± {half:.3f}"


def every_run(runs: dict[str, dict[str, Any]]) -> list[str]:
    """Success of every single run."""
    seeds = sorted({int(seed) for by_seed in runs.values() for seed in by_seed})
    lines = [f"| greedy success, seed | {' | '.join(map(str, seeds))} |", "|---|" + "---|" * len(seeds)]
    for variant, by_seed in runs.items():
        for policy in [each for each in TRAINED if each in next(iter(by_seed.values()))]:
            cells = [f"{by_seed[str(seed)][policy]['success']:.3f}" if str(seed) in by_seed else "" for seed in seeds]
            lines.append(f"| {variant}: {policy} | {' | '.join(cells)} |")
    return lines


def planning(runs: dict[str, dict[str, Any]]) -> list[str]:
    """What `metrics.py` of path planning measured of the sampled replies, means over the seeds; nothing elsewhere."""
    names = {
        "SPL": "spl",
        "cost / optimum": "suboptimality",
        "expansions / A*'s": "against_astar",
        "/ wA*(2)'s": "against_weighted_astar",
        "AVOID": "avoid_rate",
        "turns": "turns",
        "degrees a step": "smoothness",
    }
    rows = []
    for variant, by_seed in runs.items():
        for policy in TRAINED:
            found = [run.get("metrics", {}).get(policy, {}).get("planning") for run in by_seed.values()]
            if all(found):
                rows.append(
                    f"| {variant} | {policy} | {' | '.join(mean_text(found, name) for name in names.values())} |"
                )
    if not rows:
        return []
    said = "Of the sampled replies (ratios: median / 90th percentile; cost and degrees of those that succeed):"
    return ["", said, "", f"| variant | policy | {' | '.join(names)} |", "|---|---|" + "---|" * len(names), *rows]


def mean_text(measured: Sequence[dict[str, Any]], name: str) -> str:
    """A figure's mean over seeds, of each part where it is a spread; "-" where there is none."""

    def text(values: list[float | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{statistics.mean(known):.2f}" if known else "-"

    values = [each[name] for each in measured]
    if not isinstance(values[0], dict):
        return text(values)
    return " / ".join(text([value[part] for value in values]) for part in values[0]).replace("- / -", "-")


def tool_use(runs: dict[str, dict[str, Any]]) -> list[str]:
    """Success and use of the tool by difficulty, of the greedy replies, means over the seeds; nothing elsewhere."""
    some = next(iter(next(iter(runs.values())).values())).get("tool_use")
    if not some:
        return []
    levels = sorted(next(iter(some.values()))["by_difficulty"], key=int)
    lines = [f"| difficulty | {' | '.join(levels)} | all |", "|---|" + "---|" * (len(levels) + 1)]
    for variant, by_seed in runs.items():
        for policy in next(iter(by_seed.values()))["tool_use"]:
            own = [run["tool_use"][policy] for run in by_seed.values()]
            uses = [*([use["by_difficulty"][level] for use in own] for level in levels), [use["all"] for use in own]]
            for name in TOOL_USE:
                cells = [[use[name] for use in column if use[name] is not None] for column in uses]
                told = " | ".join(spread(each) if each else "" for each in cells)
                if any(cells):
                    lines.append(f"| {variant}, {policy}: {name.replace('_', ' ')} | {told} |")
    return ["", "Of the greedy replies, by difficulty (measures: `docs/retool.md`):", "", *lines]


def draw(path: Path, study: Study, runs: dict[str, dict[str, Any]]) -> None:
    """Success against what the variants' names count."""
    import matplotlib
    import numpy as np

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    counts = [int(variant) for variant in runs]
    for policy, label in (("sft", "SFT"), ("ppo", "SFT, then PPO")):
        spreads = [mean_and_interval([run[policy]["success"] for run in runs[str(count)].values()]) for count in counts]
        means, halves = np.array(spreads).T
        axes.errorbar(counts, means, yerr=np.nan_to_num(halves), label=label, marker="o", capsize=3)
    axes.set(xscale="log", xlabel=study.axis, ylabel="success on held-out levels", ylim=(0, 1))
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def machine() -> str:
    """What the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "CPU")
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, no GPU"


if __name__ == "__main__":
    main()
