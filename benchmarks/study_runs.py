"""Runs of a study: each variant on each seed, gone on with where it was interrupted, and what is kept of it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from studies import STUDIES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs/results"
QUICK = ROOT / "runs/quick"
SAMPLES = 8
TRAINED = ("sft", "ppo", "grpo", "grpo_roc", "starpo_s")
"""Policies of a run beside random and oracle, in the order in which they can come."""

_TENTHS = 10
_MAKING = Lock()  # a file that several runs learn from is made by the first

Runs = dict[str, dict[str, Any]]
"""What is kept of runs, by variant and seed."""


def run_study(
    name: str,
    write: Callable[[Path, str, Runs], None],
    *,
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
    workers: int | None = None,
    quick: bool = False,
) -> None:
    """Run what is missing of a study.

    Args:
        name: Of the study.
        write: Is given the record's path, the study's name and all its runs, after each run and at the end.
        seeds: Only these of the study's seeds.
        jobs: Runs side by side.
        workers: Threads of a run; by default its share of the cores.
        quick: Only the first of the seeds, cut short, and kept elsewhere: whether it runs.
    """
    study, path = STUDIES[name], (QUICK if quick else RESULTS) / f"{name}.json"
    runs: Runs = json.loads(path.read_text())["runs"] if path.exists() else {}
    wanted = [seed for seed in study.seeds[: 1 if quick else None] if seeds is None or seed in seeds]
    missing = [
        (seed, variant) for seed in wanted for variant in study.variants if str(seed) not in runs.get(variant, {})
    ]
    threads = workers or max(1, (os.cpu_count() or 1) // jobs)
    with ThreadPoolExecutor(jobs) as pool:
        begun = {pool.submit(one_run, name, variant, seed, threads, quick): variant for seed, variant in missing}
        for done in as_completed(begun):
            runs.setdefault(begun[done], {})[str(done.result()["seed"])] = done.result()
            write(path, name, runs)
    write(path, name, runs)


def one_run(name: str, variant: str, seed: int, threads: int, quick: bool = False) -> dict[str, Any]:
    """One training run, or what is left of it, and its evaluation by samples; returns what is kept of it."""
    study = STUDIES[name]
    commands = study.commands(variant)
    whole = f"{name}-{variant.replace(', ', '-').replace(' ', '-')}-{seed}"
    steps = [f"{whole}-{step}" for step in range(len(commands) - 1)]
    folders = [ROOT / "runs" / ("quick" if quick else "results") / folder for folder in (*steps, whole)]
    alone = {**os.environ, "OMP_NUM_THREADS": str(threads)}

    def python(script: str, *arguments: object) -> None:
        command = [sys.executable, str(ROOT / script), *map(str, arguments)]
        subprocess.run(command, check=True, env=alone, cwd=ROOT, stdout=subprocess.DEVNULL)

    with _MAKING:
        for path, command in study.data.items():
            if not (ROOT / path).exists():
                python(*command.split())
    for step, (command, folder) in enumerate(zip(commands, folders, strict=True)):
        script, *settings = command.replace("{before}", str(folders[step - 1])).split()
        if not (folder / "summary.json").exists():
            begun = (folder / "config.json").exists()
            fresh = ("--seed", seed, "--workers", threads, "--output-dir", folder, *settings)
            python(script, *(("--resume", folder) if begun else (*fresh, *(["--quick"] if quick else []))))
    if not (folder / "evaluation.json").exists():
        levels = 32 if quick else study.levels
        python("baselines/evaluate.py", folder, "--samples", SAMPLES, "--levels", levels, "--workers", threads)
    return record([_read(each) for each in folders], json.loads((folder / "evaluation.json").read_text()), threads)


def _read(folder: Path) -> tuple[dict[str, Any], int, list[dict[str, Any]]]:
    """A run's summary, how many episodes its rollouts have, and its metrics."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    episodes = json.loads((folder / "config.json").read_text()).get("episodes", 0)
    return json.loads((folder / "summary.json").read_text()), episodes, lines


def record(
    steps: Sequence[tuple[dict[str, Any], int, list[dict[str, Any]]]], evaluation: dict[str, Any], threads: int
) -> dict[str, Any]:
    """What is kept of a run.

    Args:
        steps: Of each command: summary, episodes in a rollout, metrics.
        evaluation: What `evaluate.py` wrote on the last one.
        threads: How many each had.

    Returns:
        The summary; policies that were not trained are left out, such as the PPO of no iterations, which are the
        weights that it would have started from. With it `sampled` and `metrics` of the evaluation, `tool_use` of greedy
        replies where there is a tool, `training_turns`, and `curve`: of each metric of RL the mean over each tenth of
        training, None where it was not measured.
    """
    summary: dict[str, Any] = {}
    for own, _, _ in steps:
        summary = {**summary, **own, "cpu_s": summary.get("cpu_s", 0.0) + own["cpu_s"]}
    lines = [line for _, _, own in steps for line in own]
    for policy in set(TRAINED) & summary.keys() - {line["stage"] for line in lines}:
        del summary[policy]
    greedy = {policy: own["tool use"] for policy, own in summary.pop("metrics", {}).items() if "tool use" in own}
    turns = sum(line["turns"] * episodes for _, episodes, own in steps for line in own if "turns" in line)
    kept = {
        **summary,
        "sampled": {policy: own for policy, own in evaluation["policies"].items() if policy in summary},
        "metrics": {policy: own for policy, own in evaluation["metrics"].items() if policy in summary},
        "threads": threads,
        "training_turns": round(turns),
        "curve": curve([line for line in lines if "turns" in line]),
    }
    tool_use = {policy: own for policy, own in greedy.items() if policy in summary}
    return {**kept, **({"tool_use": tool_use} if tool_use else {})}


def curve(lines: Sequence[dict[str, Any]]) -> dict[str, list[float | None]]:
    """Of each metric the mean over each tenth of training; None in a tenth in which it was not measured."""
    names = dict.fromkeys(name for line in lines for name in line if name not in ("stage", "step", "wall_s"))
    tenths = [[lines[at] for at in part] for part in np.array_split(np.arange(len(lines)), _TENTHS)]

    def mean(part: Sequence[dict[str, Any]], name: str) -> float | None:
        values = [line[name] for line in part if line.get(name) is not None]
        return round(float(np.mean(values)), 6) if values else None

    return {name: [mean(part, name) for part in tenths] for name in names}
