"""A*, weighted A*, distances and lines of sight against brute force, on every kind of map."""

import itertools
from collections.abc import Callable
from fractions import Fraction
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from turngym.envs.path_planning import search
from turngym.envs.path_planning.maps import Cell, GridMap
from turngym.envs.path_planning.search import sight
from turngym.envs.path_planning.search.astar import PlanResult, Search, astar, distance_field, local_search
from turngym.envs.path_planning.search.kernel import grid_of, index_of
from turngym.envs.path_planning.search.proposals import PROPOSALS

ZONES = arrays(
    np.uint8, st.tuples(st.integers(1, 7), st.integers(1, 7)), elements=st.sampled_from([0, 1, 1, 1, 1, 1, 2])
)
SETTINGS = {
    "connectivity": st.sampled_from([4, 8]),
    "corners": st.sampled_from(["both_free", "one_free", "always"]),
    "cell_size": st.sampled_from([1.0, 0.3]),
}


@st.composite
def problems(draw: st.DrawFn, terrain: bool = True) -> tuple[GridMap, Cell, Cell]:
    """A map with at least one free cell, and two of its free cells, which may be the same."""
    zones = draw(ZONES.filter(lambda zones: bool(zones.any())))
    costs = np.random.default_rng(draw(st.integers(0, 99))).choice([0.5, 1.0, 2.5, 9.0], zones.shape)
    grid_map = GridMap(zones, costs if terrain else None, **{name: draw(value) for name, value in SETTINGS.items()})
    cells = [(row, col) for row, col in np.argwhere(zones).tolist()]
    return grid_map, draw(st.sampled_from(cells)), draw(st.sampled_from(cells))


def brute_force(grid_map: GridMap, goal: Cell) -> dict[Cell, float]:
    """Cost to the goal of every cell that reaches it, by relaxing every step until nothing changes."""
    costs = {goal: 0.0}
    changed = True
    while changed:
        changed = False
        for cell in itertools.product(range(grid_map.rows), range(grid_map.cols)):
            for there, step in grid_map.neighbours(cell):
                if costs.get(there, inf) + step < costs.get(cell, inf) - 1e-12:
                    costs[cell] = costs[there] + step
                    changed = True
    return costs


def check_result(grid_map: GridMap, start: Cell, goal: Cell, result: PlanResult, optimum: float) -> None:
    """What holds for every planner: a legal path of the stated cost, and bounds that are true."""
    assert result.lower <= optimum * (1 + 1e-9)
    assert (result.status == "solved") == bool(result.path)
    if result.path:
        assert (result.path[0], result.path[-1]) == (start, goal)
        assert grid_map.path_cost(result.path) == pytest.approx(result.cost)
        assert optimum * (1 - 1e-9) <= result.cost <= result.bound * optimum * (1 + 1e-9)
    else:
        assert (result.cost, result.bound) == (inf, inf)
        assert (result.status == "unsolvable") == (result.lower == inf)


# A* ----------------------------------------------------------------------------------------------------------------


@given(problems())
@settings(max_examples=150)
def test_astar_finds_the_optimum(problem: tuple[GridMap, Cell, Cell]) -> None:
    grid_map, start, goal = problem
    optimum = brute_force(grid_map, goal).get(start, inf)
    result = astar(grid_map, start, goal)
    check_result(grid_map, start, goal, result, optimum)
    assert result.status == ("unsolvable" if optimum == inf else "solved")
    assert result.bound == (inf if optimum == inf else 1.0)


@given(problems(), st.sampled_from([1.0, 1.5, 3.0]), st.integers(0, 12))
@settings(max_examples=150)
def test_bounds_hold_with_any_weight_and_limit(problem: tuple[GridMap, Cell, Cell], weight: float, limit: int) -> None:
    grid_map, start, goal = problem
    optimum = brute_force(grid_map, goal).get(start, inf)
    result = astar(grid_map, start, goal, weight=weight, max_expansions=limit)
    check_result(grid_map, start, goal, result, optimum)
    assert result.expansions <= limit
    assert result.lower >= grid_map.heuristic(start, goal) * (1 - 1e-9)
    if result.path:
        assert result.bound <= weight * (1 + 1e-9)


