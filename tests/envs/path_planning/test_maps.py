"""GridMap: what is free, which steps are allowed, what they cost, and maps as values."""

import copy
import itertools
import pickle
from collections.abc import Callable
from math import inf, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from turngym.envs.path_planning.maps import OFFSETS, Cell, GridMap, Problem

MAPS = st.builds(
    GridMap,
    arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.sampled_from([0, 1, 1, 1, 2])),
    connectivity=st.sampled_from([4, 8]),
    corners=st.sampled_from(["both_free", "one_free", "always"]),
    cell_size=st.sampled_from([1.0, 0.5]),
)


def with_terrain(grid_map: GridMap, seed: int) -> GridMap:
    costs = np.random.default_rng(seed).integers(1, 10, grid_map.zones.shape).astype(float)
    costs[grid_map.zones != 1] = 1
    return GridMap(grid_map.zones, costs, grid_map.connectivity, grid_map.corners, grid_map.cell_size)


TERRAINS = st.builds(with_terrain, MAPS, st.integers(0, 1000))


def every_cell(grid_map: GridMap) -> list[Cell]:
    return list(itertools.product(range(grid_map.rows), range(grid_map.cols)))


# Steps -------------------------------------------------------------------------------------------------------------


def test_steps_by_hand() -> None:
    """The 3 costs (1 + 3) / 2; the diagonal to it passes two free cells, the one past the wall does not."""
    grid_map = GridMap.from_ascii("_ _ 3\n_ _ #\n- - _", connectivity=8)
    assert dict(grid_map.neighbours((1, 1))) == {
        (1, 0): 1.0,
        (0, 1): 1.0,
        (0, 0): pytest.approx(sqrt(2)),
    }
    assert grid_map.step_cost((0, 1), (0, 2)) == 2.0
    assert dict(grid_map.neighbours((2, 0))) == {(2, 1): 1.0}
    assert not list(grid_map.neighbours((2, 2)))
    assert not list(grid_map.neighbours((1, 2)))


@pytest.mark.parametrize(
    ("corners", "one_wall", "two_walls"),
    [("both_free", False, False), ("one_free", True, False), ("always", True, True)],
)
def test_corner_rules(corners: str, one_wall: bool, two_walls: bool) -> None:
    for text, allowed in (("__\n__", True), ("_#\n__", one_wall), ("_#\n#_", two_walls), ("_-\n-_", two_walls)):
        grid_map = GridMap.from_ascii(text, connectivity=8, corners=corners)
        assert ((1, 1) in dict(grid_map.neighbours((0, 0)))) == allowed, text


def test_a_step_costs_its_length_times_the_mean_of_two_factors() -> None:
    grid_map = GridMap(np.ones((2, 2), np.uint8), np.array([[1.0, 2.0], [4.0, 0.5]]), 8, cell_size=2.0)
    assert grid_map.step_cost((0, 0), (0, 1)) == 3.0
    assert grid_map.step_cost((0, 0), (1, 1)) == pytest.approx(2 * sqrt(2) * 0.75)
    assert grid_map.path_cost([(0, 0), (0, 1), (1, 1), (1, 0)]) == 3.0 + 2.5 + 4.5
    assert grid_map.path_cost([(1, 1)]) == 0.0


@given(TERRAINS)
def test_neighbours_are_the_steps_that_have_a_cost(grid_map: GridMap) -> None:
    for origin, target in itertools.product(every_cell(grid_map), repeat=2):
        found = dict(grid_map.neighbours(origin))
        if target in found:
            assert grid_map.step_cost(origin, target) == found[target] == grid_map.step_cost(target, origin)
        else:
            with pytest.raises(ValueError, match="no step leads from"):
                grid_map.step_cost(origin, target)


@given(MAPS)
def test_steps_stay_within_a_zone_and_the_offsets(grid_map: GridMap) -> None:
    """Brute force over offsets, with a padded array in place of the bounds checks."""
    zones = np.pad(grid_map.zones, 1)
    for row, col in every_cell(grid_map):
        expected = []
        for down, across in OFFSETS[: grid_map.connectivity]:
            here, there = zones[row + 1, col + 1], zones[row + 1 + down, col + 1 + across]
            sides = [zones[row + 1 + down, col + 1] == here, zones[row + 1, col + 1 + across] == here]
            cut = {"both_free": all(sides), "one_free": any(sides), "always": True}[grid_map.corners]
            if here and there == here and (0 in (down, across) or cut):
                expected.append((row + down, col + across))
        assert [cell for cell, _ in grid_map.neighbours((row, col))] == expected


