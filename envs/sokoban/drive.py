"""What surrounds the search kernel: its first state, its storage, and the pushes that it found."""

from typing import Any, NamedTuple

import numpy as np

from turngym.envs.jit import COMPILED, vector
from turngym.envs.sokoban import kernel
from turngym.envs.sokoban.board import Level, Position
from turngym.envs.sokoban.kernel import FAR, Layouts, Maze, Queue, Room, States
from turngym.envs.sokoban.maze import numbers

_WEIGHT = {"moves": 1, "pushes": 1, "any": 5}
_FIRST_SIZE = 256


class Found(NamedTuple):
    """Status, expansions, and the pushes of a solution as cell of the box and direction; None where there is none."""

    status: Any
    expansions: int
    pushes: list[tuple[int, int]] | None


def find_pushes(level: Level, position: Position, metric: str, max_expansions: int) -> Found:
    """Search from a position that is not solved."""
    maze, of_cell, cells = numbers(level)
    storage = _Storage(
        maze, [of_cell[box] for box in position.boxes if box in of_cell], of_cell[position.player], _WEIGHT[metric]
    )
    code = storage.search(int(metric == "moves"), max_expansions)
    expansions = int(storage.counters[kernel.EXPANSIONS])
    if code != kernel.FOUND:
        return Found("unsolvable" if code == kernel.EXHAUSTED else "gave_up", expansions, None)
    pushes = [(cells[push // 4], push % 4) for push in storage.pushes()]
    return Found("solved" if metric == "any" else "optimal", expansions, pushes)


class _Storage:
    """The search's memory, which doubles whenever the kernel has filled it."""

    def __init__(self, maze: Maze, boxes: list[int], player: int, weight: int) -> None:
        size, count = maze.size, maze.boxes
        self.maze, self.weight = maze, weight
        self.counters = vector([1, 0, 0, 0, 0, -1])
        self.room = Room(vector([-1] * size + [FAR]), _zeros(size), vector([0] * size + [1]), _zeros(3 * count + 3))
        self.layouts = Layouts(
            _zeros(_FIRST_SIZE * count),
            _zeros(_FIRST_SIZE * 3 * (count + 1)),
            vector([0] * _FIRST_SIZE),
            _zeros(_FIRST_SIZE),
            _zeros(2 * _FIRST_SIZE),
        )
        self.states = States._make(_zeros(length) for length in [*[_FIRST_SIZE] * 6, 2 * _FIRST_SIZE])
        self.queue = Queue(_empty(2 * (size + weight * maze.farthest)), _zeros(_FIRST_SIZE), _zeros(_FIRST_SIZE))
        self._put_first(boxes, player)

    def search(self, walking: int, limit: int) -> int:
        """Search to one of the ends that `kernel.advance` names."""
        code = kernel.FULL
        while code == kernel.FULL:
            code = kernel.advance(
                self.maze, self.layouts, self.states, self.queue, self.room, self.counters, walking, self.weight, limit
            )
            if code == kernel.FULL:
                self._grow()
        return code

    def pushes(self) -> list[int]:
        """The pushes that led to the solved state, as `4 * cell + direction`."""
        found, state = [], self.counters[kernel.GOAL]
        while state:
            found.append(int(self.states.pushes[state]))
            state = self.states.parents[state]
        return found[::-1]

    def _put_first(self, boxes: list[int], player: int) -> None:
        for index, box in enumerate(boxes):
            self.layouts.boxes[index] = box
            self.layouts.hashes[0] ^= self.maze.keys[box]
        kernel.rehash_layouts(self.layouts, 1)
        kernel.find_state(self.maze, self.layouts, self.states, self.counters, 0, player)
        self.states.costs[0] = 0
        self.layouts.bounds[0] = bound = kernel.assign(self.maze, self.layouts, 0, self.room.paths)
        frozen = [kernel.stuck(self.maze, self.layouts.boxes, 0, box, self.room.fixed) for box in boxes]
        if bound < FAR and not any(frozen):
            kernel.enqueue(self.queue, self.counters, 0, self.weight * bound)

    def _grow(self) -> None:
        *rows, slots = self.layouts
        self.layouts = Layouts._make([*map(_doubled, rows), _zeros(2 * len(slots))])
        kernel.rehash_layouts(self.layouts, self.counters[kernel.LAYOUTS])
        *rows, slots = self.states
        self.states = States._make([*map(_doubled, rows), _zeros(2 * len(slots))])
        kernel.rehash_states(self.maze, self.layouts, self.states, self.counters[kernel.STATES])
        tops, states, below = self.queue
        more = _empty(2 * len(tops))
        more[: len(tops)] = tops
        self.queue = Queue(more, _doubled(states), _doubled(below))


def _zeros(count: int) -> Any:
    return np.zeros(count, np.int32) if COMPILED else [0] * count


def _empty(count: int) -> Any:
    return np.full(count, -1, np.int32) if COMPILED else [-1] * count


def _doubled(values: Any) -> Any:
    return np.concatenate([values, np.zeros_like(values)]) if COMPILED else values + [0] * len(values)
