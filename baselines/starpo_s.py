"""StarPO-S: PPO over whole episodes that learns only where a group's members still differ in what they earned.

    python baselines/starpo_s.py                                   # tiny on TextFrozenLake-v0, minutes on 2 cores
    python baselines/starpo_s.py --quick                           # a complete run in about a minute, to try a setup
    python baselines/starpo_s.py --filter top_p --filter-share 0.9 # the rule of RAGEN's second version
    python baselines/starpo_s.py --filter-share 1 --clip-high 0.2 --kl-coefficient 0.001   # plain StarPO
    python baselines/starpo_s.py --resume runs/<folder>            # goes on where an interrupted run stopped

RAGEN's answer to collapse in long runs (arXiv:2504.20073), over the loop and the objective of `ppo_llm.py`:

1. uncertainty filtering: an update sees the groups with the largest deviation of the return (`filtering.py`);
2. a critic, in place of the group's mean as baseline;
3. no divergence from a reference policy;
4. clip-higher: the ratio may rise by 0.28 and fall by 0.2.

Discounts and trace decays are 1, as in the paper: the return of the whole episode counts for each of its tokens. Where
the filter keeps nothing, since all groups agree, an iteration ends without an update (RAGEN stops after five of those).

Metrics of an iteration are those of `ppo_llm.py`, and signs of collapse (`diagnostics.py`), which `collapse.png` draws:

| name | what | good |
|---|---|---|
| group_reward_std | deviation of the return within groups, before the filter | falls late, not early |
| flat_groups | share of groups whose members all earned the same | low |
| kept_episodes | share of the episodes that the update saw | steady |
| entropy, gradient_norm | fall and leap before success falls, where a policy collapses | steady |
| thought_entropy, mutual_information, retrieval | with thoughts, where validated: how varied they are, how much they tell of their level, how often they fit it best | steady |
"""  # noqa: E501  # a table's row is one line

import sys
from dataclasses import dataclass
from typing import Any, Literal

try:
    from turngym.baselines.estimators import ESTIMATORS
    from turngym.baselines.filtering import RULES, keep_uncertain
    from turngym.baselines.policy_gradient import Learner, PolicyGradientArgs, rollout_metrics
    from turngym.baselines.ppo_llm import CriticArgs, objective
    from turngym.baselines.run import CommonArgs, Run, command_line, report
    from turngym.baselines.samples import critic_samples, explained_variance
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error


@dataclass(frozen=True)
class Args(CriticArgs, PolicyGradientArgs, CommonArgs):
    """Train a policy on the levels where its episodes still differ, and watch for collapse."""

    filter: Literal["top_k", "top_p", "min_p"] = "top_k"
    """Keep a share of the groups; a share of all their deviations; or those above a share of the largest."""
    filter_share: float = 0.25
    """That share, above 0. The smaller, the fewer groups; 1 with top_k keeps all of them."""
    group_size: int = 8
    """Episodes on each level; they differ in luck and sampling. At least 2."""
    turn_gamma: float = 1.0
    """Discount from turn to turn; tokens within a turn are not discounted."""
    turn_lambda: float = 1.0
    """Trace decay of the advantage estimate from turn to turn."""
    entropy_coefficient: float = 0.001
    """Weight of the entropy bonus."""

    def check(self) -> None:
        """Raise `ValueError` for what is out of range."""
        super().check()
        if self.group_size < 2:
            raise ValueError(f"--group-size must be at least 2, got {self.group_size}: one episode differs from none")
        if not 0 < self.filter_share <= 1:
            raise ValueError(f"--filter-share must be above 0 and at most 1, got {self.filter_share}")


def iterate(learner: Learner, iteration: int) -> dict[str, float]:
    """One rollout, what the filter keeps of it, and its update."""
    args, model, trajectories = learner.args, learner.run.model, learner.rollout(iteration)
    valid = [each for each in trajectories if each.valid]
    kept = keep_uncertain(valid, lambda stds: RULES[args.filter](stds, args.filter_share))
    metrics = {
        **rollout_metrics(trajectories),
        **learner.signals(trajectories, iteration),
        "kept_episodes": len(kept) / len(trajectories),
    }
    if not kept:
        return metrics
    discounts = {"turn_gamma": args.turn_gamma, "turn_lambda": args.turn_lambda}
    samples = critic_samples(kept, ESTIMATORS[args.estimator], reward_scale=args.reward_scale, **discounts)
    learns = model.value_head if iteration < args.critic_warmup else model
    return {
        **metrics,
        "explained_variance": explained_variance(samples),
        **learner.update(samples, iteration, objective, learns),
    }


def train(run: Run) -> dict[str, Any]:
    """The whole recipe; returns the summary that the folder keeps too."""
    Learner(run, "starpo_s").learn(iterate)
    return report(run)


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 after a complete run, 2 where a setting is wrong."""
    return command_line(Args, train, argv, __doc__, iterations=8, episodes=128)


if __name__ == "__main__":
    sys.exit(main())
