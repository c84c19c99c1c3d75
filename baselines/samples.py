"""What an update needs of a rollout: advantages and returns for every sampled token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from turngym.agents.trajectory import Trajectory
from turngym.baselines.advantages import Floats, whiten
from turngym.baselines.estimators import Estimator


@dataclass
class Sample:
    """A trajectory with what an update needs, each tensor `(sampled tokens,)`.

    Attributes:
        trajectory: The episode; or a turn of it, where each was played with a context of its own.
        old_log_probs: Of its tokens when they were sampled.
        advantages: What the tokens are credited with.
        reference_log_probs: Under the reference policy; 0 where there is none.
        importance: Weights of the tokens, 1 where the trainer sampled them.
        old_values: The critic's estimates at sampling time; None without a critic.
        returns: What the critic should have said; None without a critic.
    """

    trajectory: Trajectory
    old_log_probs: Tensor
    advantages: Tensor
    reference_log_probs: Tensor
    importance: Tensor
    old_values: Tensor | None = None
    returns: Tensor | None = None


def critic_samples(
    trajectories: Sequence[Trajectory], estimator: Estimator, *, reward_scale: float = 1.0, **discounts: float
) -> list[Sample]:
    """Estimate advantages with a critic, and whiten them over all sampled tokens of the rollout.

    Args:
        trajectories: Those with `valid=False` are left out: a failure of ours must teach nothing.
        estimator: One of `ESTIMATORS` that reads the critic's values.
        reward_scale: Multiplies every reward, so that the critic estimates returns of about 1.
        discounts: Its keyword arguments.

    Raises:
        ValueError: If one of them was not drawn from the model's own distribution.
    """
    kept = _learnable(trajectories)
    raw = estimator([_scaled(each, reward_scale) for each in kept], **discounts)
    white = np.split(whiten(np.concatenate(raw)), np.cumsum([len(own) for own in raw])[:-1])
    samples = [_sample(each, scaled) for each, scaled in zip(kept, white, strict=True)]
    for sample, advantages in zip(samples, raw, strict=True):
        each = sample.trajectory
        values = np.array([each.values[at] for at in each.policy_positions()])
        sample.old_values = torch.tensor(values, dtype=torch.float32)
        sample.returns = torch.tensor(advantages + values, dtype=torch.float32)
    return [part for sample in samples for part in _parts(sample)]


def _scaled(trajectory: Trajectory, scale: float) -> Trajectory:
    """The same episode, paid so many times as much; values are those of the critic, which knows such pay alone."""
    return replace(trajectory, rewards=[scale * reward for reward in trajectory.rewards])


def _learnable(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Those with `valid`, all of which must have been drawn from the model's own distribution."""
    if not all(each.on_policy for each in trajectories):
        raise ValueError("trajectories must be sampled at temperature 1, without top_k, top_p and min_p, to learn from")
    return [each for each in trajectories if each.valid]


def group_samples(trajectories: Sequence[Trajectory], estimator: Estimator, **settings: float) -> list[Sample]:
    """Advantages without a critic, as they are estimated.

    Args:
        trajectories: Those with `valid=False` are left out, before groups are compared.
        estimator: One of `ESTIMATORS` that reads no values.
        settings: Its keyword arguments.
    """
    kept = _learnable(trajectories)
    samples = [_sample(each, own) for each, own in zip(kept, estimator(kept, **settings), strict=True)]
    return [part for sample in samples for part in _parts(sample)]


def _sample(trajectory: Trajectory, advantages: Floats) -> Sample:
    return Sample(
        trajectory=trajectory,
        old_log_probs=torch.tensor([trajectory.log_probs[at] for at in trajectory.policy_positions()]),
        advantages=torch.tensor(advantages, dtype=torch.float32),
        reference_log_probs=torch.zeros(len(advantages)),
        importance=torch.tensor(trajectory.importance or [1.0] * len(advantages)),
    )


def _parts(sample: Sample) -> list[Sample]:
    """A sample for each of the trajectory's parts, with what was estimated over the whole episode."""
    parts = sample.trajectory.parts()
    lengths = [sum(part.policy_mask) for part in parts]
    fields = {name: each.split(lengths) for name, each in vars(sample).items() if isinstance(each, Tensor)}
    return [
        Sample(trajectory=part, **{name: own[place] for name, own in fields.items()})
        for place, part in enumerate(parts)
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
