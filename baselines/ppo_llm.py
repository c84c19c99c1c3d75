"""PPO for a language policy on any environment with text in and text out.

    python baselines/ppo_llm.py                                    # tiny on TextFrozenLake-v0, minutes on 2 cores
    python baselines/ppo_llm.py --quick                            # a complete run in about a minute, to try a setup
    python baselines/ppo_llm.py --env-id your_module:YourEnv-v0 --demonstrations none
    python baselines/ppo_llm.py --resume runs/<folder>             # goes on where an interrupted run stopped

Demonstrations of the environment's oracle, supervised fine-tuning on them (`sft.py`), then PPO with a critic; success
on held-out levels at the end, beside a random agent and the oracle. Objective: `losses.py` and `advantages.py`; the
loop around it: `policy_gradient.py`. What is left out on purpose: a reward model, and normalising rewards.

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
| explained_variance | share of the returns' variance that the critic foresaw | rises towards 1; at 0: --reward-scale |
| gradient_norm | before clipping | steady; a spike is an early sign of collapse |
| group_reward_std | of the return within groups on one level (with --group-size above 1) | falls late, not early |
| reference_kl | from the policy that PPO started from, nats a token (with --kl-coefficient above 0) | small |
| importance, importance_error | weight of what a server sampled, size of its logarithm | near 1; near 0 |
| ratio_error | largest difference of the first ratio from 1 before any update | below 1e-4; training stops at 1e-3 |
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

try:
    from torch import Tensor

    from turngym.agents.models import TokenScores
    from turngym.baselines import losses
    from turngym.baselines.estimators import ESTIMATORS
    from turngym.baselines.policy_gradient import (
        Learner,
        PolicyGradientArgs,
        policy_objective,
        policy_terms,
        rollout_metrics,
    )
    from turngym.baselines.run import CommonArgs, Run, command_line, report
    from turngym.baselines.samples import Sample, concatenated, critic_samples, explained_variance
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error


@dataclass(frozen=True)
class CriticArgs:
    """Settings of a recipe with a critic."""

    estimator: Literal["gae", "bi_level"] = "gae"
    """Advantages over tokens in one pass, or over turns and then inside them (advantages.py)."""
    turn_gamma: float = 0.95
    """Discount from turn to turn; tokens within a turn are not discounted."""
    turn_lambda: float = 0.95
    """Trace decay of the advantage estimate from turn to turn."""
    reward_scale: float = 1.0
    """Multiplies rewards in training, never in reports. Choose it so that a return is about 1: the critic's loss grows
    with the square of the returns, and where those are about 10 it drowns the policy's (Sokoban: 0.1)."""
    value_clip: float = 0.5
    """The critic's estimate may move by this much in an update, in units of the return."""
    value_coefficient: float = 2.0
    """Weight of the critic's loss."""
    critic_warmup: int = 0
    """First iterations in which the value head alone learns."""


@dataclass(frozen=True)
class Args(CriticArgs, PolicyGradientArgs, CommonArgs):
    """Train a policy on a text environment and report success on held-out levels."""


def objective(args: Any, now: TokenScores, samples: Sequence[Sample]) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO's loss and its terms, summed over the sampled tokens."""
    terms = policy_terms(args, now, samples)
    old_values, returns = concatenated(samples, "old_values"), concatenated(samples, "returns")
    terms["value_loss"] = losses.value_loss(now.values, old_values, returns, clip=args.value_clip)
    return policy_objective(args, terms) + args.value_coefficient * terms["value_loss"], terms


def iterate(learner: Learner, iteration: int) -> dict[str, float]:
    """One rollout and its update."""
    args, model, trajectories = learner.args, learner.run.model, learner.rollout(iteration)
    discounts = {"turn_gamma": args.turn_gamma, "turn_lambda": args.turn_lambda}
    samples = critic_samples(trajectories, ESTIMATORS[args.estimator], reward_scale=args.reward_scale, **discounts)
    learns = model.value_head if iteration < args.critic_warmup else model
    return {
        **rollout_metrics(trajectories),
        "explained_variance": explained_variance(samples),
        **learner.update(samples, iteration, objective, learns),
    }


def train(run: Run) -> dict[str, Any]:
    """The whole recipe; returns the summary that the folder keeps too."""
    Learner(run, "ppo").learn(iterate)
    return report(run)


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 after a complete run, 2 where a setting is wrong."""
    return command_line(Args, train, argv, __doc__, iterations=8, episodes=128)


if __name__ == "__main__":
    sys.exit(main())