@given(problems(), st.sampled_from([1.0, 2.0]), st.lists(st.integers(0, 5), max_size=5))
def test_a_search_continues_where_it_stopped(
    problem: tuple[GridMap, Cell, Cell], weight: float, budgets: list[int]
) -> None:
    grid_map, start, goal = problem
    whole = astar(grid_map, start, goal, weight=weight)
    parts = Search(grid_map, start, goal, weight=weight)
    spent, lower = 0, 0.0
    for budget in [*budgets, None]:
        result = parts.run(budget=budget)
        spent += result.expansions
        assert weight > 1 or result.lower >= lower
        lower = result.lower
        if result.status != "gave_up":
            break
    assert (result.path, result.cost, result.lower, spent) == (whole.path, whole.cost, whole.lower, whole.expansions)


@given(problems())
def test_a_cutoff_proves_a_bound(problem: tuple[GridMap, Cell, Cell]) -> None:
    grid_map, start, goal = problem
    optimum = brute_force(grid_map, goal).get(start, inf)
    if 0 < optimum < inf:
        result = local_search(grid_map, start, goal, cutoff=0.9 * optimum)
        assert 0.9 * optimum <= result.lower <= optimum * (1 + 1e-9)
        assert result.expansions <= astar(grid_map, start, goal).expansions


def test_expansions_are_counted_by_hand() -> None:
    corridor = GridMap.from_ascii("______", connectivity=4)
    assert astar(corridor, (0, 1), (0, 4)).expansions == 3  # (0, 1), (0, 2), (0, 3): neither the goal nor (0, 0)
    assert astar(corridor, (0, 2), (0, 2)) == PlanResult(((0, 2),), 0.0, 0, 0.0, "solved")
    stopped = astar(corridor, (0, 1), (0, 4), max_expansions=2)
    assert stopped == PlanResult((), inf, 2, 3.0, "gave_up")


def test_ties_go_to_the_cell_nearer_the_goal() -> None:
    open_land = GridMap.from_array(np.ones((9, 9), bool), connectivity=4)
    assert astar(open_land, (0, 0), (8, 8)).expansions == 16  # one cell for each step of the path, of 81


