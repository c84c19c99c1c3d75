"""What surrounds the search kernel: the first state, storage that grows, and what was found."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turngym.envs.jit import COMPILED, vector
from turngym.envs.sokoban import kernel
from turngym.envs.sokoban.board import Level, Position, reachable
from turngym.envs.sokoban.kernel import FAR, Maze, Rules, Search
from turngym.envs.sokoban.maze import mirrored, numbers

MOVES = Rules(pulling=0, walking=1, thrift=1, weight=1)
PUSHES = Rules(pulling=0, walking=0, thrift=1, weight=1)
_GREEDY = Rules(pulling=0, walking=0, thrift=1, weight=5)
_BACKWARDS = Rules(pulling=1, walking=0, thrift=1, weight=5)
_FARTHEST = Rules(pulling=1, walking=0, thrift=0, weight=-1)
_FIRST_ROOM = 256

Integers = NDArray[np.integer[Any]]


class Found(NamedTuple):
    """How the search ended (see `kernel.advance`), expansions, and the pushes found: cell of the box and direction."""

    end: int
    expansions: int
    pushes: tuple[tuple[int, int], ...]


def find_pushes(level: Level, position: Position, rules: Rules, limit: int) -> Found:
    """Search for a solution from a position, expanding at most `limit` states."""
    maze, of_cell, cells = numbers(level)
    search = begin(maze, _inside(position.boxes, of_cell), [of_cell[position.player]], rules)
    end, search = run(search, rules, limit)
    pushes = _way(search)[::-1] if end == kernel.FOUND else []
    return Found(end, int(search.counters[kernel.EXPANSIONS]), tuple((cells[push // 4], push % 4) for push in pushes))


def find_any_pushes(level: Level, position: Position, limit: int) -> Found:
    """Search greedily, half of the limit forwards, and if that is not enough, half of it backwards."""
    ahead = find_pushes(level, position, _GREEDY, limit - limit // 2)
    if ahead.end != kernel.LIMIT:
        return ahead
    maze, of_cell, cells = numbers(level)
    solved = replace(level, boxes=level.goals)
    search = begin(
        mirrored(maze, _inside(position.boxes, of_cell)),
        _inside(level.goals, of_cell),
        [of_cell[cell] for cell in _regions(solved)],
        _BACKWARDS,
    )
    search.counters[kernel.HOME] = of_cell[position.player]
    end, search = run(search, _BACKWARDS, limit // 2)
    way = _way(search) if end == kernel.FOUND else []
    pushes = tuple((level.steps[cells[push // 4]][(push + 2) % 4], push % 4) for push in way)
    return Found(end, ahead.expansions + int(search.counters[kernel.EXPANSIONS]), pushes)


def _inside(boxes: Iterable[int], of_cell: Mapping[int, int]) -> list[int]:
    """Boxes by the numbers of the maze, but for those that stand on goals outside."""
    return [of_cell[box] for box in boxes if box in of_cell]


class Pulled(NamedTuple):
    """Positions of reverse play, as arrays.

    Attributes:
        bounds: The least number of pushes that a solution can have, shape `(positions,)`.
        players: A cell that the player can walk to, shape `(positions,)`.
        boxes: The cells of the boxes, none on a goal, sorted, shape `(positions, boxes)`.
    """

    bounds: Integers
    players: Integers
    boxes: Integers


def pull(solved: Level, limit: int) -> Pulled:
    """Play backwards from a solved level, up to `limit` positions, always from the one that seems farthest from it."""
    maze, of_cell, cells = numbers(solved)
    players = [of_cell[cell] for cell in _regions(solved)]
    _, search = run(begin(maze, [of_cell[box] for box in solved.boxes], players, _FARTHEST), _FARTHEST, limit)
    states = _records(search.states, search.counters[kernel.USED_STATES], kernel.STATE_WIDTH)
    states = states[states[:, kernel.CLOSED] == 1]
    width = kernel.layout_width(maze.boxes)
    layouts = _records(search.layouts, search.counters[kernel.USED_LAYOUTS], width)[states[:, kernel.LAYOUT] // width]
    boxes = layouts[:, kernel.CELLS : kernel.CELLS + maze.boxes]
    away = (np.asarray(maze.marks)[boxes] & kernel.GOAL == 0).all(axis=1)
    cell = np.array(cells)
    return Pulled(layouts[away, kernel.BOUND], cell[states[away, kernel.PLAYER]], np.sort(cell[boxes[away]], axis=1))


def _regions(level: Level) -> Iterator[int]:
    """One cell of each part of the level that boxes divide."""
    left = set(level.inside) - set(level.boxes)
    while left:
        cell = min(left)
        yield cell
        left -= reachable(level, cell, level.boxes)


def _records(values: Any, used: int, width: int) -> Integers:
    return np.asarray(values[:used]).reshape(-1, width)


def begin(maze: Maze, boxes: Sequence[int], players: Sequence[int], rules: Rules) -> Search:
    """A search that knows one layout, with the player on any of some cells; it has nothing to do if boxes are stuck."""
    search = _storage(maze, rules)
    layout, layouts = kernel.layout_width(maze.boxes), search.layouts
    for index, box in enumerate(boxes):
        layouts[layout + kernel.CELLS + index] = box
        layouts[layout + kernel.HASH] ^= maze.keys[box]
    search.counters[kernel.USED_LAYOUTS] = 2 * layout
    kernel.rehash(search)
    kernel.assign(search, layout)
    if layouts[layout + kernel.BOUND] < FAR and not any(kernel.is_stuck(search, layout, box) for box in boxes):
        for player in players:
            kernel.reach(search, rules, kernel.find_state(search, layout, player), 0, 0, 0)
    return search


def run(search: Search, rules: Rules, limit: int) -> tuple[int, Search]:
    """Search to an end, in storage that doubles whenever it is full."""
    while (end := kernel.advance(search, rules, limit)) == kernel.FULL:
        search = _grown(search)
    return end, search


def _way(search: Search) -> list[int]:
    """The pushes from the last state to the first, as `4 * cell + direction`."""
    found, state = [], int(search.counters[kernel.SOLVED])
    while parent := int(search.states[state + kernel.PARENT]):
        found.append(int(search.states[state + kernel.PUSH]))
        state = parent
    return found


def _storage(maze: Maze, rules: Rules) -> Search:
    size, width = maze.size, kernel.layout_width(maze.boxes)
    return Search(
        *maze,
        layouts=_zeros(_FIRST_ROOM * width),
        layout_slots=_zeros(2 * _FIRST_ROOM),
        states=_zeros(_FIRST_ROOM * kernel.STATE_WIDTH),
        state_slots=_zeros(2 * _FIRST_ROOM),
        tops=_zeros(2 * (size + abs(rules.weight) * maze.farthest)),
        entries=_zeros(_FIRST_ROOM * kernel.ENTRY_WIDTH),
        walk=vector([-1] * size + [FAR]),
        front=_zeros(size),
        areas=_zeros(size),
        pen=_zeros(size),
        fixed=vector([0] * size + [1]),
        paths=_zeros(3 * (maze.boxes + 1)),
        counters=vector([width, kernel.STATE_WIDTH, kernel.ENTRY_WIDTH, 0, 0, 0, size]),
    )


def _grown(search: Search) -> Search:
    larger = search._replace(
        layouts=_doubled(search.layouts),
        layout_slots=_zeros(2 * len(search.layout_slots)),
        states=_doubled(search.states),
        state_slots=_zeros(2 * len(search.state_slots)),
        tops=_doubled(search.tops),
        entries=_doubled(search.entries),
    )
    kernel.rehash(larger)
    return larger


def _zeros(count: int) -> Any:
    return np.zeros(count, np.int32) if COMPILED else [0] * count


def _doubled(values: Any) -> Any:
    return np.concatenate([values, np.zeros_like(values)]) if COMPILED else values + [0] * len(values)
