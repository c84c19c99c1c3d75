"""RagenSokoban: RAGEN's Sokoban under its own rules, and under our contract."""

import numpy as np
from numpy.typing import NDArray

from turngym.envs import grid, replies
from turngym.envs.actions import ParseError
from turngym.envs.errors import LevelError
from turngym.envs.replies import Lenient, parse_leniently
from turngym.envs.sokoban import board
from turngym.envs.sokoban.board import Level, Position
from turngym.envs.sokoban.game import Game, regret
from turngym.envs.sokoban.play import COLOURS, Reward, numbered, play
from turngym.envs.sokoban.ragen_levels import ragen_level
from turngym.envs.sokoban.values import outlooks
from turngym.envs.splits import Split
from turngym.envs.text_env import Event, TextEnv

_MAX_DRAWS = 200


class RagenSokobanEnv(TextEnv):
    """Push the box onto the goal with few turns and few moves, as RAGEN has it.

    ## Description
    For comparison with what is published on RAGEN's Sokoban (arXiv:2504.20073, "SimpleSokoban"). The levels are drawn
    with RAGEN's method and RAGEN's odds (`ragen_levels.py`): one box in 6x6 cells, a shortest solution of 4.2 moves in
    the mean. What RAGEN's configurations are called:

    | RAGEN | here |
    |---|---|
    | SimpleSokoban (2025) | `RagenSokoban-v0` |
    | LargerSokoban | `size=8, boxes=2, search_depth=10` |
    | CoordSokoban (2026) | `observation_format="grid+coordinates", moves_per_turn=2` |

    `Sokoban-v0` is our own task of this kind: a third of the levels here need one move or two, none of those there.

    What differs from RAGEN, because our contract asks for it:

    - One seed gives one level in every process. RAGEN's retries hash the seed with a salt, so that some of its levels
      change from process to process; ours at a seed is another level than RAGEN's.
    - A level that needs more than `max_moves` is drawn again (7 in 1,000), so that every level can be won.
    - A level belongs to a split by the hash of its canonical form; RAGEN tells levels apart by seed alone.
    - Cells are separated by spaces, and coordinates are told in other words. Turns and moves left are not in the
      observation (`TurnBudgetWrapper` tells them), nor is the reward, and the feedback says where nothing moved.
    - A reply is the bare answer; a thought in front of it is the affair of the reasoning wrapper.
    - The penalty is part of the turn's reward; RAGEN takes it from the score of the whole trajectory, and some of its
      versions do so for each unknown action.
    - Out of turns or moves is truncated; RAGEN calls it both truncated and terminated.

    ## Action Space
    A text: up to 5 of `Left`, `Down`, `Right`, `Up`, in any case, joined by ` || `. RAGEN's grammar is lenient: actions
    beyond the fifth are cut, and so are moves beyond the tenth of the episode; of the others, unknown actions are
    dropped at the price of one `invalid_penalty` a turn. A reply without any known action is unreadable: nothing
    moves, the turn counts, the reward is `invalid_penalty`.

    ## Observation Space
    A text: a line of feedback where something happened that the board does not show, then the board in the symbols of
    RAGEN: `P` the player, `S` the player on a goal, `X` a box, `√` a box on a goal, `O` a goal, `#` a wall, `_` floor.

    ## Starting State
    A level of RAGEN's method; no box on a goal.

    ## Rewards
    -0.1 for every move, one that moves nothing included; 1 for a box onto a goal, -1 for one off it; 10 for the
    solution; and `invalid_penalty` once for a turn with unknown actions or none.

    ## Episode End
    Terminated when every box is on a goal; truncated after 5 turns or 10 moves.

    ## Information
    As in `TextEnv`; `success` is True when every box is on a goal. `action_is_valid` is True where at least one action
    is known. `oracle_steps` is the length of the shortest solution, `oracle_value` the exact highest sum of rewards in
    the turns and moves left. `regret(action)` and `is_unsolvable()` are as in `SokobanEnv`.

    ## Arguments
    `size` (5 to 10), `boxes` (1 to 3), `search_depth` (3 to 300); `observation_format`, `reward` and `moves_per_turn`
    as in `SokobanEnv`; `max_turns` (5 unless given), `max_moves` (10 unless given) and the others of `TextEnv`.

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("RagenSokoban-v0")
    >>> observation, info = env.reset(seed=15)
    >>> print(observation)
    # # # # # #
    # # _ _ _ #
    # # O _ _ #
    # # _ X _ #
    # _ P _ _ #
    # # # # # #
    >>> observation, reward, terminated, truncated, info = env.step("Down || Fly")
    >>> print(observation)
    I could not read 1 of the moves, each one of: Left, Down, Right, Up. The wall holds you back.
    # # # # # #
    # # _ _ _ #
    # # O _ _ #
    # # _ X _ #
    # _ P _ _ #
    # # # # # #
    >>> reward, terminated, info["success"]
    (-0.2, False, False)
    >>> observation, reward, terminated, truncated, info = env.step("Right || Up")
    >>> print(observation)
    # # # # # #
    # # _ _ _ #
    # # O X _ #
    # # _ P _ #
    # _ _ _ _ #
    # # # # # #
    >>> reward, terminated, info["success"]
    (-0.2, False, False)
    >>> observation, reward, terminated, truncated, info = env.step("Right || Up || Left || Left")
    >>> print(observation)
    You pushed every box onto a goal.
    # # # # # #
    # # _ _ _ #
    # # √ P _ #
    # # _ _ _ #
    # _ _ _ _ #
    # # # # # #
    >>> reward, terminated, info["success"]
    (10.7, True, True)
    ```

    ## Version History
    - v0: first release.
    """

    def __init__(
        self,
        *,
        size: int = 6,
        boxes: int = 1,
        search_depth: int = 300,
        observation_format: str = "grid",
        reward: Reward = "gym_sokoban",
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
        if not 5 <= size <= 10:
            raise ValueError(f"size must be between 5 and 10, got {size}")
        if not 1 <= boxes <= 3:
            raise ValueError(f"boxes must be between 1 and 3, got {boxes}")
        if not 3 <= search_depth <= 300:
            raise ValueError(f"search_depth must be between 3 and 300, got {search_depth}")
        self._game = Game(
            observation_format=observation_format,
            reward=reward,
            moves_per_turn=moves_per_turn,
            invalid_penalty=invalid_penalty,
        )
        self.instructions, self.reply_tokens = self._game.instructions, replies.tokens(moves_per_turn)
        self.size, self.boxes, self.search_depth = size, boxes, search_depth
        self.reward, self.moves_per_turn, self._most_moves = reward, moves_per_turn, max_moves

    def _generate(self, rng: np.random.Generator) -> Level:
        for _ in range(_MAX_DRAWS):
            level = ragen_level(rng, self.size, self.boxes, self.search_depth)
            if 0 < self._optimum(level) <= self._most_moves:
                return outlooks(level).level
        raise LevelError(f"no level can be solved in max_moves={self._most_moves} among {_MAX_DRAWS} drawn")

    def _canonical(self, level: Level) -> str:
        return board.canonical(level)

    def _optimum(self, level: Level) -> int:
        return len(outlooks(level)[level.start].moves)

    def _first_board(self, level: Level) -> Position:
        return level.start

    def _parse(self, action: str) -> Lenient | ParseError:
        return parse_leniently(action, self.moves_per_turn)

    def _expected(self) -> str:
        return replies.expected(self.moves_per_turn)

    def _apply(self, parsed: Lenient) -> Event:
        self._board, event = play(self._level, self._board, parsed.moves[: self.moves_left], self.reward)
        if not parsed.unknown:
            return event
        told = f"{parsed.complaint} {event.feedback}".rstrip()
        return event._replace(reward=event.reward + self.invalid_penalty, feedback=told)

    def _describe(self) -> str:
        return self._game.shown(self._level, self._board)[0]

    def _shown(self) -> tuple[str, str]:
        text, state_key = self._game.shown(self._level, self._board)
        return f"{self._feedback}\n{text}" if self._feedback else text, state_key

    def oracle_action(self) -> str | None:
        """The next moves of a shortest solution, though time be short; None at the end, and where there is none."""
        moves = () if self._over else self._game.best_moves(self._level, self._board, self.moves_left)
        return replies.spell(moves) if moves else None

    def oracle_value(self) -> float | None:
        """The highest sum of rewards that can be had in the turns and moves left; None where it is not known."""
        if self._over:
            return 0.0
        return self._game.best_return(self._level, self._board, self.turns_left, self.moves_left)

    def oracle_thought(self) -> str:
        """Where everything is, the moves of a shortest solution, and the positions after this turn."""
        return "" if self._over else self._game.thought(self._level, self._board, self.moves_left)

    def regret(self, action: str) -> float | None:
        """What a reply costs against the best one; None where that is not known. Costs a solution."""
        return regret(self, action)

    def is_unsolvable(self) -> bool | None:
        """Whether it is proved that no moves, however many, solve the level from here; None if neither was found."""
        return self._game.is_unsolvable(self._level, self._board)

    def random_action(self, rng: np.random.Generator) -> str:
        """A reply drawn uniformly from those that hold known actions alone, and not too many."""
        return replies.spell(replies.random_moves(rng, self.moves_per_turn))

    def legal_actions(self) -> list[str] | None:
        """The four moves (sequences of them are legal too)."""
        return list(grid.DIRECTIONS)

    def as_array(self) -> NDArray[np.int8]:
        """Cells as `(size, size)`: 0 floor, 1 wall, 2 goal, 3 box, 4 box on goal, 5 player, 6 player on goal."""
        return numbered(self._level, self._board)

    def _paint(self) -> NDArray[np.uint8]:
        return grid.paint(board.draw(self._level, self._board), self.size, COLOURS)
