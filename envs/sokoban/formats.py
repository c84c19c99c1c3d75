"""Sokoban levels and solutions as text: XSB collections, the dialect of language-model suites, LURD.

XSB draws a level with `#` wall, space (also `-` or `_`) floor, `.` goal, `$` box, `*` box on goal, `@` player, `+`
player on goal. A collection holds many levels with remarks between them, and rows may end early. The dialect of RAGEN,
VAGEN, GEM and TextArena draws the same as `# _ O X √ P S`. LURD spells moves as `l d r u`, pushes in upper case.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turngym.envs.sokoban.board import FLOOR, WALL, Level, Position, check_level, draw, is_push, move

_XSB = "# .$*@+"
_DIALECT = "#_OX√PS"
_FIXED = str.maketrans("$*@+", " . .")
_ALSO_FLOOR = str.maketrans("-_", "  ")
_LURD = "ldru"


class NamedLevel(NamedTuple):
    """A level of a collection.

    Attributes:
        title: The remark that names it; its number in the collection, from 1, where there is none.
        level: The level.
    """

    title: str
    level: Level


def parse_levels(text: str) -> list[NamedLevel]:
    """Read a collection in XSB.

    A level is a run of lines that each consist of XSB's symbols or begin and end with a wall. Other lines are remarks;
    those nearest to the levels are their titles, and stand before or after them, whichever this collection does.

    Raises:
        ValueError: If a level is malformed (see `parse_level`); the message names it and its first line.
    """
    blocks, remarks = _split(text.removeprefix("\ufeff").splitlines())
    follow = _titles_follow(remarks)
    named = []
    for index, (line, rows) in enumerate(blocks):
        near = _words(remarks[index + 1]) if follow else _words(remarks[index])[::-1]
        title = near[0] if near else str(index + 1)
        try:
            named.append(NamedLevel(title, _level([row.translate(_ALSO_FLOOR) for row in rows], _XSB)))
        except ValueError as error:
            raise ValueError(f"level {title!r}, from line {line}: {error}") from None
    return named


def parse_level(text: str) -> Level:
    """Read one level in XSB; lines that are empty or begin with `;` are skipped.

    Raises:
        ValueError: If a symbol is unknown, there is not one player, or `board.check_level` finds a fault.
    """
    rows = [row for row in text.translate(_ALSO_FLOOR).splitlines() if row.strip() and not row.startswith(";")]
    return _level(rows, _XSB)


def parse_dialect(text: str) -> Level:
    """Read one level in the dialect of language-model suites, with or without spaces between cells.

    Raises:
        ValueError: As `parse_level`.
    """
    return _level(["".join(row.split()) for row in text.splitlines() if row.strip()], _DIALECT)


def to_xsb(level: Level, position: Position | None = None) -> str:
    """A position (default: the start) in XSB, rows without trailing spaces."""
    return "\n".join(row.rstrip() for row in _rows(level, position))


def to_dialect(level: Level, position: Position | None = None) -> str:
    """A position (default: the start) in the dialect of language-model suites, without spaces."""
    return "\n".join(_rows(level, position)).translate(str.maketrans(_XSB, _DIALECT))


def to_lurd(level: Level, moves: Iterable[int], position: Position | None = None) -> str:
    """Spell moves (direction codes) that are made from a position (default: the start).

    Raises:
        ValueError: If a move is impossible.
    """
    position, letters = position or level.start, []
    for number, direction in enumerate(moves, 1):
        letter, pushes = _LURD[direction], is_push(level, position, direction)
        position = _made(level, position, direction, f"move {number} ({letter!r})")
        letters.append(letter.upper() if pushes else letter)
    return "".join(letters)


def parse_lurd(level: Level, text: str, position: Position | None = None) -> tuple[int, ...]:
    """Read moves that are made from a position (default: the start); white space is skipped.

    Returns:
        Direction codes.

    Raises:
        ValueError: If a letter is unknown, a move is impossible, or a letter's case does not tell whether it pushes.
    """
    position, moves = position or level.start, []
    for number, letter in enumerate("".join(text.split()), 1):
        direction = _LURD.find(letter.lower())
        if direction < 0:
            raise ValueError(f"moves are spelt l, d, r, u, got {letter!r} as move {number}")
        pushes = is_push(level, position, direction)
        position = _made(level, position, direction, f"move {number} ({letter!r})")
        if pushes != letter.isupper():
            raise ValueError(f"upper case is for pushes, but move {number} ({letter!r}) is a {_kind(pushes)}")
        moves.append(direction)
    return tuple(moves)


def _made(level: Level, position: Position, direction: int, name: str) -> Position:
    after = move(level, position, direction)
    if after is position:
        raise ValueError(f"{name} is impossible")
    return after


def _kind(pushes: bool) -> str:
    return "push" if pushes else "walk"


def _rows(level: Level, position: Position | None) -> list[str]:
    symbols = draw(level, position or level.start)
    return [symbols[first : first + level.width] for first in range(0, len(symbols), level.width)]


def _level(rows: Sequence[str], symbols: str) -> Level:
    """The level that rows draw with the given symbols, which stand in the order of `_XSB`."""
    for row, line in enumerate(rows, 1):
        for column, symbol in enumerate(line, 1):
            if symbol not in symbols:
                raise ValueError(f"a level is drawn with {symbols!r}, got {symbol!r} in row {row}, column {column}")
    rows = [row.translate(str.maketrans(symbols, _XSB)).rstrip() for row in rows]
    width = max(map(len, rows), default=0)
    drawn = "".join(row.ljust(width, FLOOR) for row in rows)
    players = [cell for cell, symbol in enumerate(drawn) if symbol in "@+"]
    if len(players) != 1:
        raise ValueError(f"a level has exactly one player, got {len(players)}")
    boxes = tuple(cell for cell, symbol in enumerate(drawn) if symbol in "$*")
    level = Level(drawn.translate(_FIXED), width, boxes, players[0])
    check_level(level)
    return level


def _split(lines: Iterable[str]) -> tuple[list[tuple[int, list[str]]], list[list[str]]]:
    """Runs of rows, each with the number of its first line, and the other lines before, between and after them."""
    blocks: list[tuple[int, list[str]]] = []
    remarks: list[list[str]] = [[]]
    in_level = False
    for number, line in enumerate(lines, 1):
        if _is_row(line):
            if not in_level:
                blocks.append((number, []))
                remarks.append([])
            blocks[-1][1].append(line)
        else:
            remarks[-1].append(line)
        in_level = _is_row(line)
    return blocks, remarks


def _is_row(line: str) -> bool:
    stripped = line.translate(_ALSO_FLOOR).strip()
    return WALL in stripped and (stripped[0] == stripped[-1] == WALL or not set(stripped) - set(_XSB))


def _titles_follow(remarks: Sequence[Sequence[str]]) -> bool:
    """Whether titles stand after their levels: there they touch them, or nothing stands before the first level."""
    touch_next = all(lines and lines[-1].strip() for lines in remarks[:-1])
    touch_last = all(lines and lines[0].strip() for lines in remarks[1:])
    if touch_next != touch_last:
        return touch_last
    return not _words(remarks[0]) and bool(_words(remarks[-1]))


def _words(lines: Iterable[str]) -> list[str]:
    """What the lines say without the marks of a remark."""
    words = (line.strip().lstrip(";").strip().removeprefix("Title:").strip() for line in lines)
    return [line for line in words if line]
