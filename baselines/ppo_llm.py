"""PPO for a language policy on any environment with text in and text out.

    python baselines/ppo_llm.py                                    # tiny on TextFrozenLake-v0, minutes on 2 cores
    python baselines/ppo_llm.py --quick                            # a complete run in about a minute, to try a setup
    python baselines/ppo_llm.py --env-id your_module:YourEnv-v0 --demonstrations none
    python baselines/ppo_llm.py --resume runs/<folder>             # goes on where an interrupted run stopped

Demonstrations of the environment's oracle, supervised fine-tuning on them (`sft.py`), then PPO with a critic; success
on held-out levels at the end, beside a random agent and the oracle. Objective: `losses.py` and `advantages.py`. What is
left out on purpose: a reward model, and normalising rewards.

Metrics of an iteration (`metrics.jsonl` and TensorBoard, stage `ppo`):

| name | what | good |
|---|---|---|
| success | share of this iteration's training episodes that were solved (sampled at temperature 1) | rises |
| validation_success | success on the validation levels, greedy | rises |
| episode_return, turns | mean sum of rewards; mean turns | rises; falls where speed pays |
| invalid_rate | share of replies that the environment could not read | falls to 0 |
| entropy | of the sampled tokens' distributions, nats | falls slowly, not to 0 |
| approximate_kl | of the sampling policy from the updated one, nats a token | below about 0.05 |
| clip_fraction | share of tokens whose ratio was clipped | below about 0.2 |
| policy_loss, value_loss | mean over tokens | value_loss falls |
| explained_variance | share of the returns' variance that the critic foresaw | rises towards 1 |
| gradient_norm | before clipping | steady; a spike is an early sign of collapse |
| group_reward_std | of the return within groups on one level (with --group-size above 1) | falls late, not early |
| reference_kl | from the policy that PPO started from, nats a token (with --kl-coefficient above 0) | small |
| ratio_error | largest difference of the first ratio from 1 before any update | below 1e-4 |
"""

import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

try:
    import numpy as np
    import torch
    import tyro
    from torch import Tensor
    from tqdm import tqdm

    from turngym.agents.models import PolicyModel
    from turngym.agents.trajectory import Trajectory
    from turngym.baselines import losses
    from turngym.baselines.advantages import ESTIMATORS
    from turngym.baselines.environments import TRAIN_SEEDS
    from turngym.baselines.evaluation import score_trajectories
    from turngym.baselines.optimizers import Optimizer
    from turngym.baselines.parallel import micro_batches
    from turngym.baselines.run import CommonArgs, Run, imitate, limited, prepare, report, resumed
    from turngym.baselines.samples import Sample, concatenated, explained_variance, group_reward_std, make_samples
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error


@dataclass(frozen=True)
class Args(CommonArgs):
    """Train a policy on a text environment and report success on held-out levels."""

    iterations: int = 300
    """Rollout and update, so many times."""
    episodes: int = 256
    """Episodes in a rollout."""
    group_size: int = 1
    """Episodes on each level; they differ in luck and sampling. With 2 or more, group_reward_std is logged."""
    retry_share: float = 0.5
    """At most this share of a rollout's levels are levels that the policy failed on and has not solved since."""
    epochs: int = 1
    """Passes over each rollout."""
    minibatches: int = 2
    """Optimiser steps in a pass."""
    learning_rate: float = 4e-4
    """Peak learning rate of PPO: up over 5 iterations, then linearly down to a tenth. Pretrained: 1e-6 to 1e-5."""
    estimator: Literal["gae", "bi_level"] = "gae"
    """Advantages over tokens in one pass, or over turns and then inside them (advantages.py)."""
    turn_gamma: float = 0.95
    """Discount from turn to turn; tokens within a turn are not discounted."""
    turn_lambda: float = 0.95
    """Trace decay of the advantage estimate from turn to turn."""
    clip_low: float = 0.2
    """The probability ratio may fall to 1 minus this."""
    clip_high: float = 0.28
    """The probability ratio may rise to 1 plus this."""
    value_clip: float = 0.5
    """The critic's estimate may move by this much in an update, in units of the return."""
    value_coefficient: float = 2.0
    """Weight of the critic's loss."""
    entropy_coefficient: float = 0.005
    """Weight of the entropy bonus."""
    kl_coefficient: float = 0.0
    """Weight of the divergence from the policy that PPO started from; 0 keeps no reference."""
    critic_warmup: int = 0
    """First iterations in which the value head alone learns."""
    max_gradient_norm: float = 1.0
    """Longer gradients are scaled down to this."""


