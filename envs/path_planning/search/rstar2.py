"""RStar2: R* that keeps what it has learnt, proves its bounds, and takes waypoints from anyone.

What differs from `rstar`:

- Waypoints, edges, paths and bounds are kept as ε falls, as the map changes and as the start moves.
- A failed search leaves a lower bound that is proved, not one inflated by ε.
- Waypoints come from any `Proposal`; one that is in sight of another and near to it is taken as the same.
- The search from start to goal itself goes on beside the rest, on a share of the expansions. So RStar2 finds a path
  wherever there is one, proves it where there is none, and knows a bound of the cheapest path's cost.
- An edge is AVOID only when its own search has failed, not for leading a long way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from turngym.envs.path_planning.maps import Cell, GridMap
from turngym.envs.path_planning.search.astar import ROUNDING, PlanResult, Search, Status, check_free
from turngym.envs.path_planning.search.graph import Edge, Graph
from turngym.envs.path_planning.search.open_list import OpenList
from turngym.envs.path_planning.search.proposals import Proposal, corners_and_doors
from turngym.envs.path_planning.search.rstar import check_settings

_AT_A_TIME = 3
"""In its turn the search from start to goal goes on for so many expansions for each row or column of its length: enough
for weighted A* to end on an easy map."""


@dataclass
class _Round:
    """One best-first search over the graph. It starts anew with every plan: what edges know costs nothing."""

    epsilon: float
    limit: float
    open: OpenList = field(default_factory=OpenList)
    costs: dict[Cell, float] = field(default_factory=dict)
    entering: dict[Cell, list[Edge]] = field(default_factory=dict)
    best: dict[Cell, Edge] = field(default_factory=dict)
    closed: set[Cell] = field(default_factory=set)
    known: list[int] = field(default_factory=list)
    pending: Cell | None = None
    repairing: bool = False
    proved: bool = False
    direct: Search | None = None
    spent: int = 0
    spent_directly: int = 0


class RStar2Planner:
    """Plans from one cell to another, again and again.

    One plan is `plan(ε)`. To choose waypoints in its place, drive its steps: `begin(ε)`, then as long as `advance()`
    returns a waypoint, `offer` it successors; `result()` says where that led.

    Args:
        grid_map: The map.
        start: A free cell.
        goal: A free cell.
        rng: Given to the proposal.
        proposal: Where waypoints come from.
        distance: Largest number of rows and of columns between a waypoint and its successors, Δ.
        successors: How many are proposed for a waypoint, K.
        threshold: Expansions after which a search is put off and its edge is AVOID; doubled with every failure.
        spacing: A waypoint in sight of another is taken as that one if it is nearer to it than this share of its
            distance from where it was proposed.
        patience: The searches between waypoints may spend so many times what the search from start to goal has spent.

    Attributes:
        graph: Γ, which may be read at any time.

    Raises:
        ValueError: If an argument is out of its range.
    """

    def __init__(
        self,
        grid_map: GridMap,
        start: Cell,
        goal: Cell,
        *,
        rng: np.random.Generator,
        proposal: Proposal = corners_and_doors,
        distance: int = 32,
        successors: int = 10,
        threshold: int = 200,
        spacing: float = 0.75,
        patience: float = 3.0,
    ) -> None:
        check_settings(grid_map, start, goal, 1.0, distance, successors, threshold)
        if not 0 <= spacing <= 1:
            raise ValueError(f"spacing must be between 0 and 1, got {spacing}")
        if not 0 <= patience < inf:
            raise ValueError(f"patience must be at least 0 and finite, got {patience}")
        self.graph = Graph(grid_map)
        self.start, self.goal = start, goal
        self._distance, self._successors, self._threshold, self._spacing = distance, successors, threshold, spacing
        self._proposal, self._rng, self._patience = proposal, rng, patience
        self._served: set[Cell] = set()
        self._reached = inf
        self._direct = self.graph.connect(start, goal)
        self._proof: Search | None = None
        self._round = _Round(1.0, 0)

    def plan(self, epsilon: float = 2.0, *, prove: bool = False, max_expansions: int | None = None) -> PlanResult:
        """Find a path.

        Args:
            epsilon: Factor of the heuristic, at least 1, between waypoints and in short searches. Unless an AVOID edge
                had to be searched again, the path costs at most ε times the cheapest one through the graph's other
                edges, whatever those cost that were not searched.
            prove: Prove that the path costs at most ε times the cheapest path of all, or find one that does, by as much
                of A* as that takes. Waypoints are then tried only while no path is known, and with ε = 1 never.
            max_expansions: Limit of this plan; None is no limit.

        Raises:
            ValueError: If an argument is out of its range.
        """
        self.begin(epsilon, max_expansions=max_expansions)
        if not prove or (epsilon > 1 and self._cost() == inf):
            while (cell := self.advance()) is not None:
                grid_map, goal = self.graph.map, self.goal
                self.offer(self._proposal(grid_map, cell, goal, self._distance, self._successors, self._rng))
        if prove:
            self._prove()
        return self.result()

    def begin(self, epsilon: float = 2.0, *, max_expansions: int | None = None) -> None:
        """Begin a plan; arguments and errors as for `plan`."""
        if not 1 <= epsilon < inf:
            raise ValueError(f"epsilon must be at least 1 and finite, got {epsilon}")
        if max_expansions is not None and max_expansions < 0:
            raise ValueError(f"max_expansions must be at least 0, got {max_expansions}")
        current = self._round = _Round(epsilon, inf if max_expansions is None else max_expansions)
        cost = self._cost()
        current.proved = cost <= epsilon * self._direct.lower * (1 + ROUNDING)
        current.repairing = cost < inf and epsilon >= self._reached
        current.costs[self.start] = 0.0
        current.open.insert(self.start, (False, epsilon * self.graph.map.heuristic(self.start, self.goal)))

    def advance(self) -> Cell | None:
        """Search on until a waypoint needs successors, and return it; None when the plan is done.

        Raises:
            ValueError: If a waypoint still waits for an offer.
        """
        current = self._round
        if current.pending is not None:
            raise ValueError(f"{current.pending} still waits for an offer")
        cell = self._next()
        if cell is None and current.spent < current.limit and self._cost() < inf:
            self._reached = min(self._reached, current.epsilon)
        return cell

    def _next(self) -> Cell | None:
        current = self._round
        while current.spent < current.limit and not current.proved:
            if not current.repairing and current.spent >= (1 + self._patience) * current.spent_directly:
                self._search_directly()
                continue
            cell = current.open.pop()
            if cell is None:
                if current.repairing:
                    return None
                self._search_directly()
                continue
            edge = current.best.get(cell)
            if edge is not None and not edge.settled(current.epsilon):
                self._evaluate(edge)
            elif cell == self.goal:
                return None
            elif self._close(cell):
                return cell
        return None

    def offer(self, cells: Iterable[Cell]) -> None:
        """Give the waypoint that `advance` returned its successors.

        Cells that are not free are passed over. The goal is always added where it is in sight within Δ.

        Raises:
            ValueError: If no waypoint waits for an offer.
        """
        cell = self._round.pending
        if cell is None:
            raise ValueError("no waypoint waits for an offer: call advance() first")
        offered = [(int(row), int(col)) for row, col in cells]
        for waypoint in self._placed(cell, [there for there in offered if self.graph.map.is_free(there)]):
            self.graph.connect(cell, waypoint)
        self._served.add(cell)
        self._round.pending = None
        self._relax(cell)

    def result(self) -> PlanResult:
        """The best path that the graph holds now, with the expansions since `begin`."""
        path, cost = self.graph.route(self.start, self.goal)
        lower = min(self._direct.lower, cost)
        status: Status = "solved" if path else "unsolvable" if lower == inf else "gave_up"
        return PlanResult(path, cost, self._round.spent, lower, status, self.graph)

    def update(self, changed: GridMap) -> None:
        """Go over to a changed map as `Graph.update` does. Waypoints within Δ of a change will be given new successors.

        Raises:
            ValueError: If the maps differ in more than zones and costs.
        """
        before = self.graph.map
        self.graph.update(changed)
        cells = np.argwhere((before.zones != changed.zones) | (before.costs != changed.costs))
        self._served = {cell for cell in self._served if (np.abs(cells - cell).max(axis=1) > self._distance).all()}
        self._proof, self._round = None, _Round(1.0, 0)

    def move(self, start: Cell) -> None:
        """Plan from another cell from now on.

        Raises:
            ValueError: If it is not a free cell.
        """
        check_free(self.graph.map, "start", start)
        self.start = start
        self._direct = self.graph.connect(start, self.goal)
        self._proof, self._round = None, _Round(1.0, 0)

    def _cost(self) -> float:
        """The cost of the best path that is known."""
        return self.graph.route(self.start, self.goal)[1]

    def _placed(self, cell: Cell, offered: list[Cell]) -> tuple[Cell, ...]:
        """What is offered to a waypoint, and the goal in sight, each replaced by a waypoint that is near to it."""
        from turngym.envs.jit import vector
        from turngym.envs.path_planning.search import kernel, sight

        grid = kernel.grid_of(self.graph.map)
        origin, goal = kernel.index_of(grid, cell), kernel.index_of(grid, self.goal)
        targets = [index for there in offered if (index := kernel.index_of(grid, there)) != origin]
        if _apart(cell, self.goal) <= self._distance and sight.visible(grid, origin, goal):
            targets.append(goal)
        known, nodes = self._round.known, self.graph.nodes
        known += [kernel.index_of(grid, node) for node in nodes[len(known) :]]
        placed = sight.snap(grid, origin, vector(targets), vector(known), self._spacing)
        return kernel.cells_of(grid, placed)

    def _search_directly(self) -> None:
        """Go on with the search from start to goal."""
        current, direct = self._round, self._direct
        if not (self.graph.map.is_free(self.start) and self.graph.map.is_free(self.goal)):
            direct.lower, current.proved = inf, True
            return
        if current.direct is None:
            current.direct = Search(self.graph.map, self.start, self.goal, weight=current.epsilon)
        result = current.direct.run(budget=int(min(self._turn(), current.limit - current.spent)))
        self.graph.learn(direct, result, current.epsilon)
        current.proved = result.status != "gave_up"
        direct.failures = int(not current.proved)
        current.spent += result.expansions
        current.spent_directly += result.expansions

    def _turn(self) -> int:
        return 1 + _AT_A_TIME * _apart(self.start, self.goal)

    def _evaluate(self, edge: Edge) -> None:
        """Search for the path of an edge, and place its target in OPEN accordingly."""
        current = self._round
        budget = min(self._threshold << edge.failures, current.limit - current.spent)
        current.spent += self.graph.evaluate(edge, weight=current.epsilon, budget=int(budget)).expansions
        self._rank(edge.target)

    def _close(self, cell: Cell) -> bool:
        """Close a waypoint, and relax its edges unless it has to be given some first, which is what is returned."""
        current = self._round
        current.closed.add(cell)
        current.spent += 1
        if not current.repairing and cell not in self._served:
            current.pending = cell
            return True
        self._relax(cell)
        return False

    def _relax(self, cell: Cell) -> None:
        current = self._round
        for edge in self.graph.leaving(cell):
            searched_apart = edge is self._direct and not edge.settled(current.epsilon)
            if not searched_apart and edge.target not in current.closed:
                current.entering.setdefault(edge.target, []).append(edge)
                self._rank(edge.target)

    def _rank(self, cell: Cell) -> None:
        """Choose the best edge into a waypoint, any other before an AVOID one, and place the waypoint accordingly."""
        current, epsilon = self._round, self._round.epsilon

        def rank(edge: Edge) -> tuple[bool, float, Cell]:
            return edge.avoid(epsilon), current.costs[edge.origin] + edge.estimate(epsilon), edge.origin

        best = current.best[cell] = min(current.entering[cell], key=rank)
        avoid, cost, _ = rank(best)
        current.costs[cell] = cost
        if cost == inf:
            current.open.remove(cell)
        else:
            current.open.insert(cell, (avoid, cost + epsilon * self.graph.map.heuristic(cell, self.goal)))

    def _prove(self) -> None:
        """A* from start to goal, until its smallest key proves the bound or it finds a better path."""
        current, direct = self._round, self._direct
        cost = self._cost()
        if cost <= current.epsilon * direct.lower or current.spent >= current.limit:
            return
        if self._proof is None:
            self._proof = Search(self.graph.map, self.start, self.goal)
        budget = None if current.limit == inf else int(current.limit - current.spent)
        result = self._proof.run(budget=budget, cutoff=cost / current.epsilon)
        self.graph.learn(direct, result, 1.0)
        current.spent += result.expansions


def rstar2(
    grid_map: GridMap,
    start: Cell,
    goal: Cell,
    *,
    rng: np.random.Generator,
    epsilon: float | Sequence[float] = 2.0,
    prove: bool = False,
    max_expansions: int | None = None,
    **settings: Any,
) -> PlanResult:
    """Plan once with RStar2.

    Args:
        grid_map: The map.
        start: A free cell.
        goal: A free cell.
        rng: Draws the waypoints.
        epsilon: As for `RStar2Planner.plan`; several, falling, for an anytime run that keeps what it has learnt.
        prove: As for `RStar2Planner.plan`, with the last ε.
        max_expansions: Limit of all rounds together; None is no limit.
        **settings: `proposal`, `distance`, `successors`, `threshold`, `spacing` and `patience` of `RStar2Planner`.

    Returns:
        The best path found. Its `bound` is proved.

    Raises:
        ValueError: If an argument is out of its range.
    """
    planner = RStar2Planner(grid_map, start, goal, rng=rng, **settings)
    *rounds, last = epsilon if isinstance(epsilon, Sequence) else (epsilon,)
    spent = 0
    for factor in rounds:
        spent += planner.plan(factor, max_expansions=_left(max_expansions, spent)).expansions
    result = planner.plan(last, prove=prove, max_expansions=_left(max_expansions, spent))
    return replace(result, expansions=spent + result.expansions)


def _left(limit: int | None, spent: int) -> int | None:
    return None if limit is None else limit - spent


def _apart(cell: Cell, other: Cell) -> int:
    """Rows or columns between two cells, whichever are more."""
    return max(abs(cell[0] - other[0]), abs(cell[1] - other[1]))
