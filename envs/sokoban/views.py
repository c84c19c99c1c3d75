"""What a model reads of a Sokoban position, in five formats, and each of them read back. Cells count from 0.

| format | shows |
|---|---|
| `grid` | symbols, separated by spaces: the dialect of RAGEN, VAGEN, GEM and TextArena |
| `coordinates` | the size of the map; player, boxes, goals and walls by row and column |
| `grid+coordinates` | the grid; player, boxes and goals by row and column |
| `adjacency` | size, player, boxes and goals; every cell that is no wall, and which cell is where beside it |
| `json` | what `coordinates` shows, as JSON |

All but the last are made of words that are one token each in many vocabularies, that of `tiny` among them.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from turngym.envs import grid
from turngym.envs.sokoban.board import FLOOR, GOAL, WALL, Level, Position, check_level
from turngym.envs.sokoban.formats import parse_dialect

_MOST_CELLS = 100_000
_FIXED = str.maketrans({WALL: "#", FLOOR: "_", GOAL: "O"})
_SYMBOLS = "P is you, S is you on a goal, X is a box, √ is a box on a goal, O is a goal, # is a wall, _ is floor."
_COUNTED = "Rows and columns are counted from 0 at the top left."
_SIZE = "The first line is the size of the map, rows and columns."


def render(level: Level, position: Position, observation_format: str) -> str:
    """A position as text.

    Args:
        level: The level.
        position: A position of it.
        observation_format: One of `FORMATS`.
    """
    return _VIEWS[observation_format].render(level, position)


def parse(text: str, observation_format: str) -> Level:
    """Read back what `render` wrote.

    Args:
        text: The text.
        observation_format: The format it is in.

    Returns:
        A level that starts with the position that was shown.

    Raises:
        ValueError: If the text is not what `render` gives for any position.
    """
    return _VIEWS[observation_format].parse(text)


def legend(observation_format: str) -> str:
    """How to read a format, in a sentence or two."""
    return _VIEWS[observation_format].legend


# Grid --------------------------------------------------------------------------------------------------------------


def _grid(level: Level, position: Position) -> str:
    text, place = _without_player(level.cells, level.width, position.boxes), 2 * position.player
    return f"{text[:place]}{'S' if level.cells[position.player] == GOAL else 'P'}{text[place + 1 :]}"


def _parse_grid(text: str) -> Level:
    return _checked(parse_dialect(text), text, _grid)


@lru_cache(maxsize=1024)  # most moves leave the boxes where they are
def _without_player(cells: str, width: int, boxes: tuple[int, ...]) -> str:
    symbols = list(cells.translate(_FIXED))
    for box in boxes:
        symbols[box] = "√" if cells[box] == GOAL else "X"
    return "\n".join([" ".join(symbols[first : first + width]) for first in range(0, len(cells), width)])


# Coordinates -------------------------------------------------------------------------------------------------------


def _coordinates(level: Level, position: Position) -> str:
    return f"{_size(level)}\n{_things(level, position)}\nwall {_places(_walls(level.cells), level.width)}"


def _parse_coordinates(text: str) -> Level:
    size, *things = _lines(text, 5)
    return _checked(_build(_read_size(size), *map(_read_places, things)), text, _coordinates)


def _grid_and_coordinates(level: Level, position: Position) -> str:
    return f"{_grid(level, position)}\n{_things(level, position)}"


def _parse_grid_and_coordinates(text: str) -> Level:
    return _checked(parse_dialect("\n".join(text.split("\n")[:-3])), text, _grid_and_coordinates)


# Adjacency ---------------------------------------------------------------------------------------------------------


def _adjacency(level: Level, position: Position) -> str:
    return f"{_size(level)}\n{_things(level, position)}\n{_neighbours(level.cells, level.width)}"


def _parse_adjacency(text: str) -> Level:
    size, *things = _lines(text, 4)
    player, boxes, goals = map(_read_places, things)
    height, width = _read_size(size)
    free = {_pair(match) for match in re.finditer(r"^(\d+) (\d+):", text, re.MULTILINE)}
    walls = [(row, column) for row in range(height) for column in range(width) if (row, column) not in free]
    return _checked(_build((height, width), player, boxes, goals, walls), text, _adjacency)


@lru_cache(maxsize=256)
def _neighbours(cells: str, width: int) -> str:
    """Every cell that is no wall with its neighbours that are none, such as `1 1: Down 2 1, Right 1 2`."""
    lines = []
    for cell, around in enumerate(Level(cells, width, (), 0).steps):
        ways = [f"{grid.DIRECTIONS[way]} {_name(there, width)}" for way, there in enumerate(around) if there != cell]
        lines += [f"{_name(cell, width)}: {', '.join(ways)}"] if cells[cell] != WALL else []
    return "\n".join(lines)


# JSON --------------------------------------------------------------------------------------------------------------


def _json(level: Level, position: Position) -> str:
    def pairs(cells: Iterable[int]) -> list[Pair]:
        return [divmod(cell, level.width) for cell in cells]

    size = {"rows": level.height, "columns": level.width}
    things = {"boxes": pairs(position.boxes), "goals": pairs(level.goals), "walls": pairs(_walls(level.cells))}
    return json.dumps({**size, "player": divmod(position.player, level.width), **things})


def _parse_json(text: str) -> Level:
    told = json.loads(text)
    names = ("rows", "columns", "player", "boxes", "goals", "walls")
    if not isinstance(told, dict) or tuple(told) != names:
        raise ValueError(f"JSON tells {', '.join(names)}, in this order, got {text[:80]!r}")
    rows, columns, player, boxes, goals, walls = told.values()
    try:
        return _checked(_build(_sized(rows, columns), [player], boxes, goals, walls), text, _json)
    except TypeError as error:
        raise ValueError(f"rows and columns are numbers, cells pairs of them, got {text[:80]!r}") from error


# Parts -------------------------------------------------------------------------------------------------------------

Pair = tuple[int, int]


@lru_cache(maxsize=256)
def _walls(cells: str) -> tuple[int, ...]:
    return tuple(cell for cell, symbol in enumerate(cells) if symbol == WALL)


def _size(level: Level) -> str:
    return f"map {level.height} {level.width}"


def _things(level: Level, position: Position) -> str:
    return f"player {_places((position.player,), level.width)}{_others(position.boxes, level.goals, level.width)}"


@lru_cache(maxsize=1024)
def _others(boxes: tuple[int, ...], goals: tuple[int, ...], width: int) -> str:
    return f"\nbox {_places(boxes, width)}\ngoal {_places(goals, width)}"


@lru_cache(maxsize=4096)
def _places(cells: tuple[int, ...], width: int) -> str:
    """Sorted cells by row, such as `row 1 column 2 3, row 4 column 1`."""
    rows = groupby(cells, lambda cell: cell // width)
    return ", ".join(f"row {row} column {' '.join(str(cell % width) for cell in group)}" for row, group in rows)


def _name(cell: int, width: int) -> str:
    return f"{cell // width} {cell % width}"


def _lines(text: str, count: int) -> list[str]:
    lines = text.split("\n")
    if len(lines) < count:
        raise ValueError(f"the text has at least {count} lines, got {len(lines)}")
    return lines[:count]


def _read_size(line: str) -> Pair:
    match = re.fullmatch(r"map (\d+) (\d+)", line)
    if not match:
        raise ValueError(f"the first line is the size, such as 'map 6 6', got {line[:80]!r}")
    return _sized(*_pair(match))


def _sized(height: int, width: int) -> Pair:
    if not 0 < height * width <= _MOST_CELLS:
        raise ValueError(f"a map has 1 to {_MOST_CELLS} cells, got {height} rows and {width} columns")
    return height, width


def _read_places(line: str) -> list[Pair]:
    """The cells of a line such as `box row 1 column 2 3, row 4 column 1`; whatever else is in it is not read."""
    rows = re.findall(r"row (\d+) column((?: \d+)+)", line)
    return [(int(row), int(column)) for row, columns in rows for column in columns.split()]


def _pair(match: re.Match[str]) -> Pair:
    return int(match[1]), int(match[2])


def _build(size: Pair, player: list[Pair], boxes: list[Pair], goals: list[Pair], walls: list[Pair]) -> Level:
    """The level that is told by rows and columns; `ValueError` where they make none."""
    height, width = size
    for row, column in (*player, *boxes, *goals, *walls):
        if not (0 <= row < height and 0 <= column < width):
            raise ValueError(f"cells lie on the map of {height} rows and {width} columns, got {row} {column}")
    if len(player) != 1:
        raise ValueError(f"a level has exactly one player, got {len(player)}")
    symbols = dict.fromkeys([row * width + column for row, column in goals], GOAL)
    symbols |= dict.fromkeys([row * width + column for row, column in walls], WALL)
    ((row, column),) = player
    cells = "".join(symbols.get(cell, FLOOR) for cell in range(height * width))
    level = Level(cells, width, tuple(row * width + column for row, column in boxes), row * width + column)
    check_level(level)
    return level


def _checked(level: Level, text: str, show: Callable[[Level, Position], str]) -> Level:
    """The level, if it reads as it was told."""
    if show(level, level.start) != text:
        raise ValueError(f"the text contradicts itself or holds more than a position, got {text[:80]!r}")
    return level


class _View(NamedTuple):
    render: Callable[[Level, Position], str]
    parse: Callable[[str], Level]
    legend: str


_VIEWS = {
    "grid": _View(_grid, _parse_grid, _SYMBOLS),
    "coordinates": _View(_coordinates, _parse_coordinates, f"{_SIZE} {_COUNTED}"),
    "grid+coordinates": _View(_grid_and_coordinates, _parse_grid_and_coordinates, f"{_SYMBOLS} {_COUNTED}"),
    "adjacency": _View(_adjacency, _parse_adjacency, f"{_SIZE} {_COUNTED} The last lines tell which cell is where."),
    "json": _View(_json, _parse_json, _COUNTED),
}

FORMATS = tuple(_VIEWS)
"""The names of the formats."""
