"""Square grids as flat strings, one symbol a cell, row by row: steps, symmetries, distances, drawing."""

from collections import deque
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DIRECTIONS = ("Left", "Down", "Right", "Up")
"""In Gymnasium's order for FrozenLake, so that codes agree: neighbours in this cycle are the sides of a move."""

CODES = {name.lower(): code for code, name in enumerate(DIRECTIONS)}
"""The code of each direction by its name in lower case, as `actions.parse_moves` takes them."""

_OFFSETS = ((0, -1), (1, 0), (0, 1), (-1, 0))


@lru_cache(maxsize=64)
def steps(size: int) -> tuple[tuple[int, int, int, int], ...]:
    """For every cell of a `size` by `size` grid, the cell reached in each direction; an edge holds the walker back."""

    def step(cell: int, offset: tuple[int, int]) -> int:
        row, column = cell // size + offset[0], cell % size + offset[1]
        return row * size + column if 0 <= row < size and 0 <= column < size else cell

    return tuple(
        (step(cell, _OFFSETS[0]), step(cell, _OFFSETS[1]), step(cell, _OFFSETS[2]), step(cell, _OFFSETS[3]))
        for cell in range(size * size)
    )


def canonical(cells: str, size: int) -> str:
    """The same text for all eight orientations of a grid."""
    rows = [cells[first : first + size] for first in range(0, size * size, size)]
    columns = [cells[first::size] for first in range(size)]
    views = (cells, "".join(columns), "".join(rows[::-1]), "".join(columns[::-1]))
    return min(*views, *(view[::-1] for view in views))  # read backwards, a grid is turned by half a circle


def distances(cells: str, size: int, source: int, blocked: str) -> list[int]:
    """Steps from `source` to every cell without entering a symbol in `blocked`; -1 where there is no way."""
    found = [-1] * len(cells)
    found[source] = 0
    queue, neighbours = deque([source]), steps(size)
    while queue:
        here = queue.popleft()
        for there in neighbours[here]:
            if found[there] < 0 and cells[there] not in blocked:
                found[there] = found[here] + 1
                queue.append(there)
    return found


def shortest_path(cells: str, size: int, source: int, target: int, blocked: str) -> int:
    """Steps from `source` to `target` without entering a symbol in `blocked`; -1 where there is no way.

    A set of cells is an integer with one bit a cell, the first cell in the highest, so that a whole front of walkers
    steps at once. Cells are ASCII.
    """
    free = int(cells.encode("ascii").translate(_free_digits(blocked)), 2)
    front, goal = 1 << len(cells) - 1 - source, 1 << len(cells) - 1 - target
    not_first, not_last = _inner_columns(size)
    length = 0
    while not front & goal:
        free &= ~front
        front = (front << size | front >> size | (front & not_first) << 1 | (front & not_last) >> 1) & free
        length += 1
        if not front:
            return -1
    return length


@lru_cache(maxsize=64)
def _free_digits(blocked: str) -> bytes:
    """A table for `bytes.translate`: the digit 0 for symbols in `blocked`, 1 for all others."""
    return bytes(ord("0" if chr(code) in blocked else "1") for code in range(256))


@lru_cache(maxsize=64)
def _inner_columns(size: int) -> tuple[int, int]:
    """The cells that are not in the first column, and those that are not in the last."""
    return int(("0" + "1" * (size - 1)) * size, 2), int(("1" * (size - 1) + "0") * size, 2)


def spaced(cells: str, size: int) -> str:
    """The grid as text: cells separated by spaces (one cell is one token in BPE vocabularies), rows by newlines."""
    return "\n".join(" ".join(cells[start : start + size]) for start in range(0, size * size, size))


def paint(cells: str, width: int, colours: Mapping[str, tuple[int, int, int]], *, tile: int = 32) -> NDArray[np.uint8]:
    """The grid, square or not, as an image.

    Args:
        cells: Symbols, row by row.
        width: Cells in a row.
        colours: Red, green and blue, 0 to 255, of every symbol that occurs.
        tile: Pixels along a cell's side; one of them is a line between cells.

    Returns:
        An array of shape `(rows * tile, width * tile, 3)`.
    """
    flat = np.array([colours[symbol] for symbol in cells], np.uint8).reshape(-1, width, 3)
    image = flat.repeat(tile, axis=0).repeat(tile, axis=1)
    image[::tile] = image[:, ::tile] = 90
    return image