_LEVELS, _LUCK, _ORDER = range(10, 13)  # purposes of random streams; those below belong to run.py
_MOST_FAILED = 1024


def batch_gradients(run: Run, samples: Sequence[Sample], *, critic_only: bool = False) -> dict[str, float]:
    """Set the gradients of PPO's loss over some samples, and return its terms, means over sampled tokens."""
    args, tokens = run.args, sum(len(sample.returns) for sample in samples)
    parts: list[dict[str, float]] = []

    def loss(group: list[int]) -> Tensor:
        mine = [samples[index] for index in group]
        old_log_probs, now = concatenated(mine, "old_log_probs"), run.model.score([each.trajectory for each in mine])
        policy, clipped = losses.policy_loss(
            now.log_probs,
            old_log_probs,
            concatenated(mine, "advantages"),
            clip_low=args.clip_low,
            clip_high=args.clip_high,
        )
        old_values, returns = concatenated(mine, "old_values"), concatenated(mine, "returns")
        value = losses.value_loss(now.values, old_values, returns, clip=args.value_clip)
        entropy, kl = now.entropy.sum(), losses.approximate_kl(now.log_probs, old_log_probs)
        terms = {"policy_loss": policy, "value_loss": value, "entropy": entropy, "approximate_kl": kl}
        terms["clip_fraction"] = clipped.sum()
        if args.kl_coefficient:
            terms["reference_kl"] = losses.kl_to_reference(now.log_probs, concatenated(mine, "reference_log_probs"))
        ratio_error = (now.log_probs - old_log_probs).exp().sub(1).abs().max().item()
        parts.append({"ratio_error": ratio_error, **{name: term.item() / tokens for name, term in terms.items()}})
        total = policy + args.value_coefficient * value - args.entropy_coefficient * entropy
        return (total + args.kl_coefficient * terms["reference_kl"] if args.kl_coefficient else total) / tokens

    groups = micro_batches([sample.trajectory for sample in samples], args.max_tokens)
    run.workers.set_gradients(run.model.value_head if critic_only else run.model, groups, loss)
    sums = {name: sum(part[name] for part in parts) for name in parts[0]}
    return {**sums, "ratio_error": max(part["ratio_error"] for part in parts)}


def update(run: Run, optimizer: Optimizer, samples: Sequence[Sample], iteration: int) -> dict[str, float]:
    """Several passes of clipped policy gradient over one rollout."""
    args, rng, steps = run.args, run.rng(_ORDER, iteration), []
    learning_rate = args.learning_rate * schedule(iteration, args.iterations)
    for _ in range(args.epochs):
        for part in np.array_split(rng.permutation(len(samples)), min(args.minibatches, len(samples))):
            optimizer.zero_grad()
            mine = [samples[index] for index in part]
            metrics = batch_gradients(run, mine, critic_only=iteration < args.critic_warmup)
            norm = torch.nn.utils.clip_grad_norm_(run.model.parameters(), args.max_gradient_norm)
            steps.append({**metrics, "gradient_norm": norm.item()})
            assert len(steps) > 1 or metrics["ratio_error"] < 1e-4, f"sampling and training disagree: {metrics}"
            optimizer.step(learning_rate)
    mean = {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}
    return {**mean, "ratio_error": steps[0]["ratio_error"]}


def schedule(iteration: int, iterations: int) -> float:
    """Share of the peak learning rate: up over 5 iterations, then linearly down to a tenth."""
    return min(1.0, (iteration + 1) / 5) * (1 - 0.9 * iteration / max(1, iterations))


