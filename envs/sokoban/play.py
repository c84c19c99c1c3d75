"""Moves with their story and reward, and positions as numbers and colours."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from turngym.envs.sokoban import board
from turngym.envs.sokoban.board import Level, Position
from turngym.envs.text_env import Event

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


def play(level: Level, position: Position, moves: Sequence[int], reward: Reward) -> tuple[Position, Event]:
    """Make moves (direction codes) from a position that is not solved, one after the other until it is.

    Returns:
        Where player and boxes are then, and what came of the moves; one that moves nothing is counted and paid too.
    """
    boxes, told, made, solved = position.boxes, "", 0, False
    for direction in moves:
        before, position, made = position, board.move(level, position, direction), made + 1
        if position is before:
            told += _hindrance(level, position, direction)
        elif position.boxes == level.goals:
            told, solved = f"{told}You pushed every box onto a goal.", True
            break
    if position.boxes is boxes:
        return position, _event(reward, made, told, 0, False)
    gained = len(level.goal_set.intersection(position.boxes)) - len(level.goal_set.intersection(boxes))
    return position, _event(reward, made, told, gained, solved)


def _hindrance(level: Level, position: Position, direction: int) -> str:
    is_box = level.steps[position.player][direction] in position.boxes
    return "The box could not move. " if is_box else "The wall holds you back. "


@lru_cache(maxsize=1024)  # few different ones happen
def _event(reward: Reward, moves: int, told: str, gained: int, solved: bool) -> Event:
    return Event(earned(reward, moves, gained, solved), told.rstrip(), solved, solved, moves)


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
