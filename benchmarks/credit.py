"""Credit lab: what estimators say of a turn's advantage, beside what it truly is for the policy that played it.

    python benchmarks/credit.py                        # all of it, under an hour on 2 cores
    python benchmarks/credit.py --quick                # the same, small, in minutes: `runs/credit-quick/`, no result

The environments here can be set to any state, so the value of a history is what it is: the mean return of many episodes
that go on from it, with the policy's own draws and luck of their own; the same with the first reply given is the value
of that reply, and their difference its advantage. A policy that reads all of its history has a tree of them and no
table, so that values are sampled, `BRANCHES` each, and what is left of their error is taken out of the figures.

On each environment a policy is measured at three stages: early imitation, imitation, and PPO after it. It plays
`LEVELS` levels, each by a group. Returns are not discounted, and an estimator that can, is told so. The critic is the
policy's own value head, fitted by least squares to the returns of other episodes of the same policy. Finished stages
are kept in `docs/results/credit.json`; `docs/results/credit.md` and `credit.png` are written anew after each.

| figure | what |
|---|---|
| correlation | of estimate and true advantage over turns, the truth's own error taken out |
| sign | share of turns whose estimate has the true sign, where the truth is clear (beyond two standard errors) |
| bias | mean error, once the estimate is scaled to fit best, in deviations of the truth |
| noise | deviation of that error, in the same units |
| cosine | between the policy gradient on these episodes with the estimate and with the truth |
"""

import argparse
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import learning
import numpy as np
import torch
from numpy.typing import NDArray
from study_runs import RESULTS, ROOT
from tqdm import tqdm

from turngym.agents import LLMPolicy, Trajectory
from turngym.agents.models import PolicyModel, pad
from turngym.baselines.environments import TRAIN_SEEDS
from turngym.baselines.estimators import ESTIMATORS, spread
from turngym.baselines.group_advantages import returns_to_go
from turngym.baselines.parallel import micro_batches
from turngym.baselines.run import Run, finished, reply_tokens

Floats = NDArray[np.float64]

TASKS = {
    "TextFrozenLake-v0": "",
    "TextFrozenLakeSlippery-v0": "",
    "TextFrozenLake8x8-v0": "",
    "RagenFrozenLake-v0": "--env-args version=v2",
}
"""Environments, with further settings of `baselines/ppo_llm.py`."""

STAGES = {
    "early imitation": ("--sft-epochs 3 --iterations 0", "sft"),
    "imitation": ("--sft-epochs 12 --iterations 60", "sft"),
    "PPO": ("--sft-epochs 12 --iterations 60", "ppo"),
}
"""How each stage is trained, and which of the run's weights it is."""

LEVELS, GROUP, BRANCHES, CRITIC_EPISODES = 16, 8, 32, 512


def _to_go(trajectories: Sequence[Trajectory]) -> list[Floats]:
    return [spread(each, returns_to_go(each.rewards, 1.0)) for each in trajectories]


def _estimator(name: str, **settings: float) -> Callable[[Sequence[Trajectory]], list[Floats]]:
    return partial(ESTIMATORS[name], **settings)


ESTIMATES: dict[str, Callable[[Sequence[Trajectory]], list[Floats]]] = {
    "return to go": _to_go,
    **{f"GAE, λ = {trace:g}": _estimator("gae", turn_gamma=1.0, turn_lambda=trace) for trace in (1.0, 0.95, 0.5, 0.0)},
    "bi-level GAE, λ = 0.95": _estimator("bi_level", turn_gamma=1.0, turn_lambda=0.95),
    "GRPO": _estimator("grpo"),
    "RLOO": _estimator("rloo"),
    "GiGPO": _estimator("gigpo", turn_gamma=1.0),
    "HGPO": _estimator("hgpo", turn_gamma=1.0),
    "GraphGPO": _estimator("graphgpo"),
    "GRAFT": _estimator("graft", turn_gamma=1.0),
}
"""Each with its paper's settings, but for the discount. GAE with λ = 1 is the return less the critic's value."""


# The truth --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Branch:
    """Where episodes go on from.

    Attributes:
        ids: The transcript up to where a reply begins, or has ended.
        turn: How many replies it holds.
        state: The environment's, before the next reply, or before the last of those that are held.
        reply: The last of them, where the environment has not heard it yet.
    """

    ids: tuple[int, ...]
    turn: int
    state: Any
    reply: str | None = None


