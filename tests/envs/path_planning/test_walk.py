"""Walking on a map: rules by hand, and the cost to go against a plain search over cell and time."""

import heapq
import itertools
from math import inf

import numpy as np
import pytest

from turngym.envs.errors import LevelError
from turngym.envs.path_planning.generators import FAMILIES, generate_problem
from turngym.envs.path_planning.maps import GridMap, Problem
from turngym.envs.path_planning.moves import STAY, STEPS, Grammar, move_between
from turngym.envs.path_planning.obstacles import MovingObstacle, collides
from turngym.envs.path_planning.search.astar import distance_field
from turngym.envs.path_planning.walk import CostToGo, Level, choices, draw_obstacles, walk

LEFT, DOWN, RIGHT, UP, DOWN_LEFT = range(5)


def level(text: str, start, goal, *obstacles, **settings) -> Level:
    grid_map = GridMap.from_ascii(text, **settings)
    return Level(Problem(grid_map, start, goal), tuple(MovingObstacle(cells) for cells in obstacles))


# Rules -------------------------------------------------------------------------------------------------------------


def test_what_holds_back_is_told_and_paid() -> None:
    pond = level("3#_\n__-\n___", (0, 0), (2, 2), connectivity=8)
    walked = walk(pond, (0, 0), 0, (UP, RIGHT, DOWN, 5, RIGHT, 6, RIGHT))
    assert walked.cells == ((0, 0), (0, 0), (0, 0), (1, 0), (2, 1), (2, 2))
    assert walked.cost == pytest.approx(3 + 3 + 2 + 2**0.5 + 1)
    assert walked.told == "The edge holds you back. The wall holds you back. You reached the goal."
    assert walk(pond, (1, 1), 0, (RIGHT,)).told == "The water's edge holds you back."
    assert walk(pond, (1, 0), 0, (6,)).told == "The wall holds you back."
    corner = level("_#\n__", (0, 0), (1, 1), connectivity=8)
    assert walk(corner, (0, 0), 0, (5,)).told == "The corner of a wall holds you back."
    assert walk(corner, (0, 0), 0, (STAY,)) == (((0, 0), (0, 0)), 0, 1.0, "", False)


def test_obstacles_are_met_in_a_cell_and_in_passing() -> None:
    patrol = ((0, 2), (0, 1), (0, 2), (0, 3))
    corridor = level("_____\n_____", (0, 0), (0, 4), patrol)
    assert walk(corridor, (0, 0), 0, (RIGHT, RIGHT)).collided  # it comes to where the walker goes
    assert walk(corridor, (0, 1), 0, (RIGHT,)).collided  # the two would change places
    assert walk(corridor, (0, 1), 0, (STAY,)).collided  # it comes to where the walker is
    assert walk(corridor, (0, 1), 0, (UP,)).collided  # as does one whom the edge holds back
    followed = walk(corridor, (0, 1), 2, (RIGHT, RIGHT))  # it goes ahead, and comes back
    assert (followed.cells, followed.time, followed.collided) == (((0, 1), (0, 2), (0, 3)), 0, True)
    assert followed.told == "You met a moving obstacle."
    assert walk(corridor, (1, 1), 0, (RIGHT, RIGHT, RIGHT, UP)).told == "You reached the goal."


def test_moves_end_on_the_goal() -> None:
    assert walk(level("___", (0, 0), (0, 1)), (0, 0), 0, (RIGHT, RIGHT, RIGHT)).cells == ((0, 0), (0, 1))


# The cost to go ----------------------------------------------------------------------------------------------------


def levels(obstacles: int):
    rng = np.random.default_rng(3)
    for index, (family, connectivity) in enumerate(itertools.product(FAMILIES, (4, 8))):
        problem = generate_problem(rng, family, rows=5 + index % 3, cols=7, connectivity=connectivity, min_steps=3)
        yield draw_obstacles(rng, problem, obstacles)


def dijkstra(one: Level) -> dict[tuple[tuple[int, int], int], float]:
    """The cost from the start to every cell and time within the period, by the definitions alone."""
    found: dict[tuple[tuple[int, int], int], float] = {}
    frontier = [(0.0, one.problem.start, 0)]
    while frontier:
        cost, cell, time = heapq.heappop(frontier)
        if (cell, time) in found:
            continue
        found[cell, time] = cost
        wait = one.problem.map.costs[cell] * one.problem.map.cell_size
        for there, price in [*one.problem.map.neighbours(cell), (cell, wait)]:
            if not collides(one.obstacles, time, cell, there):
                heapq.heappush(frontier, (cost + price, there, (time + 1) % one.period))
    return found


