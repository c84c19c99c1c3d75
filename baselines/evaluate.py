"""Sampled success of a finished run on held-out levels: pass@1 and pass@k beside each other.

    python baselines/evaluate.py runs/<folder>                     # 8 samples of each of 1,000 test levels
    python baselines/evaluate.py runs/<folder> --split validation --levels 200 --samples 4
    python baselines/evaluate.py runs/<folder> --env-args family=maze          # transfer: what it was not trained on

A run's own summary is about greedy replies. Here every level is played several times, with replies sampled at a
temperature and luck of its own each time: pass@1 is the mean success of a sample, pass@k the share of levels that at
least one of k samples solves. What RL teaches beyond imitation shows in the first, what it forgets in the second.
Where a task has measures of its own (`task_metrics.py`), such as the use of a tool, they are taken from the same
episodes. The result is `evaluation.json` in the run's folder; with `--env-args` they are part of its name.
"""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

try:
    import numpy as np
    import tyro

    from turngym.baselines.environments import held_out_seeds
    from turngym.baselines.evaluation import pass_at_k
    from turngym.baselines.run import Run, finished
    from turngym.baselines.run_folder import write_whole
    from turngym.baselines.task_metrics import Metric, task_metrics, told
    from turngym.envs.scores import mean_interval
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error


@dataclass(frozen=True)
class Args:
    """Play every level several times and report pass@1 and pass@k."""

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a finished run."""
    samples: int = 8
    """Episodes on each level."""
    levels: int = 1000
    """How many levels."""
    split: Literal["train", "validation", "test"] | None = None
    """Of which split; by default that of the run's closing table."""
    env_args: tuple[str, ...] = ()
    """Arguments of the environment as name=value, in place of the run's own or beside them."""
    temperature: float = 1.0
    """Of sampling."""
    workers: int = 2
    """Threads that share the episodes; one a core."""


def evaluate(
    run: Run, split: str, *, samples: int, levels: int, temperature: float
) -> tuple[dict[str, Any], dict[str, dict[str, Metric]]]:
    """pass@1 and pass@`samples` of each policy that the run has saved, with 95% intervals over the levels.

    The second result holds the task's own measures of the same episodes, for each policy by name.
    """
    seeds = np.repeat(held_out_seeds(split, levels), samples).tolist()
    luck, rows, measured = list(range(len(seeds))), {}, {}
    for name in run.folder.models():
        run.folder.load_model(name, run.model)
        episodes = run.rollout(split, seeds, temperature=temperature, seed=[1], noise_seeds=luck)
        solved = np.array([each.success for each in episodes]).reshape(levels, samples).sum(axis=1)
        rows[name] = {
            f"pass@{k}": {
                "mean": pass_at_k(solved.tolist(), samples, k),
                "interval": mean_interval([pass_at_k([each], samples, k) for each in solved.tolist()]),
            }
            for k in sorted({1, samples})
        }
        measured[name] = task_metrics(episodes)
    return rows, measured


def file_name(env_args: Sequence[str]) -> str:
    """Where a result goes: what was measured under other arguments stands beside that under the run's own."""
    return f"{'-'.join(['evaluation', *(re.sub('[^A-Za-z0-9=._]+', '_', each) for each in env_args)])}.json"


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 when done, 2 where a setting is wrong."""
    args = tyro.cli(Args, args=argv, description=__doc__)
    try:
        if args.samples < 1 or args.levels < 2 or args.temperature <= 0:
            raise ValueError("--samples must be at least 1, --levels at least 2, --temperature above 0")
        run, split = finished(args.run, args.split, args.workers, args.env_args)
    except ValueError as error:
        print(f"evaluate: {error}", file=sys.stderr)
        return 2
    settings = {"samples": args.samples, "levels": args.levels, "temperature": args.temperature}
    rows, measured = evaluate(run, split, **settings)
    metrics = {name: {metric: each.values for metric, each in own.items()} for name, own in measured.items()}
    result = {"split": split, "env_args": args.env_args, **settings, "policies": rows, "metrics": metrics}
    text = json.dumps(result, indent=2) + "\n"
    write_whole(args.run / file_name(args.env_args), lambda scratch: scratch.write_text(text, encoding="utf-8"))
    print(
        f"{' '.join([run.args.env_id, *args.env_args])}, {args.levels} {split} levels, temperature {args.temperature:g}"
    )
    for name, scores in rows.items():
        for k, score in scores.items():
            print(f"{name} {k}: {score['mean']:.3f} [{score['interval'][0]:.3f}, {score['interval'][1]:.3f}]")
    print(told(measured), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
