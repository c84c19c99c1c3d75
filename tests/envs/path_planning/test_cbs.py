"""Conflict-based search finds what a search of all joint states finds, and the rules carry its plans out."""

import heapq
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from math import inf
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turngym.envs.path_planning.cbs import JointPlan, cbs
from turngym.envs.path_planning.fleet import STAY, Cells, Fleet, advance, steps
from turngym.envs.path_planning.maps import GridMap

CORRIDOR = GridMap.from_ascii("_____\n##_##")  # one bay in the middle


def joint_steps(fleet: Fleet, cells: Cells) -> Iterator[Cells]:
    """Every way to move all agents without a collision, straight from the definition."""
    around = [sorted(set(steps(fleet.map)[cell])) for cell in cells]
    for there in product(*around):
        pairs = [(one, other) for one in range(len(cells)) for other in range(one)]
        swap = any(there[one] == cells[other] and there[other] == cells[one] for one, other in pairs)
        if len(set(there)) == len(there) and not swap:
            yield there


def brute_force(fleet: Fleet, objective: str, horizon: float = inf) -> tuple[float, int] | None:
    """The least cost and then the least makespan, by Dijkstra over joint states; None where there is no plan.

    With `sum_of_costs` every agent on its goal may declare that it stays for good, and pays no more from then on.
    """
    agents = range(len(fleet.goals))
    start = fleet.starts, frozenset[int]()
    best, queue = {start: (0, 0)}, [(0, 0, start[0], sorted(start[1]))]
    while queue:
        cost, time, cells, listed = heapq.heappop(queue)
        done = frozenset(listed)
        if best[cells, done] < (cost, time):
            continue
        if cells == fleet.goals:
            return cost, time
        if time == horizon:
            continue
        for there in joint_steps(fleet, cells):
            resting = {agent for agent in agents if cells[agent] == there[agent] == fleet.goals[agent]}
            if objective == "sum_of_loss":
                choices = [(frozenset[int](), len(agents) - len(resting))]
            elif done <= resting:
                choices = [(one, len(agents) - len(one)) for one in subsets(resting) if done <= one]
            else:
                continue
            for settled, price in choices:
                state = there, settled
                if (cost + price, time + 1) < best.get(state, (inf, 0)):
                    best[state] = cost + price, time + 1
                    heapq.heappush(queue, (cost + price, time + 1, there, sorted(settled)))
    return None


def subsets(members: set[int]) -> list[frozenset[int]]:
    return [
        frozenset(one for one, taken in zip(sorted(members), choice, strict=True) if taken)
        for choice in product((False, True), repeat=len(members))
    ]


def least_loss(fleet: Fleet, turns: int) -> int:
    """What a number of turns costs at least where nobody has to arrive, by induction over the turns."""
    costs = {fleet.starts: 0}
    for _ in range(turns):
        after = dict[Cells, int]()
        for cells, cost in costs.items():
            for there in joint_steps(fleet, cells):
                resting = sum(one == other == goal for one, other, goal in zip(cells, there, fleet.goals, strict=True))
                after[there] = min(after.get(there, 10**6), cost + len(cells) - resting)
        costs = after
    return min(costs.values())


