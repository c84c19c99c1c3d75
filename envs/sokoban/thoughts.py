"""The reasoning behind a solution's next moves, in few words that are one token each in the vocabulary of `tiny`."""

from collections.abc import Sequence

from turngym.envs import grid
from turngym.envs.sokoban.board import Level, Position, move

_LONGEST_PLAN = 12


def thought(level: Level, position: Position, plan: Sequence[int], count: int) -> str:
    """Where everything is, the plan, and where player and pushed boxes will be after this turn.

    Such as `I am at 3 2, box at 2 2, goal at 1 3, plan Up Right Up, next 2 2, box at 1 2`. A cell is its row and its
    column, counted from 0 at the top left; a plan is told for 12 moves at most.

    Args:
        level: The level.
        position: Where the turn begins.
        plan: The moves (direction codes) of a solution from there.
        count: How many of them are made this turn.
    """
    after = position
    for direction in plan[:count]:
        after = move(level, after, direction)
    steps = " ".join(grid.DIRECTIONS[direction] for direction in plan[:_LONGEST_PLAN])
    pushed = tuple(box for box in after.boxes if box not in position.boxes)
    parts = [
        f"I am at {_cells(level, (position.player,))}",
        f"box at {_cells(level, position.boxes)}",
        f"goal at {_cells(level, level.goals)}",
        f"plan {steps}",
        f"next {_cells(level, (after.player,))}",
        *([f"box at {_cells(level, pushed)}"] if pushed else []),
    ]
    return ", ".join(parts)


def _cells(level: Level, cells: Sequence[int]) -> str:
    return ", ".join(f"{cell // level.width} {cell % level.width}" for cell in cells)
