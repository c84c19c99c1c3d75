"""Kernels that look at a map along straight lines, on the same flat arrays as `kernel`; import them as that."""

from typing import Any

from turngym.envs.jit import jit
from turngym.envs.path_planning.search.kernel import Grid

RISING, FALLING, DOOR = 1, 2, 4
"""Marks of a cell: an obstacle's corner is diagonally beside it, to the upper right or lower left (rising), or to the
upper left or lower right (falling); or it is in a door one cell wide."""


@jit
def visible(grid: Grid, start: int, goal: int) -> bool:
    """Whether the straight line between two cells' centres passes only through cells of one zone.

    Where it passes exactly through a corner of cells, the map's corner rule decides as for a diagonal step; between
    the diagonal cells of a 4-connected map both others must be free.
    """
    zone, width = grid.zones[start], grid.width
    down, across = goal // width - start // width, goal % width - start % width
    row_step, col_step = (width if down > 0 else -width), (1 if across > 0 else -1)
    down, across = abs(down), abs(across)
    corners = grid.corners if len(grid.offsets) == 8 else 2
    cell, rows, cols = start, 0, 0
    while cell != goal:
        # Which border does the line reach first: (rows + 1/2) / down of it, or (cols + 1/2) / across?
        side = (2 * rows + 1) * across - (2 * cols + 1) * down
        if side == 0:
            free = 0
            if grid.zones[cell + row_step] == zone:
                free += 1
            if grid.zones[cell + col_step] == zone:
                free += 1
            if free < corners:
                return False
        if side <= 0:
            cell, rows = cell + row_step, rows + 1
        if side >= 0:
            cell, cols = cell + col_step, cols + 1
        if grid.zones[cell] != zone:
            return False
    return True


@jit
def _away(grid: Grid, cell: int, other: int) -> int:
    """Rows or columns between two cells, whichever are more."""
    rows, cols = cell // grid.width - other // grid.width, cell % grid.width - other % grid.width
    return max(abs(rows), abs(cols))


@jit
def grazed(grid: Grid, marks: Any, origin: int, distance: int) -> list[tuple[int, int]]:
    """Doors in sight and corners that a line of sight passes by: minus how far away each is, and the cell, sorted.

    A corner that a line meets head-on, or from behind, is none where a shortest path could turn.
    """
    width, rows = grid.width, len(grid.zones) // grid.width
    row, col = origin // width, origin % width
    found = [(0, origin)]
    found.pop()
    for down in range(max(-distance, -row), min(distance, rows - 1 - row) + 1):
        for across in range(max(-distance, -col), min(distance, width - 1 - col) + 1):
            there = origin + down * width + across
            mark = marks[there]
            if mark == 0 or there == origin:
                continue
            turn = down * across
            if not (mark & DOOR or (mark & RISING and turn >= 0) or (mark & FALLING and turn <= 0)):
                continue
            if visible(grid, origin, there):
                found.append((-max(abs(down), abs(across)), there))
    found.sort()
    return found


@jit
def spread(grid: Grid, marks: Any, origin: int, distance: int, others: Any, share: float) -> list[int]:
    """What is `grazed`, farthest first, then others in sight, each unless it is near to one before.

    Near is what lies within a share of the earlier one's distance from the origin.
    """
    found = grazed(grid, marks, origin, distance)
    for other in others:
        if visible(grid, origin, other):
            found.append((-_away(grid, origin, other), other))
    kept = [(0, origin)]
    kept.pop()
    for away, cell in found:
        new = True
        for kept_away, earlier in kept:
            if _away(grid, cell, earlier) <= -kept_away * share:
                new = False
                break
        if new:
            kept.append((away, cell))
    return [cell for _, cell in kept]


@jit
def snap(grid: Grid, origin: int, targets: Any, waypoints: Any, share: float) -> list[int]:
    """Each target, or in its place the nearest waypoint that is in sight of it and near to it.

    Near is what lies within a share of the target's distance from the origin; the origin itself is never taken.
    """
    taken = [origin]
    taken.pop()
    for target in targets:
        best, nearest = target, _away(grid, origin, target) * share
        for waypoint in waypoints:
            away = _away(grid, target, waypoint)
            nearer = away < nearest or (away == nearest and best == target)
            if nearer and waypoint != origin and visible(grid, target, waypoint):
                best, nearest = waypoint, away
        taken.append(best)
    return taken
