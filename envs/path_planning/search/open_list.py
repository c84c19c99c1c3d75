"""The list of what to look at next, smallest key first."""

import heapq

from turngym.envs.path_planning.maps import Cell

Key = tuple[bool, float]
"""AVOID or not, then cost so far + ε * heuristic: what is not AVOID always goes first."""


class OpenList:
    """Cells by key, each once; ties are broken by the cell, so that the order is the same everywhere."""

    def __init__(self) -> None:
        self._keys: dict[Cell, Key] = {}
        self._heap: list[tuple[Key, Cell]] = []

    def insert(self, cell: Cell, key: Key) -> None:
        """Insert a cell, or give it another key."""
        if self._keys.get(cell) != key:
            self._keys[cell] = key
            heapq.heappush(self._heap, (key, cell))

    def remove(self, cell: Cell) -> None:
        """Take a cell out, if it is in."""
        self._keys.pop(cell, None)

    def pop(self) -> Cell | None:
        """Take out the cell with the smallest key; None where there is none."""
        while self._heap:
            key, cell = heapq.heappop(self._heap)
            if self._keys.get(cell) == key:
                del self._keys[cell]
                return cell
        return None
