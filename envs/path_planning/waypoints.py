"""RStar2: choose waypoints in the planner's place, while short searches find the paths between them."""

from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turngym.envs.actions import ParseError
from turngym.envs.errors import LevelError
from turngym.envs.path_planning.generators import Family
from turngym.envs.path_planning.levels import source_of
from turngym.envs.path_planning.maps import Cell, Connectivity, Problem
from turngym.envs.path_planning.moves import move_between
from turngym.envs.path_planning.pictures import Overlay, draw_ansi, draw_image
from turngym.envs.path_planning.roads import NAMES
from turngym.envs.path_planning.teller import Teller, numbered, tile
from turngym.envs.path_planning.text_forms import MAX_TOKENS, Form
from turngym.envs.path_planning.view import View
from turngym.envs.path_planning.waypoint_plans import Plan, Prices, best_plan, taught, to_go
from turngym.envs.path_planning.waypoint_rules import Board, Edge, Proposal, Rules, came_by, heat
from turngym.envs.path_planning.waypoint_text import Grammar, legend, table, written
from turngym.envs.splits import Split
from turngym.envs.text_env import Event, TextEnv

_DEFAULTS = {"family": "rooms", "size": 12, "min_steps": 8.0, "max_steps": 32.0, "min_detour": 1.2}
_MOST_WAYPOINTS = 32
_MAX_DRAWS = 100
_LONGEST_THOUGHT = 8, 3
_WAYPOINT = "*"


class Level(NamedTuple):
    """A problem, and what is known about it.

    Attributes:
        problem: Map, start and goal.
        optimum: The cost of a cheapest path.
        astar: Cells that A* expands to find one.
        weighted_astar: Cells that weighted A* expands, with weight 2.
    """

    problem: Problem
    optimum: float
    astar: int
    weighted_astar: int