def sampled_returns(run: Run, branches: Sequence[Branch], count: int) -> Floats:
    """What was earned from there on, `(branches, count)`: each time with draws and luck of its own."""
    envs = run.envs["train"]
    length, stop = run.args.max_new_tokens or reply_tokens(envs[0], run.args.reply_format), ()
    if envs[0].has_wrapper_attr("stop_strings"):
        stop = envs[0].get_wrapper_attr("stop_strings")
    for env in envs:
        env.reset(seed=0)
    policy = LLMPolicy(run.model, max_new_tokens=length, stop=stop, seed=[7])
    earned, spare, live = np.zeros(len(branches) * count), list(envs), dict[int, Any]()
    waiting = deque(range(len(earned)))
    bar = tqdm(total=len(earned), desc="branches", unit="episode", leave=False)
    while waiting or live:
        replies: dict[int, str] = {}
        while waiting and spare:
            index, env = waiting.popleft(), spare.pop()
            branch, live[index] = branches[index // count], env
            env.unwrapped.set_state(with_luck(branch.state, index))
            policy.rejoin(index, branch.ids, branch.turn)
            if branch.reply is None:
                policy.reply(index)
            else:
                replies[index] = branch.reply
        for index, reply in {**replies, **policy.advance()}.items():
            observation, reward, terminated, truncated, _ = live[index].step(reply)
            earned[index] += reward
            if not (terminated or truncated):
                policy.observe(index, observation)
                continue
            policy.release([index])
            spare.append(live.pop(index))
            bar.update()
    bar.close()
    return earned.reshape(len(branches), count)


def with_luck(state: Any, luck: int) -> Any:
    """The same state of a `TextEnv`, with another luck from there on."""
    return replace(state, streams=(state.streams[0], np.random.PCG64([8, luck]).state))


def histories(run: Run, trajectory: Trajectory) -> list[tuple[Branch, Branch]]:
    """Before each turn: the history, and the history with the reply that was given."""
    env, result = run.envs["train"][0], []
    env.reset(seed=trajectory.seed, options={"noise_seed": trajectory.luck})  # type: ignore[attr-defined]
    for turn, reply in enumerate(trajectory.replies()):
        begin = trajectory.turn_id.index(turn)
        state, text = env.unwrapped.get_state(), run.model.decode(reply)  # type: ignore[attr-defined]
        end = run.model.format.end
        whole = (*trajectory.ids[:begin], *reply, *([] if reply[-1] == end else [end]))
        result.append((Branch(tuple(whole[:begin]), turn, state), Branch(whole, turn + 1, state, text)))
        env.step(text)
    return result


def true_advantages(run: Run, trajectories: Sequence[Trajectory], count: int) -> tuple[Floats, Floats]:
    """The advantage of every turn, one after the other, from each half of the branches, `(2, turns)`, and its variance.

    Histories that several episodes share are branched once.
    """
    pairs = [pair for each in trajectories for pair in histories(run, each)]
    distinct = {(branch.ids, branch.reply): branch for pair in pairs for branch in pair}
    returns = dict(zip(distinct, sampled_returns(run, list(distinct.values()), count), strict=True))
    before, after = (np.array([returns[pair[at].ids, pair[at].reply] for pair in pairs]) for at in (0, 1))
    halves = np.array([after[:, half::2].mean(1) - before[:, half::2].mean(1) for half in (0, 1)])
    return halves, (after.var(1, ddof=1) + before.var(1, ddof=1)) / count


# The critic --------------------------------------------------------------------------------------------------------


@torch.no_grad()
def fit_critic(model: PolicyModel, episodes: Sequence[Trajectory]) -> None:
    """Set the value head to the least-squares fit of the return to go, with a little ridge."""
    features, targets = [], []
    for group in micro_batches(episodes, 4096):
        mine = [episodes[index] for index in group]
        ids, attended = pad([each.ids for each in mine])
        hidden = model.hidden(ids, attended, torch.arange(ids.shape[1]).expand_as(ids))
        features += [hidden[row, [at - 1 for at in each.policy_positions()]] for row, each in enumerate(mine)]
        targets += _to_go(mine)
    read = torch.cat(features).double()
    read = torch.cat([read, torch.ones(len(read), 1, dtype=torch.float64)], 1)
    wanted = torch.tensor(np.concatenate(targets))
    weights = torch.linalg.solve(read.T @ read + 1e-3 * len(read) * torch.eye(read.shape[1]).double(), read.T @ wanted)
    model.value_head.weight.copy_(weights[None, :-1])
    model.value_head.bias.copy_(weights[-1:])


# Figures -----------------------------------------------------------------------------------------------------------


def by_turn(trajectory: Trajectory, by_token: Floats) -> list[float]:
    """The mean over the tokens of each turn."""
    turns = np.array([turn for turn in trajectory.turn_id if turn >= 0])
    return [float(by_token[turns == turn].mean()) for turn in range(trajectory.turns)]


def gradient(model: PolicyModel, trajectories: Sequence[Trajectory], by_token: Sequence[Floats]) -> torch.Tensor:
    """The policy gradient of some episodes, as one vector."""
    parameters, total = list(model.lm.parameters()), None
    for group in micro_batches(trajectories, 4096):
        advantages = torch.tensor(np.concatenate([by_token[index] for index in group]), dtype=torch.float32)
        scored = model.score([trajectories[index] for index in group]).log_probs @ advantages
        own = torch.cat([each.flatten() for each in torch.autograd.grad(scored, parameters)])
        total = own if total is None else total + own
    assert total is not None
    return total


def cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    """Of the angle between two vectors; 0 where one of them is 0."""
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0))


