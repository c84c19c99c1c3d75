"""A map of any size within a budget: blocks of cells for all of it, and single cells around the player."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import Cell
from turngym.envs.path_planning.view import (
    UNSEEN,
    WALL,
    Header,
    View,
    count_tokens,
    draw,
    put,
    read_header,
    undrawn,
)

BLOCK_GLYPHS = "#+._"
"""Blocks without a free cell, with less than half of their cells free, with at least half, and with all."""

_SMALLEST_WINDOW = 3


@dataclass(frozen=True)
class Overview:
    """What the overview form states; it is lossy by design.

    Attributes:
        header: Who stands where.
        shape: Rows and columns of the map.
        block: Cells along a block's side; the last blocks are cut off by the map's edges.
        blocks: A glyph of `BLOCK_GLYPHS` for the cells of each block that have been seen, `?` where none has, `P` and
            `G` (both: `√`) where player and goal are.
        corner: The cell at the window's top left.
        window: Single cells around the player, with what stands on them.
    """

    header: Header
    shape: tuple[int, int]
    block: int
    blocks: tuple[str, ...]
    corner: Cell
    window: tuple[str, ...]

    def text(self) -> str:
        """Everything but the first line."""
        return "\n".join(
            [
                f"map {self.shape[0]} {self.shape[1]} each {self.block}",
                *(" ".join(row) for row in self.blocks),
                f"from {self.corner[0]} {self.corner[1]}",
                *(" ".join(row) for row in self.window),
            ]
        )


def overview(view: View, max_tokens: int) -> Overview:
    """The finest overview that leaves half of the budget to the window, and the largest window that then fits.

    Raises:
        ValueError: If not even one block and a window of three by three cells fit.
    """
    shape = (view.map.rows, view.map.cols)
    room = max_tokens - count_tokens(view.header) - _overhead(shape)
    block = next((side for side in range(2, max(shape) + 1) if 2 * _tokens(_blocked(shape, side)) <= room), max(shape))
    coarse = _tokens(_blocked(shape, block))
    sizes = [(min(side, shape[0]), min(side, shape[1])) for side in range(_SMALLEST_WINDOW, max(shape) + 3, 2)]
    fitting = [size for size in sizes if coarse + _tokens(size) <= room]
    if not fitting:
        needed = max_tokens - room + coarse + _tokens(sizes[0])
        raise ValueError(f"max_tokens must be at least {needed} for an overview of this map, got {max_tokens}")
    height, width = fitting[-1]
    top = min(max(view.player[0] - height // 2, 0), shape[0] - height)
    left = min(max(view.player[1] - width // 2, 0), shape[1] - width)
    inside = {
        (row - top, col - left): glyph
        for (row, col), glyph in view.things.items()
        if top <= row < top + height and left <= col < left + width
    }
    window = put(draw(view.cells[top : top + height, left : left + width]), width, inside)
    blocks, cells = (tuple(undrawn(text.split("\n"))) for text in (_blocks(view, block), window))
    return Overview(read_header(view.header), shape, block, blocks, (top, left), cells)


def read_overview(header: Header, lines: list[str]) -> Overview:
    """Read the lines of `Overview.text`.

    Raises:
        ValueError: If they are not such lines.
    """
    first, rows, cols, each, block = lines[0].split()
    middle = next(index for index, line in enumerate(lines) if line.startswith("from"))
    second, top, left = lines[middle].split()
    if (first, each, second) != ("map", "each", "from"):
        raise ValueError(f"an overview begins with the map's size, got {lines[0]!r}")
    return Overview(
        header,
        (int(rows), int(cols)),
        int(block),
        tuple(undrawn(lines[1:middle])),
        (int(top), int(left)),
        tuple(undrawn(lines[middle + 1 :])),
    )


def _overhead(shape: tuple[int, int]) -> int:
    """Tokens of the two lines with numbers, of all ends of lines that no row brings, and what two `√` add, at most."""
    digits = sum(len(str(side)) for side in shape)
    return 5 + 2 * digits + len(str(max(shape))) + 4


def _tokens(shape: tuple[int, int]) -> int:
    """Tokens of rows of glyphs, with one end of line each."""
    return shape[0] * (shape[1] + 1)


def _blocked(shape: tuple[int, int], side: int) -> tuple[int, int]:
    """How many blocks stand in a column and in a row."""
    return -(-shape[0] // side), -(-shape[1] // side)


def _blocks(view: View, side: int) -> str:
    """The blocks' glyphs, drawn as a grid."""
    seen = view.cells != ord(UNSEEN)
    free = _sums(seen & (view.cells != ord(WALL)), side)
    known = _sums(seen, side)
    level = (free > 0).astype(np.intp) + (2 * free >= known) + (free == known)
    glyphs = np.frombuffer(BLOCK_GLYPHS.encode(), np.uint8)[np.where(free > 0, level, 0)]
    player, goal = (_block_of(cell, side) for cell in (view.player, view.goal))
    things = {goal: "G", player: "√" if player == goal else "P"}
    return put(draw(np.where(known > 0, glyphs, np.uint8(ord(UNSEEN)))), known.shape[1], things)


def _block_of(cell: Cell, side: int) -> Cell:
    return cell[0] // side, cell[1] // side


def _sums(mask: NDArray[np.bool_], side: int) -> NDArray[np.intp]:
    """How many cells of each block are in the mask."""
    rows, cols = mask.shape
    padded = np.pad(mask, ((0, -rows % side), (0, -cols % side)))
    return np.asarray(padded.reshape(-(-rows // side), side, -(-cols // side), side).sum(axis=(1, 3)), np.intp)
