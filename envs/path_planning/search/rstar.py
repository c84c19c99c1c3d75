"""R* as it was published: one hard search becomes many short ones between random waypoints.

Source: Likhachev and Stentz (2008), "R* Search"; rules and defaults as in SBPL's planner (sbpl/sbpl).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from turngym.envs.path_planning.maps import Cell, GridMap
from turngym.envs.path_planning.search.astar import PlanResult, Search, check_free
from turngym.envs.path_planning.search.graph import Edge, Graph, chain, join
from turngym.envs.path_planning.search.open_list import OpenList
from turngym.envs.path_planning.search.proposals import uniform_ring


def rstar(
    grid_map: GridMap,
    start: Cell,
    goal: Cell,
    *,
    rng: np.random.Generator,
    epsilon: float | Sequence[float] = 2.0,
    distance: int = 20,
    successors: int = 10,
    threshold: int = 1000,
    max_expansions: int | None = None,
) -> PlanResult:
    """Plan with R*.

    Args:
        grid_map: The map.
        start: A free cell.
        goal: A free cell.
        rng: Draws the waypoints.
        epsilon: Factor of the heuristic, at least 1, between waypoints and in the short searches; several for an
            anytime run, each of which starts from nothing.
        distance: Rows or columns between a waypoint and its successors, Δ.
        successors: How many are drawn for a waypoint, K.
        threshold: Expansions after which a short search is put off and its edge is AVOID.
        max_expansions: Limit of all rounds together; None is no limit.

    Returns:
        The best path of all rounds. `lower` is the best bound that a search from start to goal itself has proved, often
        no more than the heuristic: R*'s own ε holds only with a probability over the waypoints, so it is not reported.

    Raises:
        ValueError: If an argument is out of its range.
    """
    check_settings(grid_map, start, goal, epsilon, distance, successors, threshold)
    best = PlanResult((), inf, 0, grid_map.heuristic(start, goal), "gave_up")
    for factor in epsilon if isinstance(epsilon, Sequence) else (epsilon,):
        budget = inf if max_expansions is None else max_expansions - best.expansions
        search = _Round(grid_map, start, goal, factor, rng, distance, successors, threshold, budget)
        best = _better(best, search.run())
    return best


def check_settings(
    grid_map: GridMap,
    start: Cell,
    goal: Cell,
    epsilon: float | Sequence[float],
    distance: int,
    successors: int,
    threshold: int,
) -> None:
    """Raise ValueError where an argument of R* or RStar2 is out of its range."""
    check_free(grid_map, "start", start)
    check_free(grid_map, "goal", goal)
    factors = epsilon if isinstance(epsilon, Sequence) else (epsilon,)
    if not factors or not all(1 <= factor < inf for factor in factors):
        raise ValueError(f"epsilon must be at least 1 and finite, got {epsilon}")
    for name, value in (("distance", distance), ("successors", successors), ("threshold", threshold)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def _better(before: PlanResult, after: PlanResult) -> PlanResult:
    """The cheaper path of two rounds, with the expansions and the bound of both."""
    best = after if after.cost < before.cost else replace(before, graph=after.graph)
    lower = max(before.lower, after.lower)
    status = best.status if best.path or lower < inf else "unsolvable"
    return replace(best, expansions=before.expansions + after.expansions, lower=lower, status=status)


@dataclass
class _Round:
    """One run of R* with one ε."""

    grid_map: GridMap
    start: Cell
    goal: Cell
    epsilon: float
    rng: np.random.Generator
    distance: int
    successors: int
    threshold: int
    budget: float

    def __post_init__(self) -> None:
        self.graph = Graph(self.grid_map)
        self.graph.add(self.start)
        self.costs: dict[Cell, float] = {self.start: 0.0}
        self.best: dict[Cell, Edge] = {}
        self.entering: dict[Cell, list[Edge]] = {}
        self.estimates: dict[tuple[Cell, Cell], float] = {}  # clow, which is no lower bound after a failed search
        self.closed: set[Cell] = set()
        self.open = OpenList()

    @property
    def expansions(self) -> int:
        return self.graph.expansions + len(self.closed)

    def run(self) -> PlanResult:
        self.open.insert(self.start, (False, self.epsilon * self.grid_map.heuristic(self.start, self.goal)))
        found = self._search()
        direct = self.graph.edges.get((self.start, self.goal))
        lower = direct.lower if direct else self.grid_map.heuristic(self.start, self.goal)
        if not found:
            return PlanResult((), inf, self.expansions, lower, "gave_up", self.graph)
        path = join(self.start, chain(self.best, self.start, self.goal))
        return PlanResult(path, self.costs[self.goal], self.expansions, lower, "solved", self.graph)

    def _search(self) -> bool:
        while self.expansions < self.budget and (cell := self.open.pop()) is not None:
            edge = self.best.get(cell)
            if edge is not None and not edge.path:
                self._reevaluate(cell, edge)
            elif cell == self.goal:
                return True
            else:
                self._expand(cell)
        return False

    def _reevaluate(self, cell: Cell, edge: Edge) -> None:
        """Search for the path of the best edge into a waypoint; a second search of a hard edge has no threshold."""
        limit = min(self.threshold if edge.expansions < self.threshold else inf, self.budget - self.expansions)
        budget = None if limit == inf else int(limit)
        search = Search(self.grid_map, edge.origin, cell, weight=self.epsilon)
        result = search.run(budget=budget)
        self.graph.learn(edge, result, self.epsilon)
        self.estimates[edge.origin, cell] = result.cost if result.path else search.key
        if not result.path or self._cost(edge) > self.epsilon * self.grid_map.heuristic(self.start, cell):
            self.best[cell] = min(self.entering[cell], key=lambda entering: (self._cost(entering), entering.origin))
        self._update(cell)

    def _expand(self, cell: Cell) -> None:
        self.closed.add(cell)
        targets = uniform_ring(self.grid_map, cell, self.goal, self.distance, self.successors, self.rng)
        if max(abs(self.goal[0] - cell[0]), abs(self.goal[1] - cell[1])) <= self.distance:
            targets.append(self.goal)
        for target in targets:
            if target in self.closed:
                continue
            edge = self.graph.connect(cell, target)
            self.estimates[cell, target] = edge.lower
            self.entering.setdefault(target, []).append(edge)
            if target not in self.best or self._cost(edge) < self.costs[target]:
                self.best[target] = edge
                self._update(target)

    def _cost(self, edge: Edge) -> float:
        """The cost of a waypoint by an edge into it."""
        return self.costs[edge.origin] + self.estimates[edge.origin, edge.target]

    def _update(self, cell: Cell) -> None:
        """Give a waypoint its cost and its key by its best edge; one that nothing reaches is in OPEN no longer."""
        edge = self.best[cell]
        cost = self.costs[cell] = self._cost(edge)
        if cost == inf:
            self.open.remove(cell)
            return
        hard = not edge.path and edge.expansions >= self.threshold
        avoid = hard or cost > self.epsilon * self.grid_map.heuristic(self.start, cell)
        self.open.insert(cell, (avoid, cost + self.epsilon * self.grid_map.heuristic(cell, self.goal)))
