"""The graph of waypoints that R* calls Γ: nodes are cells, edges are short searches done, failed or still to do."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import BLOCKED, SQRT2, Cell, GridMap
from turngym.envs.path_planning.search.astar import ROUNDING, PlanResult, local_search


@dataclass
class Edge:
    """What is known about the cheapest path between two waypoints.

    Attributes:
        origin: Waypoint that it leaves.
        target: Waypoint that it leads to.
        lower: A proved lower bound of the cheapest path's cost; inf where it is proved that there is none.
        path: The cheapest path found, both waypoints included; empty where there is none yet.
        cost: Of that path; inf where there is none yet.
        weight: Of the search that found it.
        expansions: Cells expanded for this edge.
        failures: Searches in a row that ended without a result.
    """

    origin: Cell
    target: Cell
    lower: float
    path: tuple[Cell, ...] = ()
    cost: float = inf
    weight: float = inf
    expansions: int = 0
    failures: int = 0

    def settled(self, epsilon: float) -> bool:
        """Whether there is a path that a search with ε or less has found, or that is proved to be as good."""
        return bool(self.path) and (self.weight <= epsilon or self.cost <= epsilon * self.lower * (1 + ROUNDING))

    def avoid(self, epsilon: float) -> bool:
        """Whether the edge is AVOID: searched without a result that is good enough."""
        return self.failures > 0 and not self.settled(epsilon)

    def estimate(self, epsilon: float) -> float:
        """The cost that a search over the graph counts: of the path where that is settled, else the lower bound."""
        return self.cost if self.settled(epsilon) else self.lower


@dataclass
class Graph:
    """Γ as a value: environments and pictures read it, planners and agents let it grow.

    Attributes:
        map: The map, as it is now.
        edges: By `(origin, target)`, in the order in which they were made.
        expansions: Cells expanded so far, for all edges.
        nodes: Every waypoint, in the order in which they were made.
    """

    map: GridMap
    edges: dict[tuple[Cell, Cell], Edge] = field(default_factory=dict)
    expansions: int = 0
    nodes: list[Cell] = field(default_factory=list)
    _leaving: dict[Cell, dict[Cell, Edge]] = field(default_factory=dict, repr=False)

    def add(self, cell: Cell) -> None:
        """Make a waypoint, if it is none yet."""
        if cell not in self._leaving:
            self._leaving[cell] = {}
            self.nodes.append(cell)

    def leaving(self, cell: Cell) -> Iterable[Edge]:
        """The edges that leave a waypoint."""
        return self._leaving[cell].values()

    def connect(self, origin: Cell, target: Cell) -> Edge:
        """The edge between two cells, made with nothing known but the heuristic if there is none yet."""
        edge = self.edges.get((origin, target))
        if edge is None:
            edge = Edge(origin, target, self.map.heuristic(origin, target))
            self.edges[origin, target] = edge
            for cell in (origin, target):
                self.add(cell)
            self._leaving[origin][target] = edge
        return edge

    def evaluate(self, edge: Edge, *, weight: float = 1.0, budget: int | None = None) -> PlanResult:
        """Search for the cheapest path of an edge, and keep what was found, proved and spent.

        Args:
            edge: One of this graph.
            weight: As for `astar`.
            budget: Give up after so many expansions; None is no limit.
        """
        if not (self.map.is_free(edge.origin) and self.map.is_free(edge.target)):
            edge.lower, edge.failures = inf, 0
            return PlanResult((), inf, 0, inf, "unsolvable")
        result = local_search(self.map, edge.origin, edge.target, weight=weight, budget=budget)
        self.learn(edge, result, weight)
        edge.failures = 0 if result.path else edge.failures + 1
        return result

    def learn(self, edge: Edge, result: PlanResult, weight: float) -> None:
        """Keep what a search between an edge's waypoints found: a better path, a better bound, what it cost."""
        self.expansions += result.expansions
        edge.expansions += result.expansions
        edge.lower = max(edge.lower, result.lower)
        if result.path:
            edge.weight = min(edge.weight, weight)
        if result.cost < edge.cost:
            edge.path, edge.cost = result.path, result.cost

    def route(self, start: Cell, goal: Cell) -> tuple[tuple[Cell, ...], float]:
        """The cheapest chain of stored paths, without loops, and its cost; empty and inf where there is none."""
        costs, came_by = {start: 0.0}, {}
        frontier, done = [(0.0, start)], set[Cell]()
        while frontier:
            cost, cell = heapq.heappop(frontier)
            if cell == goal:
                break
            if cell in done:
                continue
            done.add(cell)
            for edge in self._leaving.get(cell, {}).values():
                if cost + edge.cost < costs.get(edge.target, inf):
                    costs[edge.target], came_by[edge.target] = cost + edge.cost, edge
                    heapq.heappush(frontier, (cost + edge.cost, edge.target))
        if goal not in costs:
            return (), inf
        walked = join(start, chain(came_by, start, goal))
        path = without_loops(walked)
        return path, costs[goal] if len(path) == len(walked) else self.map.path_cost(path)

    def update(self, changed: GridMap) -> None:
        """Go over to a changed map, and keep what is still true.

        A stored path is checked only where it passes by a changed cell; it is dropped where it is no longer allowed. A
        lower bound can be wrong only because of paths by a cell that was opened or became cheaper, so it falls to the
        heuristic's length of the shortest such detour, if that is less.

        Raises:
            ValueError: If the maps differ in shape, connectivity, corner rule or cell size.
        """
        _check_same_rules(self.map, changed)
        before, self.map = self.map, changed
        opened = (before.zones != changed.zones) & (changed.zones != BLOCKED)
        cheaper = np.argwhere(_around(opened | (changed.costs < before.costs)))
        touched = _around((before.zones != changed.zones) | (before.costs != changed.costs))
        edges = list(self.edges.values())
        for edge, detour in zip(edges, _detours(changed, edges, cheaper), strict=True):
            if edge.path and touched[tuple(np.transpose(edge.path))].any():
                self._check(edge)
            if detour < edge.lower:
                edge.failures += edge.lower == inf  # there may be a path now, but nobody should count on it
                edge.lower = detour
            edge.lower = max(edge.lower, changed.heuristic(edge.origin, edge.target))

    def _check(self, edge: Edge) -> None:
        """Drop the path of an edge if the map does not allow it, and count its cost anew otherwise."""
        try:
            edge.cost = self.map.path_cost(edge.path)
        except ValueError:
            edge.path, edge.cost, edge.weight, edge.failures = (), inf, inf, 0


