"""Walking on a map, among obstacles that move, as pure rules; and the exact cost to go from every cell and time.

A walker makes one move a time step. What the map does not allow leaves it where it is, for the price of a straight step
there; so does staying. Where obstacles are is a function of time with a known period, so a state is a cell and a time
within the period. To meet an obstacle ends the walk.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turngym.envs.errors import LevelError
from turngym.envs.path_planning.maps import BLOCKED, Cell, Problem
from turngym.envs.path_planning.moves import STAY, STEPS, move_between
from turngym.envs.path_planning.obstacles import MovingObstacle, collides, period, random_patrols

PATROL = 4
"""Cells of an obstacle's patrol, at most: periods are then 1, 2, 4 or 6, and 12 for all obstacles together."""

_MAX_DRAWS = 100


@dataclass(frozen=True)
class Level:
    """A problem and the obstacles that move on its map."""

    problem: Problem
    obstacles: tuple[MovingObstacle, ...] = ()

    @cached_property
    def period(self) -> int:
        """Time steps after which the obstacles repeat."""
        return period(self.obstacles)

    @property
    def text(self) -> str:
        """A text that no other level has."""
        return f"{self.problem.map.digest} {self.problem.start} {self.problem.goal} {self.obstacles}"


class Walk(NamedTuple):
    """What came of some moves.

    Attributes:
        cells: Where the walker was, from its start on; it has one cell more than moves were made.
        time: The time step now, within the period.
        cost: Of all moves together, those that were held back included.
        told: What happened on the way, in words.
        collided: Whether the walker met an obstacle.
    """

    cells: tuple[Cell, ...]
    time: int
    cost: float
    told: str
    collided: bool


def walk(level: Level, cell: Cell, time: int, moves: Sequence[int]) -> Walk:
    """Make moves from a cell at a time, until the goal is reached or an obstacle is met."""
    cells, cost, told, collided = [cell], 0.0, [], False
    for move in moves:
        there, price = target(level, cells[-1], move)
        if there == cells[-1] and move != STAY:
            told.append(_obstruction(level, there, move))
        collided = collides(level.obstacles, time, cells[-1], there)
        cells.append(there)
        cost, time = cost + price, (time + 1) % level.period
        if collided:
            told.append("You met a moving obstacle.")
            break
        if there == level.problem.goal:
            told.append("You reached the goal.")
            break
    return Walk(tuple(cells), time, cost, " ".join(told), collided)


def target(level: Level, cell: Cell, move: int) -> tuple[Cell, float]:
    """Where a move leads to on the map, and what it costs; obstacles are not looked at."""
    grid_map = level.problem.map
    there = cell[0] + STEPS[move][0], cell[1] + STEPS[move][1]
    for neighbour, cost in grid_map.neighbours(cell) if move != STAY else ():
        if neighbour == there:
            return there, cost
    return cell, grid_map.costs.item(cell) * grid_map.cell_size


def _obstruction(level: Level, cell: Cell, move: int) -> str:
    """Why a move from a cell leads nowhere, in words."""
    grid_map, there = level.problem.map, (cell[0] + STEPS[move][0], cell[1] + STEPS[move][1])
    if not grid_map.inside(there):
        return "The edge holds you back."
    if grid_map.zones[there] != grid_map.zones[cell]:
        return "The wall holds you back." if not grid_map.is_free(there) else "The water's edge holds you back."
    return "The corner of a wall holds you back."


def draw_obstacles(rng: np.random.Generator, problem: Problem, count: int) -> Level:
    """A solvable level of a problem and so many obstacles.

    Raises:
        LevelError: If a hundred draws of obstacles leave no way.
    """
    for _ in range(_MAX_DRAWS if count else 1):
        level = Level(problem, random_patrols(rng, problem, count, length=PATROL))
        if not count or cost_to_go(level).cost(problem.start, 0) < inf:
            return level
    raise LevelError(f"obstacles must leave a way: none in {_MAX_DRAWS} draws of {count} obstacles")


