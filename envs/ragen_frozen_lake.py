"""RagenFrozenLake: RAGEN's FrozenLake under its own rules, and under our contract."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turngym.envs import grid, lake, replies
from turngym.envs.actions import ParseError
from turngym.envs.lake import Lake, LakeValues
from turngym.envs.replies import Lenient, parse_leniently
from turngym.envs.splits import Split
from turngym.envs.text_env import Event, TextEnv


class _Rules(NamedTuple):
    ice_probability: float
    success_rate: float


VERSIONS = {"v1": _Rules(0.8, 1 / 3), "v2": _Rules(0.9, 0.8)}
_SIZE = 4


class RagenFrozenLakeEnv(TextEnv):
    """Cross a slippery 4x4 lake with few turns and few moves, as RAGEN has it.

    ## Description
    For comparison with what is published on RAGEN's FrozenLake (arXiv:2504.20073). Its defaults changed over time:

    | `version` | RAGEN's defaults of | ice | a move succeeds | mean optimum | random |
    |---|---|---|---|---|---|
    | `"v1"` | September 2025 | 0.8 | 1/3 | 0.488 | 0.214 |
    | `"v2"` | April 2026 | 0.9 | 0.8 | 0.945 | 0.232 |

    The mean optimum is the exact success probability of the best policy, over 5,000 test levels (95% interval: 0.007
    and 0.002 to either side), and no policy can beat it. On RAGEN's own evaluation levels it is 0.477 and 0.940.
    `TextFrozenLakeSlippery-v0` is our own task of this kind, with rules that leave a careful player time.

    What differs from RAGEN, because our contract asks for it:

    - Level and slips come from independent streams. In RAGEN they are one stream, so the level tells how its first
      moves will slip, and scores above the optimum of the rules are possible there.
    - A level belongs to a split by the hash of its canonical form; RAGEN tells levels apart by seed alone.
    - Cells are separated by spaces. Turns and moves left are not in the observation (`TurnBudgetWrapper` tells them),
      nor is the reward, and the feedback says where a move slipped.
    - A reply is the bare answer; a thought in front of it is the affair of the reasoning wrapper.
    - The penalty is part of the turn's reward; RAGEN takes it from the score of the whole trajectory, and some of its
      versions do so for each unknown action.
    - Both versions allow 5 actions a turn; RAGEN's configuration of 2026 allows 2, which is `moves_per_turn=2`.
    - Out of turns or moves is truncated; RAGEN calls it both truncated and terminated. A hole is terminated.

    ## Action Space
    A text: up to 5 of `Left`, `Down`, `Right`, `Up`, in any case, joined by ` || `. RAGEN's grammar is lenient: actions
    beyond the fifth are cut, and so are moves beyond the tenth of the episode; of the others, unknown actions are
    dropped at the price of one `invalid_penalty` a turn. A reply without any known action is unreadable: nothing
    moves, the turn counts, the reward is `invalid_penalty`.

    ## Observation Space
    A text: a line of feedback where something happened that the board does not show, then the board: `P` the player,
    `_` ice, `O` a hole, `G` the goal, `X` the player in a hole, `√` the player on the goal.

    ## Starting State
    Start and goal on two random cells, every other cell ice with the version's probability; always solvable.

    ## Rewards
    1 for reaching the goal, else 0; and `invalid_penalty` once for a turn with unknown actions or none.

    ## Episode End
    Terminated on the goal and in a hole; truncated after 5 turns or 10 moves.

    ## Information
    As in `TextEnv`; `success` is True on the goal. `action_is_valid` is True where at least one action is known.
    `oracle_steps` is the length of the shortest way around the holes. `oracle_value` is exact, over cell, turns left
    and moves left.

    ## Arguments
    `version` ("v1" or "v2"), `moves_per_turn` (1 to 5), `max_turns` (5 unless given), `max_moves` (10 unless given) and
    the others of `TextEnv`.

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("RagenFrozenLake-v0")
    >>> observation, info = env.reset(seed=6)
    >>> print(observation)
    O _ O _
    _ O _ O
    O O _ _
    P _ _ G
    >>> observation, reward, terminated, truncated, info = env.step("Down || Fly")
    >>> print(observation)
    I could not read 1 of the moves, each one of: Left, Down, Right, Up. You intended Down and slid Right.
    O _ O _
    _ O _ O
    O O _ _
    _ P _ G
    >>> reward, terminated, info["success"]
    (-0.1, False, False)
    >>> observation, reward, terminated, truncated, info = env.step("Right || Down")
    >>> print(observation)
    You intended Right and slid Down. The edge holds you back. You intended Down and slid Right.
    O _ O _
    _ O _ O
    O O _ _
    _ _ P G
    >>> reward, terminated, info["success"]
    (0.0, False, False)
    >>> observation, reward, terminated, truncated, info = env.step("Right || Right")
    >>> print(observation)
    You reached the goal.
    O _ O _
    _ O _ O
    O O _ _
    _ _ _ √
    >>> reward, terminated, info["success"]
    (1.0, True, True)
    ```

    ## Version History
    - v0: first release.
    """

    def __init__(
        self,
        *,
        version: str = "v1",
        moves_per_turn: int = 5,
        max_turns: int | str = 5,
        max_moves: int = 10,
        split: Split = "train",
        invalid_penalty: float = -0.1,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            split=split,
            max_turns=max_turns,
            max_moves=max_moves,
            invalid_penalty=invalid_penalty,
            render_mode=render_mode,
        )
        if version not in VERSIONS:
            raise ValueError(f"version must be one of {', '.join(VERSIONS)}, got {version!r}")
        if not 1 <= moves_per_turn <= 5:
            raise ValueError(f"moves_per_turn must be between 1 and 5, got {moves_per_turn}")
        self.version, self.moves_per_turn = version, moves_per_turn
        self.ice_probability, self.success_rate = VERSIONS[version]
        self.instructions = lake.instructions(self.success_rate, moves_per_turn)
        self._values: LakeValues | None = None
        self._values_of: Lake | None = None

    def _generate(self, rng: np.random.Generator) -> Lake:
        return lake.random_lake(rng, _SIZE, self.ice_probability)

    def _canonical(self, level: Lake) -> str:
        return grid.canonical(level.cells, level.size)

    def _level_text(self, level: Lake) -> str:
        return level.cells

    def _optimum(self, level: Lake) -> int:
        return level.shortest_path

    def _first_board(self, level: Lake) -> int:
        return level.start

    def _parse(self, action: str) -> Lenient | ParseError:
        return parse_leniently(action, self.moves_per_turn)

    def _expected(self) -> str:
        return replies.expected(self.moves_per_turn)

    def _apply(self, parsed: Lenient) -> Event:
        assert self._noise is not None
        allowed = parsed.moves[: self.moves_left]
        self._board, made, told = lake.walk(self._level, self._board, allowed, self.success_rate, self._noise)
        told = f"{parsed.complaint} {told}".strip()
        symbol = self._level.cells[self._board]
        success = symbol == lake.GOAL
        reward = success + (self.invalid_penalty if parsed.unknown else 0.0)
        return Event(reward, told, terminated=success or symbol == lake.HOLE, success=success, moves=made)

    def _describe(self) -> str:
        text: str = self._level.drawn(self._board)
        return text

    def oracle_action(self) -> str | None:
        """The best moves for the turn: most likely to arrive in the turns and moves left; None at the end."""
        if self._over:
            return None
        return replies.spell(self._solution().best(self._board, self.turns_left, self.moves_left))

    def oracle_value(self) -> float | None:
        """The probability that the best policy arrives in the turns and moves left."""
        return 0.0 if self._over else self._solution().value(self._board, self.turns_left, self.moves_left)

    def random_action(self, rng: np.random.Generator) -> str:
        """A reply drawn uniformly from those that hold known actions alone, and not too many."""
        return replies.spell(replies.random_moves(rng, self.moves_per_turn))

    def legal_actions(self) -> list[str] | None:
        """The four moves (sequences of them are legal too)."""
        return list(grid.DIRECTIONS)

    def as_array(self) -> NDArray[np.int8]:
        """Cells as `(4, 4)`: 0 ice, 1 hole, 2 goal; 3, 4, 5 the player on these."""
        numbers: NDArray[np.int8] = self._level.numbered(self._board)
        return numbers

    def _paint(self) -> NDArray[np.uint8]:
        return grid.paint(self._level.boards[self._board], _SIZE, lake.COLOURS)

    def _solution(self) -> LakeValues:
        if self._values is None or self._values_of != self._level:
            self._values = LakeValues(self._level, self.success_rate, self.moves_per_turn)
            self._values_of = self._level
        return self._values
