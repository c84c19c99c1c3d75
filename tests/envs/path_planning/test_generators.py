"""Generated maps and problems: solvable, as hard as asked for, and the same in every process."""

import heapq
import itertools
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.errors import LevelError
from turngym.envs.path_planning.generators import FAMILIES, generate_map, generate_problem
from turngym.envs.path_planning.maps import LAND, WATER, Cell, GridMap, Problem
from turngym.envs.path_planning.symmetry import canonical, orientations

SIZES = st.integers(4, 14)


def cheapest_costs(grid_map: GridMap, goal: Cell) -> dict[Cell, float]:
    """Dijkstra's algorithm, from the map's own steps."""
    costs, queue = {goal: 0.0}, [(0.0, goal)]
    while queue:
        cost, cell = heapq.heappop(queue)
        for there, step in grid_map.neighbours(cell):
            if cost + step < costs.get(there, inf):
                costs[there] = cost + step
                heapq.heappush(queue, (cost + step, there))
    return costs


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 2**32), rows=SIZES, cols=SIZES, connectivity=st.sampled_from([4, 8]))
@settings(max_examples=15)
def test_problems_can_be_solved(family: Any, seed: int, rows: int, cols: int, connectivity: Any) -> None:
    problem = generate_problem(np.random.default_rng(seed), family, rows=rows, cols=cols, connectivity=connectivity)
    assert (problem.map.rows, problem.map.cols) == (rows, cols)
    assert problem.map.connectivity == connectivity
    assert problem.start in cheapest_costs(problem.map, problem.goal)
    assert (problem.map.zones == LAND).mean() >= 0.25


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("connectivity", [4, 8])
def test_problems_are_as_hard_as_asked_for(family: Any, connectivity: Any) -> None:
    found = []
    for seed in range(15):
        problem = generate_problem(
            np.random.default_rng(seed),
            family,
            rows=12,
            cols=16,
            connectivity=connectivity,
            min_steps=9,
            max_steps=14,
            min_detour=1.2,
        )
        cost = cheapest_costs(problem.map, problem.goal)[problem.start]
        assert 9 - 1e-6 <= cost <= 14 + 1e-6
        assert cost >= 1.2 * problem.map.heuristic(problem.start, problem.goal) - 1e-6
        found.append(cost)
    assert max(found) - min(found) >= 2  # the whole range is used


@pytest.mark.parametrize("family", ["rooms", "maze"])
def test_rooms_and_mazes_are_connected(family: Any) -> None:
    for seed in range(30):
        grid_map = generate_map(np.random.default_rng(seed), family, rows=9 + seed, cols=20)
        free = [(row, col) for row, col in np.argwhere(grid_map.zones == LAND).tolist()]
        assert len(cheapest_costs(grid_map, free[0])) == len(free)


def test_some_mazes_have_one_way_between_two_cells_and_some_have_more() -> None:
    trees = set()
    for seed in range(20):
        grid_map = generate_map(np.random.default_rng(seed), "maze", rows=15, cols=15)
        free = [(row, col) for row, col in np.argwhere(grid_map.zones == LAND).tolist()]
        steps = sum(len(list(grid_map.neighbours(cell))) for cell in free) // 2
        trees.add(steps == len(free) - 1)
    assert trees == {True, False}


def test_terrain_has_land_of_five_costs_water_and_rock() -> None:
    grid_map = generate_map(np.random.default_rng(2), "terrain", rows=40, cols=40)
    assert set(np.unique(grid_map.costs[grid_map.zones == LAND])) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert (grid_map.zones == WATER).mean() == pytest.approx(1 / 10, abs=0.01)
    assert (grid_map.zones == 0).mean() == pytest.approx(1 / 7, abs=0.01)
    assert GridMap.from_ascii(grid_map.to_ascii()) == grid_map


def test_maps_of_a_family_differ_and_families_differ() -> None:
    digests = {
        (family, generate_map(np.random.default_rng(seed), family, rows=8, cols=8).digest)
        for family, seed in itertools.product(FAMILIES, range(20))
    }
    assert len(digests) >= 110


PROGRAM = """
import numpy as np
from turngym.envs.path_planning.generators import FAMILIES, generate_problem
from turngym.envs.path_planning.symmetry import canonical
for family in FAMILIES:
    for connectivity in (4, 8):
        problem = generate_problem(
            np.random.default_rng(7), family, rows=10, cols=12, connectivity=connectivity, min_steps=6, min_detour=1.1
        )
        print(problem.map.digest[:6], canonical(problem)[:6], *problem.start, *problem.goal)
"""