@given(TERRAINS, st.integers(0, 10**6))
def test_the_heuristic_is_consistent(grid_map: GridMap, pick: int) -> None:
    cells = every_cell(grid_map)
    goal = cells[pick % len(cells)]
    assert grid_map.heuristic(goal, goal) == 0.0
    for cell in cells:
        for there, cost in grid_map.neighbours(cell):
            assert grid_map.heuristic(cell, goal) <= cost + grid_map.heuristic(there, goal) + 1e-9


def test_the_heuristic_is_exact_on_empty_ground() -> None:
    octile = GridMap(np.ones((9, 9), np.uint8), np.full((9, 9), 3.0), 8, cell_size=0.5)
    assert octile.heuristic((8, 1), (3, 3)) == pytest.approx(1.5 * (3 + 2 * sqrt(2)))
    assert GridMap(octile.zones).heuristic((8, 1), (3, 3)) == 7.0
    assert GridMap.from_ascii("#").heuristic((0, 0), (0, 0)) == 0.0


@pytest.mark.parametrize("path", [[], [(0, 1)], [(0, 0), (0, 1)], [(0, 0), (1, 1)], [(0, 0), (0, 0)], [(-1, 0)]])
def test_illegal_paths(path: list[Cell]) -> None:
    with pytest.raises(ValueError, match=r"path starts|no step"):
        GridMap.from_ascii("_#_\n___", connectivity=8).path_cost(path)


# Values ------------------------------------------------------------------------------------------------------------


@given(TERRAINS)
def test_maps_are_values(grid_map: GridMap) -> None:
    again = GridMap(
        grid_map.zones.copy(), grid_map.costs.copy(), grid_map.connectivity, grid_map.corners, grid_map.cell_size
    )
    for twin in (again, pickle.loads(pickle.dumps(grid_map)), copy.deepcopy(grid_map)):
        assert twin == grid_map
        assert hash(twin) == hash(grid_map)
        assert not twin.zones.flags.writeable
        assert not twin.costs.flags.writeable
    if grid_map.zones.any():
        dearer = GridMap(
            grid_map.zones, 2 * grid_map.costs, grid_map.connectivity, grid_map.corners, grid_map.cell_size
        )
        assert dearer != grid_map
        assert hash(dearer) != hash(grid_map)
    for other in (
        GridMap(grid_map.zones, grid_map.costs, 12 - grid_map.connectivity, grid_map.corners, grid_map.cell_size),
        GridMap(grid_map.zones, grid_map.costs, grid_map.connectivity, grid_map.corners, 3.0),
        grid_map.with_free([(0, 0)]) if not grid_map.is_free((0, 0)) else grid_map.with_blocked([(0, 0)]),
        "a map",
    ):
        assert other != grid_map
        assert hash(other) != hash(grid_map)


def test_a_map_keeps_a_copy() -> None:
    zones, costs = np.ones((2, 2), np.uint8), np.ones((2, 2))
    grid_map = GridMap(zones, costs)
    zones[:], costs[:] = 0, 5
    assert grid_map == GridMap(np.ones((2, 2), bool))


@given(TERRAINS)
def test_ascii_round_trip(grid_map: GridMap) -> None:
    settings = {"connectivity": grid_map.connectivity, "corners": grid_map.corners, "cell_size": grid_map.cell_size}
    text = grid_map.to_ascii()
    assert GridMap.from_ascii(text, **settings) == grid_map
    assert GridMap.from_ascii("\n\n".join(" ".join(row) for row in text.split("\n")), **settings) == grid_map


def test_arrays_of_booleans_and_numbers() -> None:
    assert GridMap.from_array([[True, False]]) == GridMap.from_array([[1, 0]]) == GridMap.from_ascii(".@")
    assert GridMap.from_array(np.array([[2, 1]]), connectivity=8) == GridMap.from_ascii("-_", connectivity=8)


