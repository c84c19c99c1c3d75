"""Kernels on maps as flat arrays with a blocked border: best-first search and distances.

Import this inside functions: with numba installed it takes half a second. The order of expansions depends on keys that
are unique to a cell, so that compiled and plain runs expand the same cells in the same order.
"""

import heapq
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turngym.envs.jit import COMPILED, jit
from turngym.envs.path_planning.maps import BLOCKED, OFFSETS, SQRT2, Cell, GridMap

UNSEEN, OPEN, CLOSED = 0, 1, 2

_ROWS = tuple(row for row, _ in OFFSETS)
_COLS = tuple(col for _, col in OFFSETS)


class Grid(NamedTuple):
    """A map as kernels take it: cell `(row, col)` is `(row + 1) * width + col + 1`.

    Attributes:
        zones: Zone of each cell, `(rows + 2) * width`; the border is blocked.
        steps: Bit i is set where the rules allow the step `OFFSETS[i]` from a cell, in the same order.
        costs: Cost factor of each cell, in the same order.
        offsets: What the steps of `OFFSETS` add to a cell; four or eight.
        lengths: Half the length of each step, for the sum of two cost factors.
        width: Columns and border.
        corners: How many of the two cells beside a diagonal step must be free: 2, 1 or 0.
        scale: Cheapest cost of a straight step.
    """

    zones: Any
    steps: Any
    costs: Any
    offsets: Any
    lengths: Any
    width: int
    corners: int
    scale: float


@lru_cache(maxsize=16)
def grid_of(grid_map: GridMap) -> Grid:
    """The map as kernels take it, kept for the maps used last."""
    width, corners = grid_map.cols + 2, {"both_free": 2, "one_free": 1, "always": 0}[grid_map.corners]
    zones, offsets = np.pad(grid_map.zones, 1), grid_map.offsets
    return Grid(
        flat(zones),
        flat(_steps(zones, offsets, corners)),
        flat(np.pad(grid_map.costs, 1, constant_values=1.0)),
        flat(np.array([row * width + col for row, col in offsets])),
        flat(np.array([(SQRT2 if row and col else 1.0) * grid_map.cell_size / 2 for row, col in offsets])),
        width,
        corners,
        float(grid_map.cheapest * grid_map.cell_size),
    )


def _steps(zones: NDArray[np.uint8], offsets: tuple[Cell, ...], corners: int) -> NDArray[np.uint8]:
    """`Grid.steps`, in the shape of the zones with their border."""
    rows, cols = zones.shape
    inner = zones[1:-1, 1:-1]

    def same(down: int, across: int) -> NDArray[np.bool_]:
        return np.equal(zones[1 + down : rows - 1 + down, 1 + across : cols - 1 + across], inner)

    steps = np.zeros_like(zones)
    for bit, (down, across) in enumerate(offsets):
        allowed = (inner != BLOCKED) & same(down, across)
        if down and across and corners:
            beside = (same(down, 0), same(0, across))
            allowed &= beside[0] & beside[1] if corners == 2 else beside[0] | beside[1]
        steps[1:-1, 1:-1] |= allowed.astype(np.uint8) << np.uint8(bit)
    return steps


def flat(values: Any) -> Any:
    """One-dimensional, as an array where kernels are compiled and as a list elsewhere."""
    return np.ascontiguousarray(values).ravel() if COMPILED else values.ravel().tolist()


def index_of(grid: Grid, cell: Cell) -> int:
    """The kernels' number of a cell."""
    return (cell[0] + 1) * grid.width + cell[1] + 1