def chain(entering: Mapping[Cell, Edge], start: Cell, goal: Cell) -> list[Edge]:
    """The edges from start to goal, where each waypoint between has one edge that enters it."""
    edges: list[Edge] = []
    while goal != start:
        edges.append(entering[goal])
        goal = edges[-1].origin
    return edges[::-1]


def join(start: Cell, edges: Iterable[Edge]) -> tuple[Cell, ...]:
    """The paths of edges, one after the other."""
    return start, *(cell for edge in edges for cell in edge.path[1:])


def without_loops(path: Iterable[Cell]) -> tuple[Cell, ...]:
    """The path without what it walks between two visits of one cell."""
    kept: dict[Cell, None] = {}
    for cell in path:
        if cell in kept:
            while next(reversed(kept)) != cell:
                kept.popitem()
        kept[cell] = None
    return tuple(kept)


def _around(cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The marked cells of `(rows, cols)` and their eight neighbours: where a step starts that a change can concern."""
    rows, cols = cells.shape
    padded = np.pad(cells, 1)
    return np.asarray(np.any([padded[i : i + rows, j : j + cols] for i in range(3) for j in range(3)], axis=0))


def _detours(grid_map: GridMap, edges: Sequence[Edge], cells: NDArray[np.intp]) -> list[float]:
    """For each edge, the least that a path by one of these cells, `(n, 2)`, could cost; inf where there are none."""
    least = np.full(len(edges), inf)
    ends = np.array([(edge.origin, edge.target) for edge in edges], dtype=np.intp).reshape(-1, 2, 2)
    for cell in cells:
        away = np.abs(ends - cell)
        diagonal = away.min(axis=2) if grid_map.connectivity == 8 else np.zeros(away.shape[:2])
        steps = (away.sum(axis=2) + (SQRT2 - 2) * diagonal).sum(axis=1)
        np.minimum(least, steps * grid_map.cheapest * grid_map.cell_size, out=least)
    return [float(value) for value in least]


def _check_same_rules(before: GridMap, changed: GridMap) -> None:
    for name in ("rows", "cols", "connectivity", "corners", "cell_size"):
        if getattr(before, name) != getattr(changed, name):
            raise ValueError(
                f"a changed map must keep {name}={getattr(before, name)!r}, got {getattr(changed, name)!r}"
            )