def play(run: Run, iteration: int, failed: Sequence[int]) -> list[Trajectory]:
    """The rollout of one iteration: fresh training levels and some of the failed ones, each played by a group."""
    args, rng = run.args, run.rng(_LEVELS, iteration)
    levels = rng.integers(TRAIN_SEEDS, size=-(-args.episodes // args.group_size))
    retried = rng.permutation(failed)[: int(args.retry_share * len(levels))]
    levels[: len(retried)] = retried
    groups = np.arange(args.episodes) // args.group_size
    luck = run.rng(_LUCK, iteration).integers(TRAIN_SEEDS, size=args.episodes).tolist() if args.group_size > 1 else None
    seed = [args.seed, iteration]
    return run.rollout(
        "train", levels[groups].tolist(), temperature=1.0, seed=seed, groups=groups.tolist(), noise_seeds=luck
    )


def still_failed(failed: Sequence[int], trajectories: Sequence[Trajectory]) -> list[int]:
    """The levels that the policy failed on and has not solved since, those that failed last at the end."""
    solved = {each.seed for each in trajectories if each.success}
    lost = dict.fromkeys(each.seed for each in trajectories if each.seed not in solved)
    return [*(level for level in failed if level not in solved and level not in lost), *lost][-_MOST_FAILED:]


def iterate(
    run: Run, optimizer: Optimizer, reference: PolicyModel | None, iteration: int, failed: list[int]
) -> dict[str, float]:
    """One rollout and its update; `failed` is brought up to date."""
    args, trajectories = run.args, play(run, iteration, failed)
    failed[:] = still_failed(failed, trajectories)
    discounts = {"turn_gamma": args.turn_gamma, "turn_lambda": args.turn_lambda}
    samples = make_samples(trajectories, ESTIMATORS[args.estimator], **discounts)
    if reference is not None:
        add_reference(run, reference, samples)
    score = score_trajectories(trajectories, (0.0, 1.0))
    metrics = {
        "success": score.success,
        "episode_return": score.episode_return,
        "turns": score.turns,
        "invalid_rate": score.invalid_rate,
        "explained_variance": explained_variance(samples),
        **({"group_reward_std": group_reward_std(trajectories)} if args.group_size > 1 else {}),
        **update(run, optimizer, samples, iteration),
    }
    if (iteration + 1) % args.validate_every == 0:
        run.folder.save_trajectories("ppo", iteration, trajectories[:2], run.model)
    return metrics


@torch.no_grad()
def add_reference(run: Run, reference: PolicyModel, samples: Sequence[Sample]) -> None:
    """Fill in what the reference policy says of the sampled tokens."""
    for group in micro_batches([sample.trajectory for sample in samples], run.args.max_tokens):
        scores = reference.score([samples[index].trajectory for index in group]).log_probs
        lengths = [len(samples[index].returns) for index in group]
        for index, own in zip(group, scores.split(lengths), strict=True):
            samples[index].reference_log_probs = own


def reinforce(run: Run) -> None:
    """PPO from the present weights; those that validate best, the start included, are saved as `ppo`."""
    args, folder = run.args, run.folder
    optimizer, failed = Optimizer(run.model, args.optimizer), list[int]()
    reference = copy.deepcopy(run.model) if args.kl_coefficient else None
    state = folder.state_of("ppo")
    if state:
        run.model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        best, failed = state["best"], state["failed"]
    else:
        best = run.validate()
        folder.save_model("ppo", run.model)
    bar = tqdm(range(state["step"] if state else 0, args.iterations), desc="PPO", unit="iteration")
    for iteration in bar:
        metrics = iterate(run, optimizer, reference, iteration, failed)
        if (iteration + 1) % args.validate_every == 0 or iteration + 1 == args.iterations:
            metrics["validation_success"] = run.validate()
            if metrics["validation_success"] > best:
                best = metrics["validation_success"]
                folder.save_model("ppo", run.model)
        folder.log("ppo", iteration, metrics)
        bar.set_postfix(
            success=f"{metrics['success']:.3f}", validation=f"{best:.3f}", entropy=f"{metrics['entropy']:.2f}"
        )
        if (iteration + 1) % args.checkpoint_every == 0:
            saved = {"model": run.model.state_dict(), "optimizer": optimizer.state_dict(), "best": best}
            folder.save_state("ppo", iteration + 1, **saved, failed=failed)


def train(run: Run) -> dict[str, Any]:
    """The whole recipe; returns the summary that the folder keeps too."""
    if run.args.demonstrations != "none":
        if run.folder.state_of("ppo"):
            run.folder.load_model("sft", run.model)
        else:
            imitate(run)
    reinforce(run)
    return report(run)


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 after a complete run, 2 where a setting is wrong."""
    args = tyro.cli(Args, args=argv, description=__doc__)
    try:
        if args.resume:
            args = resumed(args)
        elif args.quick:
            args = limited(args, iterations=8, episodes=128)
        run = prepare(args, args.episodes)
    except ValueError as error:
        print(f"ppo_llm: {error}", file=sys.stderr)
        return 2
    train(run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