@pytest.mark.parametrize("obstacles", [0, 1, 3])
def test_the_cost_to_go_is_that_of_a_plain_search(obstacles: int) -> None:
    for one in levels(obstacles):
        costs, forward, start, goal = CostToGo(one), dijkstra(one), one.problem.start, one.problem.goal
        assert costs.cost(start, 0) == pytest.approx(min(cost for (cell, _), cost in forward.items() if cell == goal))
        for (cell, time), cost in forward.items():
            if cell != goal:
                ahead = [price + costs.cost(there, time + 1) for _, there, price in choices(one, cell, time)]
                assert costs.cost(cell, time) == pytest.approx(min(ahead, default=inf))
            assert cost + costs.cost(cell, time) >= costs.cost(start, 0) - 1e-9
        np.testing.assert_array_equal(costs.distances, distance_field(one.problem.map, goal))


@pytest.mark.parametrize("obstacles", [0, 2])
def test_plans_can_be_walked_for_what_they_cost(obstacles: int) -> None:
    for one in levels(obstacles):
        costs = CostToGo(one)
        for cell in map(tuple, np.argwhere(np.isfinite(costs.distances)).tolist()):
            for time in range(one.period):
                plan, cost = costs.plan(cell, time), costs.cost(cell, time)
                walked = walk(one, cell, time, plan)
                assert not walked.collided
                assert (walked.cells[-1] == one.problem.goal) == (cost < inf)
                assert walked.cost == pytest.approx(cost if cost < inf else 0.0)


def test_a_trap_has_no_way() -> None:
    """The obstacle goes to and fro in the only passage, in which nobody can step aside."""
    trap = level("__#\n#_#\n#__", (0, 0), (2, 2), ((1, 1), (2, 1)))
    costs = CostToGo(trap)
    assert (costs.cost((0, 0), 0), costs.plan((0, 0), 0), costs.quickest((0, 0), 0, 99)) == (inf, (), None)
    assert costs.distance((0, 0)) == 4
    assert costs.cost((2, 1), 1) == inf  # the obstacle stands there
    with pytest.raises(LevelError, match="none in 100 draws of 8 obstacles"):
        draw_obstacles(np.random.default_rng(0), Problem(GridMap.from_ascii("____"), (0, 0), (0, 3)), 8)


def test_the_quickest_way_is_the_shortest_count_of_moves() -> None:
    hill = level("_______\n_#####_\n_______\n_99999_".replace("_#####_", "9######"), (0, 0), (2, 0))
    costs = CostToGo(hill)
    assert costs.quickest((0, 0), 0, 2) == (DOWN, DOWN)
    assert costs.quickest((0, 0), 0, 1) is None
    assert costs.plan((0, 0), 0) == (DOWN, DOWN)
    for one in levels(2):
        costs, quick = CostToGo(one), CostToGo(one).quickest(one.problem.start, 0, 99)
        assert quick is not None
        assert walk(one, one.problem.start, 0, quick).cells[-1] == one.problem.goal
        assert len(quick) <= len(costs.plan(one.problem.start, 0))
        assert costs.quickest(one.problem.start, 0, len(quick) - 1) is None


def test_the_quickest_way_may_be_the_dearer_one() -> None:
    hill = level("_9_\n_#_\n___", (0, 0), (0, 2))
    costs = CostToGo(hill)
    assert costs.quickest((0, 0), 0, 9) == (RIGHT, RIGHT)
    assert costs.plan((0, 0), 0) == (DOWN, DOWN, RIGHT, RIGHT, UP, UP)


# Grammar -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("connectivity", "may_stay", "names"), [(4, False, 4), (4, True, 5), (8, True, 9)])
def test_replies_are_read_as_they_are_spelled(connectivity, may_stay: bool, names: int) -> None:
    grammar = Grammar(connectivity, may_stay, 2)
    assert len(grammar.names) == names
    sequences = [(a,) for a in grammar.names] + list(itertools.product(grammar.names, repeat=2))
    for sequence in sequences:
        assert grammar.parse(grammar.spell(sequence)) == sequence
        assert grammar.parse(grammar.spell(sequence).upper()) == sequence
    drawn = [grammar.random(EachInTurn(index)) for index in range(len(sequences))]  # type: ignore[arg-type]
    assert sorted(drawn) == sorted(sequences)


class EachInTurn:
    """Stands for a generator; gives one number, which must be within the range that is asked for."""

    def __init__(self, number: int) -> None:
        self._number = number

    def integers(self, high: int) -> int:
        assert 0 <= self._number < high
        return self._number


def test_names_and_steps_agree() -> None:
    names = Grammar(8, True, 1).names
    ways = {"Left": (0, -1), "Right": (0, 1), "Down": (1, 0), "Up": (-1, 0), "Stay": (0, 0)}
    for code, name in names.items():
        down, across = (sum(parts) for parts in zip(*(ways[word] for word in name.split()), strict=True))
        assert STEPS[code] == (down, across)
        assert move_between((5, 5), (5 + down, 5 + across)) == code
