"""Exact and any-solution solvers of Sokoban.

A* over pushes with an admissible bound (every box to a goal of its own over the least pushes of a lone box), without
dead squares and boxes that are stuck for good. Limits count expansions, so results do not depend on the machine, and
kernels give the same results with and without numba.
"""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from turngym.envs.errors import LevelError
from turngym.envs.sokoban.board import Level, Position, is_solved, move

Metric = Literal["moves", "pushes", "any"]
Status = Literal["optimal", "solved", "unsolvable", "gave_up"]

MAX_EXPANSIONS = 1_000_000


@dataclass(frozen=True)
class Solution:
    """What a solver found.

    Attributes:
        status: "optimal": solved with the fewest moves or pushes, whichever was asked; "solved": solved somehow;
            "unsolvable": proved to have no solution; "gave_up": not solved within the limit.
        moves: Direction codes from the position to a solved one; empty where none is known.
        pushes: How many of the moves are pushes.
        expansions: States that were expanded.
    """

    status: Status
    moves: tuple[int, ...]
    pushes: int
    expansions: int


def solve(
    level: Level, position: Position | None = None, *, metric: Metric = "moves", max_expansions: int = MAX_EXPANSIONS
) -> Solution:
    """Solve a level.

    Args:
        level: The level.
        position: Where to begin; default the start.
        metric: "moves": fewest moves. "pushes": fewest pushes, joined by shortest walks. "any": any solution, for
            levels that are too large for the other two.
        max_expansions: Give up after so many expanded states, at least 1. A million takes some seconds and about
            200 MB with numba, minutes without.

    Raises:
        ValueError: If an argument is out of range.
    """
    if metric not in get_args(Metric):
        raise ValueError(f"metric must be one of {', '.join(get_args(Metric))}, got {metric!r}")
    if max_expansions < 1:
        raise ValueError(f"max_expansions must be at least 1, got {max_expansions}")
    position = position or level.start
    if is_solved(level, position):
        return Solution("solved" if metric == "any" else "optimal", (), 0, 0)
    from turngym.envs.sokoban.drive import MOVES, PUSHES, find_any_pushes, find_pushes
    from turngym.envs.sokoban.kernel import EXHAUSTED, FOUND

    if metric == "any":
        found = find_any_pushes(level, position, max_expansions)
    else:
        found = find_pushes(level, position, MOVES if metric == "moves" else PUSHES, max_expansions)
    status: Status = "unsolvable" if found.end == EXHAUSTED else "gave_up"
    if found.end == FOUND:
        status = "solved" if metric == "any" else "optimal"
    return Solution(status, walked(level, position, found.pushes), len(found.pushes), found.expansions)


def optimum(level: Level, position: Position | None = None, *, max_expansions: int = MAX_EXPANSIONS) -> int:
    """The fewest moves that solve a position (default: the start); -1 where it is proved that none do.

    Raises:
        LevelError: If the limit is met.
    """
    solution = solve(level, position, max_expansions=max_expansions)
    if solution.status == "gave_up":
        raise LevelError(f"no solution and no proof that there is none in {max_expansions} expansions")
    return -1 if solution.status == "unsolvable" else len(solution.moves)


def walked(level: Level, position: Position, pushes: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """The moves that make the given pushes (cell of the box, direction), with shortest walks between them."""
    moves: list[int] = []
    for box, direction in pushes:
        behind = level.steps[box][(direction + 2) % 4]
        for step in (*walk(level, position, behind), direction):
            position = move(level, position, step)
            moves.append(step)
    return tuple(moves)


def walk(level: Level, position: Position, target: int) -> tuple[int, ...]:
    """A shortest walk to a cell, the first in the order Left, Down, Right, Up at each step from the far end.

    Raises:
        ValueError: If there is no way.
    """
    came = _directions_towards(level, target, position.boxes)
    cell, moves = position.player, []
    while cell != target:
        if cell not in came:
            raise ValueError(f"the player cannot walk from cell {position.player} to cell {target}")
        moves.append(came[cell])
        cell = level.steps[cell][came[cell]]
    return tuple(moves)


def _directions_towards(level: Level, target: int, boxes: Collection[int]) -> dict[int, int]:
    """For every cell from which a walk leads to the target, the direction of its first step."""
    towards, queue = {target: 0}, deque([target])
    while queue:
        here = queue.popleft()
        for direction in range(4):
            before = level.steps[here][(direction + 2) % 4]
            if before not in towards and before not in boxes:
                towards[before] = direction
                queue.append(before)
    return towards
