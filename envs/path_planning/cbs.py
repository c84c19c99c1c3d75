"""Conflict-based search: best joint plans, exactly.

Source: G. Sharon, R. Stern, A. Felner, N. Sturtevant, "Conflict-based search for optimal multi-agent pathfinding",
Artificial Intelligence 219, 2015. Every agent plans alone, by A* over cell and time on exact distances; where two
plans collide the search branches, and forbids it to one agent or to the other. Branches are opened by cost, then by
makespan, then by the number of their conflicts, so that the first one without any is best.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from math import inf
from typing import Literal, NamedTuple, get_args

from turngym.envs.path_planning.fleet import Cells, Fleet, distances, steps

Objective = Literal["sum_of_costs", "sum_of_loss"]
Status = Literal["optimal", "unsolvable", "gave_up"]

MAX_EXPANSIONS = 1000


@dataclass(frozen=True)
class JointPlan:
    """What the search found.

    Attributes:
        paths: For every agent where it is at times 0, 1, … up to the makespan; empty where no plan was found.
        cost: Of the plan by the objective; inf where none was found.
        lower: A proved lower bound of the best plan's cost; inf where it is proved that there is none.
        expansions: Branches that were opened and held a conflict.
        status: `optimal`: no plan costs less, and none that costs as much ends sooner. `unsolvable`: proved.
            `gave_up`: the limit was reached.
    """

    paths: tuple[Cells, ...]
    cost: float
    lower: float
    expansions: int
    status: Status

    @property
    def makespan(self) -> int:
        """Turns until the plan is done; 0 without a plan."""
        return len(self.paths[0]) - 1 if self.paths else 0


def cbs(
    fleet: Fleet,
    *,
    objective: Objective = "sum_of_costs",
    horizon: int | None = None,
    must_arrive: bool = True,
    max_expansions: int = MAX_EXPANSIONS,
) -> JointPlan:
    """The cheapest joint plan, and of those one with the smallest makespan.

    Args:
        fleet: Who goes where.
        objective: `sum_of_costs`, the classical one: an agent pays for every turn until it has arrived for good.
            `sum_of_loss`: an agent pays for every turn but those that it rests on its goal, before and after the turn;
            so what is to come costs the same whatever came before. Neither charges for waiting at the end, and the
            second is the smaller one only where an agent rests on its goal and makes way later (K. Okumura,
            "Improving LaCAM for Scalable Eventually Optimal Multi-Agent Pathfinding", IJCAI 2023, has both).
        horizon: Turns that the plan may take; None is no limit.
        must_arrive: False asks for what costs least over all turns of a horizon, wherever the agents are at its end.
        max_expansions: Give up after so many; two searches for one agent each follow from every expansion.

    Raises:
        ValueError: If an argument is out of its range, or there is no horizon where the agents need not arrive.
    """
    if objective not in get_args(Objective):
        raise ValueError(f"objective must be one of {', '.join(get_args(Objective))}, got {objective!r}")
    if horizon is not None and horizon < 0:
        raise ValueError(f"horizon must be at least 0, got {horizon}")
    if not must_arrive and horizon is None:
        raise ValueError("horizon must be given where must_arrive is False, got None")
    if max_expansions < 0:
        raise ValueError(f"max_expansions must be at least 0, got {max_expansions}")
    return _Search(fleet, objective, inf if horizon is None else horizon, must_arrive).run(max_expansions)


class _Ban(NamedTuple):
    """What an agent may not do: be in a cell at a time, or make a step at a time; both as numbers."""

    agent: int
    is_step: bool
    key: int


class _Route(NamedTuple):
    """One agent's way, in numbered cells, and what it costs."""

    cost: int
    cells: tuple[int, ...]


class _Node(NamedTuple):
    """A branch: what it forbids, and the best way of every agent under that."""

    bans: tuple[_Ban, ...]
    routes: tuple[_Route, ...]