def figures(estimate: Floats, halves: Floats, variance: Floats) -> dict[str, float]:
    """Correlation, sign, bias and noise, as the docstring of this file says.

    Args:
        estimate: Of every turn, `(turns,)`.
        halves: The truth, two independent measurements, `(2, turns)`.
        variance: Of their mean's error, `(turns,)`.
    """
    truth = halves.mean(0)
    spread_of_truth = max(float(truth.var() - variance.mean()), 1e-12)
    clear = abs(truth) > 2 * variance**0.5
    scale = float(estimate @ truth) / max(float(estimate @ estimate), 1e-12)
    error = scale * estimate - truth
    flat = estimate.std() < 1e-9
    correlation = 0.0 if flat else float(np.corrcoef(estimate, truth)[0, 1]) * (truth.var() / spread_of_truth) ** 0.5
    return {
        "correlation": float(np.clip(correlation, -1, 1)),
        "sign": float((np.sign(estimate) == np.sign(truth))[clear].mean()) if clear.any() else float("nan"),
        "bias": float(error.mean()) / spread_of_truth**0.5,
        "noise": max(float(error.var() - variance.mean()), 0.0) ** 0.5 / spread_of_truth**0.5,
    }


def measure(run: Run, levels: int, group: int, count: int, critic_episodes: int) -> dict[str, Any]:
    """All estimators beside the truth, for the model that is loaded."""
    rng = np.random.default_rng(9)

    def rollout(seeds: list[int], groups: list[int], purpose: int) -> list[Trajectory]:
        luck = rng.integers(TRAIN_SEEDS, size=len(seeds)).tolist()
        settings = {"temperature": 1.0, "seed": [purpose], "groups": groups, "noise_seeds": luck}
        episodes = run.rollout("train", seeds, **settings)
        for each, own in zip(episodes, luck, strict=True):
            each.luck = own  # type: ignore[attr-defined]
        return episodes

    seeds = rng.integers(TRAIN_SEEDS, size=critic_episodes).tolist()
    fit_critic(run.model, rollout(seeds, list(range(critic_episodes)), 5))
    seeds = np.repeat(rng.integers(TRAIN_SEEDS, size=levels), group).tolist()
    trajectories = rollout(seeds, (np.arange(levels * group) // group).tolist(), 6)
    halves, variance = true_advantages(run, trajectories, count)
    bounds = np.cumsum([each.turns for each in trajectories])[:-1]

    def over_tokens(turns: Floats) -> list[Floats]:
        return [spread(each, own) for each, own in zip(trajectories, np.split(turns, bounds), strict=True)]

    true_gradient = gradient(run.model, trajectories, over_tokens(halves.mean(0)))
    half_gradients = [gradient(run.model, trajectories, over_tokens(half)) for half in halves]
    result: dict[str, Any] = {}
    for name, estimator in ESTIMATES.items():
        by_token = estimator(trajectories)
        flat = np.concatenate([by_turn(each, own) for each, own in zip(trajectories, by_token, strict=True)])
        own = gradient(run.model, trajectories, by_token)
        result[name] = {**figures(flat, halves, variance), "cosine": cosine(own, true_gradient)}
    return {
        "estimators": result,
        "success": float(np.mean([each.success for each in trajectories])),
        "turns": int(sum(each.turns for each in trajectories)),
        "ceiling": cosine(*half_gradients),
    }


# Runs and the page -------------------------------------------------------------------------------------------------


def trained(task: str, settings: str, quick: bool) -> Run:
    """The run of a stage, made if it is not there."""
    place = "credit-quick" if quick else "credit"
    folder = ROOT / "runs" / place / f"{task}{settings}".replace(" ", "").replace("--", "-")
    if not (folder / "summary.json").exists():
        begun = (folder / "config.json").exists()
        fresh = ["--env-id", task, *TASKS[task].split(), *settings.split(), "--output-dir", str(folder)]
        command = [*(["--resume", str(folder)] if begun else fresh), *(["--quick"] if quick and not begun else [])]
        subprocess.run(
            [sys.executable, str(ROOT / "baselines/ppo_llm.py"), *command],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return finished(folder, "train", 1)[0]


def page(results: dict[str, dict[str, Any]], quick: bool) -> str:
    """The figures as Markdown: a table for each, estimators down, environments and stages across."""
    lines = [
        "# Credit lab: estimated and true advantages",
        "",
        f"`python benchmarks/credit.py{' --quick' if quick else ''}`",
        "",
        f"The true advantage of a turn is measured by {BRANCHES} episodes from before it and {BRANCHES} from after it; "
        f"{LEVELS} levels, {GROUP} episodes each; one training seed. The policy is the `tiny` model at three stages: "
        "early imitation (E), imitation (I), PPO after it (P).",
        "",
    ]
    if quick:
        lines += ["**Cut short by --quick: whether it runs, and not a result.**", ""]
    columns = [(task, stage) for task in TASKS for stage in STAGES if stage in results.get(task, {})]
    heads = [f"{task.removesuffix('-v0')} {stage[0].upper()}" for task, stage in columns]
    lines += [f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name in ("success", "turns"):
        cells = [f"{results[task][stage][name]:.3g}" for task, stage in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for figure in ("correlation", "cosine", "sign", "bias", "noise"):
        lines += ["", f"## {figure.capitalize()}", "", f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
        for name in ESTIMATES:
            cells = [f"{results[task][stage]['estimators'][name][figure]:.2f}" for task, stage in columns]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        if figure == "cosine":
            cells = [f"{results[task][stage]['ceiling']:.2f}" for task, stage in columns]
            lines.append(f"| the truth, half of the branches against the other | {' | '.join(cells)} |")
    about = __doc__ or ""
    lines += ["", about[about.index("| figure") :].strip(), "", "![cosines](credit.png)", ""]
    return "\n".join([*lines, f"Machine: {learning.machine()}.", ""])


def draw(path: Path, results: dict[str, dict[str, Any]]) -> None:
    """The cosine of every estimator's gradient with the true one."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(3.2 * len(results) + 2, 4), sharey=True, layout="constrained")
    for panel, (task, stages) in zip(np.atleast_1d(axes), results.items(), strict=True):
        for marker, (stage, own) in zip("osd", stages.items(), strict=False):
            cosines = [own["estimators"][name]["cosine"] for name in ESTIMATES]
            panel.plot(cosines, range(len(cosines)), marker, label=stage)
        panel.axvline(0, color="black", linewidth=0.8)
        panel.set(title=task, xlabel="cosine with the true gradient", xlim=(-0.5, 1))
        panel.set_yticks(range(len(ESTIMATES)), list(ESTIMATES))
    np.atleast_1d(axes)[0].invert_yaxis()
    np.atleast_1d(axes)[0].legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is missing, and write the page after each stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="ID", help=", ".join(TASKS))
    parser.add_argument("--quick", action="store_true", help="few levels, episodes and branches")
    arguments = parser.parse_args(argv)
    place = ROOT / "runs/credit-quick" if arguments.quick else RESULTS
    sizes = (4, 4, 4, 32) if arguments.quick else (LEVELS, GROUP, BRANCHES, CRITIC_EPISODES)
    path = place / "credit.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    for task in arguments.tasks:
        for stage, (settings, weights) in STAGES.items():
            if stage in results.get(task, {}):
                continue
            run = trained(task, settings, arguments.quick)
            run.folder.load_model(weights, run.model)
            results.setdefault(task, {})[stage] = measure(run, *sizes)
            place.mkdir(parents=True, exist_ok=True)
            ordered = {task: results[task] for task in TASKS if task in results}
            learning.save(path, json.dumps({"machine": learning.machine(), "results": ordered}, indent=1) + "\n")
            learning.save(path.with_suffix(".md"), page(results, arguments.quick))
            draw(path.with_suffix(".png"), ordered)


if __name__ == "__main__":
    main()