@given(TERRAINS, st.integers(0, 10**6))
def test_changed_copies(grid_map: GridMap, pick: int) -> None:
    cells = every_cell(grid_map)
    cell = cells[pick % len(cells)]
    blocked, opened = grid_map.with_blocked([cell]), grid_map.with_free([cell])
    assert not blocked.is_free(cell)
    assert opened.is_free(cell)
    assert (opened == grid_map) == grid_map.is_free(cell)
    for other in cells:
        if other != cell:
            assert blocked.zones[other] == opened.zones[other] == grid_map.zones[other]
            assert blocked.costs[other] == opened.costs[other] == grid_map.costs[other]
    if not grid_map.is_free(cell):
        assert opened.with_blocked([cell]) == grid_map


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GridMap(np.ones(3, np.uint8)), "two dimensions"),
        (lambda: GridMap(np.ones((0, 3), np.uint8)), "two dimensions"),
        (lambda: GridMap.from_array([[0.5]]), "whole numbers"),
        (lambda: GridMap.from_array([[-1]]), "between 0 and 255, got -1"),
        (lambda: GridMap.from_array([[256]]), "between 0 and 255, got 256"),
        (lambda: GridMap(np.ones((2, 2), np.uint8), np.ones((2, 3))), "shape of zones"),
        (lambda: GridMap(np.ones((1, 1), np.uint8), np.zeros((1, 1))), "positive and finite"),
        (lambda: GridMap(np.ones((1, 1), np.uint8), np.full((1, 1), inf)), "positive and finite"),
        (lambda: GridMap(np.ones((1, 1), np.uint8), np.full((1, 1), nan)), "positive and finite"),
        (lambda: GridMap.from_ascii("_", connectivity=6), "4 or 8, got 6"),
        (lambda: GridMap.from_ascii("_", corners="never"), "both_free, one_free, always, got 'never'"),
        (lambda: GridMap.from_ascii("_", cell_size=0), "cell_size must be positive"),
        (lambda: GridMap.from_ascii("__\n_"), r"one length, got lengths \[2, 1\]"),
        (lambda: GridMap.from_ascii(" \n"), "one length"),
        (lambda: GridMap.from_ascii("_0x"), r"got \['0', 'x'\]"),
        (lambda: GridMap.from_ascii("_").with_blocked([(0, 1)]), r"inside a map of 1 by 1, got \(0, 1\)"),
        (lambda: GridMap.from_ascii("_").with_free([(-1, 0)]), r"inside a map of 1 by 1, got \(-1, 0\)"),
        (lambda: GridMap.from_array([[3]]).to_ascii(), "have a glyph"),
        (lambda: GridMap(np.full((1, 1), 2, np.uint8), np.full((1, 1), 2.0)).to_ascii(), "have a glyph"),
        (lambda: GridMap(np.ones((1, 1), np.uint8), np.full((1, 1), 1.5)).to_ascii(), r"whole numbers.*1\.5"),
        (lambda: GridMap(np.ones((1, 1), np.uint8), np.full((1, 1), 10.0)).to_ascii(), "whole numbers up to 9"),
        (lambda: Problem(GridMap.from_ascii("_#"), (0, 0), (0, 1)), r"goal must be a free cell, got \(0, 1\)"),
        (lambda: Problem(GridMap.from_ascii("_#"), (1, 0), (0, 0)), r"start must be inside a map of 1 by 2"),
        (lambda: Problem(GridMap.from_ascii("_#"), (0, 0), (0, 0)), "must be two cells"),
    ],
)
def test_misuse(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_problems_are_values() -> None:
    grid_map = GridMap.from_ascii("___")
    problem = Problem(grid_map, (np.int64(0), np.int64(0)), (0, 2))  # type: ignore[arg-type]
    assert problem == Problem(grid_map, (0, 0), (0, 2))
    assert hash(problem) == hash(Problem(grid_map, (0, 0), (0, 2)))
    assert type(problem.start[0]) is int
    assert problem != Problem(grid_map, (0, 2), (0, 0))
