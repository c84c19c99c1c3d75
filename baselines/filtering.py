"""Uncertainty filtering of StarPO-S: an update sees the groups whose members still differ in what they earned.

    kept = keep_uncertain(trajectories, lambda stds: top_p(stds, 0.9))

A rule takes the standard deviations of all groups and says which to keep. Like temperature and nucleus sampling for
tokens: `top_k` keeps a share of the groups, `top_p` a share of all deviation there is, `min_p` what is not much below
the best. Groups that agree, on success or on failure, have deviation 0.

Source: RAGEN, arXiv:2504.20073 (the share of groups, 25% by default), and its second version, arXiv:2604.06268 (the
other two; its recommendation is `top_p` with 0.9).
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from turngym.agents.trajectory import Trajectory
from turngym.baselines.advantages import Floats

Rule = Callable[[Floats], NDArray[np.bool_]]
_ROUNDING = 1e-9


def group_stds(trajectories: Sequence[Trajectory]) -> dict[int, float]:
    """Standard deviation of the return within each group, over n; 0 for a group of one."""
    returns: dict[int, list[float]] = {}
    for each in trajectories:
        returns.setdefault(each.group, []).append(each.episode_return)
    return {group: float(np.std(own)) for group, own in returns.items()}


def keep_uncertain(trajectories: Sequence[Trajectory], rule: Rule) -> list[Trajectory]:
    """The trajectories of those groups that a rule keeps, in their order; none where it keeps no group."""
    stds = group_stds(trajectories)
    kept = dict(zip(stds, rule(np.array(list(stds.values()))), strict=True))
    return [each for each in trajectories if kept[each.group]]


def top_k(stds: Floats, share: float) -> NDArray[np.bool_]:
    """The share of the groups with the largest deviations, rounded down, at least one.

    Args:
        stds: One a group, `(groups,)`.
        share: In (0, 1].

    Returns:
        Whether each group is kept, `(groups,)`. Among equals, those that come first.

    Raises:
        ValueError: If `share` is out of range.
    """
    _check_share(share)
    return _largest(stds, max(1, int(share * len(stds) + _ROUNDING)))


def top_p(stds: Floats, share: float) -> NDArray[np.bool_]:
    """The fewest groups, largest deviations first, that together have this share of the sum of all deviations.

    A group that agrees adds nothing, so it is never kept. RAGEN stops 0.01 short of the share, so that it keeps nothing
    at all where all deviations together are tiny; its variant over a softmax of the deviations is left out.

    Args:
        stds: One a group, `(groups,)`.
        share: In (0, 1].

    Returns:
        Whether each group is kept, `(groups,)`.

    Raises:
        ValueError: If `share` is out of range.
    """
    _check_share(share)
    total = np.cumsum(np.sort(stds)[::-1])
    wanted = (share - _ROUNDING) * total[-1]
    return _largest(stds, int(np.searchsorted(total, wanted)) + 1) & (stds > 0)


def min_p(stds: Floats, share: float) -> NDArray[np.bool_]:
    """The groups whose deviation is at least this share of the largest; none of those that agree.

    Args:
        stds: One a group, `(groups,)`.
        share: In (0, 1].

    Returns:
        Whether each group is kept, `(groups,)`.

    Raises:
        ValueError: If `share` is out of range.
    """
    _check_share(share)
    return (stds >= (share - _ROUNDING) * stds.max()) & (stds > 0)


RULES: dict[str, Callable[[Floats, float], NDArray[np.bool_]]] = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
"""By name: `(stds, share)` to whether each group is kept."""


def _largest(stds: Floats, count: int) -> NDArray[np.bool_]:
    kept = np.zeros(len(stds), dtype=bool)
    kept[np.argsort(-stds, kind="stable")[:count]] = True
    return kept


def _check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share}")
