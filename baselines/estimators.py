"""Every advantage estimator under one signature: trajectories in, one array over sampled tokens out for each of them.

    estimate = configured("gigpo", {"turn_gamma": 0.95})
    advantages = estimate(trajectories)

A recipe names an estimator once and never asks again which it is. The settings are keyword arguments, with those of the
method's paper as defaults, but for `gae` and `bi_level`, which need a critic's values and their discounts. What is
sampled gets the advantage of its turn; what was not sampled has none, so there is nothing to mask.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from turngym.agents.trajectory import Trajectory
from turngym.baselines import advantages
from turngym.baselines.advantages import Floats, token_rewards, whiten
from turngym.baselines.graph_advantages import graft, graphgpo
from turngym.baselines.group_advantages import gigpo, grpo, hgpo, returns_to_go, rloo

Estimator = Callable[..., list[Floats]]
"""`(trajectories, **settings)` to one array for each trajectory."""


def spread(trajectory: Trajectory, by_turn: Floats) -> Floats:
    """A number a turn, given to every token that was sampled in it, `(tokens,)`."""
    return by_turn[[turn for turn in trajectory.turn_id if turn >= 0]]


def over_tokens(estimator: Estimator) -> Estimator:
    """The same estimator with one number a token where it had one a turn."""

    @wraps(estimator)
    def estimate(trajectories: Sequence[Trajectory], **settings: float) -> list[Floats]:
        by_turn = estimator(trajectories, **settings)
        return [spread(each, own) for each, own in zip(trajectories, by_turn, strict=True)]

    return estimate


def with_critic(estimator: Callable[..., Floats]) -> Estimator:
    """An estimator of `advantages.py` on whole trajectories: their rewards, the values of their tokens, their end."""

    def estimate(trajectories: Sequence[Trajectory], **discounts: float) -> list[Floats]:
        result = []
        for each in trajectories:
            ends, values = each.turn_ends(), np.array([each.values[at] for at in each.policy_positions()])
            rewards = token_rewards(each.rewards, ends)
            result.append(estimator(rewards, values, ends, each.bootstrap_value, **discounts))
        return result

    return estimate


def reinforce_plus_plus(trajectories: Sequence[Trajectory], *, turn_gamma: float = 1.0) -> list[Floats]:
    """REINFORCE with the whole batch as baseline: the return to go of each token, whitened over all sampled tokens.

    Args:
        trajectories: Any; no groups are needed.
        turn_gamma: Discount from turn to turn; tokens within a turn are not discounted.

    Source: Hu et al. 2025, arXiv:2501.03262. The paper puts a divergence from a reference policy into the reward; here
    that is a term of the loss. verl, summing from the end, starts again from 0 at every observation, so that a reward
    at the end teaches the last turn alone.
    """
    return _whitened([spread(each, returns_to_go(each.rewards, turn_gamma)) for each in trajectories])


def reinforce_plus_plus_baseline(trajectories: Sequence[Trajectory]) -> list[Floats]:
    """The return less the mean of its group, the same for all tokens, whitened over all sampled tokens of the batch.

    Unlike `grpo`, which divides within each group, it leaves a level where all but one agree its small weight.

    Source: the variant with a baseline of arXiv:2501.03262.
    """
    return _whitened(over_tokens(grpo)(trajectories, scale=False))


def _whitened(by_token: list[Floats]) -> list[Floats]:
    return np.split(whiten(np.concatenate(by_token)), np.cumsum([len(each) for each in by_token])[:-1])


TURN_ESTIMATORS: dict[str, Estimator] = {
    "rloo": rloo,
    "grpo": grpo,
    "gigpo": gigpo,
    "hgpo": hgpo,
    "graphgpo": graphgpo,
    "graft": graft,
}
"""Those that give one number a turn, before it is spread over the turn's tokens."""

CRITIC_FREE: dict[str, Estimator] = {
    **{name: over_tokens(estimator) for name, estimator in TURN_ESTIMATORS.items()},
    "reinforce_plus_plus": reinforce_plus_plus,
    "reinforce_plus_plus_baseline": reinforce_plus_plus_baseline,
}
"""Those that read no values, one number a token."""

ESTIMATORS: dict[str, Estimator] = {
    **{name: with_critic(estimator) for name, estimator in advantages.ESTIMATORS.items()},
    **CRITIC_FREE,
}


def configured(name: str, settings: Mapping[str, Any]) -> Estimator:
    """A critic-free estimator with some of its settings given.

    Args:
        name: One of `CRITIC_FREE`.
        settings: Its keyword arguments; those that are left out keep the values of the method's paper.

    Raises:
        ValueError: If there is no such estimator, or it has no such setting.
    """
    if name not in CRITIC_FREE:
        raise ValueError(f"estimator must be one of {', '.join(CRITIC_FREE)}, got {name!r}")
    known = list(inspect.signature(CRITIC_FREE[name]).parameters)[1:]
    unknown = [each for each in settings if each not in known]
    if unknown:
        raise ValueError(f"{name} has no setting {unknown[0]}: allowed are {', '.join(known) or 'none'}")
    return partial(CRITIC_FREE[name], **settings)
