"""Stable-Baselines3's PPO on the tabular view of TextFrozenLake-v0, beside our run at equal steps and equal minutes.

    python benchmarks/sb3.py [--seeds 0 1 2]

It takes what `docs/results/text_frozen_lake.json` says of ours (environment steps of PPO, and CPU minutes) and
trains an MLP on boards as arrays, without demonstrations, until both are reached; success is measured on the same test
levels at each of the two moments. Settings are those of `tests/wrappers/test_sb3.py`. Finished seeds are kept in
`docs/results/sb3.json`; `docs/results/sb3.md` is written anew after each.
"""

import argparse
import json
import statistics
import time
from typing import Any

import gymnasium
import torch
from learning import machine, save, spread
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from study_runs import RESULTS

from turngym.baselines.environments import held_out_seeds
from turngym.baselines.evaluation import play
from turngym.envs.scores import normalized
from turngym.wrappers import TabularWrapper, make_sb3_env

ENV_ID, LEVELS, PLANES = "TextFrozenLake-v0", 1000, 6


class Moments(BaseCallback):
    """Measures success when so many steps are done and when so much CPU time is used up, and then ends training."""

    def __init__(self, steps: int, minutes: float) -> None:
        super().__init__()
        self.limits = {"equal steps": float(steps), "equal minutes": minutes}
        self.reached: dict[str, dict[str, float]] = {}
        self._begun, self._measuring = time.process_time(), 0.0

    def _on_step(self) -> bool:
        minutes = (time.process_time() - self._begun - self._measuring) / 60
        now = {"equal steps": float(self.num_timesteps), "equal minutes": minutes}
        for name in self.limits.keys() - self.reached.keys():
            if now[name] >= self.limits[name]:
                before = time.process_time()
                score = {"success": held_out_success(self.model), "steps": self.num_timesteps, "minutes": minutes}
                self.reached[name] = score
                self._measuring += time.process_time() - before
        return self.reached.keys() != self.limits.keys()


class Greedy:
    """The most likely actions of a model."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def act(self, board: Any) -> Any:
        """The action for one board."""
        return int(self._model.predict(board, deterministic=True)[0])


def held_out_success(model: Any) -> float:
    """Share of the test levels that the most likely actions solve."""
    env: Any = TabularWrapper(gymnasium.make(f"turngym:{ENV_ID}", split="test"), None, PLANES)
    return statistics.mean(each.success for each in play(env, Greedy(model), held_out_seeds("test", LEVELS)))


def train(seed: int, steps: int, minutes: float) -> dict[str, dict[str, float]]:
    """One run; what it reached at the two moments."""
    settings = {"n_steps": 64, "batch_size": 512, "n_epochs": 8, "learning_rate": 2e-3, "gamma": 0.95, "ent_coef": 0.01}
    envs, moments = make_sb3_env(ENV_ID, 16, seed=1000 * seed, planes=PLANES), Moments(steps, minutes)
    PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings).learn(10**9, callback=moments)
    return moments.reached


def page(ours: list[dict[str, Any]], theirs: dict[str, dict[str, dict[str, float]]]) -> str:
    """The comparison as Markdown."""
    rows = [("ours: sft, then ppo", [run["ppo"]["success"] for run in ours], [run["training_turns"] for run in ours])]
    minutes = [[run["cpu_s"] / 60 for run in ours]]
    for name in ("equal steps", "equal minutes"):
        runs = [by_moment[name] for by_moment in theirs.values()]
        rows.append(
            (f"Stable-Baselines3 PPO, {name}", [run["success"] for run in runs], [run["steps"] for run in runs])
        )
        minutes.append([run["minutes"] for run in runs])
    lines = [
        "# What does reading cost? A token policy beside an MLP on arrays",
        "",
        "`python benchmarks/sb3.py`",
        "",
        f"{ENV_ID}, {LEVELS} test levels. Ours reads and writes text and starts from an oracle's demonstrations; "
        "Stable-Baselines3's PPO sees the board as one-hot planes, chooses among four actions and starts from nothing.",
        "",
        "| policy | seeds | success | normalised | environment steps of PPO | CPU minutes |",
        "|---|---|---|---|---|---|",
    ]
    for (name, success, steps), spent in zip(rows, minutes, strict=True):
        scaled = spread([normalized(ENV_ID, each) for each in success])
        counts = f"{statistics.mean(steps):,.0f} | {statistics.mean(spent):.1f}"
        lines.append(f"| {name} | {len(success)} | {spread(success)} | {scaled} | {counts} |")
    return "\n".join([*lines, "", f"Machine: {machine()}. ± is a 95% interval over seeds (Student's t).", ""])


def main() -> None:
    """Train the seeds that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    study = json.loads((RESULTS / "text_frozen_lake.json").read_text())
    ours = list(study["runs"]["sft, then ppo"].values())
    steps = round(statistics.mean(run["training_turns"] for run in ours))
    minutes = statistics.mean(run["cpu_s"] for run in ours) / 60
    path = RESULTS / "sb3.json"
    theirs = json.loads(path.read_text())["runs"] if path.exists() else {}
    for seed in arguments.seeds:
        if str(seed) not in theirs:
            theirs[str(seed)] = train(seed, steps, minutes)
        save(path, json.dumps({"machine": machine(), "runs": theirs}, indent=1) + "\n")
        save(path.with_suffix(".md"), page(ours, theirs))


if __name__ == "__main__":
    main()
