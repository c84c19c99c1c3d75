"""Moves with their story and reward, and positions as numbers and colours."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turngym.envs.sokoban import board
from turngym.envs.sokoban.board import Level, Position

Reward = Literal["gym_sokoban", "sparse"]

COLOURS = {
    board.WALL: (92, 84, 76),
    board.FLOOR: (234, 226, 210),
    board.GOAL: (240, 150, 140),
    board.BOX: (176, 120, 60),
    board.BOX_ON_GOAL: (70, 150, 80),
    board.PLAYER: (50, 90, 200),
    board.PLAYER_ON_GOAL: (130, 90, 190),
}
"""Red, green and blue of XSB's symbols."""

_NUMBERED = " #.$*@+"


class Played(NamedTuple):
    """What came of some moves.

    Attributes:
        position: Where player and boxes are now.
        moves: How many moves were made, those that moved nothing included; none is made after the last box is home.
        told: What the board does not show, in words.
        gained: How many more boxes stand on goals than before.
        solved: Whether every box stands on a goal.
    """

    position: Position
    moves: int
    told: str
    gained: int
    solved: bool


def play(level: Level, position: Position, moves: Sequence[int]) -> Played:
    """Make moves (direction codes) from a position that is not solved, one after the other."""
    boxes, told, made, solved = position.boxes, "", 0, False
    for direction in moves:
        before, position, made = position, board.move(level, position, direction), made + 1
        if position is before:
            told += _hindrance(level, position, direction)
        elif position.boxes == level.goals:
            told, solved = f"{told}You pushed every box onto a goal.", True
            break
    if position.boxes is boxes:
        return Played(position, made, told.rstrip(), 0, False)
    gained = level.goal_set.intersection(position.boxes), level.goal_set.intersection(boxes)
    return Played(position, made, told.rstrip(), len(gained[0]) - len(gained[1]), solved)


def _hindrance(level: Level, position: Position, direction: int) -> str:
    is_box = level.steps[position.player][direction] in position.boxes
    return "The box could not move. " if is_box else "The wall holds you back. "


def earned(reward: Reward, moves: int, gained: int, solved: bool) -> float:
    """What moves earn.

    Args:
        reward: "gym_sokoban": -0.1 a move, 1 for a box onto a goal, -1 for one off it, and 10 for the solution.
            "sparse": 1 for the solution.
        moves: How many moves were made.
        gained: How many more boxes stand on goals.
        solved: Whether every box does.
    """
    return float(solved) if reward == "sparse" else gained + 10 * solved - moves / 10


def numbered(level: Level, position: Position) -> NDArray[np.int8]:
    """A position as `(height, width)`: 0 floor, 1 wall, 2 goal, 3 box, 4 box on goal, 5 player, 6 player on goal."""
    numbers = np.array([_NUMBERED.index(symbol) for symbol in board.draw(level, position)], np.int8)
    return numbers.reshape(level.height, level.width)
