"""Random maps of six families, and solvable problems on them of a stated difficulty.

Everything is drawn from the generator that is passed in, so that a seed gives the same problem in every process.
"""

from collections.abc import Callable
from itertools import pairwise
from math import inf
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from turngym.envs.errors import LevelError
from turngym.envs.path_planning.maps import BLOCKED, LAND, SQRT2, WATER, Cell, Connectivity, GridMap, Problem

Family = Literal["random", "rooms", "maze", "caves", "city", "terrain"]
FAMILIES: tuple[Family, ...] = get_args(Family)

Zones = NDArray[np.uint8]
_SMALLEST = 4
_MAX_MAPS = 200
_GOALS_PER_MAP = 4
_LEAST_LAND = 0.25
_TOLERANCE = 1e-9


def generate_problem(
    rng: np.random.Generator,
    family: Family,
    *,
    rows: int,
    cols: int,
    connectivity: Connectivity = 4,
    min_steps: float = 1.0,
    max_steps: float = inf,
    min_detour: float = 1.0,
) -> Problem:
    """Draw a solvable problem, on a map of which at least a quarter is land.

    Args:
        rng: Where the randomness comes from.
        family: The kind of map.
        rows: At least 4.
        cols: At least 4.
        connectivity: 4 or 8 neighbours a cell.
        min_steps: Least cost of the best path, in straight steps on plain land.
        max_steps: Most cost of the best path, in the same unit.
        min_detour: Least ratio of that cost to the map's heuristic (Manhattan or octile distance, on the cheapest
            terrain): 1 allows straight ways, 1.5 asks for paths half as long again.

    Raises:
        ValueError: If an argument is out of its range, or no map of that size can hold such a path.
        LevelError: If hundreds of maps of the family hold no such path.
    """
    from turngym.envs.path_planning.search.astar import distance_field

    _check_difficulty(rows, cols, connectivity, family, min_steps, max_steps, min_detour)
    for _ in range(_MAX_MAPS):
        grid_map = generate_map(rng, family, rows=rows, cols=cols, connectivity=connectivity)
        places = np.argwhere(grid_map.zones == LAND).tolist()
        if len(places) < _LEAST_LAND * rows * cols:
            continue
        for _ in range(_GOALS_PER_MAP):
            row, col = places[int(rng.integers(len(places)))]
            costs = distance_field(grid_map, (row, col))
            wanted = (costs >= min_steps - _TOLERANCE) & (costs <= max_steps + _TOLERANCE) & np.isfinite(costs)
            wanted &= costs >= min_detour * _heuristics(grid_map, (row, col)) - _TOLERANCE
            wanted[row, col] = False
            starts = np.argwhere(wanted).tolist()
            if starts:
                start_row, start_col = starts[int(rng.integers(len(starts)))]
                return Problem(grid_map, (start_row, start_col), (row, col))
    raise LevelError(
        f"no problem on a {family} map of {rows} by {cols} with min_steps {min_steps}, max_steps {max_steps} and "
        f"min_detour {min_detour} in {_MAX_MAPS} maps"
    )


def generate_map(
    rng: np.random.Generator, family: Family, *, rows: int, cols: int, connectivity: Connectivity = 4
) -> GridMap:
    """Draw a map; its free cells need not be connected.

    Args:
        rng: Where the randomness comes from.
        family: `random`: cells blocked on their own, a tenth to a third of them. `rooms`: rectangles with doors in
            their walls. `maze`: corridors one to four cells wide, with or without loops. `caves`: smoothed noise.
            `city`: blocks of houses between streets, some of them closed. `terrain`: land with cost factors 1 to 5,
            lakes (water) and rocks.
        rows: At least 4.
        cols: At least 4.
        connectivity: 4 or 8 neighbours a cell.

    Raises:
        ValueError: If an argument is out of its range.
    """
    _check_map(family, rows, cols)
    if family == "terrain":
        return _terrain(rng, rows, cols, connectivity)
    return GridMap(_MAKERS[family](rng, rows, cols), connectivity=connectivity)


def _check_map(family: str, rows: int, cols: int) -> None:
    if family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {family!r}")
    if min(rows, cols) < _SMALLEST:
        raise ValueError(f"rows and cols must be at least {_SMALLEST}, got {rows} and {cols}")