class RStar2Env(TextEnv):
    r"""Choose the waypoints of a path; short searches find the paths between them.

    ## Description
    R* and RStar2 replace one hard search by many short ones between waypoints. Good waypoints make the searches easy,
    bad ones are worse than none, and to choose them is what the agent does here, in the planner's place. From the
    anchor `P` it proposes a waypoint at most Δ rows and columns away. Weighted A* then looks for a path, and gives up
    after so many expansions. Where it gets there, the anchor moves to the waypoint; where it does not, the edge is
    AVOID, as R* calls an edge whose search was too hard. Γ, the graph of all edges, grows with every turn.

    ## Action Space
    A text: row and column of a free cell, such as `3 4`, or `goal`. Up to `waypoints_per_turn` of them joined by
    ` || ` are searched for one after the other, until one is not reached, or the goal is; with `max_turns=1` that is a
    whole plan in one reply. With `tree=True` each may say at which waypoint its search begins, `from 5 0 to 3 4`: at
    any that was reached. Nothing is searched for, the turn counts, and the reward is `invalid_penalty` where a reply
    cannot be read, or a waypoint is too far away, a wall, where the search begins, or at the end of an edge that is
    AVOID (in tree mode, of any edge that is there).

    ## Observation Space
    A text: a line of feedback where something happened; the map in one of the forms of
    `turngym.envs.path_planning.text_forms`, with `P` the anchor and `G` the goal; then Γ, a line for each edge:
    `from 5 0 to 3 3 cost 5 in 8` has a path of cost 5, found by expanding 8 cells, and `from 5 0 to 3 3 X in 16` is
    AVOID. With `max_expansions`, a line at the end says how many are left, `budget 31`.

    ## Starting State
    The anchor on the problem's start, and no edges.

    ## Rewards
    1 for reaching the goal, less what is charged: `cost_price` for a path as long as the cheapest one, in proportion;
    `expansion_price` for as many expansions as A* needs, in proportion; and `waypoint_price` for each waypoint that was
    proposed. Without the last, waypoints on neighbouring cells would be best: they make searches trivial. The cost of
    an edge is charged when it is gone along; in tree mode, where the path need not go along all edges, that of the
    cheapest chain of edges when the goal is reached. An edge that is gone along again needs no search.

    With `evaluation_cost`, steps are expensive to look at, as where each one needs a collision check: every step from
    an expanded cell to a cell of the map is charged as so much cost of the path.

    `shaping=True` adds Φ(after) - Φ(before) to every turn, where Φ is -1 times the share of the way that is left from
    the anchor (in tree mode, from the waypoint nearest to the goal), and 0 once the episode has terminated (Ng, Harada,
    Russell 1999). The best policies stay the best.

    ## Episode End
    Terminated on the goal; where `max_expansions` are used up; and where no waypoint is left to propose. Truncated
    after `max_turns` turns, by default three times as many as the oracle has waypoints.

    ## Information
    As in `TextEnv`; `success` is True on the goal; `moves` counts waypoints, and so does `oracle_steps`. A step also
    tells of `avoid` (whether a search of this turn gave up; None where nothing was searched for), of `searches`,
    `failures`, `expansions` and `evaluations` (all of this turn), of `path` and `cost` (what this turn has added to the
    path; in tree mode all of it comes with the goal), and of `optimum` (the cost of a cheapest path),
    `astar_expansions` and `weighted_astar_expansions` (what A*, and weighted A* with weight 2, expand on this problem).

    `oracle_value` is exact or None: the value of the plan that is charged least, over all chains of waypoints whose
    searches succeed. It is None where that plan is charged more than the goal is worth (to give up might pay), where it
    needs more turns or expansions than are left, and where there is none; and on large maps, where the oracle looks
    among a thousand edges at most, and then takes a plan that is charged at most twice as much.

    ## Arguments
    Maps and text: as in `PathPlanningEnv`; unless given, `family` is "rooms", `size` 12, `min_steps` 8, `max_steps` 32.

    Searches: `distance` (Δ; unless given a quarter of the map's shorter side, at least 4 and at most 20), `budget`
    (expansions after which a search gives up; unless given 4 Δ), `weight` (of its heuristic, 2), `max_expansions` (of
    all searches together, as a multiple of what A* expands; None is no limit), `tree`, `waypoints_per_turn` (1 to 32).

    Rewards: `cost_price` (0.5), `expansion_price` (0.25), `waypoint_price` (0.02), `evaluation_cost` (0, in straight
    steps), `shaping`, and those of `TextEnv`.

    ## Demonstrations
    `oracle_action` follows the plan that is charged least, `rstar2_action` the waypoints by which the planner RStar2
    finds its path (with this Δ and budget, and ε = 2).

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("RStar2-v0")
    >>> observation, info = env.reset(seed=1)
    >>> print(observation)
    P 5 4 G 10 3
    _ _ _ _ _ # _ _ _ _ _ _
    _ _ _ _ _ # _ _ _ _ _ _
    _ _ _ _ _ # _ _ _ _ _ _
    _ # _ # # # # # _ # # #
    _ _ _ _ _ # _ _ _ _ _ _
    _ _ _ _ P # _ _ _ _ _ _
    _ _ _ _ _ _ _ _ _ _ _ _
    # # # # # # _ # # # _ #
    _ _ _ _ _ _ _ _ _ _ _ _
    _ _ _ _ _ # _ _ _ _ _ _
    _ _ _ G _ # _ _ _ _ _ _
    _ _ _ _ _ # _ _ _ _ _ _
    >>> observation, reward, terminated, truncated, info = env.step("goal")
    >>> print(observation.splitlines()[0])
    The waypoint is too far away. Reply with a waypoint at most 4 rows and 4 columns away, such as 6 4, or with goal.
    >>> reward, info["action_is_valid"], info["avoid"]
    (-0.1, False, None)
    >>> observation, reward, terminated, truncated, info = env.step("9 3")
    >>> print(observation)
    The waypoint is not reached.
    P 5 4 G 10 3
    _ _ _ _ _ # _ _ _ _ _ _
    _ _ _ _ _ # _ _ _ _ _ _
    _ _ _ _ _ # _ _ _ _ _ _
    _ # _ # # # # # _ # # #
    _ _ _ _ _ # _ _ _ _ _ _
    _ _ _ _ P # _ _ _ _ _ _
    _ _ _ _ _ _ _ _ _ _ _ _
    # # # # # # _ # # # _ #
    _ _ _ _ _ _ _ _ _ _ _ _
    _ _ _ _ _ # _ _ _ _ _ _
    _ _ _ G _ # _ _ _ _ _ _
    _ _ _ _ _ # _ _ _ _ _ _
    from 5 4 to 9 3 X in 16
    >>> round(reward, 3), info["avoid"], info["expansions"], info["astar_expansions"]
    (-0.231, True, 16, 19)
    >>> observation, reward, terminated, truncated, info = env.step("8 6")
    >>> print(*observation.splitlines()[13:], sep="\n")
    from 5 4 to 9 3 X in 16
    from 5 4 to 8 6 cost 5 in 5
    >>> round(reward, 3), info["avoid"], info["cost"], info["optimum"]
    (-0.336, False, 5.0, 10.0)
    >>> observation, reward, terminated, truncated, info = env.step("10 3")
    >>> print(observation.splitlines()[0], *observation.splitlines()[14:], sep="\n")
    You reached the goal.
    from 5 4 to 9 3 X in 16
    from 5 4 to 8 6 cost 5 in 5
    from 8 6 to 10 3 cost 5 in 5
    >>> round(reward, 3), terminated, info["success"], info["path"][-1]
    (0.664, True, True, (10, 3))
    ```

    ## Version History
    - v0: first release.
    """

    _told: dict[str, Any] | None = None

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
        distance: int | None = None,
        budget: int | None = None,
        weight: float = 2.0,
        max_expansions: float | None = None,
        tree: bool = False,
        waypoints_per_turn: int = 1,
        cost_price: float = 0.5,
        expansion_price: float = 0.25,
        waypoint_price: float = 0.02,
        evaluation_cost: float = 0.0,
        shaping: bool = False,
        max_turns: int | str = "3x",
        split: Split = "train",
        invalid_penalty: float = -0.1,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, invalid_penalty=invalid_penalty, render_mode=render_mode)
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
        if not 1 <= waypoints_per_turn <= _MOST_WAYPOINTS:
            raise ValueError(f"waypoints_per_turn must be between 1 and {_MOST_WAYPOINTS}, got {waypoints_per_turn}")
        if max_expansions is not None and not 0 < max_expansions < inf:
            raise ValueError(f"max_expansions must be above 0 and finite, or None, got {max_expansions}")
        self.max_expansions, self.shaping = max_expansions, shaping
        self._prices = _checked_prices(cost_price, expansion_price, evaluation_cost, waypoint_price)
        distance = distance if distance is not None else max(4, min(20, min(self._source.shape) // 4))
        self._rules = Rules(distance, budget if budget is not None else 4 * distance, weight, tree)
        self._teller = Teller.of(self._source, text_form, max_tokens)
        self._grammar = Grammar(self._rules, self._source.shape, waypoints_per_turn)
        self.reply_tokens = self._grammar.tokens
        limit = "" if max_expansions is None else "The budget is what all searches together may still expand. "
        self.instructions = (
            f"Lead a path from P to the goal G by waypoints. {self._teller.legend} {legend(self._rules)} {limit}"
            f"{self._grammar.expected}"
        )

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn; the info also tells of the searches and of the path, as `metrics.measure` reads it."""
        self._told = None
        observation, reward, terminated, truncated, info = super().step(action)
        info |= self._told or _account([])
        info["optimum"] = self._level.optimum
        info["astar_expansions"], info["weighted_astar_expansions"] = self._level[2:]
        return observation, reward, terminated, truncated, info

    def _generate(self, rng: np.random.Generator) -> Level:
        from turngym.envs.path_planning.search.astar import astar

        for _ in range(_MAX_DRAWS):
            problem = self._source.draw(rng)
            best, quick = (astar(problem.map, problem.start, problem.goal, weight=weight) for weight in (1.0, 2.0))
            level = Level(problem, best.cost, best.expansions, quick.expansions)
            one_terrain = problem.map.costs.min() == problem.map.costs.max()  # a neighbour takes a single expansion
            if one_terrain or self._best(level, Board(problem.start)) is not None:
                return level
        raise LevelError(f"budget must allow a way by waypoints: none in {_MAX_DRAWS} draws with {self._rules}")

    def _canonical(self, level: Level) -> str:
        return self._source.canonical(level.problem)

    def _level_text(self, level: Level) -> str:
        return f"{level.problem.map.digest} {level.problem.start} {level.problem.goal}"

    def _optimum(self, level: Level) -> int:
        plan = self._best(level, Board(level.problem.start))
        assert plan is not None, f"no waypoints lead from {level.problem.start} to {level.problem.goal}"
        return len(plan.proposals)

    def _first_board(self, level: Level) -> Board:
        return Board(level.problem.start)

    def _parse(self, action: str) -> tuple[Proposal, ...] | ParseError:
        return self._grammar.parse(action, self._level.problem, self._board)

    def _expected(self) -> str:
        return self._grammar.expected

    def _apply(self, parsed: tuple[Proposal, ...]) -> Event:
        problem, before = self._level.problem, self._board
        gone, searched = list[Edge](), list[Edge]()
        for proposal in parsed:
            edge = self._board.known(proposal)
            if edge is None:
                edge = self._rules.search(problem.map, proposal, self._expansions_left(self._board))
                searched.append(edge)
            gone.append(edge)
            self._board = self._board.after(edge)
            if not edge.path or edge.target == problem.goal or self._expansions_left(self._board) == 0:
                break
        success, used_up = self._board.anchor == problem.goal, self._expansions_left(self._board) == 0
        over = success or used_up or not self._rules.proposals(problem, self._board)
        cost, path = self._added(gone)
        self._told = _account(searched) | {"path": path, "cost": cost}
        prices = self._priced(self._level)
        charge = prices.cost * cost + prices.waypoint * len(gone) + sum(prices.effort(edge) for edge in searched)
        shaped = (0.0 if over else self._potential(self._board)) - self._potential(before)
        told = _feedback(gone[-1], success=success, used_up=used_up, over=over)
        return Event(success - charge + shaped, told, terminated=over, success=success, moves=len(gone))

    def _describe(self) -> str:
        lines = [self._teller.tell(self._view()), *table(self._board)]
        if self.max_expansions is not None:
            lines.append(f"budget {self._expansions_left(self._board)}")
        return "\n".join(lines)

    def oracle_action(self) -> str | None:
        """The next waypoints of the plan that is charged least.

        Where the turns or the expansions left do not allow it, those of another plan: the one charged least of those
        with few enough waypoints, the one with the fewest expansions. None at the end, and where no plan is left.
        """
        plan = None if self._over else self._plan()
        return plan and self._grammar.spell(plan.proposals[: self._grammar.limit])

    def oracle_value(self) -> float | None:
        """The best sum of rewards from here, or None where it is not known exactly (see the class)."""
        if self._over:
            return 0.0
        plan = self._best(self._level, self._board, self.turns_left * self._grammar.limit)
        if plan is None or not plan.is_best or plan.charge > 1 or plan.expansions > self._expansions_left(self._board):
            return None
        return 1.0 - plan.charge - self._potential(self._board)

    def oracle_thought(self) -> str:
        """Where anchor and goal are, how the oracle wants to go (eight moves at most), and its next waypoints.

        `I am at 5 0, goal at 7 0, go Right Down Down Left to 7 0`; further waypoints, three at most, follow as `, then
        7 3`. "" where there is no plan.
        """
        plan = None if self._over else self._plan()
        if plan is None:
            return ""
        problem, (most_moves, most_waypoints) = self._level.problem, _LONGEST_THOUGHT
        edges = [self._board.known(each) or self._rules.search(problem.map, each) for each in plan.proposals]
        first, *later = edges[: 1 + most_waypoints]
        moves = [NAMES[move_between(*step)] for step in zip(first.path, first.path[1:], strict=False)][:most_moves]
        begin = f"I am at {written(first.origin)}, goal at {written(problem.goal)}, go {' '.join(moves)}"
        return "".join([f"{begin} to {written(first.target)}", *(f", then {written(edge.target)}" for edge in later)])

    def rstar2_action(self) -> str | None:
        """The waypoints by which RStar2 goes on, the teacher of `--demonstrations rstar2`; None at the end.

        It is None too where no cell on its path can be reached, which only costly terrain with a small budget brings.
        """
        if self._over:
            return None
        proposals = taught(self._level.problem, self._rules, self._board, self._grammar.limit)
        return self._grammar.spell(proposals) if proposals else None

    def random_action(self, rng: np.random.Generator) -> str:
        """A reply drawn uniformly from the valid ones.

        Where one may hold several waypoints, their number is drawn first and then one after the other.
        """
        board, chosen = self._board, list[Proposal]()
        for _ in range(int(rng.integers(self._grammar.limit)) + 1):
            proposals = self._rules.proposals(self._level.problem, board)
            if not proposals or board.anchor == self._level.problem.goal:
                break
            chosen.append(proposals[int(rng.integers(len(proposals)))])
            board = self._grammar.hoped(board, chosen[-1])
        return self._grammar.spell(chosen)

    def legal_actions(self) -> list[str] | None:
        """The waypoints that can be proposed (sequences are legal too where `waypoints_per_turn` allows)."""
        return [self._grammar.spell([each]) for each in self._rules.proposals(self._level.problem, self._board)]

    def as_array(self) -> NDArray[np.int8]:
        """Cells as `(rows, cols)`: the place of what is drawn on each in `_#GP√-?*23456789`, `*` a waypoint reached."""
        marks = {edge.target: _WAYPOINT for edge in self._board.reached}
        return numbered(View(self._level.problem.map, self._board.anchor, self._level.problem.goal, marks=marks))

    def drawn(self) -> str:
        """The map with what was done on it, for people: see `turngym.envs.path_planning.pictures.draw_ansi`."""
        return draw_ansi(self._view(), self._overlay())

    def _paint(self) -> NDArray[np.uint8]:
        return draw_image(self._view(), self._overlay(), tile=tile(self._source.shape))

    def _view(self) -> View:
        return View(self._level.problem.map, self._board.anchor, self._level.problem.goal)

    def _overlay(self) -> Overlay:
        """The best path to the anchor, all waypoints, edges to avoid, and how often each cell was expanded."""
        problem, board = self._level.problem, self._board
        return Overlay(
            came_by(problem.start, board.edges)[board.anchor][1],
            tuple(dict.fromkeys(edge.target for edge in board.edges)),
            tuple((edge.origin, edge.target) for edge in board.edges if not edge.path),
            heat(problem.map, board.edges, self._rules.weight),
        )

    def _added(self, gone: list[Edge]) -> tuple[float, tuple[Cell, ...]]:
        """What a turn has added to the path: its cost and its cells, none where nothing was added."""
        problem, reached = self._level.problem, [edge for edge in gone if edge.path]
        if self._rules.tree:
            found = came_by(problem.start, self._board.edges).get(problem.goal)
            return found or (0.0, ())
        cells = [cell for edge in reached for cell in edge.path[1:]]
        return sum([edge.cost for edge in reached], 0.0), (reached[0].origin, *cells) if reached else ()

    def _expansions_left(self, board: Board) -> float:
        """What is left of `max_expansions`; inf where there is no limit."""
        if self.max_expansions is None:
            return inf
        return max(1, int(self.max_expansions * self._level.astar)) - board.expansions

    def _priced(self, level: Level) -> Prices:
        """The prices on a level."""
        cost, expansion, evaluation_cost, waypoint = self._prices
        unit = cost / level.optimum
        return Prices(unit, expansion / level.astar, unit * evaluation_cost, waypoint)

    def _best(self, level: Level, board: Board, limit: float = inf) -> Plan | None:
        """The plan that is charged least, of those with so many waypoints at most."""
        plan = best_plan(level.problem, self._rules, self._priced(level), board)
        if plan is None or len(plan.proposals) <= limit:
            return plan
        return best_plan(level.problem, self._rules, self._priced(level), board, limit)

    def _plan(self) -> Plan | None:
        """What the oracle does from here."""
        plan = self._best(self._level, self._board, self.turns_left * self._grammar.limit)
        if plan is not None and plan.expansions > self._expansions_left(self._board):
            return best_plan(self._level.problem, self._rules, Prices(0.0, 1.0, 0.0, 0.0), self._board)
        return plan or self._best(self._level, self._board)

    def _potential(self, board: Board) -> float:
        """Φ: the share of the way that is left from the nearest waypoint where a search may begin, negative."""
        if not self.shaping:
            return 0.0
        problem = self._level.problem
        nearest = min(to_go(problem).item(cell) for cell in self._rules.origins(problem, board))
        return -nearest / float(self._level.optimum)


def _checked_prices(
    cost_price: float, expansion_price: float, evaluation_cost: float, waypoint_price: float
) -> tuple[float, float, float, float]:
    prices = {
        "cost_price": cost_price,
        "expansion_price": expansion_price,
        "evaluation_cost": evaluation_cost,
        "waypoint_price": waypoint_price,
    }
    for name, price in prices.items():
        if not 0 <= price < inf:
            raise ValueError(f"{name} must be at least 0 and finite, got {price}")
    return cost_price, expansion_price, evaluation_cost, waypoint_price


def _account(searched: list[Edge]) -> dict[str, Any]:
    """What the searches of a turn come to; nothing added to the path."""
    failures = sum(not edge.path for edge in searched)
    return {
        "avoid": failures > 0 if searched else None,
        "searches": len(searched),
        "failures": failures,
        "expansions": sum(edge.expansions for edge in searched),
        "evaluations": sum(edge.evaluations for edge in searched),
        "path": (),
        "cost": 0.0,
    }


def _feedback(edge: Edge, *, success: bool, used_up: bool, over: bool) -> str:
    """What the model is told of the last search of a turn."""
    told = "" if edge.path else "The waypoint is not reached."
    if success:
        return "You reached the goal."
    if used_up:
        return f"{told} No budget is left.".strip()
    return f"{told} No waypoint is left.".strip() if over else told
