"""A*, weighted A* and exact distances, with every expansion counted and every bound proved."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import Cell, GridMap

if TYPE_CHECKING:
    from turngym.envs.path_planning.search.graph import Graph

Status = Literal["solved", "unsolvable", "gave_up"]


ROUNDING = 1e-12
"""Costs that differ by no more than this share are taken as equal: sums of square roots depend on their order."""


@dataclass(frozen=True)
class PlanResult:
    """What a planner found.

    Attributes:
        path: Cells from start to goal, both included; empty where none was found.
        cost: Of the path; inf where none was found.
        expansions: Cells expanded, and in R* and RStar2 nodes of their graph too.
        lower: A proved lower bound of the cheapest path's cost; inf where it is proved that no path exists.
        status: `solved`, `unsolvable` (proved), or `gave_up` (a limit was reached, or no waypoint was left to try).
        graph: The waypoints and edges, where the planner has some (of R*, those of its last round).
    """

    path: tuple[Cell, ...]
    cost: float
    expansions: int
    lower: float
    status: Status
    graph: Graph | None = field(default=None, compare=False, repr=False)

    @property
    def bound(self) -> float:
        """The path costs at most this many times the optimum: 1 is proved optimal, inf where nothing is proved."""
        if not self.path:
            return inf
        return 1.0 if self.cost <= self.lower * (1 + ROUNDING) else self.cost / self.lower if self.lower else inf


def astar(
    grid_map: GridMap, start: Cell, goal: Cell, *, weight: float = 1.0, max_expansions: int | None = None
) -> PlanResult:
    """The cheapest path, or with a weight above 1 one that costs at most so many times as much, in fewer expansions.

    Args:
        grid_map: The map.
        start: A free cell.
        goal: A free cell.
        weight: Factor of the heuristic, at least 1. No cell is expanded twice.
        max_expansions: Give up after so many; None is no limit.

    Returns:
        The path, if any; `lower` is the smallest cost so far + heuristic of what was left to expand, on failure too.

    Raises:
        ValueError: If an argument is out of its range.
    """
    return local_search(grid_map, start, goal, weight=weight, budget=max_expansions)


def local_search(
    grid_map: GridMap,
    origin: Cell,
    target: Cell,
    *,
    weight: float = 1.0,
    budget: int | None = None,
    cutoff: float = inf,
) -> PlanResult:
    """One short search, as R* and RStar2 run for an edge of their graph: `astar` that may also stop at a bound.

    Args:
        grid_map: The map.
        origin: A free cell.
        target: A free cell.
        weight: As for `astar`.
        budget: Give up after so many expansions; None is no limit.
        cutoff: Give up when the smallest key in OPEN (cost so far + weight * heuristic) reaches this. With weight 1
            the result's `lower` is then at least `cutoff`.

    Raises:
        ValueError: If an argument is out of its range.
    """
    return Search(grid_map, origin, target, weight=weight).run(budget=budget, cutoff=cutoff)


class Search:
    """Weighted A* that can be continued where it stopped without a path.

    Args:
        grid_map: The map.
        origin: A free cell.
        target: A free cell.
        weight: Factor of the heuristic, at least 1.

    Attributes:
        key: The smallest key left in OPEN; with a weight above 1 it is no lower bound.

    Raises:
        ValueError: If an argument is out of its range.
    """

    def __init__(self, grid_map: GridMap, origin: Cell, target: Cell, *, weight: float = 1.0) -> None:
        from turngym.envs.jit import vector
        from turngym.envs.path_planning.search import kernel

        check_free(grid_map, "start", origin)
        check_free(grid_map, "goal", target)
        if not 1 <= weight < inf:
            raise ValueError(f"weight must be at least 1 and finite, got {weight}")
        self.key = weight * grid_map.heuristic(origin, target)
        self._grid, self._weight = kernel.grid_of(grid_map), float(weight)
        self._start, self._goal = kernel.index_of(self._grid, origin), kernel.index_of(self._grid, target)
        self._memory = kernel.memory(self._grid)
        state, costs, _ = self._memory
        state[self._start], costs[self._start] = kernel.OPEN, 0.0
        self._left, self._reopened = vector([self._start]), inf

    def run(self, *, budget: int | None = None, cutoff: float = inf) -> PlanResult:
        """Search on; arguments as for `local_search`, and the result's expansions are those of this run.

        Raises:
            ValueError: If the budget is negative.
        """
        from turngym.envs.jit import vector
        from turngym.envs.path_planning.search import kernel

        if budget is not None and budget < 0:
            raise ValueError(f"max_expansions must be at least 0, got {budget}")
        limit = -1 if budget is None else int(budget)
        found, expansions, lower, self.key, self._reopened, left = kernel.search(
            self._grid, self._goal, self._weight, limit, float(cutoff), self._left, self._reopened, *self._memory
        )
        if not found:
            self._left = vector(left)
            return PlanResult((), inf, expansions, lower, "gave_up" if left else "unsolvable")
        _, costs, parents = self._memory
        path = kernel.cells_of(self._grid, kernel.trace(self._grid, self._start, self._goal, parents))
        cost = float(costs[self._goal])
        return PlanResult(path, cost, expansions, max(min(lower, cost), cost / self._weight), "solved")

    @property
    def expanded(self) -> NDArray[np.bool_]:
        """Which cells have been expanded, `(rows, cols)`."""
        from turngym.envs.path_planning.search import kernel

        state = np.frombuffer(self._memory[0], np.uint8).reshape(-1, self._grid.width)
        return np.asarray(state[1:-1, 1:-1] == kernel.CLOSED)


def distance_field(grid_map: GridMap, goal: Cell) -> NDArray[np.float64]:
    """The cost of the cheapest path from every cell to one, by Dijkstra's algorithm.

    Args:
        grid_map: The map.
        goal: A free cell.

    Returns:
        `(rows, cols)`; inf where the goal cannot be reached from, blocked cells included.

    Raises:
        ValueError: If the goal is not a free cell.
    """
    from turngym.envs.path_planning.search import kernel

    check_free(grid_map, "goal", goal)
    grid = kernel.grid_of(grid_map)
    state, costs, _ = kernel.memory(grid)
    kernel.distances(grid, kernel.index_of(grid, goal), state, costs)
    reached = np.frombuffer(state, np.uint8) == kernel.CLOSED
    padded = np.where(reached, costs, inf).reshape(-1, grid.width)
    return padded[1:-1, 1:-1].copy()


def check_free(grid_map: GridMap, name: str, cell: Cell) -> None:
    """Raise ValueError where a cell is not a free cell of the map."""
    if not grid_map.is_free(cell):
        raise ValueError(f"{name} must be a free cell of a map of {grid_map.rows} by {grid_map.cols}, got {cell}")
