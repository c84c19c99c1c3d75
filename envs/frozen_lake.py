"""TextFrozenLake: cross a frozen lake, told and answered in words."""

from collections.abc import Sequence

import numpy as np
from gymnasium.envs.toy_text.frozen_lake import MAPS
from numpy.typing import NDArray

from turngym.envs import grid, lake, replies
from turngym.envs.actions import ParseError, parse_moves
from turngym.envs.lake import Lake, LakeValues
from turngym.envs.splits import Split
from turngym.envs.text_env import Event, TextEnv


class TextFrozenLakeEnv(TextEnv):
    """Walk over a frozen lake to the goal without falling into a hole.

    ## Description
    Every reset draws a new lake: a square map with random start and goal and random holes, always solvable. The
    dynamics are those of Gymnasium's FrozenLake-v1 (a test compares the transition tables). By default the ice is not
    slippery; with `success_rate` below 1 a move goes to either side of where it was intended with half of the
    remaining probability each. Gymnasium's fixed maps and maps of your own can be had too.

    | id | lakes | ice | turns | mean optimum | random |
    |---|---|---|---|---|---|
    | `TextFrozenLake-v0` | random, 4x4 | not slippery | 12 | 1.000 | 0.234 |
    | `TextFrozenLakeSlippery-v0` | random, 4x4 | `success_rate=0.8` | 20 | 0.942 | 0.277 |
    | `TextFrozenLake8x8-v0` | random, 8x8 | not slippery | 24 | 1.000 | 0.075 |

    Both figures are exact success probabilities, averaged over 2,000 test levels.

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
    `size` (cells along a side, 2 to 32; 4 unless given), `ice_probability` (in (0, 1]; 0.8 unless given),
    `success_rate` (in (0, 1]; 1 is not slippery), `moves_per_turn` (1 to 5), and those of `TextEnv`.

    `map_name="4x4"` or `"8x8"` gives Gymnasium's fixed map of that name, `desc` a map of your own as rows of
    `S F H G` or `S _ O G`. There is then one level, the same in all splits (`shared_splits` is True), so a score says
    nothing about generalisation; `ice_probability` cannot be given, nor a `size` that is not the map's. The way over
    Gymnasium's 8x8 map is 14 moves long: give it a `max_turns` of more than the default.

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("TextFrozenLake-v0")
    >>> observation, info = env.reset(seed=11)
    >>> print(observation)
    _ _ _ _
    _ O _ G
    O _ P _
    _ _ _ _
    >>> observation, reward, terminated, truncated, info = env.step("Fly")
    >>> print(observation)
    I could not read a move. Reply with one of: Left, Down, Right, Up.
    _ _ _ _
    _ O _ G
    O _ P _
    _ _ _ _
    >>> reward, terminated, info["success"]
    (-0.1, False, False)
    >>> observation, reward, terminated, truncated, info = env.step("Right")
    >>> print(observation)
    _ _ _ _
    _ O _ G
    O _ _ P
    _ _ _ _
    >>> reward, terminated, info["success"]
    (0.0, False, False)
    >>> observation, reward, terminated, truncated, info = env.step("Up")
    >>> print(observation)
    You reached the goal.
    _ _ _ _
    _ O _ √
    O _ _ _
    _ _ _ _
    >>> reward, terminated, info["success"]
    (1.0, True, True)
    ```

    ## Version History
    - v0: first release.
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        ice_probability: float | None = None,
        map_name: str | None = None,
        desc: Sequence[str] | None = None,
        success_rate: float = 1.0,
        moves_per_turn: int = 1,
        max_turns: int | str = 12,
        split: Split = "train",
        invalid_penalty: float = -0.1,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, invalid_penalty=invalid_penalty, render_mode=render_mode)
        self._only_level = _fixed_lake(map_name, desc, size, ice_probability)
        self.shared_splits = self._only_level is not None
        self.size = self._only_level.size if self._only_level else 4 if size is None else size
        self.ice_probability = 0.8 if ice_probability is None else ice_probability
        self.success_rate, self.moves_per_turn = success_rate, moves_per_turn
        if not 2 <= self.size <= 32:
            raise ValueError(f"size must be between 2 and 32, got {self.size}")
        if not 0 < self.ice_probability <= 1:
            raise ValueError(f"ice_probability must be above 0 and at most 1, got {ice_probability}")
        if not 0 < success_rate <= 1:
            raise ValueError(f"success_rate must be above 0 and at most 1, got {success_rate}")
        if not 1 <= moves_per_turn <= 5:
            raise ValueError(f"moves_per_turn must be between 1 and 5, got {moves_per_turn}")
        self.instructions = lake.instructions(success_rate, moves_per_turn)
        self._values: LakeValues | None = None
        self._values_of: Lake | None = None

    def _generate(self, rng: np.random.Generator) -> Lake:
        return self._only_level or lake.random_lake(rng, self.size, self.ice_probability)

    def _canonical(self, level: Lake) -> str:
        return grid.canonical(level.cells, level.size)

    def _level_text(self, level: Lake) -> str:
        return level.cells

    def _optimum(self, level: Lake) -> int:
        return level.shortest_path

    def _first_board(self, level: Lake) -> int:
        return level.start

    def _parse(self, action: str) -> tuple[int, ...] | ParseError:
        return parse_moves(action, grid.CODES, self.moves_per_turn)

    def _expected(self) -> str:
        return replies.expected(self.moves_per_turn)

    def _apply(self, parsed: tuple[int, ...]) -> Event:
        assert self._noise is not None
        self._board, moves, told = lake.walk(self._level, self._board, parsed, self.success_rate, self._noise)
        symbol = self._level.cells[self._board]
        success = symbol == lake.GOAL
        return Event(float(success), told, terminated=success or symbol == lake.HOLE, success=success, moves=moves)

    def _describe(self) -> str:
        text: str = self._level.drawn(self._board)
        return text

    def oracle_action(self) -> str | None:
        """The moves of the best policy: most likely to arrive in the turns left, then quickest; None at the end."""
        return None if self._over else replies.spell(self._solution().best(self._board, self.turns_left))

    def oracle_value(self) -> float | None:
        """The probability that the best policy arrives in the turns left."""
        return 0.0 if self._over else self._solution().value(self._board, self.turns_left)

    def oracle_thought(self) -> str:
        """Where player and goal are, the moves of the best policy as if nothing slipped, and the cell after this turn.

        A cell is its row and its column, counted from 0 at the top left: `I am at 1 3, goal at 0 0, plan Up Left Left
        Left, next 0 3`. The plan ends on the goal, on a cell seen before, or with the turns left.
        """
        if self._over:
            return ""
        cells, plan, neighbours = [self._board], list[int](), grid.steps(self.size)
        for turns in range(self.turns_left, 0, -1):
            cell = cells[-1]
            for move in self._solution().best(cell, turns):
                cell = neighbours[cell][move]
                plan.append(move)
            cells.append(cell)
            if self._level.cells[cell] in (lake.GOAL, lake.HOLE) or cell in cells[:-1]:
                break
        here, after, goal = (" ".join(map(str, divmod(cell, self.size))) for cell in (*cells[:2], self._level.goal))
        return f"I am at {here}, goal at {goal}, plan {' '.join(grid.DIRECTIONS[move] for move in plan)}, next {after}"

    def random_action(self, rng: np.random.Generator) -> str:
        """A reply drawn uniformly from the valid ones."""
        return replies.spell(replies.random_moves(rng, self.moves_per_turn))

    def legal_actions(self) -> list[str] | None:
        """The four moves (sequences of them are legal too where `moves_per_turn` allows)."""
        return list(grid.DIRECTIONS)

    def as_array(self) -> NDArray[np.int8]:
        """Cells as `(size, size)`: 0 ice, 1 hole, 2 goal; 3, 4, 5 the player on these."""
        numbers: NDArray[np.int8] = self._level.numbered(self._board)
        return numbers

    def _paint(self) -> NDArray[np.uint8]:
        return grid.paint(self._level.boards[self._board], self.size, lake.COLOURS)

    def _solution(self) -> LakeValues:
        if self._values is None or self._values_of != self._level:
            self._values = LakeValues(self._level, self.success_rate, self.moves_per_turn)
            self._values_of = self._level
        return self._values


def _fixed_lake(
    map_name: str | None, desc: Sequence[str] | None, size: int | None, ice_probability: float | None
) -> Lake | None:
    """The map that was asked for, or None where levels are drawn; `ValueError` where the arguments contradict it."""
    if map_name is None and desc is None:
        return None
    if map_name is not None and desc is not None:
        raise ValueError(f"give map_name or desc, not both, got map_name={map_name!r} and desc={desc!r}")
    if map_name is not None and map_name not in MAPS:
        raise ValueError(f"map_name must be one of {', '.join(MAPS)}, got {map_name!r}")
    name = "desc" if map_name is None else "map_name"
    level = lake.parse_lake("\n".join(MAPS[map_name] if map_name is not None else desc or ()))
    if level.shortest_path < 0:
        raise ValueError(f"desc must have a way from S to G around the holes, got {desc!r}")
    if size not in (None, level.size):
        raise ValueError(f"size is {level.size} by the {name} that was given, got size={size}")
    if ice_probability is not None:
        raise ValueError(
            f"ice_probability draws random lakes and {name} fixes one, got ice_probability={ice_probability}"
        )
    return level
