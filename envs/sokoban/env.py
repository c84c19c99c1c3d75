"""Sokoban: push every box onto a goal, told and answered in words."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turngym.envs import grid, replies
from turngym.envs.actions import ParseError, parse_moves
from turngym.envs.errors import LevelError
from turngym.envs.sokoban import board
from turngym.envs.sokoban.board import Level, Position
from turngym.envs.sokoban.game import Game, regret
from turngym.envs.sokoban.generator import check_difficulty, generate
from turngym.envs.sokoban.packs import load_pack
from turngym.envs.sokoban.play import COLOURS, Reward, numbered, play
from turngym.envs.sokoban.values import outlooks
from turngym.envs.splits import Split, split_of
from turngym.envs.text_env import Event, TextEnv

_DIFFICULTY = {"size": 6, "boxes": 1, "min_moves": 4, "max_moves": 12}
_FEW_LEVELS = 50
_MAX_DRAWS = 100


class SokobanEnv(TextEnv):
    """Push every box onto a goal.

    ## Description
    The player walks over the floor of a walled room and pushes boxes, one at a time: never two at once, never into a
    wall, and nothing can be pulled. A careless push can make a level unsolvable for good. Every reset draws a level
    whose shortest solution is proved and lies within the wanted range, or takes one from a pack.

    | id | levels | shortest solution | turns |
    |---|---|---|---|
    | `Sokoban-v0` | 6x6, 1 box | 4 to 12 moves | three times the shortest solution |
    | `Sokoban7x7x2-v0` | 7x7, 2 boxes | 8 to 24 moves | the same |
    | `Sokoban8x8x3-v0` | 8x8, 3 boxes | 12 to 40 moves | the same |
    | `SokobanBoxoban-v0` | 300 of Boxoban's, 10x10, 4 boxes | 11 to 124 moves | the same |

    ## Action Space
    A text: one of `Left`, `Down`, `Right`, `Up`, in any case; up to `moves_per_turn` of them joined by ` || `.
    Everything else is unreadable: nothing moves, the turn counts, the reward is `invalid_penalty`.

    ## Observation Space
    A text: a line of feedback where something happened that the position does not show, then the position in one of
    five formats (`views.py` reads each of them back). Tokens of one position in the vocabulary of `tiny`, in the mean:

    | `observation_format` | shows | 6x6, 1 box | 10x10, 4 boxes |
    |---|---|---|---|
    | `"grid"` | symbols, cells separated by spaces | 41 | 109 |
    | `"coordinates"` | player, boxes, goals and walls by row and column | 71 | 156 |
    | `"grid+coordinates"` | the grid; player, boxes and goals by row and column | 59 | 150 |
    | `"adjacency"` | player, boxes and goals; which cell is where beside which | 177 | 473 |
    | `"json"` | as coordinates | 237 | 596 |

    The symbols are those of RAGEN, VAGEN, GEM and TextArena: `P` the player, `S` the player on a goal, `X` a box, `√` a
    box on a goal, `O` a goal, `#` a wall, `_` floor. Rows and columns are counted from 0 at the top left.

    ## Starting State
    No box of a drawn level is on a goal; those of a pack may be.

    ## Rewards
    `reward="gym_sokoban"`: -0.1 for every move, one that moves nothing included; 1 for a box onto a goal, -1 for one
    off it; 10 for the solution. A solution of `m` moves that brings `n` boxes home earns `10 + n - m / 10`.
    `"sparse"`: 1 for the solution. With both, `invalid_penalty` for a reply that cannot be read.

    ## Episode End
    Terminated when every box is on a goal; truncated after `max_turns` turns, by default three times the moves of the
    shortest solution (whoever is told the turns left is told of these too).

    ## Information
    As in `TextEnv`; `success` is True when every box is on a goal. `oracle_steps` is the length of the shortest
    solution; where a pack's level is too large to prove one, of the solution that was found. `oracle_value` is the
    exact highest sum of rewards in the turns left, also where no solution is left; None where neither a shortest
    solution nor that there is none could be proved, or too many positions would have to be searched. `oracle_action` is
    None where no solution is left. `regret(action)` and `is_unsolvable()` cost a solution and are therefore not in the
    info.

    ## Arguments
    `size` (cells along a side, or rows and columns, walls included, 5 to 20), `boxes`, `min_moves` and `max_moves` (of
    the shortest solution) say which levels to draw; `level_pack` which to take instead: "boxoban", or the path of a
    file or folder in XSB. A pack of fewer than 50 levels is the same in all splits (`shared_splits` is True), and
    levels that the solver gives up are left out. `observation_format`, `reward`, `moves_per_turn` (1 to 20) and those
    of `TextEnv` but its own `max_moves`; `max_turns` is "3x" unless given.

    ## References
    gym-sokoban (Schrader 2018) for the rewards; Boxoban (Guez et al. 2018, Apache-2.0) for the pack.

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("Sokoban-v0")
    >>> observation, info = env.reset(seed=18)
    >>> print(observation)
    # # # # # #
    # _ _ # # #
    # _ X # # #
    # P O _ _ #
    # _ _ _ _ #
    # # # # # #
    player row 3 column 1
    box row 2 column 2
    goal row 3 column 2
    >>> observation, reward, terminated, truncated, info = env.step("Left")
    >>> print(observation)
    The wall holds you back.
    # # # # # #
    # _ _ # # #
    # _ X # # #
    # P O _ _ #
    # _ _ _ _ #
    # # # # # #
    player row 3 column 1
    box row 2 column 2
    goal row 3 column 2
    >>> reward, terminated, info["success"]
    (-0.1, False, False)
    >>> for reply in ("Up", "Up", "Right", "Down"):
    ...     observation, reward, terminated, truncated, info = env.step(reply)
    >>> print(observation)
    You pushed every box onto a goal.
    # # # # # #
    # _ _ # # #
    # _ P # # #
    # _ √ _ _ #
    # _ _ _ _ #
    # # # # # #
    player row 2 column 2
    box row 3 column 2
    goal row 3 column 2
    >>> reward, terminated, info["success"]
    (10.9, True, True)
    ```

    ## Version History
    - v0: first release.
    """

    def __init__(
        self,
        *,
        size: int | tuple[int, int] | None = None,
        boxes: int | None = None,
        min_moves: int | None = None,
        max_moves: int | None = None,
        level_pack: str | None = None,
        observation_format: str = "grid+coordinates",
        reward: Reward = "gym_sokoban",
        moves_per_turn: int = 1,
        max_turns: int | str = "3x",
        split: Split = "train",
        invalid_penalty: float = -0.1,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, invalid_penalty=invalid_penalty, render_mode=render_mode)
        self._game = Game(
            observation_format=observation_format,
            reward=reward,
            moves_per_turn=moves_per_turn,
            invalid_penalty=invalid_penalty,
        )
        self.instructions, self.reply_tokens = self._game.instructions, replies.tokens(moves_per_turn)
        self.reward, self.moves_per_turn, self.level_pack = reward, moves_per_turn, level_pack
        asked = {"size": size, "boxes": boxes, "min_moves": min_moves, "max_moves": max_moves}
        given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        self._difficulty = _DIFFICULTY | given
        if level_pack is None:
            check_difficulty(**self._difficulty)
        elif given:
            raise ValueError(f"level_pack fixes the levels, so {', '.join(given)} cannot be given, got {given}")
        else:
            self.shared_splits = len(_optima(level_pack)) < _FEW_LEVELS

    def _generate(self, rng: np.random.Generator) -> Level:
        if self.level_pack is None:
            return outlooks(generate(rng, **self._difficulty)).level
        levels = _levels(self.level_pack, None if self.shared_splits else self.split)
        for _ in range(_MAX_DRAWS):
            level = levels[int(rng.integers(len(levels)))]
            if self._optimum(level):
                return level
        raise LevelError(f"no level of {self.level_pack} was solved among {_MAX_DRAWS} drawn")

    def _canonical(self, level: Level) -> str:
        return board.canonical(level)

    def _optimum(self, level: Level) -> int:
        told = _optima(self.level_pack).get(level) if self.level_pack else None
        return told or len(outlooks(level)[level.start].moves)

    def _first_board(self, level: Level) -> Position:
        return level.start

    def _parse(self, action: str) -> tuple[int, ...] | ParseError:
        return parse_moves(action, grid.CODES, self.moves_per_turn)

    def _expected(self) -> str:
        return replies.expected(self.moves_per_turn)

    def _apply(self, parsed: tuple[int, ...]) -> Event:
        self._board, event = play(self._level, self._board, parsed, self.reward)
        return event

    def _describe(self) -> str:
        return self._game.shown(self._level, self._board)[0]

    def _shown(self) -> tuple[str, str]:
        text, state_key = self._game.shown(self._level, self._board)
        return f"{self._feedback}\n{text}" if self._feedback else text, state_key

    def oracle_action(self) -> str | None:
        """The next moves of a shortest solution, though time be short; None at the end, and where there is none."""
        moves = () if self._over else self._game.best_moves(self._level, self._board)
        return replies.spell(moves) if moves else None

    def oracle_value(self) -> float | None:
        """The highest sum of rewards that can be had in the turns left; None where it is not known."""
        return 0.0 if self._over else self._game.best_return(self._level, self._board, self.turns_left)

    def oracle_thought(self) -> str:
        """Where everything is, the moves of a shortest solution, and the positions after this turn.

        A cell is its row and its column, counted from 0 at the top left: `I am at 3 2, box at 2 2, goal at 1 3, plan
        Up Right Up, next 2 2, box at 1 2`. A plan is told for 12 moves at most.
        """
        return "" if self._over else self._game.thought(self._level, self._board)

    def regret(self, action: str) -> float | None:
        """What a reply costs against the best one: 0.1 for a move that helps nothing, all that is lost for a fatal one.

        Args:
            action: The reply.

        Returns:
            The best return from here, less the reply's reward and the best return from there, at least 0; None where
            one of them is not known. Costs a solution or two.

        Raises:
            gymnasium.error.ResetNeeded: If the episode has ended.
        """
        return regret(self, action)

    def is_unsolvable(self) -> bool | None:
        """Whether it is proved that no moves, however many, solve the level from here; None if neither was found."""
        return self._game.is_unsolvable(self._level, self._board)

    def random_action(self, rng: np.random.Generator) -> str:
        """A reply drawn uniformly from the valid ones."""
        return replies.spell(replies.random_moves(rng, self.moves_per_turn))

    def legal_actions(self) -> list[str] | None:
        """The four moves (sequences of them are legal too where `moves_per_turn` allows)."""
        return list(grid.DIRECTIONS)

    def as_array(self) -> NDArray[np.int8]:
        """Cells as `(rows, columns)`: 0 floor, 1 wall, 2 goal, 3 box, 4 box on goal, 5 player, 6 player on goal."""
        return numbered(self._level, self._board)

    def _paint(self) -> NDArray[np.uint8]:
        return grid.paint(board.draw(self._level, self._board), self._level.width, COLOURS)


@lru_cache(maxsize=8)
def _optima(level_pack: str) -> dict[Level, int | None]:
    """The levels of a pack, and the optima that it tells."""
    return {packed.level: packed.moves for packed in load_pack(level_pack)}


@lru_cache(maxsize=32)
def _levels(level_pack: str, split: Split | None) -> tuple[Level, ...]:
    """The levels of a pack that belong to a split; all of them where none is named."""
    return tuple(level for level in _optima(level_pack) if split in (None, split_of(board.canonical(level))))