class CostToGo:
    """The cost of a cheapest way from every cell at every time to the goal, and the way.

    Args:
        level: The level.
    """

    def __init__(self, level: Level) -> None:
        from turngym.envs.path_planning.search.astar import distance_field

        self.level = level
        self.distances = distance_field(level.problem.map, level.problem.goal)
        self._costs = _timed(level) if level.obstacles else self.distances[None]
        self._ways: dict[tuple[Cell, int], tuple[int, Cell, int]] = {}  # by cell and time: move, next cell, moves left

    def cost(self, cell: Cell, time: int) -> float:
        """The cost to go, or inf where there is no way."""
        return float(self._costs.item(time % len(self._costs), *cell))

    def distance(self, cell: Cell) -> float:
        """The cost to go if no obstacle moved."""
        return self.distances.item(cell)

    def plan(self, cell: Cell, time: int, *, longest: int | None = None) -> tuple[int, ...]:
        """The moves of a cheapest way, the first `longest` of them; none where there is no way."""
        moves: list[int] = []
        for _ in range(self.length(cell, time) if longest is None else min(longest, self.length(cell, time))):
            move, cell, _ = self._ways[cell, time % self.level.period]
            moves.append(move)
            time += 1
        return tuple(moves)

    def length(self, cell: Cell, time: int) -> int:
        """How many moves `plan` has."""
        steps, state = [], (cell, time % self.level.period)
        while state not in self._ways and state[0] != self.level.problem.goal and self.cost(*state) < inf:
            move, there = self._best(*state)
            steps.append((state, move, there))
            state = there, (state[1] + 1) % self.level.period
        left = self._ways[state][2] if state in self._ways else 0
        for count, (here, move, there) in enumerate(reversed(steps), left + 1):
            self._ways[here] = move, there, count
        return left + len(steps)

    def _best(self, cell: Cell, time: int) -> tuple[int, Cell]:
        """The move that a cheapest way begins with, and where it leads to."""
        worths = [
            (price + self.cost(there, time + 1), move, there) for move, there, price in choices(self.level, cell, time)
        ]
        return min(worths)[1:]

    def quickest(self, cell: Cell, time: int, limit: int) -> tuple[int, ...] | None:
        """The fewest moves to the goal, whatever they cost; None where more than `limit` are needed."""
        level, seen = self.level, {(cell, time % self.level.period)}
        queue = deque([(cell, time, tuple[int, ...]())])
        while queue:
            here, now, moves = queue.popleft()
            if here == level.problem.goal:
                return moves
            for move, there, _ in choices(level, here, now) if len(moves) < limit else ():
                state = there, (now + 1) % level.period
                if state not in seen:
                    seen.add(state)
                    queue.append((there, now + 1, (*moves, move)))
        return None


@lru_cache(maxsize=16)
def cost_to_go(level: Level) -> CostToGo:
    """The costs to go of a level, kept for the levels used last."""
    return CostToGo(level)


def choices(level: Level, cell: Cell, time: int) -> list[tuple[int, Cell, float]]:
    """Every move from a cell at a time that meets no obstacle: its code, where it leads to, its cost.

    Staying is among them where obstacles move; moves that the map holds back are not, since they are the same.
    """
    steps = [(move_between(cell, there), there, cost) for there, cost in level.problem.map.neighbours(cell)]
    if level.obstacles:
        steps.append((STAY, *target(level, cell, STAY)))
    return [step for step in steps if not collides(level.obstacles, time, cell, step[1])]


def _timed(level: Level) -> NDArray[np.float64]:
    """The cost to go by time and cell, `(period, rows, cols)`: value iteration down to its fixed point."""
    steps, ends = _step_costs(level), level.period
    rows, cols = level.problem.map.zones.shape
    costs = np.full((ends, rows, cols), inf)
    before = np.empty_like(costs)
    while not np.array_equal(before, costs):
        before = costs.copy()
        costs[(slice(None), *level.problem.goal)] = 0.0
        for time in range(ends - 1, -1, -1):
            later = np.pad(costs[(time + 1) % ends], 1, constant_values=inf)
            for price, (down, across) in zip(steps[time], STEPS, strict=True):
                shifted = later[1 + down : 1 + down + rows, 1 + across : 1 + across + cols]
                np.minimum(costs[time], price + shifted, out=costs[time])
    return costs


def _step_costs(level: Level) -> NDArray[np.float64]:
    """What every move costs by time, move and cell, `(period, moves, rows, cols)`; inf where it must not be made."""
    grid_map = level.problem.map
    alone = np.full((len(STEPS), grid_map.rows, grid_map.cols), inf)
    alone[STAY] = np.where(grid_map.zones == BLOCKED, inf, grid_map.costs * grid_map.cell_size)
    for row, col in np.argwhere(grid_map.zones != BLOCKED).tolist():
        for there, cost in grid_map.neighbours((row, col)):
            alone[move_between((row, col), there), row, col] = cost
    steps = np.repeat(alone[None], level.period, axis=0)
    for time in range(level.period):
        for obstacle in level.obstacles:
            here, there = obstacle.position(time), obstacle.position(time + 1)
            for move, (down, across) in enumerate(STEPS):
                origin = there[0] - down, there[1] - across
                if grid_map.inside(origin):
                    steps[(time, move, *origin)] = inf
            if here != there:
                steps[(time, move_between(there, here), *there)] = inf
    return steps
