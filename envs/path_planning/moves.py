"""Replies that are steps on a map: their names, told, spelled and drawn; several of them joined by `||`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from turngym.envs.actions import SEPARATOR, ParseError, parse_moves
from turngym.envs.path_planning.maps import OFFSETS, Cell, Connectivity
from turngym.envs.path_planning.roads import NAMES

STAY = len(OFFSETS)
STEPS: tuple[Cell, ...] = (*OFFSETS, (0, 0))
"""What a move adds to a cell, by its code: the steps of `OFFSETS`, then staying."""

_TOKENS_A_MOVE = 3  # two words and the separator


@dataclass(frozen=True)
class Grammar:
    """How moves are written.

    Attributes:
        connectivity: 4 or 8 directions.
        may_stay: Whether `Stay` is a move.
        limit: How many moves one reply may hold.
    """

    connectivity: Connectivity
    may_stay: bool
    limit: int

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The name of each move, by its code."""
        stay = {STAY: "Stay"} if self.may_stay else {}
        return dict(enumerate(NAMES[: self.connectivity])) | stay

    @cached_property
    def _codes(self) -> Mapping[str, int]:
        return {name.lower(): code for code, name in self.names.items()}

    @property
    def expected(self) -> str:
        """What a reply should look like."""
        names = ", ".join(self.names.values())
        if self.limit == 1:
            return f"Reply with one of: {names}."
        return f"Reply with one to {self.limit} moves joined by {SEPARATOR}, each one of: {names}."

    @property
    def tokens(self) -> int:
        """Room for a reply, in tokens of the `tiny` model, its end token included."""
        return max(8, _TOKENS_A_MOVE * self.limit)

    def parse(self, text: str) -> tuple[int, ...] | ParseError:
        """Read a reply as codes, all or nothing."""
        return parse_moves(text, self._codes, self.limit)

    def spell(self, moves: Sequence[int]) -> str:
        """Moves as a reply."""
        return f" {SEPARATOR} ".join([self.names[move] for move in moves])

    def random(self, rng: np.random.Generator) -> tuple[int, ...]:
        """A sequence drawn uniformly from all those that one reply may hold."""
        codes, length = list(self.names), 1
        index = int(rng.integers(sum(len(codes) ** length for length in range(1, self.limit + 1))))
        while index >= len(codes) ** length:
            index, length = index - len(codes) ** length, length + 1
        return tuple(codes[index // len(codes) ** place % len(codes)] for place in range(length))


def move_between(origin: Cell, there: Cell) -> int:
    """The code of the move from a cell to itself or to a cell beside it."""
    return STEPS.index((there[0] - origin[0], there[1] - origin[1]))