def test_the_same_problem_in_every_process(run_python: Callable[..., str]) -> None:
    """With other string hashes, and without compiled kernels."""
    plain = run_python("-c", PROGRAM, PYTHONHASHSEED="1", NUMBA_DISABLE_JIT="1")
    assert plain == run_python("-c", PROGRAM, PYTHONHASHSEED="2")
    assert plain.split() == GOLDEN.split()


GOLDEN = """
225692 bf917d 1 8 8 8
2054e1 8d2f94 3 2 8 8
c248ed e2ae07 0 0 9 2
191338 e2ae07 0 0 9 2
ad2641 c7ed56 2 4 3 6
e37813 8401e9 5 2 3 6
cd9a78 f480ed 0 0 9 7
2d94ef f480ed 0 0 9 7
6029ed 04482c 0 2 7 2
727042 1035ba 0 6 7 2
91c558 9b2616 4 7 8 7
17b2a2 4c2cd6 4 2 8 7
"""


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"family": "jungle"}, "random, rooms, maze, caves, city, terrain, got 'jungle'"),
        ({"rows": 3}, "at least 4, got 3 and 8"),
        ({"min_steps": -1}, "min_steps must be from 0 to max_steps, got -1"),
        ({"min_steps": 9, "max_steps": 8}, "got 9 and 8"),
        ({"min_steps": 0, "max_steps": 0.5}, r"max_steps must be at least 1, got 0\.5"),
        ({"min_detour": 0.9}, r"min_detour must be at least 1, got 0\.9"),
        ({"min_steps": 64}, "min_steps must be at most 63 on a map of 8 by 8, got 64"),
    ],
)
def test_impossible_requests(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate_problem(np.random.default_rng(0), **{"family": "random", "rows": 8, "cols": 8, **wanted})


def test_requests_that_no_map_meets() -> None:
    with pytest.raises(LevelError, match=r"no problem on a caves map of 4 by 4 with min_steps 15.* in 200 maps"):
        generate_problem(np.random.default_rng(0), "caves", rows=4, cols=4, min_steps=15)


# Symmetries --------------------------------------------------------------------------------------------------------


def test_orientations_by_hand() -> None:
    drawn = {"/".join("".join(row) for row in view) for view in orientations(np.array([list("abc"), list("def")]))}
    assert drawn == {"abc/def", "cba/fed", "def/abc", "fed/cba", "ad/be/cf", "cf/be/ad", "da/eb/fc", "fc/eb/da"}


@given(st.integers(0, 2**32), st.sampled_from(FAMILIES), SIZES, SIZES)
@settings(max_examples=40)
def test_orientations_share_a_name(seed: int, family: Any, rows: int, cols: int) -> None:
    """Built cell by cell, from the numbers of the cells in each orientation."""
    problem = generate_problem(np.random.default_rng(seed), family, rows=rows, cols=cols)
    numbers = np.arange(rows * cols).reshape(rows, cols)
    for view in orientations(numbers):
        start, goal = (tuple(np.argwhere(view == numbers[cell])[0].tolist()) for cell in (problem.start, problem.goal))
        grid_map = GridMap(problem.map.zones.ravel()[view], problem.map.costs.ravel()[view])
        assert canonical(Problem(grid_map, start, goal)) == canonical(problem)


def test_other_problems_have_other_names() -> None:
    """A map with no symmetry of its own: every other start, goal, wall or terrain is another problem."""
    grid_map = GridMap.from_ascii("___\n#__\n_#2")
    names = {canonical(Problem(grid_map, start, (0, 0))) for start in ((0, 1), (0, 2), (1, 1), (1, 2), (2, 0), (2, 2))}
    names.add(canonical(Problem(grid_map, (0, 0), (0, 1))))
    names.add(canonical(Problem(grid_map.with_blocked([(2, 2)]), (0, 1), (0, 0))))
    names.add(canonical(Problem(GridMap(grid_map.zones), (0, 1), (0, 0))))
    assert len(names) == 9
    eight = GridMap(grid_map.zones, grid_map.costs, 8)
    assert canonical(Problem(eight, (0, 1), (0, 0))) == canonical(Problem(grid_map, (0, 1), (0, 0)))
