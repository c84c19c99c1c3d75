"""TextFrozenLake: cross a frozen lake, told and answered in words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turngym.envs import grid, lake
from turngym.envs.actions import SEPARATOR, ParseError, parse_moves
from turngym.envs.lake import Lake, LakeValues
from turngym.envs.splits import Split
from turngym.envs.text_env import Event, TextEnv

_CODES = {name.lower(): code for code, name in enumerate(grid.DIRECTIONS)}
_NAMES = "Left, Down, Right, Up"
_CODE_OF_SYMBOL = np.zeros(128, np.int8)
_CODE_OF_SYMBOL[[ord(lake.HOLE), ord(lake.GOAL)]] = 1, 2


class TextFrozenLakeEnv(TextEnv):
    """Walk over a frozen lake to the goal without falling into a hole.

    ## Description
    Every reset draws a new lake: a square map with random start and goal and random holes, always solvable. The
    dynamics are those of Gymnasium's FrozenLake-v1 (a test compares the transition tables). By default the ice is not
    slippery; with `success_rate` below 1 a move goes to either side of where it was intended with half of the
    remaining probability each.

    ## Action Space
    A text: one of `Left`, `Down`, `Right`, `Up`, in any case; up to `moves_per_turn` of them joined by ` || `.
    Everything else is unreadable: nothing moves, the turn counts, the reward is `invalid_penalty`.

    ## Observation Space
    A text: a line of feedback where something happened that the board does not show, then the board, cells separated
    by spaces: `P` the player, `_` ice, `O` a hole, `G` the goal, `√` the player on the goal, `X` the player in a hole.

    ## Starting State
    The player on the level's start, anywhere but on the goal. Cells are ice with probability `ice_probability`.

    ## Rewards
    1 for reaching the goal, `invalid_penalty` for a reply that cannot be read, else 0.

    ## Episode End
    Terminated on the goal and in a hole; truncated after `max_turns` turns.

    ## Information
    As in `TextEnv`; `success` is True on the goal. `oracle_steps` is the length of the shortest way around the holes.
    `oracle_value` is exact: the probability of reaching the goal in the turns left under the best policy.

    ## Arguments
    `size` (cells along a side, 2 to 32), `ice_probability` (in (0, 1]), `success_rate` (in (0, 1]; 1 is not slippery),
    `moves_per_turn` (1 to 5), and those of `TextEnv`.

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("TextFrozenLake-v0")
    >>> observation, info = env.reset(seed=7)
    >>> print(observation)
    TRANSCRIPT
    ```

    ## Version History
    - v0: first release.
    """

    def __init__(
        self,
        *,
        size: int = 4,
        ice_probability: float = 0.8,
        success_rate: float = 1.0,
        moves_per_turn: int = 1,
        max_turns: int | str = 12,
        split: Split = "train",
        invalid_penalty: float = -0.1,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, invalid_penalty=invalid_penalty, render_mode=render_mode)
        if not 2 <= size <= 32:
            raise ValueError(f"size must be between 2 and 32, got {size}")
        if not 0 < ice_probability <= 1:
            raise ValueError(f"ice_probability must be above 0 and at most 1, got {ice_probability}")
        if not 0 < success_rate <= 1:
            raise ValueError(f"success_rate must be above 0 and at most 1, got {success_rate}")
        if not 1 <= moves_per_turn <= 5:
            raise ValueError(f"moves_per_turn must be between 1 and 5, got {moves_per_turn}")
        self.size, self.ice_probability = size, ice_probability
        self.success_rate, self.moves_per_turn = success_rate, moves_per_turn
        self.instructions = _instructions(success_rate, moves_per_turn)
        self._values: LakeValues | None = None
        self._values_of: Lake | None = None

    def _generate(self, rng: np.random.Generator) -> Lake:
        return lake.random_lake(rng, self.size, self.ice_probability)

    def _canonical(self, level: Lake) -> str:
        return grid.canonical(level.cells, level.size)

    def _level_text(self, level: Lake) -> str:
        return level.cells

    def _optimum(self, level: Lake) -> int:
        return level.shortest_path

    def _first_board(self, level: Lake) -> int:
        return level.start

    def _parse(self, action: str) -> tuple[int, ...] | ParseError:
        return parse_moves(action, _CODES, self.moves_per_turn)

    def _expected(self) -> str:
        return _expected(self.moves_per_turn)

    def _apply(self, parsed: tuple[int, ...]) -> Event:
        assert self._noise is not None
        cells, neighbours, told, moves = self._level.cells, grid.steps(self.size), [], 0
        for move in parsed:
            direction = lake.slide(move, self.success_rate, self._noise)
            here, moves = self._board, moves + 1
            self._board = neighbours[here][direction]
            if direction != move:
                told.append(f"You intended {grid.DIRECTIONS[move]} and slid {grid.DIRECTIONS[direction]}.")
            if self._board == here:
                told.append("The edge holds you back.")
            symbol = cells[self._board]
            if symbol in (lake.GOAL, lake.HOLE):
                success = symbol == lake.GOAL
                told.append("You reached the goal." if success else "You fell into a hole.")
                return Event(float(success), " ".join(told), terminated=True, success=success, moves=moves)
        return Event(feedback=" ".join(told), moves=moves)

    def _describe(self) -> str:
        return grid.spaced(self._level.boards[self._board], self.size)

    def oracle_action(self) -> str | None:
        """The moves of the best policy: most likely to arrive in the turns left, then quickest; None at the end."""
        if self._over:
            return None
        return f" {SEPARATOR} ".join(grid.DIRECTIONS[move] for move in self._solution().best(self._board, self.turns_left))

    def oracle_value(self) -> float | None:
        """The probability that the best policy arrives in the turns left."""
        return 0.0 if self._over else self._solution().value(self._board, self.turns_left)

    def random_action(self, rng: np.random.Generator) -> str:
        """A reply drawn uniformly from the valid ones."""
        count = sum(4**length for length in range(1, self.moves_per_turn + 1))
        index, length = int(rng.integers(count)), 1
        while index >= 4**length:
            index, length = index - 4**length, length + 1
        return f" {SEPARATOR} ".join(grid.DIRECTIONS[index // 4**place % 4] for place in range(length))

    def legal_actions(self) -> list[str] | None:
        """The four moves (sequences of them are legal too where `moves_per_turn` allows)."""
        return list(grid.DIRECTIONS)

    def as_array(self) -> NDArray[np.int8]:
        """Cells as `(size, size)`: 0 ice, 1 hole, 2 goal; 3, 4, 5 the player on these."""
        cells = self._level.cells.replace(lake.START, lake.ICE)
        codes = _CODE_OF_SYMBOL[np.frombuffer(cells.encode("ascii"), np.uint8)]
        codes[self._board] += 3
        return codes.reshape(self.size, self.size)

    def _paint(self) -> NDArray[np.uint8]:
        return grid.paint(self._level.boards[self._board], self.size, lake.COLOURS)

    def _solution(self) -> LakeValues:
        if self._values is None or self._values_of != self._level:
            self._values = LakeValues(self._level, self.success_rate, self.moves_per_turn)
            self._values_of = self._level
        return self._values


def _expected(moves_per_turn: int) -> str:
    if moves_per_turn == 1:
        return f"Reply with one of: {_NAMES}."
    return f"Reply with one to {moves_per_turn} moves joined by {SEPARATOR}, each one of: {_NAMES}."


def _instructions(success_rate: float, moves_per_turn: int) -> str:
    slippery = (
        ""
        if success_rate == 1.0
        else f" The ice is slippery: a move goes where you intend with probability {success_rate:.2g}, else to one of its sides."
    )
    return (
        "You walk on a frozen lake. P is you, _ is ice, O is a hole, G is the goal. "
        f"Reach the goal; a hole ends the game.{slippery} {_expected(moves_per_turn)}"
    )


