"""Planning by waypoints as pure rules: which may be proposed, what a search finds, and Γ, the graph of it all."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import BLOCKED, OFFSETS, Cell, GridMap, Problem


class Proposal(NamedTuple):
    """A waypoint, and the one before it, from which a search should find a path."""

    origin: Cell
    target: Cell


class Edge(NamedTuple):
    """What the bounded search for a proposal found.

    Attributes:
        origin: Where it began.
        target: Where it should lead to.
        path: Its path, both cells included; empty where the search gave up, and the edge is AVOID.
        cost: Of the path; inf where there is none.
        expansions: Cells that were expanded.
        evaluations: Steps from these cells that were looked at, allowed or not; each of them is what a collision check
            is elsewhere.
    """

    origin: Cell
    target: Cell
    path: tuple[Cell, ...]
    cost: float
    expansions: int
    evaluations: int


class Board(NamedTuple):
    """What changes during an episode.

    Attributes:
        anchor: The waypoint that was reached last; at first the start.
        edges: Γ, in the order of the searches. No two edges have the same ends.
    """

    anchor: Cell
    edges: tuple[Edge, ...] = ()

    @property
    def reached(self) -> tuple[Edge, ...]:
        """The edges with a path; all others are AVOID."""
        return tuple([edge for edge in self.edges if edge.path])

    @property
    def expansions(self) -> int:
        """Cells expanded so far."""
        return sum([edge.expansions for edge in self.edges])

    def known(self, proposal: Proposal) -> Edge | None:
        """The edge between two cells; None where none was searched for."""
        return next((edge for edge in self.edges if edge[:2] == proposal), None)

    def after(self, edge: Edge) -> "Board":
        """The board with an edge that was searched for, or gone along once more."""
        edges = self.edges if edge in self.edges else (*self.edges, edge)
        return Board(edge.target if edge.path else self.anchor, edges)


@dataclass(frozen=True)
class Rules:
    """What a proposal must keep to, and what a search may spend.

    Attributes:
        distance: Largest number of rows and of columns between two waypoints, Δ.
        budget: Expansions after which a search gives up.
        weight: Of the heuristic in the searches, at least 1.
        tree: Whether a search may begin at any waypoint that was reached, not at the last one alone.

    Raises:
        ValueError: If an argument is out of its range.
    """

    distance: int
    budget: int
    weight: float = 2.0
    tree: bool = False

    def __post_init__(self) -> None:
        for name, value in (("distance", self.distance), ("budget", self.budget)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not 1 <= self.weight < inf:
            raise ValueError(f"weight must be at least 1 and finite, got {self.weight}")

    def search(self, grid_map: GridMap, proposal: Proposal, left: float = inf) -> Edge:
        """Search for an edge, with at most so many expansions where fewer are left than the budget."""
        return _search(grid_map, proposal, self.weight, int(min(self.budget, left)))

    def origins(self, problem: Problem, board: Board) -> tuple[Cell, ...]:
        """Where a search may begin."""
        if not self.tree:
            return (board.anchor,)
        return tuple(dict.fromkeys([problem.start, *(edge.target for edge in board.reached)]))

    def flaw(self, problem: Problem, board: Board, proposal: Proposal) -> str:
        """What is wrong with a proposal, in a sentence; "" where nothing is."""
        origin, target = proposal
        if origin not in self.origins(problem, board):
            return "A search must begin at a waypoint that was reached."
        if not problem.map.inside(target):
            return "The waypoint is outside the map."
        if not problem.map.is_free(target):
            return "The waypoint is a wall."
        if target == origin:
            return "The waypoint is where the search begins."
        if apart(origin, target) > self.distance:
            return "The waypoint is too far away."
        edge = board.known(proposal)
        if edge is None or (edge.path and not self.tree):
            return ""
        return "This edge is known." if edge.path else "This edge is to be avoided."

    def proposals(self, problem: Problem, board: Board) -> list[Proposal]:
        """All proposals without a flaw, origin by origin, row by row."""
        known = {edge[:2] for edge in board.edges if self.tree or not edge.path}
        return [
            Proposal(origin, (row, col))
            for origin in self.origins(problem, board)
            for row, col in self.around(problem.map, origin).tolist()
            if (origin, (row, col)) not in known
        ]

    def around(self, grid_map: GridMap, cell: Cell) -> NDArray[np.intp]:
        """The free cells within Δ of a cell, without itself, `(count, 2)`, row by row."""
        top, left = (max(place - self.distance, 0) for place in cell)
        window = grid_map.zones[top : cell[0] + self.distance + 1, left : cell[1] + self.distance + 1]
        cells = np.argwhere(window != BLOCKED) + np.array([top, left])
        return np.asarray(cells[(cells != cell).any(axis=1)])


def apart(cell: Cell, other: Cell) -> int:
    """Rows or columns between two cells, whichever are more."""
    return max(abs(cell[0] - other[0]), abs(cell[1] - other[1]))


def came_by(start: Cell, edges: Iterable[Edge]) -> dict[Cell, tuple[float, tuple[Cell, ...]]]:
    """The cost of each waypoint that some edges lead to, and the path there: the cheapest chain of their paths."""
    found: dict[Cell, tuple[float, tuple[Cell, ...]]] = {start: (0.0, (start,))}
    passable, improved = [edge for edge in edges if edge.path], True
    while improved:
        improved = False
        for edge in passable:
            cost, path = found.get(edge.origin, (inf, ()))
            if cost + edge.cost < found.get(edge.target, (inf,))[0]:
                found[edge.target] = cost + edge.cost, path + edge.path[1:]
                improved = True
    return found


def degrees(grid_map: GridMap) -> NDArray[np.intp]:
    """How many steps from each cell stay inside the map, `(rows, cols)`; a search looks at all of them."""
    return _degrees(grid_map.rows, grid_map.cols, grid_map.connectivity)


@lru_cache(maxsize=64)
def _degrees(rows: int, cols: int, connectivity: int) -> NDArray[np.intp]:
    inside = np.pad(np.ones((rows, cols), np.intp), 1)
    shifted = [inside[1 + down : 1 + down + rows, 1 + across : 1 + across + cols] for down, across in OFFSETS]
    return np.asarray(sum(shifted[:connectivity]))


@lru_cache(maxsize=8192)
def _search(grid_map: GridMap, proposal: Proposal, weight: float, budget: int) -> Edge:
    from turngym.envs.path_planning.search.astar import Search

    search = Search(grid_map, *proposal, weight=weight)
    result = search.run(budget=budget)
    evaluations = int(degrees(grid_map)[search.expanded].sum())
    return Edge(*proposal, result.path, result.cost, result.expansions, evaluations)


def heat(grid_map: GridMap, edges: Iterable[Edge], weight: float) -> NDArray[np.intp]:
    """How often the searches for some edges expanded each cell, `(rows, cols)`."""
    from turngym.envs.path_planning.search.astar import Search

    often = np.zeros(grid_map.zones.shape, np.intp)
    for edge in edges:
        search = Search(grid_map, edge.origin, edge.target, weight=weight)
        search.run(budget=edge.expansions)
        often += search.expanded
    return often