class _Search:
    """What does not change during a search.

    Cells are numbered 0 to n - 1. To be in one at a time is `time * n + cell`, and a step from there is that times n,
    plus the cell after it.
    """

    def __init__(self, fleet: Fleet, objective: Objective, horizon: float, must_arrive: bool) -> None:
        around = steps(fleet.map)
        self.cells = list(around)
        number = {cell: index for index, cell in enumerate(self.cells)}
        self.n = len(self.cells)
        self.around = [sorted({number[there] for there in around[cell]}) for cell in self.cells]
        self.starts, self.goals = ([number[cell] for cell in cells] for cells in (fleet.starts, fleet.goals))
        alone = [distances(fleet.map, goal) for goal in fleet.goals]
        self.distances = [[found.get(cell, inf) for cell in self.cells] for found in alone]
        self.free_rest, self.horizon, self.must_arrive = objective == "sum_of_loss", horizon, must_arrive

    def run(self, max_expansions: int) -> JointPlan:
        """Open branches, the best first, until one holds no conflict."""
        tickets, queue, expansions = count(), list[tuple[int, int, int, int, _Node]](), 0
        root = self._root()
        if root is not None:
            self._push(queue, root, next(tickets))
        while queue:
            cost, _, conflicts, _, node = heapq.heappop(queue)
            if not conflicts:
                return JointPlan(self._paths(node.routes), cost, cost, expansions, "optimal")
            if expansions == max_expansions:
                return JointPlan((), inf, cost, expansions, "gave_up")
            expansions += 1
            for ban in next(self._conflicts(node.routes)):
                child = self._child(node, ban)
                if child is not None:
                    self._push(queue, child, next(tickets))
        return JointPlan((), inf, inf, expansions, "unsolvable")

    def _root(self) -> _Node | None:
        """Everybody's best way, each taking care of those before it where that costs nothing."""
        routes = list[_Route]()
        for agent in range(len(self.starts)):
            route = self._route(agent, (), routes)
            if route is None:
                return None
            routes.append(route)
        return _Node((), tuple(routes))

    def _child(self, node: _Node, ban: _Ban) -> _Node | None:
        bans, agent = (*node.bans, ban), ban.agent
        others = [*node.routes[:agent], *node.routes[agent + 1 :]]
        route = self._route(agent, [one for one in bans if one.agent == agent], others)
        return route and _Node(bans, (*node.routes[:agent], route, *node.routes[agent + 1 :]))

    def _push(self, queue: list[tuple[int, int, int, int, _Node]], node: _Node, ticket: int) -> None:
        cost, longest = sum(route.cost for route in node.routes), max(len(route.cells) for route in node.routes)
        heapq.heappush(queue, (cost, longest, sum(1 for _ in self._conflicts(node.routes)), ticket, node))

    def _conflicts(self, routes: Sequence[_Route]) -> Iterator[tuple[_Ban, _Ban]]:
        """Every collision, the earliest first, as the two bans of which one must hold."""
        cells = _by_time(routes)
        for time, here in enumerate(cells):
            if len(set(here)) < len(here):
                for one, other in _pairs(here):
                    if here[one] == here[other]:
                        key = time * self.n + here[one]
                        yield _Ban(one, False, key), _Ban(other, False, key)
            there = cells[min(time + 1, len(cells) - 1)]
            edges = [(one, other) if one < other else (other, one) for one, other in zip(here, there, strict=True)]
            if len(set(edges)) < len(edges):
                for one, other in _pairs(here):
                    if here[one] == there[other] != there[one] == here[other]:
                        yield self._step(one, time, here, there), self._step(other, time, here, there)

    def _step(self, agent: int, time: int, here: Sequence[int], there: Sequence[int]) -> _Ban:
        return _Ban(agent, True, (time * self.n + here[agent]) * self.n + there[agent])

    def _paths(self, routes: Sequence[_Route]) -> tuple[Cells, ...]:
        paths = zip(*_by_time(routes), strict=True)
        return tuple(tuple(self.cells[cell] for cell in path) for path in paths)

    def _route(self, agent: int, bans: Sequence[_Ban], others: Sequence[_Route]) -> _Route | None:
        """The agent's cheapest way, of those the shortest, and of those one that collides least with others.

        The sum of cost and distance, the sum of time and distance, and the collisions so far are compared in this
        order; the estimates are consistent, so that no cell is expanded twice at one time.
        """
        n, goal, distance, traffic = self.n, self.goals[agent], self.distances[agent], _Traffic(others, self.n)
        no_cells = {ban.key for ban in bans if not ban.is_step}
        no_steps = {ban.key for ban in bans if ban.is_step}
        last_ban = max((key // n for key in no_cells if key % n == goal), default=-1)
        start = self.starts[agent]
        came_from = dict[int, int]()
        queue = [(self._left(distance[start], 0), distance[start], 0, 0, start, -1)]
        if queue[0][0] == inf:
            return None
        while queue:
            estimate, _, collisions, minus_time, key, parent = heapq.heappop(queue)
            if key in came_from:
                continue
            came_from[key] = parent
            time, cell = -minus_time, key % n
            cost = estimate - self._left(distance[cell], time)
            if (cell == goal and time > last_ban) if self.must_arrive else time == self.horizon:
                return _Route(int(cost), self._trace(came_from, key))
            for there in self.around[cell]:
                arrival = (time + 1) * n + there
                if arrival in came_from or arrival in no_cells or (no_steps and key * n + there in no_steps):
                    continue
                left = self._left(distance[there], time + 1)
                if left < inf:
                    paid = cost + (not (self.free_rest and cell == there == goal))
                    met = collisions + traffic.meets(arrival, there, key, time + 1)
                    heapq.heappush(queue, (paid + left, time + 1 + left, met, -time - 1, arrival, key))
        return None

    def _left(self, distance: float, time: int) -> float:
        """What an agent has to pay at least; inf where the horizon is too near to arrive."""
        if not self.must_arrive:
            return min(distance, self.horizon - time)
        return distance if time + distance <= self.horizon else inf

    def _trace(self, came_from: dict[int, int], key: int) -> tuple[int, ...]:
        cells = list[int]()
        while key >= 0:
            cells.append(key % self.n)
            key = came_from[key]
        return tuple(reversed(cells))


def _by_time(routes: Sequence[_Route]) -> list[tuple[int, ...]]:
    """Where all agents are at every time; whoever has arrived stays."""
    length = max(len(route.cells) for route in routes)
    paths = [route.cells + route.cells[-1:] * (length - len(route.cells)) for route in routes]
    return list(zip(*paths, strict=True))


def _pairs(here: Sequence[int]) -> Iterator[tuple[int, int]]:
    return combinations(range(len(here)), 2)


class _Traffic:
    """Where others are and go, for counting collisions with them."""

    def __init__(self, routes: Sequence[_Route], n: int) -> None:
        self.n = n
        self.places = {time * n + cell for route in routes for time, cell in enumerate(route.cells)}
        self.parked = {route.cells[-1]: len(route.cells) - 1 for route in routes}
        self.swaps = {
            (time * n + after) * n + before
            for route in routes
            for time, (before, after) in enumerate(zip(route.cells, route.cells[1:], strict=False))
            if before != after
        }

    def meets(self, arrival: int, cell: int, key: int, time: int) -> bool:
        """Whether somebody is in the cell at that time, or comes the other way."""
        return arrival in self.places or self.parked.get(cell, time) < time or key * self.n + cell in self.swaps