def _check_difficulty(
    rows: int, cols: int, connectivity: int, family: str, min_steps: float, max_steps: float, min_detour: float
) -> None:
    _check_map(family, rows, cols)
    if not 0 <= min_steps <= max_steps:
        raise ValueError(f"min_steps must be from 0 to max_steps, got {min_steps} and {max_steps}")
    if max_steps < 1:
        raise ValueError(f"max_steps must be at least 1, got {max_steps}")
    if not 1 <= min_detour < inf:
        raise ValueError(f"min_detour must be at least 1, got {min_detour}")
    # A best path enters no cell twice, and no step costs more than 5 times its length.
    longest = (rows * cols - 1) * (5 if family == "terrain" else 1) * (SQRT2 if connectivity == 8 else 1)
    if min_steps > longest:
        raise ValueError(f"min_steps must be at most {longest:g} on a map of {rows} by {cols}, got {min_steps}")


def _heuristics(grid_map: GridMap, goal: Cell) -> NDArray[np.float64]:
    """The map's heuristic from every cell to one."""
    down = np.abs(np.arange(grid_map.rows) - goal[0])[:, None]
    across = np.abs(np.arange(grid_map.cols) - goal[1])
    diagonal = np.minimum(down, across) if grid_map.connectivity == 8 else 0
    scale = grid_map.cheapest * grid_map.cell_size
    return np.asarray((down + across + (SQRT2 - 2) * diagonal) * scale, np.float64)


def _random(rng: np.random.Generator, rows: int, cols: int) -> Zones:
    return (rng.random((rows, cols)) >= rng.uniform(0.1, 1 / 3)).astype(np.uint8)


