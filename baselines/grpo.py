"""GRPO over whole episodes of many turns, and its relatives: RLOO, REINFORCE++, GiGPO, HGPO, GraphGPO, GRAFT.

    python baselines/grpo.py                                       # tiny on TextFrozenLake-v0, minutes on 2 cores
    python baselines/grpo.py --quick                               # a complete run in about a minute, to try a setup
    python baselines/grpo.py --estimator gigpo --estimator-args turn_gamma=0.9
    python baselines/grpo.py --resume runs/<folder>                # goes on where an interrupted run stopped

The recipe of `ppo_llm.py` without a critic: every level is played by a group, and an episode, or a turn of it, is
credited with what it earned beyond the others of its group. With its defaults this is StarPO in its GRPO form
(arXiv:2504.20073), which RAGEN trains over whole trajectories of thoughts and actions: ratios clipped at 0.2 on both
sides, divergence from the start at 0.001, loss averaged over all sampled tokens. Groups share level and start, and
neither luck nor sampling.

| --estimator | what an episode or a turn is compared with | settings |
|---|---|---|
| grpo | the group's returns, in units of their deviation (Dr. GRPO: scale=False) | scale |
| rloo | the mean of the others' returns | |
| reinforce_plus_plus | the whole batch's returns to go | turn_gamma |
| reinforce_plus_plus_baseline | the group's mean, then the whole batch's deviation | |
| gigpo | grpo, and returns to go from the same state | turn_gamma, step_weight, scale |
| hgpo | returns to go from the same last states | depth, exponent, turn_gamma, scale |
| graphgpo | grpo, and the distance to success on the group's graph of states | distance_decay, step_weight |
| graft | values on the group's graph of states | turn_gamma, scale |

Metrics of an iteration are those of `ppo_llm.py`, but for the critic's, and signs of collapse (`diagnostics.py`), which
`collapse.png` draws:

| name | what | good |
|---|---|---|
| group_reward_std | deviation of the return within groups | falls late, not early |
| flat_groups | share of groups whose members all earned the same: nothing is learned from them by grpo and rloo | low |
| thought_entropy, mutual_information, retrieval | with thoughts, where validated: how varied they are, how much they tell of their level, how often they fit it best | steady |
"""  # noqa: E501  # a table's row is one line

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

try:
    from torch import Tensor

    from turngym.agents.models import TokenScores
    from turngym.baselines.environments import parse_arguments
    from turngym.baselines.estimators import Estimator, configured
    from turngym.baselines.policy_gradient import (
        Learner,
        PolicyGradientArgs,
        policy_objective,
        policy_terms,
        rollout_metrics,
    )
    from turngym.baselines.run import CommonArgs, Run, command_line, report
    from turngym.baselines.samples import Sample, group_samples
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error


@dataclass(frozen=True)
class GroupArgs:
    """Settings of a recipe that compares the members of groups."""

    estimator: Literal[
        "grpo",
        "rloo",
        "reinforce_plus_plus",
        "reinforce_plus_plus_baseline",
        "gigpo",
        "hgpo",
        "graphgpo",
        "graft",
    ] = "grpo"
    """What an episode or a turn is compared with; see the table above."""
    estimator_args: tuple[str, ...] = ()
    """Settings of the estimator as name=value, for example turn_gamma=0.9; by default those of its paper."""

    def advantages(self) -> Estimator:
        """The estimator as it is set.

        Raises:
            ValueError: If it has no such setting.
        """
        try:
            return configured(self.estimator, parse_arguments(self.estimator_args, "--estimator-args"))
        except ValueError as error:
            raise ValueError(f"--estimator-args: {str(error).removeprefix('--estimator-args ')}") from error


@dataclass(frozen=True)
class Args(GroupArgs, PolicyGradientArgs, CommonArgs):
    """Train a policy on a text environment by comparing episodes on the same level, without a critic."""

    group_size: int = 8
    """Episodes on each level, which are compared; at least 2. They differ in luck and sampling."""
    clip_high: float = 0.2
    """The probability ratio may rise to 1 plus this."""
    entropy_coefficient: float = 0.001
    """Weight of the entropy bonus."""
    kl_coefficient: float = 0.001
    """Weight of the divergence from the policy that RL started from; 0 keeps no reference."""

    def check(self) -> None:
        """Raise `ValueError` for what is out of range."""
        super().check()
        check_groups(self)


def check_groups(args: Any) -> None:
    """Raise `ValueError` where groups cannot be compared as the settings say."""
    if args.group_size < 2:
        raise ValueError(f"--group-size must be at least 2, got {args.group_size}: there is nothing to compare with")
    args.advantages()


def objective(args: Any, now: TokenScores, samples: Sequence[Sample]) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss without a critic and its terms, summed over the sampled tokens."""
    terms = policy_terms(args, now, samples)
    return policy_objective(args, terms), terms


def iterate(learner: Learner, iteration: int) -> dict[str, float]:
    """One rollout and its update."""
    trajectories = learner.rollout(iteration)
    samples = group_samples(trajectories, learner.args.advantages())
    return {
        **rollout_metrics(trajectories),
        **learner.signals(trajectories, iteration),
        **learner.update(samples, iteration, objective),
    }


def train(run: Run) -> dict[str, Any]:
    """The whole recipe; returns the summary that the folder keeps too."""
    Learner(run, "grpo").learn(iterate)
    return report(run)


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 after a complete run, 2 where a setting is wrong."""
    return command_line(Args, train, argv, __doc__, iterations=8, episodes=128)


if __name__ == "__main__":
    sys.exit(main())
