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
    goals = [cell for cell in range(size) if level.cells[cells[cell]] == GOAL_SYMBOL]
    rows = [_lengths(goal, steps, size, pulling=True) for goal in goals]
    marks = [ALIVE * any(row[cell] < FAR for row in rows) + GOAL * (cell in goals) for cell in range(size + 1)]
    return Numbers(_maze(rows, steps, marks), of_cell, cells)


def mirrored(maze: Maze, boxes: Sequence[int]) -> Maze:
    """The maze for playing backwards: boxes go to where they stand now, and none is ever stuck."""
    rows = [_lengths(box, maze.steps, maze.size, pulling=False) for box in boxes]
    marks = [ALIVE * any(row[cell] < FAR for row in rows) + GOAL for cell in range(maze.size)] + [0]
    return _maze(rows, maze.steps, marks)


def _maze(rows: Sequence[Sequence[int]], steps: Sequence[int], marks: Sequence[int]) -> Maze:
    farthest = sum(max(length for length in row if length < FAR) for row in rows)
    distances = [length for row in rows for length in row]
    size = len(marks) - 1
    return Maze(size, len(rows), farthest, *map(vector, (steps, distances, marks, _keys(3 * size))))


def _lengths(start: int, steps: Sequence[int], size: int, *, pulling: bool) -> list[int]:
    """The least number of pulls (or pushes) that take a lone box from a cell to each, wherever the player is."""
    lengths = [FAR] * (size + 1)
    lengths[start] = 0
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for direction in range(4):
            there = steps[4 * here + direction]
            player = steps[4 * (there if pulling else here) + (direction if pulling else (direction + 2) % 4)]
            if lengths[there] == FAR and size not in (there, player):
                lengths[there] = lengths[here] + 1
                queue.append(there)
    return lengths


@lru_cache(maxsize=64)
def _keys(count: int) -> tuple[int, ...]:
    bits = random.Random(count)
    return tuple(bits.getrandbits(31) for _ in range(count))
