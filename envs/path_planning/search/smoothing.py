"""Any-angle paths: what is left of a path on cells when corners that nothing blocks are cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import hypot

import numpy as np

from turngym.envs.path_planning.maps import BLOCKED, Cell, GridMap


def smooth(grid_map: GridMap, path: Sequence[Cell]) -> tuple[tuple[Cell, ...], float]:
    """Straighten a path between the centres of its cells, as far as lines of sight allow.

    From each point that is kept, the path goes straight on to the last of its cells before the first that is out of
    sight. A line of sight obeys the map's corner rule.

    Args:
        grid_map: A map of one cost factor.
        path: At least one cell; each step allowed by the map.

    Returns:
        The cells where the path turns, with its first and last; and its Euclidean length times cost factor and cell
        size. On an 8-connected map that is at most the cost of the path.

    Raises:
        ValueError: If the map has several cost factors, or does not allow the path.
    """
    from turngym.envs.path_planning.search import kernel, sight

    factors = np.unique(grid_map.costs[grid_map.zones != BLOCKED])
    if len(factors) != 1:
        raise ValueError(f"only a path on a map of one cost factor can be smoothed, got {len(factors)} factors")
    grid_map.path_cost(path)
    grid = kernel.grid_of(grid_map)
    turns = [path[0]]
    for before, cell in pairwise(path):
        if not sight.visible(grid, kernel.index_of(grid, turns[-1]), kernel.index_of(grid, cell)):
            turns.append(before)
    if path[-1] != turns[-1]:
        turns.append(path[-1])
    length = sum(hypot(a[0] - b[0], a[1] - b[1]) for a, b in pairwise(turns))
    return tuple(turns), length * float(factors[0]) * grid_map.cell_size
