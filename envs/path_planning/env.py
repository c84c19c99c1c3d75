"""PathPlanning: walk to the goal on a grid map, told and answered in words."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from turngym.envs.actions import ParseError
from turngym.envs.path_planning.generators import Family
from turngym.envs.path_planning.levels import source_of
from turngym.envs.path_planning.maps import Cell, Connectivity
from turngym.envs.path_planning.moves import STAY, Grammar, move_between
from turngym.envs.path_planning.obstacles import MovingObstacle
from turngym.envs.path_planning.pictures import draw_image
from turngym.envs.path_planning.sensor import Mask, Sensor, assumed, nothing_seen
from turngym.envs.path_planning.teacher import exact_lesson, lesson
from turngym.envs.path_planning.teller import Teller, numbered, tile
from turngym.envs.path_planning.text_forms import MAX_TOKENS, Form
from turngym.envs.path_planning.view import View
from turngym.envs.path_planning.walk import CostToGo, Level, cost_to_go, draw_obstacles, walk
from turngym.envs.splits import Split
from turngym.envs.text_env import Event, TextEnv

Reward = Literal["success", "cost"]
OBSTACLE = "*"
_DEFAULTS = {"family": "random", "size": 8, "min_steps": 4.0, "max_steps": 16.0, "min_detour": 1.2}
_LONGEST_PLAN = 8
_MOST_MOVES, _MOST_OBSTACLES = 16, 8


class Board(NamedTuple):
    """What changes during an episode.

    Attributes:
        cell: Where the walker is.
        time: The time step, within the period of the obstacles.
        seen: The cells that have been seen, one byte each, row by row; None where the map is known.
        collided: Whether the walker has met an obstacle.
    """

    cell: Cell
    time: int = 0
    seen: bytes | None = None
    collided: bool = False


class PathPlanningEnv(TextEnv):
    """Walk to the goal on a grid map.

    ## Description
    Every reset draws a problem: a map of a family, a start and a goal with a way between them that is longer than it
    looks. One move a turn leads to a neighbouring cell. By default the map is known; with a `view_radius` cells are `?`
    until they have been near. With `obstacles`, some others walk to and fro on the map, and their rounds are told.

    ## Action Space
    A text: one of `Left`, `Down`, `Right`, `Up`, in any case; with `connectivity=8` also `Down Left`, `Down Right`,
    `Up Right`, `Up Left`; with `obstacles` also `Stay`. Up to `moves_per_turn` of them joined by ` || `, made until the
    goal is reached or an obstacle is met. Everything else is unreadable: nothing moves, not even obstacles, the turn
    counts, the reward is `invalid_penalty`.

    ## Observation Space
    A text in one of the forms of `turngym.envs.path_planning.text_forms`: first a line of feedback where something
    happened, then where `P`, the player, and `G`, the goal, are, then the map. Of each obstacle, a line
    `obstacle at 5 4 then 5 5 then 5 6 then 5 5` tells where it is now and after each move, until it begins again.

    ## Starting State
    The player on the problem's start, obstacles at the beginning of their rounds.

    ## Rewards
    `reward="success"`: 1 for reaching the goal, else 0. `reward="cost"`: 1 for reaching the goal, and every move takes
    away its cost divided by the optimum, so that a perfect episode adds up to 0. A step costs its length (1 or √2)
    times the mean cost factor of its two cells; staying and a move that a wall or the edge holds back cost as much as
    a straight step. A reply that cannot be read earns `invalid_penalty`.

    `shaping=True` adds Φ(after) - Φ(before) to every turn, where Φ is -1 times the share of the way that is left
    (what it costs to go, over what it cost at the start, as if no obstacle moved), and 0 once the episode has
    terminated (Ng, Harada, Russell 1999). The sum over an episode that terminates is 1 whatever was done, so the best
    policies stay the best.

    ## Episode End
    Terminated on the goal, and where an obstacle is met or changes places with the player; truncated after `max_turns`
    turns, by default twice the moves of the best way.

    ## Information
    As in `TextEnv`; `success` is True on the goal. `oracle_steps` is how many moves the cheapest way has. A step also
    tells of `path` (the cells walked through in this turn, the first one included), `cost` (of this turn), `regret`
    (how much of that was wasted, by the exact distances: 0 on a cheapest way, inf where the goal was lost) and
    `optimum` (the cost of the cheapest way from the start).

    `oracle_value` is exact or None; it is None with a `view_radius`, where the oracle, which knows the map, is a bound
    and no policy of the game. Obstacles cost no exactness: they repeat, and the oracle plans over cell and time.

    ## Arguments
    Maps: `family` ("random", "rooms", "maze", "caves", "city" or "terrain"), `size` (one number, or rows and columns;
    8 unless given), `connectivity` (4 or 8), `min_steps` and `max_steps` (cost of the best way; 4 to 16 unless given),
    `min_detour` (least ratio of that cost to the distance on an empty map; 1.2 unless given). `map_path` plays the
    scenarios of a MovingAI map instead: those of `scenario_path`, by default of the file that has the map's name and
    `.scen` after it; `min_steps` and `max_steps` then choose rows by the length that they state.

    Text: `text_form` ("grid", "coordinates", "runs", "roads" or "overview"; by default the fullest one that holds every
    map within `max_tokens`) and `max_tokens` (1024; `overview` fills it, the other forms need what they need).

    Rules: `moves_per_turn` (1 to 16), `view_radius` (in rows and columns, at least 1; None is a known map),
    `obstacles` (0 to 8), `reward`, `shaping`, and those of `TextEnv`.

    ## Demonstrations
    `oracle_action` follows a cheapest way, `rstar2_action` the way that the planner RStar2 finds (with ε = 2: it costs
    at most twice the cheapest one); with a `view_radius` that is a replanner which takes what it has not seen for free.

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("PathPlanning-v0")
    >>> observation, info = env.reset(seed=0)
    >>> print(observation)
    P 5 0 G 7 0
    _ _ # # _ _ _ _
    _ _ _ # _ # _ _
    _ _ _ _ # # _ _
    _ _ _ _ _ _ _ _
    # _ _ _ _ _ _ _
    P _ _ _ _ _ _ _
    # _ _ _ _ # _ #
    G _ _ # _ _ # _
    >>> observation, reward, terminated, truncated, info = env.step("Straight on")
    >>> print(observation)
    I could not read a move. Reply with one of: Left, Down, Right, Up.
    P 5 0 G 7 0
    _ _ # # _ _ _ _
    _ _ _ # _ # _ _
    _ _ _ _ # # _ _
    _ _ _ _ _ _ _ _
    # _ _ _ _ _ _ _
    P _ _ _ _ _ _ _
    # _ _ _ _ # _ #
    G _ _ # _ _ # _
    >>> reward, terminated, info["success"], info["regret"]
    (-0.1, False, False, 0.0)
    >>> observation, reward, terminated, truncated, info = env.step("Up")
    >>> print(observation)
    The wall holds you back.
    P 5 0 G 7 0
    _ _ # # _ _ _ _
    _ _ _ # _ # _ _
    _ _ _ _ # # _ _
    _ _ _ _ _ _ _ _
    # _ _ _ _ _ _ _
    P _ _ _ _ _ _ _
    # _ _ _ _ # _ #
    G _ _ # _ _ # _
    >>> reward, terminated, info["success"], info["regret"]
    (0.0, False, False, 1.0)
    >>> observation, reward, terminated, truncated, info = env.step("Right")
    >>> observation, reward, terminated, truncated, info = env.step("Down")
    >>> observation, reward, terminated, truncated, info = env.step("Down")
    >>> observation, reward, terminated, truncated, info = env.step("Left")
    >>> print(observation)
    You reached the goal.
    P 7 0 G 7 0
    _ _ # # _ _ _ _
    _ _ _ # _ # _ _
    _ _ _ _ # # _ _
    _ _ _ _ _ _ _ _
    # _ _ _ _ _ _ _
    _ _ _ _ _ _ _ _
    # _ _ _ _ # _ #
    √ _ _ # _ _ # _
    >>> reward, terminated, info["success"], info["regret"]
    (1.0, True, True, 0.0)
    ```

    ## Version History
    - v0: first release.
    """

    _way: dict[str, Any] | None = None

    def __init__(
        self,
        *,
        family: Family | None = None,
        size: int | tuple[int, int] | None = None,
        connectivity: Connectivity = 4,
        min_steps: float | None = None,
        max_steps: float | None = None,
        min_detour: float | None = None,
        map_path: str | None = None,
        scenario_path: str | None = None,
        text_form: Form | None = None,
        max_tokens: int = MAX_TOKENS,
        moves_per_turn: int = 1,
        view_radius: int | None = None,
        obstacles: int = 0,
        reward: Reward = "success",
        shaping: bool = False,
        max_turns: int | str = "2x",
        split: Split = "train",
        invalid_penalty: float = -0.1,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, invalid_penalty=invalid_penalty, render_mode=render_mode)
        _check(moves_per_turn, obstacles, reward)
        self._source = source_of(
            _DEFAULTS,
            family=family,
            size=size,
            connectivity=connectivity,
            min_steps=min_steps,
            max_steps=max_steps,
            min_detour=min_detour,
            map_path=map_path,
            scenario_path=scenario_path,
        )
        self._sensor = None if view_radius is None else Sensor(view_radius)
        self._teller = Teller.of(self._source, text_form, max_tokens, marks=obstacles, sensor=view_radius is not None)
        self._grammar = Grammar(connectivity, obstacles > 0, moves_per_turn)
        self.obstacles, self.reward, self.shaping = obstacles, reward, shaping
        self.reply_tokens = self._grammar.tokens
        self.instructions = _instructions(self._teller, self._grammar, view_radius, obstacles)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn; the info also tells of the way walked: `path`, `cost`, `regret` and `optimum`."""
        self._way = None
        observation, reward, terminated, truncated, info = super().step(action)
        info |= self._way or {"path": (self._board.cell,), "cost": 0.0, "regret": 0.0}
        info["optimum"] = self._costs().cost(self._level.problem.start, 0)
        return observation, reward, terminated, truncated, info

    def _generate(self, rng: np.random.Generator) -> Level:
        return draw_obstacles(rng, self._source.draw(rng), self.obstacles)

    def _canonical(self, level: Level) -> str:
        return self._source.canonical(level.problem)

    def _level_text(self, level: Level) -> str:
        return level.text

    def _optimum(self, level: Level) -> int:
        return cost_to_go(level).length(level.problem.start, 0)

    def _first_board(self, level: Level) -> Board:
        seen = None if self._sensor is None else nothing_seen(level.problem.map).tobytes()
        return self._looked(Board(level.problem.start, seen=seen), [level.problem.start])

    def _parse(self, action: str) -> tuple[int, ...] | ParseError:
        return self._grammar.parse(action)

    def _expected(self) -> str:
        return self._grammar.expected

    def _apply(self, parsed: tuple[int, ...]) -> Event:
        before: Board = self._board
        walked = walk(self._level, before.cell, before.time, parsed)
        after = Board(walked.cells[-1], walked.time, before.seen, walked.collided)
        self._board = self._looked(after, walked.cells[1:])
        costs, success = self._costs(), after.cell == self._level.problem.goal and not after.collided
        to_go = inf if after.collided else costs.cost(after.cell, after.time)
        was_to_go = costs.cost(before.cell, before.time)
        regret = walked.cost + to_go - was_to_go if was_to_go < inf else 0.0
        self._way = {"path": walked.cells, "cost": walked.cost, "regret": max(regret, 0.0)}
        over = success or after.collided
        earned = float(success) - self._charge(walked.cost) - self._potential(before.cell)
        earned += 0.0 if over else self._potential(after.cell)
        return Event(earned, walked.told, terminated=over, success=success, moves=len(walked.cells) - 1)

    def _describe(self) -> str:
        lines = [
            f"obstacle at {' then '.join(f'{row} {col}' for row, col in self._round(obstacle))}"
            for obstacle in self._level.obstacles
        ]
        return "\n".join([self._teller.tell(self._view()), *lines])

    def oracle_action(self) -> str | None:
        """The moves of a cheapest way, or of the quickest one where the turns left allow no other; None at the end.

        The oracle knows the whole map, also where the walker has a `view_radius`.
        """
        if self._over:
            return None
        return self._grammar.spell(self._plan()[: self._grammar.limit] or [STAY if self.obstacles else 0])

    def oracle_value(self) -> float | None:
        """The best sum of rewards from here, or None where it is not known exactly.

        That is: with a `view_radius`, where what the walker will see decides; with `reward="cost"`, if what is left
        costs more than the whole optimum (to give up might pay) or more moves than are left; with `shaping`, if the
        goal is out of reach.
        """
        if self._over:
            return 0.0
        if self._sensor is not None:
            return None
        board, costs, most = self._board, self._costs(), self.turns_left * self._grammar.limit
        to_go, optimum = costs.cost(board.cell, board.time), costs.cost(self._level.problem.start, 0)
        if self.reward == "cost":
            if to_go > optimum or costs.length(board.cell, board.time) > most:
                return None
            return 1.0 - self._charge(to_go) - self._potential(board.cell)
        if to_go < inf and costs.quickest(board.cell, board.time, most) is not None:
            return 1.0 - self._potential(board.cell)
        return None if self.shaping else 0.0

    def oracle_thought(self) -> str:
        """Where player and goal are, what the oracle plans (eight moves at most), and the cell after this turn.

        A cell is its row and its column, counted from 0 at the top left: `I am at 1 3, goal at 0 0, plan Up Left Left
        Left, next 0 3`.
        """
        if self._over:
            return ""
        plan = self._plan() or (STAY if self.obstacles else 0,)
        after = walk(self._level, self._board.cell, self._board.time, plan[: self._grammar.limit]).cells[-1]
        here, goal, there = (f"{row} {col}" for row, col in (self._board.cell, self._level.problem.goal, after))
        names = " ".join(self._grammar.names[move] for move in plan[:_LONGEST_PLAN])
        return f"I am at {here}, goal at {goal}, plan {names}, next {there}"

    def rstar2_action(self) -> str | None:
        """The moves along a way that RStar2 finds, the teacher of `--demonstrations rstar2`; None at the end.

        With a `view_radius` it plans from here on what has been seen and takes the rest for free, so it knows no more
        than the walker. It plans on maps and not over time: None where obstacles move.
        """
        if self._over or self.obstacles:
            return None
        problem, side = self._level.problem, min(self._source.shape)
        settings = {"distance": max(4, side // 4), "threshold": max(16, side)}
        seen = self._seen(self._board)
        if seen is None:
            path = lesson(problem, self._board.cell, **settings).path
        else:
            path = exact_lesson(assumed(problem.map, seen), self._board.cell, problem.goal, **settings).path
        steps = list(pairwise(path))[: self._grammar.limit]
        return self._grammar.spell([move_between(*step) for step in steps])

    def random_action(self, rng: np.random.Generator) -> str:
        """A reply drawn uniformly from the valid ones."""
        return self._grammar.spell(self._grammar.random(rng))

    def legal_actions(self) -> list[str] | None:
        """The moves (sequences of them are legal too where `moves_per_turn` allows)."""
        return list(self._grammar.names.values())

    def as_array(self) -> NDArray[np.int8]:
        """Cells as `(rows, cols)`: the place of what is drawn on each in `_#GP√-?*23456789`."""
        return numbered(self._view())

    def _paint(self) -> NDArray[np.uint8]:
        return draw_image(self._view(), tile=tile(self._source.shape))

    def _view(self) -> View:
        board, problem = self._board, self._level.problem
        marks = {obstacle.position(board.time): OBSTACLE for obstacle in self._level.obstacles}
        return View(problem.map, board.cell, problem.goal, self._seen(board), marks)

    def _round(self, obstacle: MovingObstacle) -> list[Cell]:
        """Where an obstacle is now and later, until it all begins again."""
        return [obstacle.position(self._board.time + later) for later in range(obstacle.period)]

    def _seen(self, board: Board) -> Mask | None:
        """What has been seen of the map; None stands for all of it."""
        return None if board.seen is None else np.frombuffer(board.seen, np.bool_).reshape(self._source.shape)

    def _looked(self, board: Board, cells: Sequence[Cell]) -> Board:
        """The board after looking around from some cells."""
        seen = self._seen(board)
        if self._sensor is None or seen is None:
            return board
        for cell in cells:
            seen = self._sensor.look(seen, cell)
        return board._replace(seen=seen.tobytes())

    def _costs(self) -> CostToGo:
        return cost_to_go(self._level)

    def _plan(self) -> tuple[int, ...]:
        """The first moves of a cheapest way, or those of the quickest one where no other arrives in time."""
        board, costs, most = self._board, self._costs(), self.turns_left * self._grammar.limit
        if costs.length(board.cell, board.time) > most:
            quickest = costs.quickest(board.cell, board.time, most)
            if quickest is not None:
                return quickest
        return costs.plan(board.cell, board.time, longest=max(_LONGEST_PLAN, self._grammar.limit))

    def _charge(self, cost: float) -> float:
        """The reward that a way of some cost takes away."""
        return cost / self._costs().cost(self._level.problem.start, 0) if self.reward == "cost" else 0.0

    def _potential(self, cell: Cell) -> float:
        """Φ: how far the goal is, in parts of the whole way, negative; as if no obstacle moved."""
        costs = self._costs()
        return -costs.distance(cell) / costs.distance(self._level.problem.start) if self.shaping else 0.0


def _check(moves_per_turn: int, obstacles: int, reward: str) -> None:
    if not 1 <= moves_per_turn <= _MOST_MOVES:
        raise ValueError(f"moves_per_turn must be between 1 and {_MOST_MOVES}, got {moves_per_turn}")
    if not 0 <= obstacles <= _MOST_OBSTACLES:
        raise ValueError(f"obstacles must be between 0 and {_MOST_OBSTACLES}, got {obstacles}")
    if reward not in get_args(Reward):
        raise ValueError(f"reward must be one of {', '.join(get_args(Reward))}, got {reward!r}")


def _instructions(teller: Teller, grammar: Grammar, view_radius: int | None, obstacles: int) -> str:
    """The rules in words."""
    rules = ["You walk on a map. Reach the goal.", teller.legend]
    if view_radius is not None:
        rules.append(f"You see {2 * view_radius + 1} by {2 * view_radius + 1} cells around you.")
    if obstacles:
        rules.append(
            "Each * is a moving obstacle. It moves one step with each of your moves: from where it is at to the cell "
            "after then, from the last one to the first. The game ends if you meet it, or change places with it."
        )
    return " ".join([*rules, grammar.expected])
