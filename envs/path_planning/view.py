"""What is shown of a problem: the state that every text form renders, and the line that all of them begin with.

Cells are drawn with glyphs that are one token each: `_` land, `2` to `9` land with that cost factor, `-` water, `#`
blocked, `?` not seen yet. The first line lists what stands on the map, as glyph, row and column: `P` the player (or a
planner's anchor), `G` the goal, then marks; ` on ` and a glyph follow where the ground there is not plain land.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import Cell, GridMap
from turngym.envs.path_planning.sensor import Mask

PLAYER, GOAL, PLAYER_ON_GOAL = "P", "G", "√"
PLAIN, WALL, UNSEEN = "_", "#", "?"
MARKS = "*+XO$"
"""Glyphs for whatever else stands on the map: obstacles that move, waypoints, a path."""

GlyphCodes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class View:
    """What is shown of a problem. Views are equal where they look the same and their maps' rules are the same.

    Attributes:
        map: The map, as it is; nothing of it that has not been seen is shown.
        player: Where the player or a planner's anchor is.
        goal: Where to go; always shown.
        seen: `(rows, cols)`, True where the map has been seen; None stands for all of it.
        marks: A glyph of `MARKS` by cell.

    Raises:
        ValueError: If a cell is outside the map, a mark is another glyph, or the shapes differ.
    """

    map: GridMap
    player: Cell
    goal: Cell
    seen: Mask | None = None
    marks: Mapping[Cell, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for cell in (self.player, self.goal, *self.marks):
            if not self.map.inside(cell):
                raise ValueError(f"cells must be inside a map of {self.map.rows} by {self.map.cols}, got {cell}")
        if set(self.marks.values()) - set(MARKS):
            raise ValueError(f"marks must be among {' '.join(MARKS)}, got {sorted(set(self.marks.values()))}")
        if self.seen is not None and self.seen.shape != self.map.zones.shape:
            raise ValueError(f"seen must have the shape of the map, {self.map.zones.shape}, got {self.seen.shape}")

    @cached_property
    def cells(self) -> GlyphCodes:
        """The ASCII code of every cell's glyph, `(rows, cols)`, with nothing standing on it."""
        ground = _ground(self.map)
        return ground if self.seen is None else np.where(self.seen, ground, np.uint8(ord(UNSEEN)))

    @cached_property
    def drawn(self) -> str:
        """Rows of glyphs with a space between any two, and what stands on them; the player covers all else."""
        text = _drawn(self.map) if self.seen is None else draw(self.cells)
        return put(text, self.map.cols, self.things)

    @property
    def things(self) -> dict[Cell, str]:
        """The glyph to draw on each cell that something stands on."""
        player = PLAYER_ON_GOAL if self.player == self.goal else PLAYER
        return {**self.marks, self.goal: GOAL, self.player: player}

    @cached_property
    def header(self) -> str:
        """The first line of every form."""
        things = [(PLAYER, self.player), (GOAL, self.goal), *((glyph, cell) for cell, glyph in self.marks.items())]
        return " ".join([f"{glyph} {cell[0]} {cell[1]}{self._on(cell)}" for glyph, cell in things])

    def _on(self, cell: Cell) -> str:
        ground = chr(self.cells.item(cell))
        return "" if ground == PLAIN else f" on {ground}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return self._rules() == other._rules() and np.array_equal(self.cells, other.cells)

    __hash__ = None  # type: ignore[assignment]  # marks are a mapping

    def _rules(self) -> tuple[Any, ...]:
        grid_map = self.map
        return (
            *(self.player, self.goal, dict(self.marks)),
            *(grid_map.connectivity, grid_map.corners, grid_map.cell_size),
        )


@lru_cache(maxsize=64)
def _ground(grid_map: GridMap) -> GlyphCodes:
    codes = grid_map.glyphs()
    codes.setflags(write=False)
    return codes


@lru_cache(maxsize=64)
def _drawn(grid_map: GridMap) -> str:
    return draw(_ground(grid_map))


def draw(cells: GlyphCodes) -> str:
    """Cells as rows of glyphs with a space between any two."""
    canvas = np.full((*cells.shape, 2), ord(" "), np.uint8)
    canvas[:, :, 0] = cells
    canvas[:, -1, 1] = ord("\n")
    return canvas.tobytes()[:-1].decode()


def put(text: str, cols: int, things: Mapping[Cell, str]) -> str:
    """A text of `draw` of so many columns, with things on top of the cells."""
    for (row, col), glyph in things.items():
        place = 2 * (row * cols + col)
        text = text[:place] + glyph + text[place + 1 :]
    return text


def undrawn(lines: Iterable[str]) -> list[str]:
    """The rows of a text of `draw`, one character a cell.

    Raises:
        ValueError: If an item is longer than a glyph.
    """
    rows = [line.split(" ") for line in lines]
    if any(len(item) != 1 for row in rows for item in row):
        raise ValueError("cells are single glyphs with a space between any two")
    return ["".join(row) for row in rows]


@dataclass(frozen=True)
class Header:
    """A first line as it was read: who stands where, and the ground under them."""

    player: Cell
    goal: Cell
    marks: dict[Cell, str]
    ground: dict[Cell, str]


def read_header(line: str) -> Header:
    """Read a first line.

    Raises:
        ValueError: If it is none.
    """
    items = line.split()
    things: list[tuple[str, Cell]] = []
    ground: dict[Cell, str] = {}
    while items:
        glyph, row, col, *items = items
        cell = int(row), int(col)
        things.append((glyph, cell))
        ground[cell] = PLAIN
        if items[:1] == ["on"]:
            ground[cell] = items[1]
            del items[:2]
    (player, at), (goal, there), *marks = things
    if (player, goal) != (PLAYER, GOAL):
        raise ValueError(f"the first line begins with the player P and the goal G, got {line!r}")
    return Header(at, there, {cell: glyph for glyph, cell in marks}, ground)


def view_of(rows: list[str], header: Header, settings: Mapping[str, Any]) -> View:
    """The view with these rows of glyphs, one character a cell.

    Raises:
        ValueError: If they are no map.
    """
    drawn = [list(row) for row in rows]
    for (row, col), glyph in header.ground.items():
        drawn[row][col] = glyph
    lines = ["".join(row) for row in drawn]
    seen = np.array([[glyph != UNSEEN for glyph in row] for row in drawn])
    grid_map = GridMap.from_ascii("\n".join(lines).replace(UNSEEN, PLAIN), **settings)
    return View(grid_map, header.player, header.goal, None if seen.all() else seen, header.marks)


def count_tokens(text: str) -> int:
    """How many tokens a text form has: one for a word or a line end, and one for each byte of any other item.

    The `tiny` model's tokenizer makes so many of it; two fewer for a `√` that does not begin a line. Vocabularies that
    join digits need fewer still.
    """
    return text.count("\n") + sum([1 if item.isalpha() else len(item.encode()) for item in text.split()])
