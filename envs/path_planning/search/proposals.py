"""Where R* and RStar2 look for waypoints: a proposal is any function from a cell to some cells around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import atan2, cos, pi, sin
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import BLOCKED, Cell, GridMap
from turngym.envs.path_planning.search.astar import distance_field

_SPREAD = 0.25
"""Of cells in sight, those are left out that are nearer to an earlier one than this share of that one's distance."""
_RAYS = 16
"""Directions in which `corners_and_doors` also looks for cells at the full distance, to cross wide open land."""


class Proposal(Protocol):
    """Any function that proposes waypoints; a learned policy takes this place."""

    def __call__(
        self, grid_map: GridMap, cell: Cell, goal: Cell, distance: int, successors: int, rng: np.random.Generator, /
    ) -> Sequence[Cell]:
        """Propose waypoints.

        Args:
            grid_map: The map.
            cell: Where the next searches will start.
            goal: Where they should lead to in the end.
            distance: Largest number of rows and of columns between a waypoint and the cell, Δ.
            successors: How many waypoints, at most, K.
            rng: The only source of randomness.

        Returns:
            Cells; those that are not free are passed over.
        """
        ...


def uniform_ring(
    grid_map: GridMap, cell: Cell, goal: Cell, distance: int, successors: int, rng: np.random.Generator
) -> list[Cell]:
    """As R* does: cells on the square ring at a distance, in uniformly drawn directions."""
    return _on_ring(grid_map, cell, distance, successors, lambda: rng.uniform(-pi, pi))


def goal_biased(
    grid_map: GridMap, cell: Cell, goal: Cell, distance: int, successors: int, rng: np.random.Generator
) -> list[Cell]:
    """Half of the directions uniform, half normally distributed around the goal's (standard deviation 45 degrees)."""
    toward = atan2(goal[0] - cell[0], goal[1] - cell[1])

    def direction() -> float:
        return rng.uniform(-pi, pi) if rng.random() < 0.5 else rng.normal(toward, pi / 4)

    return _on_ring(grid_map, cell, distance, successors, direction)


def corners_and_doors(
    grid_map: GridMap, cell: Cell, goal: Cell, distance: int, successors: int, rng: np.random.Generator
) -> list[Cell]:
    """Cells in sight where shortest paths can turn: beside an obstacle's corner, or in a door one cell wide.

    Only cells within the distance are looked at; cells of the ring in sight are added, so that wide open land can be
    crossed. Of cells near to each other one is taken, and as many as wanted are drawn at random. That shortest paths
    turn at obstacles' corners alone is what subgoal graphs rest on (Uras, Koenig, Hernández 2013, "Subgoal Graphs for
    Optimal Pathfinding in Eight-Neighbor Grids"). Lines of sight are not counted as expansions; they take time.
    """
    from turngym.envs.jit import vector
    from turngym.envs.path_planning.search import kernel, sight

    grid = kernel.grid_of(grid_map)
    turn = rng.uniform(-pi, pi)
    rays = [_ring_cell(cell, distance, turn + 2 * pi * ray / _RAYS) for ray in range(_RAYS)]
    others = vector([kernel.index_of(grid, there) for there in rays if grid_map.is_free(there)])
    chosen = sight.spread(grid, _marks(grid_map), kernel.index_of(grid, cell), distance, others, _SPREAD)
    if len(chosen) > successors:
        chosen = [chosen[index] for index in np.sort(rng.choice(len(chosen), successors, replace=False))]
    return list(kernel.cells_of(grid, chosen))


def _ring_cell(cell: Cell, distance: int, angle: float) -> Cell:
    """The cell in a direction on the square ring at a distance; it may be outside the map."""
    down, across = sin(angle), cos(angle)
    longest = max(abs(down), abs(across))
    return cell[0] + round(distance * down / longest), cell[1] + round(distance * across / longest)


def oracle(
    grid_map: GridMap, cell: Cell, goal: Cell, distance: int, successors: int, rng: np.random.Generator
) -> list[Cell]:
    """The cell so many steps further on a cheapest path: not a planner, but the best that waypoints can do."""
    field = _field(grid_map, goal)
    here = cell
    for _ in range(distance):
        if here == goal or not np.isfinite(field[here]):
            break
        here = min(grid_map.neighbours(here), key=lambda step: (step[1] + field[step[0]], step[0]))[0]
    return [here] if here != cell else []


@lru_cache(maxsize=4)
def _field(grid_map: GridMap, goal: Cell) -> NDArray[np.float64]:
    return distance_field(grid_map, goal)


def _on_ring(grid_map: GridMap, cell: Cell, distance: int, count: int, direction: Callable[[], float]) -> list[Cell]:
    """Different cells of the same zone on a square ring, in drawn directions; at most 5 draws for each."""
    zone, cells = grid_map.zones[cell], dict[Cell, None]()
    for _ in range(5 * count):
        if len(cells) == count:
            break
        there = _ring_cell(cell, distance, direction())
        if grid_map.inside(there) and grid_map.zones[there] == zone:
            cells[there] = None
    return list(cells)


@lru_cache(maxsize=16)
def _marks(grid_map: GridMap) -> Any:
    """Which cells are beside an obstacle's corner or in a narrow door, as kernels take them: see `sight`."""
    from turngym.envs.path_planning.search import kernel, sight

    padded = np.pad(grid_map.zones, 1)
    rows, cols = grid_map.zones.shape

    def same(down: int, across: int) -> NDArray[np.bool_]:
        return np.equal(padded[1 + down : rows + 1 + down, 1 + across : cols + 1 + across], grid_map.zones)

    up, down, left, right = same(-1, 0), same(1, 0), same(0, -1), same(0, 1)
    falling = (up & left & ~same(-1, -1)) | (down & right & ~same(1, 1))
    rising = (up & right & ~same(-1, 1)) | (down & left & ~same(1, -1))
    door = (up & down & ~left & ~right) | (left & right & ~up & ~down)
    marks = sight.FALLING * falling + sight.RISING * rising + sight.DOOR * door
    return kernel.flat(np.pad(np.where(grid_map.zones == BLOCKED, 0, marks), 1).astype(np.uint8))


PROPOSALS: dict[str, Proposal] = {
    "uniform": uniform_ring,
    "goal_biased": goal_biased,
    "corners_and_doors": corners_and_doors,
    "oracle": oracle,
}
"""By name, for tables and command lines."""