def cells_of(grid: Grid, indices: list[int]) -> tuple[Cell, ...]:
    """The cells of the kernels' numbers."""
    return tuple([(index // grid.width - 1, index % grid.width - 1) for index in indices])


def memory(grid: Grid) -> tuple[Any, Any, Any]:
    """State, cost so far and incoming step of each cell, for one search."""
    count = len(grid.zones)
    if COMPILED:
        return np.zeros(count, np.uint8), np.empty(count), np.empty(count, np.uint8)
    return bytearray(count), [inf] * count, bytearray(count)


@jit
def _heuristic(grid: Grid, down: int, across: int) -> float:
    """Manhattan or octile distance on the cheapest terrain."""
    down, across = abs(down), abs(across)
    diagonal = min(down, across) if len(grid.offsets) == 8 else 0
    return (down + across + (SQRT2 - 2) * diagonal) * grid.scale


@jit
def search(
    grid: Grid,
    goal: int,
    weight: float,
    budget: int,
    cutoff: float,
    left: Any,
    reopened: float,
    state: Any,
    costs: Any,
    parents: Any,
) -> tuple[bool, int, float, float, float, list[int]]:
    """Weighted A* without re-expansions: keys are cost so far + weight * heuristic, ties go nearer the goal.

    A cell that is found again at a lower cost after its expansion stays as it is, but its lower key counts for the
    bound, as in ARA* (Likhachev, Gordon, Thrun 2003), so that the bound holds with any weight.

    Args:
        grid: The map.
        goal: Where to go.
        weight: Factor of the heuristic.
        budget: Stop after so many expansions; -1 is no limit.
        cutoff: Stop when the smallest key reaches this.
        left: Cells to go on from; their `state` is OPEN.
        reopened: The smallest cost so far + heuristic of cells found again after their expansion, or inf.
        state: UNSEEN, OPEN or CLOSED, of every cell.
        costs: The cost so far, where a cell is seen.
        parents: The step that led to a cell, where it is seen.

    Returns:
        Whether the goal is reached; expansions; a lower bound of the cheapest path's cost (the smallest cost so far +
        heuristic of what is left to expand, inf where nothing is); the smallest key left; and `reopened` and `left` for
        a search that goes on, unless the goal is reached.
    """
    offsets, lengths, factors = grid.offsets, grid.lengths, grid.costs
    goal_row, goal_col = goal // grid.width, goal % grid.width
    frontier = [(inf, inf, goal)]
    frontier.pop()
    for cell in left:
        h = _heuristic(grid, cell // grid.width - goal_row, cell % grid.width - goal_col)
        frontier.append((costs[cell] + weight * h, h, cell))
    heapq.heapify(frontier)
    found, expansions, lower, smallest = False, 0, inf, inf
    while len(frontier) > 0:
        key, h, cell = frontier[0]
        if state[cell] == CLOSED:
            heapq.heappop(frontier)
            continue
        found = cell == goal
        if found or expansions == budget or key >= cutoff:
            lower, smallest = min(reopened, costs[cell] + h), key
            break
        heapq.heappop(frontier)
        state[cell] = CLOSED
        expansions += 1
        steps, cost, factor = grid.steps[cell], costs[cell], factors[cell]
        row, col = cell // grid.width - goal_row, cell % grid.width - goal_col
        for step in range(len(offsets)):
            if not steps >> step & 1:
                continue
            there = cell + offsets[step]
            if weight == 1.0 and state[there] == CLOSED:
                continue
            cost_there = cost + lengths[step] * (factor + factors[there])
            if state[there] != UNSEEN and cost_there >= costs[there]:
                continue
            h = _heuristic(grid, row + _ROWS[step], col + _COLS[step])
            if state[there] == CLOSED:
                reopened = min(reopened, cost_there + h)
                continue
            state[there], costs[there], parents[there] = OPEN, cost_there, step
            heapq.heappush(frontier, (cost_there + weight * h, h, there))
    following = [goal]
    following.pop()
    for key, h, cell in frontier:
        if state[cell] == OPEN and key == costs[cell] + weight * h:
            lower = min(lower, costs[cell] + h)
            if not found:
                following.append(cell)
    return found, expansions, lower, smallest, reopened, following


@jit
def trace(grid: Grid, start: int, goal: int, parents: Any) -> list[int]:
    """The path that led to the goal."""
    path = [goal]
    while path[-1] != start:
        path.append(path[-1] - grid.offsets[parents[path[-1]]])
    path.reverse()
    return path


@jit
def distances(grid: Grid, goal: int, state: Any, costs: Any) -> None:
    """Dijkstra's algorithm from a cell: fills `costs`, which hold where `state` is CLOSED afterwards."""
    frontier = [(0.0, goal)]
    state[goal], costs[goal] = OPEN, 0.0
    while len(frontier) > 0:
        cost, cell = heapq.heappop(frontier)
        if state[cell] == CLOSED:
            continue
        state[cell] = CLOSED
        for step in range(len(grid.offsets)):
            there = cell + grid.offsets[step]
            if state[there] == CLOSED or not grid.steps[cell] >> step & 1:
                continue
            cost_there = cost + grid.lengths[step] * (grid.costs[cell] + grid.costs[there])
            if state[there] == UNSEEN or cost_there < costs[there]:
                state[there], costs[there] = OPEN, cost_there
                heapq.heappush(frontier, (cost_there, there))
