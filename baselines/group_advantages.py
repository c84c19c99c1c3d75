"""Advantages without a critic: what came of a turn, less what usually comes of it among the members of its group.

Every estimator takes trajectories and returns one advantage a turn for each of them, `(turns,)`; `estimators.py`
spreads them over tokens. All of them keep to the same rules.

- Trajectories with the same `group` are compared, and no others. Their order does not matter.
- The reward is all of `rewards`, penalties included; no text is looked at.
- Where there is nothing to compare with (a group of one, or one whose members do not differ) the advantage is 0.
- A standard deviation is that of a sample, over n - 1, and nothing is added to it.
- Episodes that a failure of ours spoiled (`valid` False) are left out before, rows that only fill up a batch are added
  after: a copy that is there too early turns a group of one into a group of two (verl-agent's GiGPO).
"""

from collections.abc import Hashable, Sequence

import numpy as np

from turngym.agents.trajectory import Trajectory
from turngym.baselines.advantages import Floats

_FLAT = 1e-8
"""Members of a group whose standard deviation is not above this do not differ: what is left is rounding."""


def returns_to_go(rewards: Sequence[float], turn_gamma: float) -> Floats:
    """What each turn and those after it earned, later turns discounted by `turn_gamma` each, `(turns,)`."""
    returns, after = np.zeros(len(rewards)), 0.0
    for turn in reversed(range(len(rewards))):
        after = returns[turn] = rewards[turn] + turn_gamma * after
    return returns


def compared(values: Floats, keys: Sequence[Hashable], *, scale: bool) -> Floats:
    """Each value less the mean of those with the same key, divided by their standard deviation if `scale`.

    Args:
        values: `(n,)`.
        keys: What to compare it with, for each value.
        scale: Whether to divide.

    Returns:
        `(n,)`; NaN where there is nothing to compare with.
    """
    members: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    result = np.full(len(values), np.nan)
    for indices in members.values():
        mine = values[indices]
        deviation = mine.std(ddof=1) if len(mine) > 1 else 0.0
        if deviation > _FLAT:
            result[indices] = (mine - mine.mean()) / (deviation if scale else 1.0)
    return result


def by_trajectory(flat: Floats, trajectories: Sequence[Trajectory]) -> list[Floats]:
    """Values of all turns, one after the other, as one array for each trajectory."""
    return np.split(flat, np.cumsum([each.turns for each in trajectories])[:-1])


def states_before(trajectory: Trajectory) -> list[str]:
    """The state before each turn, `turns` of them.

    Raises:
        ValueError: If states are missing, or not told apart.
    """
    states = trajectory.state_keys
    if len(states) != trajectory.turns + 1 or "" in states:
        name = trajectory.env_id or "an environment"
        raise ValueError(f"state_keys must name a state before each turn and after the last, got {states} of {name}")
    return states[:-1]


def state_keys(trajectories: Sequence[Trajectory]) -> list[Hashable]:
    """Group and state before each turn, of all turns one after the other."""
    return [(each.group, state) for each in trajectories for state in states_before(each)]


def _to_turns(advantages: Floats, trajectories: Sequence[Trajectory]) -> list[Floats]:
    return [np.full(each.turns, advantage) for each, advantage in zip(trajectories, advantages, strict=True)]


def _returns(trajectories: Sequence[Trajectory]) -> Floats:
    return np.array([each.episode_return for each in trajectories])


def _groups(trajectories: Sequence[Trajectory]) -> list[int]:
    return [each.group for each in trajectories]


def rloo(trajectories: Sequence[Trajectory]) -> list[Floats]:
    """REINFORCE, leave one out: `A = R - mean of the other members' R`, the same for all turns.

    That is `n / (n - 1) * (R - mean R)`.

    Source: Ahmadian et al. 2024, arXiv:2402.14740. In verl one of two versions leaves a group of one its raw return.
    """
    groups = _groups(trajectories)
    sizes = np.array([groups.count(group) for group in groups], dtype=np.float64)
    centred = np.nan_to_num(compared(_returns(trajectories), groups, scale=False))
    return _to_turns(centred * sizes / np.maximum(sizes - 1, 1), trajectories)


