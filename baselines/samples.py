"""What an update needs of a rollout: advantages and returns for every sampled token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from turngym.agents.trajectory import Trajectory
from turngym.baselines.advantages import Floats, token_rewards, whiten


@dataclass
class Sample:
    """A trajectory with what an update needs, each tensor `(sampled tokens,)`.

    Attributes:
        trajectory: The episode.
        old_log_probs: Of its tokens when they were sampled.
        old_values: The critic's estimates then.
        advantages: Whitened over the whole rollout.
        returns: What the critic should have said.
        reference_log_probs: Under the reference policy; 0 where there is none.
    """

    trajectory: Trajectory
    old_log_probs: Tensor
    old_values: Tensor
    advantages: Tensor
    returns: Tensor
    reference_log_probs: Tensor


def make_samples(
    trajectories: Sequence[Trajectory], estimator: Callable[..., Floats], **discounts: float
) -> list[Sample]:
    """Estimate advantages, and whiten them over all sampled tokens of the rollout.

    Args:
        trajectories: Those with `valid=False` are left out: a failure of ours must teach nothing.
        estimator: One of `advantages.ESTIMATORS`.
        discounts: Its keyword arguments.
    """
    kept = [each for each in trajectories if each.valid]
    values = [np.array([each.values[at] for at in each.policy_positions()]) for each in kept]
    raw = []
    for each, own in zip(kept, values, strict=True):
        ends = each.turn_ends()
        raw.append(estimator(token_rewards(each.rewards, ends), own, ends, each.bootstrap_value, **discounts))
    white = np.split(whiten(np.concatenate(raw)), np.cumsum([len(own) for own in raw])[:-1])
    return [
        Sample(
            trajectory=each,
            old_log_probs=torch.tensor([each.log_probs[at] for at in each.policy_positions()]),
            old_values=torch.tensor(own, dtype=torch.float32),
            advantages=torch.tensor(scaled, dtype=torch.float32),
            returns=torch.tensor(advantages + own, dtype=torch.float32),
            reference_log_probs=torch.zeros(len(own)),
        )
        for each, own, advantages, scaled in zip(kept, values, raw, white, strict=True)
    ]


def concatenated(samples: Sequence[Sample], name: str) -> Tensor:
    """One tensor field over all sampled tokens of some samples."""
    return torch.cat([getattr(sample, name) for sample in samples])


def explained_variance(samples: Sequence[Sample]) -> float:
    """Share of the returns' variance that the critic foresaw; at most 1, below 0 where it misleads."""
    returns, values = concatenated(samples, "returns"), concatenated(samples, "old_values")
    return float(1 - (returns - values).var() / returns.var().clamp(min=1e-8))


def group_reward_std(trajectories: Sequence[Trajectory]) -> float:
    """Mean standard deviation of the return within groups; 0 means that a group's members no longer differ."""
    groups: dict[int, list[float]] = {}
    for each in trajectories:
        groups.setdefault(each.group, []).append(each.episode_return)
    return float(np.mean([np.std(returns) for returns in groups.values()]))
