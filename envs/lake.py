"""The frozen lake as pure rules: levels, transitions, and exact values over state, turns left and moves left.

A lake is a flat string of symbols, row by row: `_` ice, `O` hole, `S` start, `G` goal. A move goes where it is
intended with probability `success_rate` and to either side of that with half of the rest each; the edge holds the
walker back. Source of the dynamics: Gymnasium's FrozenLake-v1, to whose transition table a test holds this module.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turngym.envs import grid, replies
from turngym.envs.errors import LevelError

ICE, HOLE, START, GOAL = "_", "O", "S", "G"
PLAYER, PLAYER_ON_GOAL, PLAYER_IN_HOLE = "P", "√", "X"
COLOURS = {
    ICE: (224, 240, 255),
    HOLE: (28, 60, 110),
    GOAL: (250, 205, 60),
    PLAYER: (220, 70, 60),
    PLAYER_ON_GOAL: (70, 170, 80),
    PLAYER_IN_HOLE: (90, 20, 40),
}

_WALKER = {ICE: PLAYER, START: PLAYER, HOLE: PLAYER_IN_HOLE, GOAL: PLAYER_ON_GOAL}
_NUMBERS = {ICE: 0, HOLE: 1, GOAL: 2, PLAYER: 3, PLAYER_IN_HOLE: 4, PLAYER_ON_GOAL: 5}
_FROM_BOOL = bytes.maketrans(b"\0\1", (HOLE + ICE).encode())

Floats = NDArray[np.float64]
_TOLERANCE = 1e-12
_MAX_ATTEMPTS = 10_000


@dataclass(frozen=True)
class Lake:
    """One level.

    Attributes:
        size: Cells along a side.
        cells: `size * size` symbols with exactly one `S` and one `G`.
    """

    size: int
    cells: str

    @property
    def start(self) -> int:
        """The cell that the walker starts on."""
        return self.cells.index(START)

    @property
    def goal(self) -> int:
        """The cell to reach."""
        return self.cells.index(GOAL)

    @cached_property
    def shortest_path(self) -> int:
        """Moves from start to goal around the holes; -1 where there is no way."""
        return grid.shortest_path(self.cells, self.size, self.start, self.goal, HOLE)

    @cached_property
    def boards(self) -> tuple[str, ...]:
        """The flat board with the walker on each cell."""
        ice = self.cells.replace(START, ICE)
        return tuple(ice[:cell] + _WALKER[symbol] + ice[cell + 1 :] for cell, symbol in enumerate(ice))

    def drawn(self, cell: int) -> str:
        """The lake as text, with the walker on `cell`."""
        text, place = self._drawn, 2 * cell  # one character stands between any two cells
        return text[:place] + _WALKER[self.cells[cell]] + text[place + 1 :]

    def numbered(self, cell: int) -> NDArray[np.int8]:
        """The lake as `(size, size)`: 0 ice, 1 hole, 2 goal; 3, 4, 5 the walker on these."""
        numbers = np.array([_NUMBERS[symbol] for symbol in self.boards[cell]], np.int8)
        return numbers.reshape(self.size, self.size)

    @cached_property
    def _drawn(self) -> str:
        return grid.spaced(self.cells.replace(START, ICE), self.size)


def parse_lake(text: str) -> Lake:
    """Read rows of symbols, with or without spaces between cells; Gymnasium's `S F H G` are understood too.

    Raises:
        ValueError: If the map is not square, holds another symbol, or has not one start and one goal.
    """
    rows = ["".join(row.split()).replace("F", ICE).replace("H", HOLE) for row in text.split("\n") if row.strip()]
    cells = "".join(rows)
    if any(len(row) != len(rows) for row in rows) or not rows:
        raise ValueError(f"a lake has as many cells in a row as it has rows, got rows of {[len(row) for row in rows]}")
    if set(cells) - {ICE, HOLE, START, GOAL}:
        raise ValueError(f"a lake is drawn with _ O S G (or F H S G), got {sorted(set(cells))}")
    if cells.count(START) != 1 or cells.count(GOAL) != 1:
        raise ValueError("a lake has exactly one start S and one goal G")
    return Lake(len(rows), cells)


def random_lake(rng: np.random.Generator, size: int, ice_probability: float) -> Lake:
    """Draw a solvable lake: start and goal on two random cells, every other cell ice with the given probability.

    Raises:
        LevelError: If thousands of draws give no solvable lake.
    """
    count = size * size
    for _ in range(_MAX_ATTEMPTS):
        draws = rng.random(count + 2)
        start, goal = int(draws[count] * count), int(draws[count + 1] * (count - 1))
        goal += goal >= start
        cells = bytearray((draws[:count] < ice_probability).tobytes().translate(_FROM_BOOL))
        cells[start], cells[goal] = ord(START), ord(GOAL)
        lake = Lake(size, cells.decode())
        if lake.shortest_path > 0:
            return lake
    raise LevelError(f"no solvable lake of size {size} with ice probability {ice_probability} in {_MAX_ATTEMPTS} draws")


def slide(move: int, success_rate: float, rng: np.random.Generator) -> int:
    """The direction that a walker who intends `move` really goes; draws nothing where the ice is not slippery."""
    if success_rate == 1.0:
        return move
    luck = rng.random()
    if luck < success_rate:
        return move
    return (move - 1) % 4 if luck < (1 + success_rate) / 2 else (move + 1) % 4


class Walk(NamedTuple):
    """What came of some moves.

    Attributes:
        cell: Where the walker is now.
        moves: How many moves were made; none is made after the goal or a hole.
        told: What happened on the way, in words; "" where the board says all.
    """

    cell: int
    moves: int
    told: str


def walk(lake: Lake, cell: int, moves: Sequence[int], success_rate: float, rng: np.random.Generator) -> Walk:
    """Make moves from a cell, one after the other, drawing luck from `rng`."""
    neighbours, told, made = grid.steps(lake.size), [], 0
    for move in moves:
        direction = slide(move, success_rate, rng)
        before, cell, made = cell, neighbours[cell][direction], made + 1
        if direction != move:
            told.append(f"You intended {grid.DIRECTIONS[move]} and slid {grid.DIRECTIONS[direction]}.")
        if cell == before:
            told.append("The edge holds you back.")
        symbol = lake.cells[cell]
        if symbol in (GOAL, HOLE):
            told.append("You reached the goal." if symbol == GOAL else "You fell into a hole.")
            break
    return Walk(cell, made, " ".join(told))


def instructions(success_rate: float, moves_per_turn: int) -> str:
    """The rules in words."""
    rules = (
        "You walk on a frozen lake. P is you, _ is ice, O is a hole, G is the goal. "
        "Reach the goal; a hole ends the game."
    )
    if success_rate < 1:
        rules += (
            " The ice is slippery: a move goes where you intend with probability "
            f"{success_rate:.2g}, else to one of its sides."
        )
    return f"{rules} {replies.expected(moves_per_turn)}"


@lru_cache(maxsize=8)
def _step_matrices(size: int, success_rate: float) -> Floats:
    """Probabilities `(4, cells, cells)` of each move on a lake without holes and goal."""
    neighbours, side = grid.steps(size), (1 - success_rate) / 2
    matrices = np.zeros((4, size * size, size * size))
    for cell, around in enumerate(neighbours):
        for move in range(4):
            for direction, probability in ((move, success_rate), ((move - 1) % 4, side), ((move + 1) % 4, side)):
                matrices[move, cell, around[direction]] += probability
    return matrices


def transitions(lake: Lake, success_rate: float) -> Floats:
    """Probabilities `(4, cells, cells)` of going from cell to cell by each move; goal and holes keep the walker."""
    matrices = _step_matrices(lake.size, success_rate).copy()
    for cell, symbol in enumerate(lake.cells):
        if symbol in (HOLE, GOAL):
            matrices[:, cell] = 0.0
            matrices[:, cell, cell] = 1.0
    return matrices


class LakeValues:
    """Probability of reaching the goal under the best policy, by backward induction.

    A turn is a sequence of 1 to `moves_per_turn` moves that is fixed before any of them is made (open loop), so with
    slippery ice more turns are worth more than more moves. Among equally good sequences the one with the fewest
    expected moves is best, and among those the first in the order Left, Down, Right, Up.

    Args:
        lake: The level.
        success_rate: Probability that a move goes where it is intended, in (0, 1].
        moves_per_turn: Longest sequence in a turn, 1 to 5.
    """

    def __init__(self, lake: Lake, success_rate: float, moves_per_turn: int) -> None:
        self._most = moves_per_turn
        self._from = transitions(lake, success_rate).transpose(0, 2, 1)  # by move, cell after it, cell before it
        self._awake = np.array([float(symbol not in (HOLE, GOAL)) for symbol in lake.cells])
        goal = np.array([float(symbol == GOAL) for symbol in lake.cells])
        self._end = np.stack([goal, np.zeros_like(goal)])
        self._known: dict[tuple[int, int], Floats] = {}  # probability of success and expected moves, (2, cells)
        self._before: dict[tuple[int, int], list[Floats]] = {}  # by length of the turn before

    def value(self, cell: int, turns: int, moves: int | None = None) -> float:
        """Success probability from `cell` with so many turns left, and so many moves in all (None: no such limit)."""
        return float(self._worth(turns, self._cap(turns, moves))[0, cell])

    def best(self, cell: int, turns: int, moves: int | None = None) -> tuple[int, ...]:
        """The best sequence of moves for the next turn."""
        moves = self._cap(turns, moves)
        self._worth(turns, moves)
        candidates: list[tuple[float, float, tuple[int, ...]]] = []
        for length in range(1, min(self._most, moves) + 1):
            *_, worth = self._sequences(self._after(turns, moves, length), length)
            values, costs = worth[:, :, cell]
            top = np.flatnonzero(values >= values.max() - _TOLERANCE)
            index = int(top[np.argmin(np.round(costs[top], 9))])
            digits = tuple(index // 4**place % 4 for place in reversed(range(length)))
            candidates.append((-float(np.round(values[index], 11)), float(np.round(costs[index], 9)), digits))
        return min(candidates, key=lambda candidate: candidate[:2])[2]

    def _cap(self, turns: int, moves: int | None) -> int:
        return turns * self._most if moves is None else min(moves, turns * self._most)

    def _after(self, turns: int, moves: int, length: int) -> tuple[int, int]:
        """Turns and moves left after a turn of `length` moves; (0, 0) where either is used up."""
        rest = self._cap(turns - 1, moves - length)
        return (turns - 1, rest) if rest else (0, 0)

    def _worth(self, turns: int, moves: int) -> Floats:
        """Worth of every cell; what can be left after fewer turns is filled in first, so that nothing recurs deeply."""
        for left in range(1, turns + 1):
            if (turns, moves) in self._known:
                break
            spent = turns - left
            most = self._cap(left, moves - spent)
            for rest in range(max(1, moves - spent * self._most), most + 1):
                if (left, rest) not in self._known:
                    self._known[left, rest] = self._backup(left, rest, most)
        return self._known.get((turns, moves), self._end)

    def _backup(self, turns: int, moves: int, most: int) -> Floats:
        """Worth of every cell, from the worth of what may follow; `most` moves may be left in so many turns."""
        by_length = []
        for length in range(1, min(self._most, moves) + 1):
            after = self._after(turns, moves, length)
            if len(self._before.get(after, ())) < length:
                longest = min(self._most, most - after[1])
                self._before[after] = [_of_best(worth) for worth in self._sequences(after, longest)]
            by_length.append(self._before[after][length - 1])
        return _of_best(np.stack(by_length, axis=1))

    def _sequences(self, after: tuple[int, int], longest: int) -> Iterator[Floats]:
        """For each length up to `longest`, the worth by sequence and cell of a turn that leaves `after`.

        Sequences are numbered in base 4, first move first. Each round puts one more move in front of all of them.
        """
        worth = self._known.get(after, self._end)[:, None]
        for _ in range(longest):
            worth = (worth[:, None] @ self._from).reshape(2, -1, len(self._awake))
            worth[1] += self._awake
            yield worth


def _of_best(worth: Floats) -> Floats:
    """Worth by cell under the best of the choices in the rows: the likeliest to succeed, then the cheapest."""
    value, cost = worth
    best = value.max(axis=0)
    return np.stack([best, np.where(value >= best - _TOLERANCE, cost, np.inf).min(axis=0)])