def grpo(trajectories: Sequence[Trajectory], *, scale: bool = True) -> list[Floats]:
    """Group-relative return: `A = (R - mean R) / std R` over the group, the same for all turns.

    Args:
        trajectories: The groups.
        scale: Without the division it is the estimator of Dr. GRPO (arXiv:2503.20783): a level on which one member in
            a hundred differs no longer weighs as much as one that splits the group in half.

    Source: Shao et al. 2024, arXiv:2402.03300. verl and TRL add 1e-6 and 1e-4 to the deviation; verl leaves a group of
    one its raw return.
    """
    relative = compared(_returns(trajectories), _groups(trajectories), scale=scale)
    return _to_turns(np.nan_to_num(relative), trajectories)


def gigpo(
    trajectories: Sequence[Trajectory], *, turn_gamma: float = 0.95, step_weight: float = 1.0, scale: bool = True
) -> list[Floats]:
    """Group in group: the relative return of the episode, plus that of the turn among turns in the same state.

    `A = A_episode + step_weight * A_step`: the first is that of `grpo`, the second compares returns to go among all
    turns of the group with the same `state_key`, wherever in an episode they are.

    Args:
        trajectories: The groups.
        turn_gamma: Discount of the return to go, in [0, 1].
        step_weight: Weight of the second term.
        scale: Whether both terms are divided by their standard deviation.

    Source: Feng et al. 2025, arXiv:2505.10978. The released code takes mean and deviation of the first term over turns
    and not over episodes, so that long failures weigh most; leaves a group of one its raw return; and subtracts the
    penalty for an invalid action from the return to go of that turn alone, after discounting.
    """
    relative = np.nan_to_num(_step_advantages(trajectories, state_keys(trajectories), turn_gamma, scale))
    steps = by_trajectory(relative, trajectories)
    return [episode + step_weight * step for episode, step in zip(grpo(trajectories, scale=scale), steps, strict=True)]


def hgpo(
    trajectories: Sequence[Trajectory],
    *,
    depth: int = 2,
    exponent: float = 1.0,
    turn_gamma: float = 0.95,
    scale: bool = True,
) -> list[Floats]:
    """Hierarchy of groups: turns are compared with those of the same state, of the same last two states, and so on.

    `A = sum_k w_k A_k` over `k = 0 .. depth`. `A_k` compares returns to go among turns of the group whose last k + 1
    states are the same; `w_k` is proportional to `(k + 1) ** exponent` over the levels at which there is something to
    compare with. There is no term for the episode: with `depth=0` it is the second term of `gigpo`.

    Args:
        trajectories: The groups.
        depth: How many states before the present one are looked at, at most.
        exponent: How much more an agreeing history counts; 0 weighs all levels alike.
        turn_gamma: Discount of the return to go, in [0, 1].
        scale: Whether each level is divided by its standard deviation.

    Source: arXiv:2602.22817. The released code counts levels from 1 and adds 1 once more, which gives .222 .333 .444
    for the paper's .167 .333 .500; leaves a level out for every turn that lies exactly on its mean, not only where the
    whole group is flat; and divides by n here, by n - 1 in GiGPO.
    """
    keys = [state_keys(trajectories), *(_histories(trajectories, before) for before in range(1, depth + 1))]
    levels = np.stack([_step_advantages(trajectories, level, turn_gamma, scale) for level in keys])
    weights = np.arange(1.0, depth + 2)[:, None] ** exponent * ~np.isnan(levels)
    total = weights.sum(axis=0)
    advantages = (weights * np.nan_to_num(levels)).sum(axis=0) / np.where(total > 0, total, 1.0)
    return by_trajectory(advantages, trajectories)


def _histories(trajectories: Sequence[Trajectory], before: int) -> list[Hashable]:
    """Group and last `before + 1` states of each turn; where there were not so many, a key that no other turn has."""
    return [
        (each.group, *each.state_keys[turn - before : turn + 1]) if turn >= before else (number, turn, None)
        for number, each in enumerate(trajectories)
        for turn in range(each.turns)
    ]


def _step_advantages(
    trajectories: Sequence[Trajectory], keys: Sequence[Hashable], turn_gamma: float, scale: bool
) -> Floats:
    """Returns to go of all turns, compared among those with the same key."""
    returns = [returns_to_go(each.rewards, turn_gamma) for each in trajectories]
    return compared(np.concatenate(returns), keys, scale=scale)
