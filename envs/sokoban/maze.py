"""What searches need to know of a level: its cells renumbered without walls, and how far every box is from every goal.

Only the cells that the player could ever walk to are numbered, from 0; the number after the last stands for all walls.
"""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from turngym.envs.jit import vector
from turngym.envs.sokoban.board import GOAL as GOAL_SYMBOL
from turngym.envs.sokoban.board import Level
from turngym.envs.sokoban.kernel import ALIVE, FAR, GOAL, Maze


class Numbers(NamedTuple):
    """The maze of a level, and the two ways of numbering its cells."""

    maze: Maze
    of_cell: dict[int, int]
    cells: tuple[int, ...]


def numbers(level: Level) -> Numbers:
    """Renumber a level."""
    return _numbers(replace(level, boxes=(), player=min(level.inside)))


@lru_cache(maxsize=64)
def _numbers(level: Level) -> Numbers:
    cells = tuple(sorted(level.inside))
    of_cell = {cell: number for number, cell in enumerate(cells)}
    size = len(cells)
    steps: list[int] = []
    for cell in cells:
        steps += [size if there == cell else of_cell[there] for there in level.steps[cell]]
    steps += [size] * 4
    goals = [int(level.cells[cell] == GOAL_SYMBOL) for cell in cells] + [0]
    rows = [_pushes_to(goal, steps, size) for goal in range(size) if goals[goal]]
    marks = [ALIVE * any(row[cell] < FAR for row in rows) + GOAL * goals[cell] for cell in range(size + 1)]
    farthest = sum(max(length for length in row if length < FAR) for row in rows)
    distances = [length for row in rows for length in row]
    maze = Maze(size, len(rows), farthest, *map(vector, (steps, distances, marks, _keys(3 * size))))
    return Numbers(maze, of_cell, cells)


def _pushes_to(goal: int, steps: Sequence[int], size: int) -> list[int]:
    """The least number of pushes that take a lone box from each cell to a goal, wherever the player is."""
    lengths = [FAR] * (size + 1)
    lengths[goal] = 0
    queue = deque([goal])
    while queue:
        here = queue.popleft()
        for direction in range(4):
            before = steps[4 * here + direction]
            if lengths[before] == FAR and before != size and steps[4 * before + direction] != size:
                lengths[before] = lengths[here] + 1
                queue.append(before)
    return lengths


@lru_cache(maxsize=64)
def _keys(count: int) -> tuple[int, ...]:
    bits = random.Random(count)
    return tuple(bits.getrandbits(31) for _ in range(count))
