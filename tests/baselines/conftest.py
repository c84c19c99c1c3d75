"""Trajectories made by hand, shared by the tests of what works on them."""

from collections.abc import Callable, Sequence

import pytest

from turngym.agents.trajectory import Trajectory


def make_episode(
    states: str, rewards: Sequence[float], *, group: int = 0, success: bool | None = None, tokens: Sequence[int] = ()
) -> Trajectory:
    """An episode through states that are named by one letter each, K + 1 of them for K rewards.

    `tokens` says how many tokens were sampled in each turn, one by default; an observation of two tokens stands before
    each. Success is a positive last reward unless it is given.
    """
    trajectory = Trajectory(group=group, state_keys=[states[0]])
    for turn, (state, reward) in enumerate(zip(states[1:], rewards, strict=True)):
        count = tokens[turn] if tokens else 1
        trajectory.append_given([1, 2], "observation")
        trajectory.append_sampled([3] * count, "action", [-0.5] * count, [0.0] * count, turn)
        trajectory.terminated = turn == len(rewards) - 1
        trajectory.record_turn(reward, {"state_key": state})
    if success is not None:
        trajectory.success = success
    return trajectory


@pytest.fixture(scope="session")
def episode() -> Callable[..., Trajectory]:
    return make_episode