def _rooms(rng: np.random.Generator, rows: int, cols: int) -> Zones:
    """Split rectangles by walls with a door or two, until they are small.

    Walls are on odd lines and doors on even ones, so that no wall ends at a door.
    """
    zones = np.full((rows, cols), LAND, np.uint8)
    side = int(rng.integers(2, max(3, min(rows, cols) // 4) + 1))
    todo = [(0, 0, rows, cols)]
    while todo:
        top, left, bottom, right = todo.pop()
        tall = bottom - top > right - left or (bottom - top == right - left and rng.random() < 0.5)
        first, last = (top, bottom) if tall else (left, right)
        walls = [line for line in range(first + side, last - side) if line % 2]
        if not walls:
            continue
        wall = walls[int(rng.integers(len(walls)))]
        across = (left, right) if tall else (top, bottom)
        doors = rng.choice(np.arange(*across, 2), size=int(rng.integers(1, 3)))
        line = zones[wall, left:right] if tall else zones[top:bottom, wall]
        line[:] = BLOCKED
        line[doors - across[0]] = LAND
        if tall:
            todo += [(top, left, wall, right), (wall + 1, left, bottom, right)]
        else:
            todo += [(top, left, bottom, wall), (top, wall + 1, bottom, right)]
    return zones


def _maze(rng: np.random.Generator, rows: int, cols: int) -> Zones:
    """Corridors along a spanning tree that a depth-first walk draws, and some more openings in half of the mazes."""
    width = int(rng.integers(1, min(4, max(1, min(rows, cols) // 8)) + 1))
    pitch = width + 1
    down, across = (rows + 1) // pitch, (cols + 1) // pitch
    loops = float(rng.choice([0.0, 0.1]))
    zones = np.zeros((rows, cols), np.uint8)
    for row in range(down):
        for col in range(across):
            zones[row * pitch : row * pitch + width, col * pitch : col * pitch + width] = LAND
    for (row, col), (other_row, other_col) in _spanning_tree(rng, down, across) + _extra(rng, down, across, loops):
        top, left = min(row, other_row) * pitch, min(col, other_col) * pitch
        tall, wide = abs(row - other_row) * pitch + width, abs(col - other_col) * pitch + width
        zones[top : top + tall, left : left + wide] = LAND
    return zones


def _spanning_tree(rng: np.random.Generator, rows: int, cols: int) -> list[tuple[Cell, Cell]]:
    """Pairs of neighbouring rooms, in the order in which a depth-first walk first enters the second of each."""
    stack: list[Cell] = [(int(rng.integers(rows)), int(rng.integers(cols)))]
    visited, tree = {stack[0]}, []
    while stack:
        row, col = stack[-1]
        around = ((row, col - 1), (row + 1, col), (row, col + 1), (row - 1, col))
        ahead = [(r, c) for r, c in around if 0 <= r < rows and 0 <= c < cols and (r, c) not in visited]
        if not ahead:
            stack.pop()
            continue
        there = ahead[int(rng.integers(len(ahead)))]
        visited.add(there)
        tree.append(((row, col), there))
        stack.append(there)
    return tree


def _extra(rng: np.random.Generator, rows: int, cols: int, share: float) -> list[tuple[Cell, Cell]]:
    """A share of all pairs of neighbouring rooms."""
    right = [((row, col), (row, col + 1)) for row in range(rows) for col in range(cols - 1)]
    below = [((row, col), (row + 1, col)) for row in range(rows - 1) for col in range(cols)]
    pairs = right + below
    return [pair for pair, luck in zip(pairs, rng.random(len(pairs)).tolist(), strict=True) if luck < share]


def _caves(rng: np.random.Generator, rows: int, cols: int) -> Zones:
    """Noise in which every cell, a few times over, takes the side of most cells around it."""
    rock = rng.random((rows, cols)) < 0.48
    for _ in range(2 if min(rows, cols) < 12 else 4):
        padded = np.pad(rock, 1, mode="symmetric").astype(np.int8)
        lines = padded[:-2] + padded[1:-1] + padded[2:]
        rock = lines[:, :-2] + lines[:, 1:-1] + lines[:, 2:] >= 5
    return (~rock).astype(np.uint8)


def _city(rng: np.random.Generator, rows: int, cols: int) -> Zones:
    """Houses fill the blocks between streets; some blocks are squares, and some streets are closed at a point."""
    zones = np.full((rows, cols), LAND, np.uint8)
    down, across = _blocks(rng, rows), _blocks(rng, cols)
    for top, bottom in down:
        for left, right in across:
            if rng.random() < 0.85:
                zones[top:bottom, left:right] = BLOCKED
    for (_, above), (below, _) in pairwise(down):
        for left, right in across:
            if rng.random() < 0.2:
                zones[above:below, int(rng.integers(left, right))] = BLOCKED
    for (_, before), (after, _) in pairwise(across):
        for top, bottom in down:
            if rng.random() < 0.2:
                zones[int(rng.integers(top, bottom)), before:after] = BLOCKED
    return zones


def _blocks(rng: np.random.Generator, length: int) -> list[tuple[int, int]]:
    """First line and end of every block along one side: 2 to 5 lines, more on large maps, with streets around."""
    most, blocks, line = max(5, length // 10), [], 1
    while line < length:
        end = min(line + int(rng.integers(2, most + 1)), length - 1)
        if end > line:
            blocks.append((line, end))
        line = end + int(rng.integers(1, 3))
    return blocks


def _terrain(rng: np.random.Generator, rows: int, cols: int, connectivity: Connectivity) -> GridMap:
    """Smooth heights: the lowest tenth is water, the highest seventh rock, and between them it gets dearer upward."""
    heights = _noise(rng, rows, cols, 3) + 0.5 * _noise(rng, rows, cols, 6) + 0.25 * rng.random((rows, cols))
    rank = heights.ravel().argsort(kind="stable").argsort(kind="stable").reshape(rows, cols) / (rows * cols)
    zones = np.full((rows, cols), LAND, np.uint8)
    zones[rank < 1 / 10] = WATER
    zones[rank >= 6 / 7] = BLOCKED
    costs = np.where(zones == LAND, 1.0 + np.floor((rank - 1 / 10) / (6 / 7 - 1 / 10) * 5).clip(0, 4), 1.0)
    return GridMap(zones, costs, connectivity)


def _noise(rng: np.random.Generator, rows: int, cols: int, knots: int) -> NDArray[np.float64]:
    """Random numbers on a coarse grid of so many knots a side, and straight lines between them."""
    coarse = rng.random((knots, knots))
    down, across, at = np.linspace(0, knots - 1, rows), np.linspace(0, knots - 1, cols), np.arange(knots)
    tall = np.stack([np.interp(down, at, column) for column in coarse.T], axis=1)
    return np.stack([np.interp(across, at, line) for line in tall])


_MAKERS: dict[str, Callable[[np.random.Generator, int, int], Zones]] = {
    "random": _random,
    "rooms": _rooms,
    "maze": _maze,
    "caves": _caves,
    "city": _city,
}
