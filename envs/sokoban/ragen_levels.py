"""Levels as RAGEN draws them, with the same odds: what its published scores were measured on.

RAGEN (arXiv:2504.20073) draws with gym-sokoban's method, changed in places. A walker who turns now and then stamps
patches of floor into rock. Player and goals are put on floor at random, a box on every goal. A depth-first search then
plays backwards, pulling whatever box is behind the player, and keeps the first of the positions that score best: how
often it changed to another box, times how far the boxes are from their goals. Last, the player may stroll a little.
Rooms in which no box can be pulled are drawn again.

This is a description of the levels' distribution, written anew; the random numbers behind a level are not RAGEN's, so
one seed gives another level.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from turngym.envs.errors import LevelError
from turngym.envs.sokoban.board import FLOOR, GOAL, WALL, Level

_TURN_PROBABILITY = 0.35
_PATCHES = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)
_WAYS = ((-1, 0), (1, 0), (0, -1), (0, 1))
_MAX_ROOMS = 1000
_MAX_POSITIONS = 300_000


def ragen_level(rng: np.random.Generator, size: int, boxes: int, search_depth: int = 300) -> Level:
    """Draw a level; it can always be solved, as it was played backwards from its solution.

    Args:
        rng: The source of all chance.
        size: Rows and columns, walls included; at least 4.
        boxes: How many boxes, at least 1.
        search_depth: RAGEN's limit of the backward search, which makes at most two moves fewer.

    Raises:
        LevelError: If a thousand rooms are too small or let no box be pulled.
    """
    for _ in range(_MAX_ROOMS):
        floor = _room(rng, size)
        if len(floor) <= boxes + 1:
            continue
        player, *goals = (floor[index] for index in rng.permutation(len(floor))[: boxes + 1])
        best = _played_backwards(_Pulled(player, tuple(goals)), frozenset(floor), size, search_depth)
        if best is not None:
            cells = [FLOOR if cell in floor else WALL for cell in range(size * size)]
            for goal in goals:
                cells[goal] = GOAL
            distance = _distance(best.boxes, tuple(goals), size)
            player = _strolled(rng, best, frozenset(floor), size, 0.8 if distance == 1 else 0.5)
            return Level("".join(cells), size, tuple(sorted(best.boxes)), player)
    raise LevelError(f"no level of size {size} with {boxes} boxes in {_MAX_ROOMS} rooms")


def _room(rng: np.random.Generator, size: int) -> list[int]:
    """The floor of a room: what a walker stamps out of the rock, the border excepted."""
    way = _WAYS[rng.integers(4)]
    row, column = rng.integers(1, size, 2).tolist()
    floor = set()
    for _ in range(int(1.7 * (size + size))):
        if rng.random() < _TURN_PROBABILITY:
            way = _WAYS[rng.integers(4)]
        row, column = (min(max(place + step, 1), size - 2) for place, step in zip((row, column), way, strict=True))
        for down, right in _PATCHES[rng.integers(len(_PATCHES))]:
            if 0 < row + down < size - 1 and 0 < column + right < size - 1:
                floor.add((row + down) * size + column + right)
    return sorted(floor)


class _Pulled(NamedTuple):
    """A position of the backward search: `boxes[i]` came from goal `i`; the last one that was pulled, and changes."""

    player: int
    boxes: tuple[int, ...]
    last: int = -1
    changes: int = 0


def _played_backwards(start: _Pulled, floor: frozenset[int], size: int, search_depth: int) -> _Pulled | None:
    """The first of the best positions, in the order of a depth-first search; None if no box could be pulled."""
    goals, best, best_score = start.boxes, None, 0
    met: set[tuple[int, frozenset[int]]] = set()
    stack = [(start, search_depth - 1)]
    while stack and len(met) < _MAX_POSITIONS:
        position, left = stack.pop()
        state = position.player, frozenset(position.boxes)
        if left <= 0 or state in met:
            continue
        met.add(state)
        vacated = not {*position.boxes, position.player} & set(goals)
        score = position.changes * _distance(position.boxes, goals, size) if vacated else 0
        if score > best_score:
            best, best_score = position, score
        stack += [(after, left - 1) for after in reversed(list(_pulls(position, floor, size)))]
    return best


def _pulls(position: _Pulled, floor: frozenset[int], size: int) -> Iterator[_Pulled]:
    """What follows from a step up, down, left, right, which pulls the box behind the player, if one is there."""
    player, boxes, last, changes = position
    for down, right in _WAYS:
        step = down * size + right
        if player + step not in floor or player + step in boxes:
            continue
        if player - step in boxes:
            pulled = boxes.index(player - step)
            moved = (*boxes[:pulled], player, *boxes[pulled + 1 :])
            yield _Pulled(player + step, moved, pulled, changes + (pulled != last))
        else:
            yield _Pulled(player + step, boxes, last, changes)


def _distance(boxes: tuple[int, ...], goals: tuple[int, ...], size: int) -> int:
    """Rows and columns between the boxes and the goals that they came from, added up."""
    pairs = zip(boxes, goals, strict=True)
    return sum(abs(box // size - goal // size) + abs(box % size - goal % size) for box, goal in pairs)


def _strolled(rng: np.random.Generator, position: _Pulled, floor: frozenset[int], size: int, probability: float) -> int:
    """Where the player is after none to three steps to cells where it was not yet."""
    player, been = position.player, {position.player}
    if rng.random() > probability:
        return player
    for _ in range(3):
        around = [player + down * size + right for down, right in _WAYS]
        free = [cell for cell in around if cell in floor and cell not in position.boxes and cell not in been]
        if not free:
            break
        player = free[rng.integers(len(free))]
        been.add(player)
        if rng.random() > 0.5:
            break
    return player
