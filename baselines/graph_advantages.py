"""Advantages without a critic, read off the graph of states that a group's episodes went through together.

Nodes are states (`state_keys`), edges are turns. A state that several episodes met is one node, so that what one of
them found beyond it counts for the others' way there. The rules are those of `group_advantages.py`. A turn is credited
with the state that it really led to: where moves slip, luck becomes credit.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from turngym.agents.trajectory import Trajectory
from turngym.baselines.advantages import Floats
from turngym.baselines.group_advantages import by_trajectory, compared, grpo, state_keys, states_before


def goal_distances(members: Sequence[Trajectory]) -> dict[str, int]:
    """Turns to success from every state, along transitions that some member made.

    Args:
        members: The trajectories of one group.

    Returns:
        The distance by state; the last turn of a successful episode is one turn away. States from which no known
        way leads to success are missing.
    """
    sources: dict[str | None, set[str]] = {}
    for each in members:
        for turn, (before, after) in enumerate(zip(states_before(each), each.state_keys[1:], strict=True)):
            arrived = each.success and turn == each.turns - 1
            sources.setdefault(None if arrived else after, set()).add(before)
    distances: dict[str | None, int] = {None: 0}
    queue = deque[str | None]([None])
    while queue:
        state = queue.popleft()
        for before in sources.get(state, ()):
            if before not in distances:
                distances[before] = distances[state] + 1
                queue.append(before)
    return {known: distance for known, distance in distances.items() if known is not None}


def graphgpo(
    trajectories: Sequence[Trajectory], *, distance_decay: float = 0.1, step_weight: float = 1.0
) -> list[Floats]:
    """The relative return of the episode, plus how much closer a turn came to success than others from its state.

    `A = A_episode + step_weight * A_graph`. The first term is that of `grpo`. A turn that leads to a state `d` turns
    away from success is worth `distance_decay ** d`; one from which no known way leads there counts as one turn
    farther than the farthest that has one. `A_graph` is that worth, less the mean over the turns of the group from the
    same state, divided by their standard deviation. Without any success in the group it is 0.

    Args:
        trajectories: The groups.
        distance_decay: In (0, 1). At 0.1 standing still looks nearly as bad as going back; 0.5 to 0.9 tell them apart.
        step_weight: Weight of the second term.

    Raises:
        ValueError: If `distance_decay` is out of range.

    Source: arXiv:2605.26684. The paper's exponent is larger by the cost of the turn, which is a factor like the reward
    for success, and goes away in the division. A reproduction in public code adds 1e-6 to the deviation, which takes
    the credit from states that are far away; here the nearest successor of each state has worth 1, wherever it is.
    """
    if not 0 < distance_decay < 1:
        raise ValueError(f"distance_decay must lie between 0 and 1, got {distance_decay}")
    keys = state_keys(trajectories)
    ahead = np.concatenate(_distances_after(trajectories))
    nearest: dict[object, float] = {}
    for key, distance in zip(keys, ahead, strict=True):
        nearest[key] = min(distance, nearest.get(key, np.inf))
    worth = distance_decay ** (ahead - np.array([nearest[key] for key in keys]))
    steps = by_trajectory(np.nan_to_num(compared(worth, keys, scale=True)), trajectories)
    return [episode + step_weight * step for episode, step in zip(grpo(trajectories), steps, strict=True)]


def _distances_after(trajectories: Sequence[Trajectory]) -> list[Floats]:
    """Distance to success after each turn; the same everywhere in a group that never succeeded."""
    known = {group: goal_distances(members) for group, members in _members(trajectories).items()}
    result = []
    for each in trajectories:
        distances = known[each.group]
        unreachable = max(distances.values(), default=0) + 1
        after = [distances.get(state, unreachable) for state in each.state_keys[1:]]
        result.append(np.array([*after[:-1], 0 if each.success else after[-1]], dtype=np.float64))
    return result


def graph_values(members: Sequence[Trajectory], turn_gamma: float) -> dict[str, float]:
    """Values of the policy that some episodes show, in the process that they show, exactly.

    Choices and transitions are as frequent as they were: `V(s)` is the mean of `r + turn_gamma * V(s')` over all turns
    from `s`. Where every turn from a state leads where it always leads and the transitions are known, these are the
    true values of that policy. The end of an episode is worth nothing, truncated or not.

    Args:
        members: The trajectories of one group.
        turn_gamma: Discount from turn to turn, in [0, 1].

    Returns:
        The value by state, of every state that a turn was played from.
    """
    index: dict[str, int] = {}
    for each in members:
        for state in states_before(each):
            index.setdefault(state, len(index))
    moves, earned = np.zeros((len(index), len(index))), np.zeros(len(index))
    visits = np.zeros(len(index))
    for each in members:
        places = [index[state] for state in states_before(each)]
        np.add.at(visits, places, 1)
        np.add.at(earned, places, each.rewards)
        np.add.at(moves, (places[:-1], places[1:]), 1)
    values = np.linalg.solve(np.eye(len(index)) - turn_gamma * moves / visits[:, None], earned / visits)
    return dict(zip(index, values.tolist(), strict=True))


def graft(trajectories: Sequence[Trajectory], *, turn_gamma: float = 0.99, scale: bool = True) -> list[Floats]:
    """The advantage as it is defined, `r + turn_gamma * V(s') - V(s)`, with the values of the group's graph.

    `V` is that of `graph_values`. Over the turns from one state these residuals have mean 0.

    Args:
        trajectories: The groups.
        turn_gamma: Discount from turn to turn, in [0, 1].
        scale: Whether they are divided by their standard deviation over the turns from the same state.

    Source: GRAFT, arXiv:2609.28963. Two of its steps are left out, because they change nothing once `V` solves the
    Bellman equation on the graph; a test holds them to it. Graph-GAE adds mean residuals over all edges k turns ahead:
    these are all edges from some set of states, and those of each state add up to 0. A state with a single edge is to
    be divided by the edge's absolute residual: that residual is 0. One thing is done otherwise: the paper ends an
    episode in its last state, worth the outcome to all others that pass through it; here it ends beyond that state, so
    that whoever runs out of turns tells nothing of the state that he stands on. Success is worth its reward when it is
    earned, not a turn later: a factor of `turn_gamma`.
    """
    values = {group: graph_values(members, turn_gamma) for group, members in _members(trajectories).items()}
    residuals = []
    for each in trajectories:
        known = np.array([*(values[each.group][state] for state in states_before(each)), 0.0])
        residuals.append(np.array(each.rewards) + turn_gamma * known[1:] - known[:-1])
    if not scale:
        return residuals
    scaled = compared(np.concatenate(residuals), state_keys(trajectories), scale=True)
    return by_trajectory(np.nan_to_num(scaled), trajectories)


def _members(trajectories: Sequence[Trajectory]) -> dict[int, list[Trajectory]]:
    """Trajectories by group."""
    members: dict[int, list[Trajectory]] = {}
    for each in trajectories:
        members.setdefault(each.group, []).append(each)
    return members
