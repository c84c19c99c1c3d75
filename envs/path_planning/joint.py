"""JointPathPlanning: one model commands all agents on a map, and each reply moves all of them at once."""

from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from turngym.envs.actions import ParseError
from turngym.envs.path_planning import fleet_levels, fleet_text
from turngym.envs.path_planning.cbs import JointPlan, cbs
from turngym.envs.path_planning.fleet import MOVES, Cells, Fleet, advance
from turngym.envs.path_planning.fleet_levels import FLEET_FAMILIES, FleetFamily, FleetLevel
from turngym.envs.splits import Split, split_of
from turngym.envs.text_env import Event, TextEnv

_MAX_LEGAL = 625
_PLANNED = 4


class _Unreadable(NamedTuple):
    """A reply that is a turn without a move, and no free one."""

    reason: str


class _Prospect(NamedTuple):
    """The best that can be made of a board in the turns left, and what it earns."""

    plan: JointPlan
    value: float


class JointPathPlanningEnv(TextEnv):
    """Bring several agents to their goals, all of which move at once and stand in each other's way.

    ## Description
    Multi-agent path finding by its classical rules (see `fleet`): a vertex conflict or a swap keeps those who claim the
    cells where they are, and those who wanted to follow them; following and turning in a ring are allowed. Every level
    is drawn so that agents must give way: the best joint plan costs more than the shortest paths together. That plan
    is found by conflict-based search, whose cost is the scale of the reward.

    ## Action Space
    A text with one move for every agent, in any order and any case: `a Up | b Stay | c Left`. Moves are `Left`, `Down`,
    `Right`, `Up` and `Stay`. All or nothing: if a part cannot be read, or an agent is missing or named twice, nobody
    moves, the turn counts and costs what staying costs, and `invalid_penalty` comes on top.

    ## Observation Space
    A text: a line with every conflict of the last turn, if there were any; a line with row and column of every agent
    and its goal; then the map, cells separated by spaces: `#` wall, `_` free, `a` `b` … agents, `A` `B` … their goals.
    An agent covers the goal that it stands on. (In the vocabulary of the `tiny` model letters with a space before them
    are two tokens, but for `a`, `B` and `G`; every other cell is one.)

    ## Starting State
    A random map of `family`; starts and goals in one connected part of it, nobody on the own goal.

    ## Rewards
    A turn costs 1 for every agent but those that rest on their goals, before and after it, divided by what the best
    plan of the level costs in all; 1 is earned when all agents are on their goals at once. So an episode with the best
    plan totals 0 (1 for success, less a whole optimum), one that succeeds at twice that cost -1. This is the classical
    sum of costs, but that a rest on the goal is free even where the agent makes way later (sum of loss), so that what
    is to come does not depend on what was.

    ## Episode End
    Terminated when all agents are on their goals at once; truncated after `max_turns` turns.

    ## Information
    As in `TextEnv`; `success` is True where all agents are on their goals. `oracle_steps` is the number of turns of the
    best plan (of those of least cost, one with the fewest turns). `oracle_value` is exact, in the turns left, found by
    conflict-based search from where the agents are; it and `oracle_action` are None where that search gave up.

    ## Arguments
    `agents` (2 to 8), `size` (cells along a side, 4 to 32), `family` ("random", "rooms", "maze", "caves", "city"),
    `min_delay` (how much agents must cost each other: the optimum less the sum of the shortest paths; 0 also takes
    levels where nobody is in the way), and those of `TextEnv`; `max_turns` is "2x" unless given. `fleet` gives a level
    of your own instead, whatever the four others say, such as `fleet_levels.load_fleet` reads from MovingAI's
    scenarios; there is then one level, the same in all splits (`shared_splits` is True).

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("JointPathPlanning-v0")
    >>> observation, info = env.reset(seed=47)
    >>> print(observation)
    a 3 2 A 4 2 | b 3 0 B 3 2 | c 2 1 C 3 1
    _ _ # _ _ #
    _ _ _ _ _ _
    _ c # _ # _
    b C a _ _ _
    _ _ A _ # _
    _ # # _ _ _
    >>> observation, reward, terminated, truncated, info = env.step("a Down | b Right")
    >>> print(observation)
    Every agent needs one move. Reply such as a Up | b Stay | c Left, each one of: Left, Down, Right, Up, Stay.
    a 3 2 A 4 2 | b 3 0 B 3 2 | c 2 1 C 3 1
    _ _ # _ _ #
    _ _ _ _ _ _
    _ c # _ # _
    b C a _ _ _
    _ _ A _ # _
    _ # # _ _ _
    >>> round(reward, 3), terminated, info["success"]
    (-0.7, False, False)
    >>> observation, reward, terminated, truncated, info = env.step("a Down | b Right | c Down")
    >>> print(observation)
    b and c want 3 1 and stay.
    a 4 2 A 4 2 | b 3 0 B 3 2 | c 2 1 C 3 1
    _ _ # _ _ #
    _ _ _ _ _ _
    _ c # _ # _
    b C B _ _ _
    _ _ a _ # _
    _ # # _ _ _
    >>> round(reward, 3), terminated, info["success"]
    (-0.6, False, False)
    >>> observation, reward, terminated, truncated, info = env.step("a Stay | b Right | c Stay")
    >>> print(observation)
    a 4 2 A 4 2 | b 3 1 B 3 2 | c 2 1 C 3 1
    _ _ # _ _ #
    _ _ _ _ _ _
    _ c # _ # _
    _ b B _ _ _
    _ _ a _ # _
    _ # # _ _ _
    >>> round(reward, 3), terminated, info["success"]
    (-0.4, False, False)
    >>> observation, reward, terminated, truncated, info = env.step("a Stay | b Right | c Down")
    >>> print(observation)
    All agents are on their goals.
    a 4 2 A 4 2 | b 3 2 B 3 2 | c 3 1 C 3 1
    _ _ # _ _ #
    _ _ _ _ _ _
    _ _ # _ # _
    _ c b _ _ _
    _ _ a _ # _
    _ # # _ _ _
    >>> round(reward, 3), terminated, info["success"]
    (0.6, True, True)
    ```

    ## Version History
    - v0: first release.
    """

    def __init__(
        self,
        *,
        agents: int = 3,
        size: int = 6,
        family: FleetFamily = "random",
        min_delay: int = 1,
        fleet: Fleet | None = None,
        max_turns: int | str = "2x",
        split: Split = "train",
        invalid_penalty: float = -0.1,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, invalid_penalty=invalid_penalty, render_mode=render_mode)
        if not 2 <= agents <= 8:
            raise ValueError(f"agents must be between 2 and 8, got {agents}")
        if not 4 <= size <= 32:
            raise ValueError(f"size must be between 4 and 32, got {size}")
        if family not in FLEET_FAMILIES:
            raise ValueError(f"family must be one of {', '.join(get_args(FleetFamily))}, got {family!r}")
        if min_delay < 0:
            raise ValueError(f"min_delay must be at least 0, got {min_delay}")
        self._only_level = None if fleet is None else fleet_levels.level_of(fleet)
        self.shared_splits = fleet is not None
        self.agents = agents if fleet is None else len(fleet.starts)
        self.size, self.family, self.min_delay = size, family, min_delay
        self.instructions = (
            f"You command {self.agents} agents on one map and move all of them in each reply. {fleet_text.LEGEND} "
            f"{fleet_text.RULES} {self._expected()}"
        )
        self._known: tuple[tuple[FleetLevel, Cells, int], _Prospect | None] | None = None

    def _generate(self, rng: np.random.Generator) -> FleetLevel:
        return self._only_level or fleet_levels.generate_level(
            rng,
            self.family,
            agents=self.agents,
            size=self.size,
            min_delay=self.min_delay,
            accept=lambda fleet: split_of(fleet_levels.canonical(fleet)) == self.split,
        )

    def _canonical(self, level: FleetLevel) -> str:
        return fleet_levels.canonical(level.fleet)

    def _level_text(self, level: FleetLevel) -> str:
        return fleet_text.describe(level.fleet, level.fleet.starts)

    def _optimum(self, level: FleetLevel) -> int:
        return level.turns

    def _first_board(self, level: FleetLevel) -> Cells:
        return level.fleet.starts

    def _parse(self, action: str) -> tuple[int, ...] | _Unreadable:
        moves = fleet_text.parse(action, self.agents)
        return _Unreadable(moves.reason) if isinstance(moves, ParseError) else moves

    def _expected(self) -> str:
        return fleet_text.expected(self.agents)

    def _apply(self, parsed: tuple[int, ...] | _Unreadable) -> Event:
        before: Cells = self._board
        if isinstance(parsed, _Unreadable):
            reward = self.invalid_penalty - self._cost(before, before)
            return Event(reward, f"{parsed.reason} {self._expected()}", is_valid=False)
        self._board, conflicts = advance(self._level.fleet.map, before, parsed)
        success = self.is_solved
        told = " ".join(filter(None, [fleet_text.tell(conflicts), fleet_text.ARRIVED * success]))
        return Event(success - self._cost(before, self._board), told, terminated=success, success=success, moves=1)

    def _cost(self, before: Cells, after: Cells) -> float:
        """What a turn costs, in units of the level's optimum."""
        level: FleetLevel = self._level
        resting = [one == other == goal for one, other, goal in zip(before, after, level.fleet.goals, strict=True)]
        return resting.count(False) / level.cost

    def _describe(self) -> str:
        return fleet_text.describe(self._level.fleet, self._board)

    @property
    def fleet(self) -> Fleet:
        """The level that is played."""
        fleet: Fleet = self._level.fleet
        return fleet

    @property
    def cells(self) -> Cells:
        """Where every agent is."""
        cells: Cells = self._board
        return cells

    @property
    def is_solved(self) -> bool:
        """Whether all agents are on their goals."""
        return self.cells == self.fleet.goals

    @property
    def optimal_cost(self) -> int:
        """What the best plan of the level costs, as a sum of loss: the unit of the reward."""
        cost: int = self._level.cost
        return cost

    def oracle_action(self) -> str | None:
        """The first joint move of the best plan for the turns left; None at the end, and where the search gave up."""
        prospect = self._prospect()
        return prospect and fleet_text.spell(self._planned(prospect.plan)[0])

    def oracle_value(self) -> float | None:
        """What the best plan for the turns left earns; None where the search gave up."""
        if self._over:
            return 0.0
        prospect = self._prospect()
        return prospect and prospect.value

    def oracle_thought(self) -> str:
        """The next moves of every agent by the best plan, and where they are after this turn.

        At most four moves each, without waiting at the end: `plan a Up Up | b Stay Left | c Stay, next a 1 3 | b 2 2 |
        c 0 5`. "" where the search gave up.
        """
        prospect = self._prospect()
        if prospect is None:
            return ""
        after = tuple(path[1] for path in prospect.plan.paths)
        return fleet_text.spell_plan(self._planned(prospect.plan)[:_PLANNED], after)

    def random_action(self, rng: np.random.Generator) -> str:
        """A move for every agent, drawn uniformly."""
        return fleet_text.spell(rng.integers(len(MOVES), size=self.agents).tolist())

    def legal_actions(self) -> list[str] | None:
        """All joint moves; None for more than four agents, who have thousands."""
        if len(MOVES) ** self.agents > _MAX_LEGAL:
            return None
        return [fleet_text.spell(moves) for moves in product(range(len(MOVES)), repeat=self.agents)]

    def as_array(self) -> NDArray[np.int8]:
        """The board as `(3, rows, cols)`: 1 for walls; the agents, counted from 1; their goals, by the same numbers."""
        return fleet_text.numbered(self._level.fleet, self._board)

    def _paint(self) -> NDArray[np.uint8]:
        return fleet_text.picture(self._level.fleet, self._board)

    def _planned(self, plan: JointPlan) -> list[tuple[int, ...]]:
        """The joint moves of a plan."""
        return [
            tuple(fleet_text.move_between(self._level.fleet.map, *ends) for ends in zip(before, after, strict=True))
            for before, after in pairwise(zip(*plan.paths, strict=True))
        ]

    def _prospect(self) -> _Prospect | None:
        """The best from here; None at the end, and where the search gave up."""
        if self._over:
            return None
        asked = self._level, self._board, self.turns_left
        if self._known is None or self._known[0] != asked:
            self._known = asked, _best(*asked)
        return self._known[1]


def _best(level: FleetLevel, cells: Cells, turns: int) -> _Prospect | None:
    """The best plan for the turns left: to arrive, or where that is not possible or too dear, to lose little."""
    fleet = replace(level.fleet, starts=cells)
    arriving = cbs(fleet, objective="sum_of_loss", horizon=turns)
    if arriving.status == "gave_up":
        return None
    prospect = _Prospect(arriving, 1 - arriving.cost / level.cost)
    if arriving.cost <= level.cost + turns:  # whoever fails pays for one agent at least in every turn
        return prospect
    staying = cbs(fleet, objective="sum_of_loss", horizon=turns, must_arrive=False)
    if staying.status == "gave_up":
        return None
    return max(prospect, _Prospect(staying, -staying.cost / level.cost), key=lambda one: one.value)