@st.composite
def fleets(draw: st.DrawFn, agents: tuple[int, int] = (1, 3)) -> Fleet:
    rows, cols = draw(st.sampled_from([(2, 2), (2, 3), (3, 3), (2, 5), (3, 4), (1, 5)]))
    blocked = draw(st.sets(st.integers(0, rows * cols - 1), max_size=rows * cols // 3))
    zones = [[int(row * cols + col not in blocked) for col in range(cols)] for row in range(rows)]
    grid_map = GridMap.from_array(zones)
    free = list(steps(grid_map))
    count = draw(st.integers(*agents))
    assume(len(free) >= count)
    starts, goals = (draw(st.permutations(free))[:count] for _ in range(2))
    return Fleet(grid_map, tuple(starts), tuple(goals))


def check_plan(fleet: Fleet, plan: JointPlan) -> None:
    """The rules carry the plan out as it is, without a conflict."""
    cells = fleet.starts
    assert tuple(path[0] for path in plan.paths) == cells
    for time in range(plan.makespan):
        targets = [path[time + 1] for path in plan.paths]
        moves = [steps(fleet.map)[cell].index(target) for cell, target in zip(cells, targets, strict=True)]
        moves = [STAY if target == cell else move for move, cell, target in zip(moves, cells, targets, strict=True)]
        cells, conflicts = advance(fleet.map, cells, moves)
        assert conflicts == ()
        assert list(cells) == targets


def price(plan: JointPlan, goals: Cells, objective: str) -> int:
    """What a plan costs, straight from the definition."""
    total = 0
    for path, goal in zip(plan.paths, goals, strict=True):
        pairs = list(pairwise(path))
        paid = [not one == other == goal for one, other in pairs]
        total += sum(paid) if objective == "sum_of_loss" else max((t + 1 for t, p in enumerate(paid) if p), default=0)
    return total


@pytest.mark.parametrize("objective", ["sum_of_costs", "sum_of_loss"])
@given(fleet=fleets())
@settings(max_examples=100)
def test_equals_brute_force(objective: Any, fleet: Fleet) -> None:
    plan, expected = cbs(fleet, objective=objective, max_expansions=300), brute_force(fleet, objective)
    if expected is None:
        assert plan.status in ("unsolvable", "gave_up")
        assert plan.cost == inf
        return
    assert plan.lower <= expected[0]
    if plan.status == "optimal":
        assert (plan.cost, plan.makespan) == expected
        check_plan(fleet, plan)
        assert tuple(path[-1] for path in plan.paths) == fleet.goals
        assert price(plan, fleet.goals, objective) == plan.cost == plan.lower
    else:
        assert plan.status == "gave_up"


@given(fleet=fleets(), horizon=st.integers(0, 9))
@settings(max_examples=100)
def test_equals_brute_force_within_a_horizon(fleet: Fleet, horizon: int) -> None:
    plan = cbs(fleet, objective="sum_of_loss", horizon=horizon, max_expansions=300)
    assume(plan.status != "gave_up")
    expected = within(fleet, horizon)
    assert plan.status == ("unsolvable" if expected == inf else "optimal")
    assert plan.cost == plan.lower == expected
    if plan.paths:
        check_plan(fleet, plan)
    assert plan.makespan <= horizon


def within(fleet: Fleet, turns: int) -> float:
    """The least loss of all arriving in so many turns, by induction over them."""
    costs, best = {fleet.starts: 0}, inf
    for turn in range(turns + 1):
        best = min(best, costs.get(fleet.goals, inf))
        after = dict[Cells, int]()
        for cells, cost in costs.items() if turn < turns else ():
            for there in joint_steps(fleet, cells):
                resting = sum(one == other == goal for one, other, goal in zip(cells, there, fleet.goals, strict=True))
                after[there] = min(after.get(there, 10**6), cost + len(cells) - resting)
        costs = after
    return best


@given(fleet=fleets(), turns=st.integers(0, 6))
@settings(max_examples=100)
def test_least_loss_of_those_who_need_not_arrive(fleet: Fleet, turns: int) -> None:
    plan = cbs(fleet, objective="sum_of_loss", horizon=turns, must_arrive=False, max_expansions=300)
    assume(plan.status != "gave_up")
    assert plan.cost == least_loss(fleet, turns)
    assert plan.makespan == turns
    check_plan(fleet, plan)


def test_one_makes_way_for_the_other() -> None:
    fleet = Fleet(CORRIDOR, ((0, 0), (0, 4)), ((0, 4), (0, 0)))
    plan = cbs(fleet)
    assert (plan.cost, plan.makespan, plan.status) == (5 + 6, 6, "optimal")  # a wait; into the bay and out of it
    check_plan(fleet, plan)


def test_a_rest_on_the_goal_before_making_way_is_a_cost_but_no_loss() -> None:
    grid_map = GridMap.from_ascii("____\n#_##")
    fleet = Fleet(grid_map, ((0, 1), (0, 3)), ((0, 1), (0, 0)))  # the first rests, steps into the bay, and comes back
    costs, loss = cbs(fleet), cbs(fleet, objective="sum_of_loss")
    assert (costs.cost, loss.cost) == (3 + 3, 2 + 3)
    assert (costs.makespan, loss.makespan) == (3, 3)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("objective", ["sum_of_costs", "sum_of_loss"])
def test_of_two_who_may_wait_it_is_the_one_with_the_shorter_way(order: tuple[int, int], objective: Any) -> None:
    starts, goals = ((0, 1), (1, 0)), ((2, 1), (1, 4))
    cross = GridMap.from_ascii("#_###\n_____\n#_###")
    fleet = Fleet(cross, tuple(starts[one] for one in order), tuple(goals[one] for one in order))
    plan = cbs(fleet, objective=objective)
    assert (plan.cost, plan.makespan) == (3 + 4, 4)


def test_rings_and_rows_need_no_detour() -> None:
    ring = Fleet(GridMap.from_ascii("__\n__"), ((0, 0), (0, 1), (1, 1), (1, 0)), ((0, 1), (1, 1), (1, 0), (0, 0)))
    row = Fleet(GridMap.from_ascii("____"), ((0, 0), (0, 1), (0, 2)), ((0, 1), (0, 2), (0, 3)))
    assert (cbs(ring).cost, cbs(row).cost) == (4, 3)


def test_no_way_and_no_plan() -> None:
    apart = Fleet(GridMap.from_ascii("_#_"), ((0, 0),), ((0, 2),))
    assert (cbs(apart).status, cbs(apart).lower) == ("unsolvable", inf)
    narrow = Fleet(GridMap.from_ascii("___"), ((0, 0), (0, 2)), ((0, 2), (0, 0)))
    plan = cbs(narrow, max_expansions=20)
    assert (plan.status, plan.expansions, plan.paths) == ("gave_up", 20, ())
    assert 4 < plan.lower < inf
    assert cbs(narrow, horizon=8, max_expansions=10**4).status == "unsolvable"


def test_arrived_already() -> None:
    fleet = Fleet(CORRIDOR, ((0, 0), (0, 1)), ((0, 0), (0, 1)))
    assert cbs(fleet) == JointPlan((((0, 0),), ((0, 1),)), 0, 0, 0, "optimal")
    assert cbs(fleet, horizon=0).status == "optimal"
    assert cbs(replace(fleet, goals=((0, 1), (0, 0))), horizon=0).status == "unsolvable"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "makespan"}, "objective must be one of sum_of_costs, sum_of_loss, got 'makespan'"),
        ({"horizon": -1}, "horizon must be at least 0, got -1"),
        ({"must_arrive": False}, "horizon must be given where must_arrive is False, got None"),
        ({"max_expansions": -1}, "max_expansions must be at least 0, got -1"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cbs(Fleet(CORRIDOR, ((0, 0),), ((0, 1),)), **arguments)
