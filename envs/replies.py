"""Replies that are moves in the four directions: told, spelled, drawn, and read as RAGEN reads them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from turngym.envs import grid
from turngym.envs.actions import SEPARATOR, ParseError

_NAMES = ", ".join(grid.DIRECTIONS)


def expected(limit: int) -> str:
    """What a reply of at most `limit` moves should look like."""
    if limit == 1:
        return f"Reply with one of: {_NAMES}."
    return f"Reply with one to {limit} moves joined by {SEPARATOR}, each one of: {_NAMES}."


def spell(moves: Sequence[int]) -> str:
    """Moves as a reply."""
    return f" {SEPARATOR} ".join([grid.DIRECTIONS[move] for move in moves])


def random_moves(rng: np.random.Generator, limit: int) -> tuple[int, ...]:
    """A sequence drawn uniformly from all those of 1 to `limit` moves."""
    index, length = int(rng.integers(sum(4**length for length in range(1, limit + 1)))), 1
    while index >= 4**length:
        index, length = index - 4**length, length + 1
    return tuple(index // 4**place % 4 for place in range(length))


class Lenient(NamedTuple):
    """What could be read of a reply.

    Attributes:
        moves: The known moves, in order; at least one.
        unknown: How many others were named.
    """

    moves: tuple[int, ...]
    unknown: int

    @property
    def complaint(self) -> str:
        """What to tell of the unknown moves; "" where all were known."""
        return f"I could not read {self.unknown} of the moves, each one of: {_NAMES}." if self.unknown else ""


def parse_leniently(text: str, limit: int) -> Lenient | ParseError:
    """Read moves as RAGEN does: those beyond `limit` are cut, unknown ones dropped, empty ones not counted.

    Args:
        text: The reply.
        limit: How many moves of it are looked at, known or not; at least 1.

    Returns:
        What was read; or a `ParseError` where no move is known.
    """
    names = [name.strip().lower() for name in text.split(SEPARATOR)]
    names = [name for name in names if name][:limit]
    moves = tuple(grid.CODES[name] for name in names if name in grid.CODES)
    return Lenient(moves, len(names) - len(moves)) if moves else ParseError("I could not read a move.")


def tokens(limit: int) -> int:
    """Room for a reply of at most `limit` moves, in tokens of the `tiny` model, its end token included; at least 8."""
    return max(8, 2 * limit)