def test_a_closed_cell_counts_for_the_bound_when_it_is_found_again() -> None:
    """With weight 3 the dear straight way closes cells at costs that are too high; the bound must not believe them."""
    grid_map = GridMap.from_ascii("_9_____\n_______\n_######\n_______", connectivity=8)
    for limit in range(25):
        result = astar(grid_map, (0, 0), (3, 6), weight=3.0, max_expansions=limit)
        assert result.lower <= astar(grid_map, (0, 0), (3, 6)).cost + 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": (0, 1)}, r"start must be a free cell of a map of 1 by 3, got \(0, 1\)"),
        ({"goal": (1, 0)}, "goal must be a free cell"),
        ({"weight": 0.5}, "weight must be at least 1 and finite, got 0.5"),
        ({"weight": inf}, "weight must be"),
        ({"max_expansions": -1}, "max_expansions must be at least 0, got -1"),
    ],
)
def test_astar_refuses(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        astar(GridMap.from_ascii("_#_"), **{"start": (0, 0), "goal": (0, 2), **arguments})  # type: ignore[arg-type]


# Distances ---------------------------------------------------------------------------------------------------------


@given(problems())
@settings(max_examples=150)
def test_distances_equal_brute_force(problem: tuple[GridMap, Cell, Cell]) -> None:
    grid_map, _, goal = problem
    field = distance_field(grid_map, goal)
    expected = np.full(field.shape, inf)
    for cell, cost in brute_force(grid_map, goal).items():
        expected[cell] = cost
    np.testing.assert_allclose(field, expected)


def test_distances_refuse_a_blocked_goal() -> None:
    with pytest.raises(ValueError, match="goal must be a free cell"):
        distance_field(GridMap.from_ascii("_#"), (0, 1))


# Lines of sight, smoothing -----------------------------------------------------------------------------------------


def seen(grid_map: GridMap, start: Cell, goal: Cell) -> bool:
    """Lines of sight by exact fractions: the cells between one crossing of a cell border and the next."""
    down, across = goal[0] - start[0], goal[1] - start[1]
    rows = {Fraction(2 * i + 1, 2 * abs(down)) for i in range(abs(down))}
    cols = {Fraction(2 * i + 1, 2 * abs(across)) for i in range(abs(across))}
    times = [Fraction(0), *sorted(rows | cols), Fraction(1)]
    zone = grid_map.zones[start]
    cells = [
        (round(start[0] + down * (a + b) / 2), round(start[1] + across * (a + b) / 2))
        for a, b in itertools.pairwise(times)
    ]
    if any(grid_map.zones[cell] != zone for cell in cells):
        return False
    wanted = 2 if grid_map.connectivity == 4 else {"both_free": 2, "one_free": 1, "always": 0}[grid_map.corners]
    return all(
        [grid_map.zones[there[0], here[1]], grid_map.zones[here[0], there[1]]].count(zone) >= wanted
        for here, there in itertools.pairwise(cells)
        if here[0] != there[0] and here[1] != there[1]
    )


@given(problems())
@settings(max_examples=150)
def test_lines_of_sight_equal_exact_fractions(problem: tuple[GridMap, Cell, Cell]) -> None:
    grid_map, start, goal = problem
    grid = grid_of(grid_map)
    assert sight.visible(grid, index_of(grid, start), index_of(grid, goal)) == seen(grid_map, start, goal)


@given(problems(terrain=False))
@settings(max_examples=150)
def test_smoothed_paths_are_in_sight_and_no_longer(problem: tuple[GridMap, Cell, Cell]) -> None:
    grid_map, start, goal = problem
    result = astar(grid_map, start, goal)
    if result.path:
        turns, length = search.smooth(grid_map, result.path)
        assert (turns[0], turns[-1]) == (start, goal)
        assert all(seen(grid_map, a, b) for a, b in itertools.pairwise(turns))
        assert length <= result.cost * (1 + 1e-9)


def test_smoothing_by_hand() -> None:
    open_land = GridMap.from_ascii("____\n____\n____", connectivity=4, cell_size=2.0)
    path = ((0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3))
    assert search.smooth(open_land, path) == (((0, 0), (2, 3)), pytest.approx(2 * sqrt(13)))
    corner = GridMap.from_ascii("_#___\n_____\n_____", connectivity=4)
    around = ((0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (0, 4))
    assert search.smooth(corner, around)[0] == ((0, 0), (1, 0), (0, 4))
    assert search.smooth(corner, (*around[:5], (0, 3)))[0] == ((0, 0), (1, 0), (1, 3), (0, 3))  # by a blocked corner


def test_smoothing_refuses_terrain_and_illegal_paths() -> None:
    with pytest.raises(ValueError, match="one cost factor can be smoothed, got 2 factors"):
        search.smooth(GridMap.from_ascii("_2"), ((0, 0), (0, 1)))
    with pytest.raises(ValueError, match="no step leads"):
        search.smooth(GridMap.from_ascii("_#_"), ((0, 0), (0, 1)))


# Proposals ---------------------------------------------------------------------------------------------------------


@given(problems(), st.sampled_from(sorted(PROPOSALS)), st.integers(1, 5), st.integers(1, 6), st.integers(0, 9))
def test_proposals_stay_in_their_square(
    problem: tuple[GridMap, Cell, Cell], name: str, distance: int, successors: int, seed: int
) -> None:
    grid_map, cell, goal = problem
    cells = PROPOSALS[name](grid_map, cell, goal, distance, successors, np.random.default_rng(seed))
    assert len(cells) == len(set(cells)) <= successors
    for there in cells:
        assert there != cell
        assert grid_map.zones[there] == grid_map.zones[cell]
        assert max(abs(there[0] - cell[0]), abs(there[1] - cell[1])) <= distance
    assert cells == PROPOSALS[name](grid_map, cell, goal, distance, successors, np.random.default_rng(seed))


def test_rings_are_at_the_distance_and_in_all_directions() -> None:
    open_land = GridMap.from_array(np.ones((21, 21), bool))
    cells = PROPOSALS["uniform"](open_land, (10, 10), (0, 0), 7, 60, np.random.default_rng(0))
    away = np.array(cells) - 10
    assert (np.abs(away).max(axis=1) == 7).all()
    assert {tuple(np.sign(cell)) for cell in away.tolist()} >= {(1, 1), (1, -1), (-1, 1), (-1, -1)}


def test_goal_biased_leans_toward_the_goal() -> None:
    open_land = GridMap.from_array(np.ones((81, 81), bool))
    cells = PROPOSALS["goal_biased"](open_land, (40, 40), (40, 80), 30, 100, np.random.default_rng(0))
    assert 0.6 < np.mean([col > 40 for _, col in cells]) < 1


def test_corners_and_doors_by_hand() -> None:
    grid_map = GridMap.from_ascii("_________\n_________\n####_####\n_________\n_________")
    cells = PROPOSALS["corners_and_doors"](grid_map, (0, 4), (4, 4), 4, 9, np.random.default_rng(0))
    assert (2, 4) in cells or (1, 4) in cells or (3, 4) in cells
    wall = GridMap.from_ascii("_______\n_______\n__#____\n_______\n_______")
    beside = PROPOSALS["corners_and_doors"](wall, (4, 0), (0, 6), 3, 99, np.random.default_rng(0))
    assert {(1, 1), (3, 3)} & set(beside)  # the corners that a path from the lower left can turn at
    assert not {(3, 1), (1, 3)} & set(beside)  # met head-on, and behind it


def test_oracle_steps_along_a_cheapest_path() -> None:
    grid_map = GridMap.from_ascii("______\n_####_\n______", connectivity=8)
    waypoint = PROPOSALS["oracle"](grid_map, (0, 0), (2, 5), 3, 1, np.random.default_rng(0))[0]
    field = distance_field(grid_map, (2, 5))
    assert field[0, 0] == pytest.approx(astar(grid_map, (0, 0), waypoint).cost + field[waypoint])


# Processes ---------------------------------------------------------------------------------------------------------

PROGRAM = """
import numpy as np
from turngym.envs.path_planning import astar, distance_field, generate_problem, rstar, rstar2
from turngym.envs.path_planning.search import PROPOSALS, smooth

for family in ("random", "rooms", "maze", "caves", "terrain"):
    problem = generate_problem(np.random.default_rng(5), family, rows=24, cols=24, connectivity=8, min_steps=15)
    map, start, goal = problem.map, problem.start, problem.goal
    print(astar(map, start, goal), astar(map, start, goal, weight=2, max_expansions=20))
    print(distance_field(map, goal).sum(where=np.isfinite(distance_field(map, goal))))
    print(rstar(map, start, goal, rng=np.random.default_rng(1), distance=6, max_expansions=3000))
    for name, proposal in PROPOSALS.items():
        rng = np.random.default_rng(2)
        result = rstar2(map, start, goal, rng=rng, proposal=proposal, distance=6, epsilon=(2, 1), prove=True)
        print(name, result, result.graph.nodes, rng.random())
    if family != "terrain":
        print(smooth(map, result.path))
"""


def test_plans_do_not_depend_on_numba_nor_on_the_process(run_python: Callable[..., str]) -> None:
    plain = run_python("-c", PROGRAM, NUMBA_DISABLE_JIT="1", PYTHONHASHSEED="1")
    assert plain == run_python("-c", PROGRAM, PYTHONHASHSEED="2")


def test_importing_search_does_not_import_numba(run_python: Callable[..., str]) -> None:
    program = "import sys, turngym.envs.path_planning.search as s; s.RStar2Planner, s.smooth, s.PROPOSALS, s.Graph; "
    assert run_python("-c", program + "print('numba' in sys.modules)").strip() == "False"
