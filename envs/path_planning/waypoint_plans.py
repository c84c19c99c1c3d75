"""The waypoints that are charged least, exactly, and those that RStar2 would choose.

A plan is a chain of edges whose searches succeed. The best one is found by A* over waypoints which searches for an edge
only when nothing else is more promising (lazy evaluation): a search expands no fewer cells than its path has steps, and
the map's exact distances say what is left. So some dozens of searches do where a map has thousands of edges. Where a
thousand do not, a plan within twice the least charge is taken.
"""

import heapq
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import SQRT2, Cell, Problem
from turngym.envs.path_planning.teacher import lesson
from turngym.envs.path_planning.waypoint_rules import Board, Edge, Proposal, Rules, apart, degrees

_MOST_SEARCHES = 1000
_INFLATION = 2.0
_Offers = list[tuple[float, Cell]]


class Prices(NamedTuple):
    """What is charged.

    Attributes:
        cost: For a unit of the path's cost.
        expansion: For a cell that a search expands.
        evaluation: For a step that a search looks at.
        waypoint: For a proposal.
    """

    cost: float
    expansion: float
    evaluation: float
    waypoint: float

    def effort(self, edge: Edge) -> float:
        """What is charged for the search that an edge took."""
        return self.expansion * edge.expansions + self.evaluation * edge.evaluations


class Plan(NamedTuple):
    """What to propose.

    Attributes:
        proposals: In order; the last one leads to the goal.
        charge: For all of them. In tree mode the whole path counts, and elsewhere what is still to be gone.
        expansions: Of the searches.
        is_best: Whether no plan is charged less; else none is charged less than half.
    """

    proposals: tuple[Proposal, ...]
    charge: float
    expansions: int
    is_best: bool


class _Node(NamedTuple):
    """A waypoint at the end of a chain, and what it took to get there."""

    cell: Cell
    proposals: tuple[Proposal, ...] = ()
    charge: float = 0.0
    expansions: int = 0


@lru_cache(maxsize=256)
def best_plan(problem: Problem, rules: Rules, prices: Prices, board: Board, limit: float = inf) -> Plan | None:
    """The plan that is charged least, from a board to the goal; or one of twice that charge, where it takes too long.

    Args:
        problem: The problem.
        rules: The rules of the game.
        prices: What is charged.
        board: Where to begin. Edges of its graph are searched for no more, and those that are AVOID are left out.
        limit: Most proposals.

    Returns:
        The plan; None where there is none within the limit.
    """
    bounds = _Bounds(problem, rules, prices, board)
    for inflation, most_searches in ((1.0, _MOST_SEARCHES), (_INFLATION, inf)):
        search = _PlanSearch(problem, rules, prices, board, bounds, limit, inflation)
        found = search.run(most_searches)
        if found is not None:
            return Plan(*found[1:], is_best=inflation == 1)
        if search.searches < most_searches:
            break
    return None


@dataclass
class _PlanSearch:
    """A* over waypoints; bounds of what is left are multiplied by `inflation`."""

    problem: Problem
    rules: Rules
    prices: Prices
    board: Board
    bounds: "_Bounds"
    limit: float
    inflation: float
    searches: int = 0

    def __post_init__(self) -> None:
        self._frontier: list[tuple[float, int, _Node, _Offers]] = []
        self._serial = count()
        self._known = self.board.reached

    def run(self, most_searches: float) -> _Node | None:
        """The goal's node; None where there is no plan, or so many searches are done."""
        fewest = dict[Cell, int]()
        self._push(0.0, _Node(self.problem.start if self.rules.tree else self.board.anchor))
        while self._frontier and self.searches < most_searches:
            _, _, node, offers = heapq.heappop(self._frontier)
            if offers:
                self._search(node, offers)
            elif node.cell == self.problem.goal:
                return node
            elif len(node.proposals) < fewest.get(node.cell, inf):
                fewest[node.cell] = len(node.proposals)
                self._follow_known(node)
                if len(node.proposals) < self.limit:
                    self._offer(node, self.bounds.offers(node, self.inflation))
        return None

    def _push(self, bound: float, node: _Node, offers: _Offers | None = None) -> None:
        heapq.heappush(self._frontier, (bound, next(self._serial), node, offers or []))

    def _offer(self, node: _Node, offers: _Offers) -> None:
        if offers:
            self._push(offers[-1][0], node, offers)

    def _search(self, node: _Node, offers: _Offers) -> None:
        """Search for the edge to the most promising waypoint that is offered."""
        proposal = Proposal(node.cell, offers.pop()[1])
        self._offer(node, offers)
        edge = self.rules.search(self.problem.map, proposal)
        self.searches += 1
        if edge.path:
            self._follow(node, edge, self.prices.waypoint + self.prices.effort(edge), edge.expansions, (proposal,))

    def _follow_known(self, node: _Node) -> None:
        """Go along edges of the graph: in tree mode that needs no proposal, elsewhere no search."""
        for edge in self._known:
            if edge.origin == node.cell:
                again = () if self.rules.tree else (Proposal(*edge[:2]),)
                self._follow(node, edge, self.prices.waypoint * len(again), 0, again)

    def _follow(self, node: _Node, edge: Edge, effort: float, expansions: int, added: tuple[Proposal, ...]) -> None:
        charge = node.charge + self.prices.cost * edge.cost + effort
        after = _Node(edge.target, node.proposals + added, charge, node.expansions + expansions)
        if len(after.proposals) <= self.limit:
            self._push(charge + self.inflation * self.bounds.left(edge.target), after)


class _Bounds:
    """What is charged at least, as the exact distances of a map tell.

    From a waypoint, every step that is left is paid for and expands a cell, and proposals lie at most Δ apart, unless
    the chain gets to an edge of the graph; it then leaves the graph at the end of one of its edges.
    """

    def __init__(self, problem: Problem, rules: Rules, prices: Prices, board: Board) -> None:
        self._problem, self._rules, self._prices = problem, rules, prices
        self._to_go, self._moves = _distances(problem)
        self._move = prices.expansion + prices.evaluation * int(degrees(problem.map).min())
        rows, cols = np.indices(self._to_go.shape)
        away = np.maximum(abs(rows - problem.goal[0]), abs(cols - problem.goal[1]))
        self._effort = _charge(self._move, self._moves) + prices.waypoint * -(-away // rules.distance)
        self._known = {edge[:2] for edge in board.edges}
        leaving = min((self._effort.item(edge.target) for edge in board.reached), default=inf)
        self._left = _charge(prices.cost, self._to_go) + np.minimum(self._effort, leaving)

    def left(self, cell: Cell) -> float:
        """From a waypoint to the goal."""
        return float(self._left.item(cell))

    def offers(self, node: _Node, inflation: float) -> _Offers:
        """What can be proposed at a waypoint for the first time, and the least charge by it, the least one last."""
        grid_map, here = self._problem.map, node.cell
        cells = self._rules.around(grid_map, here)
        away = abs(cells - here)
        eight = grid_map.connectivity == 8
        moves = away.max(axis=1) if eight else away.sum(axis=1)
        length = away.sum(axis=1) + (SQRT2 - 2) * (away.min(axis=1) if eight else 0)
        places = tuple(cells.T)
        cost = np.maximum(length * grid_map.cheapest * grid_map.cell_size, self._to_go[here] - self._to_go[places])
        steps = np.maximum(moves, self._moves[here] - self._moves[places])
        charges = node.charge + self._prices.waypoint + self._prices.cost * cost + self._move * steps
        bounds = charges + inflation * self._left[places]
        order = np.argsort(-bounds, kind="stable")
        within = order[np.isfinite(bounds[order]) & (steps[order] <= self._rules.budget)]
        offers = zip(bounds[within].tolist(), map(tuple, cells[within].tolist()), strict=True)
        return [(bound, cell) for bound, cell in offers if (here, cell) not in self._known]


def _charge(price: float, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """What amounts cost; what is infinite stays so at a price of 0, too."""
    return np.multiply(price, amounts, out=np.full_like(amounts, inf), where=np.isfinite(amounts))


@lru_cache(maxsize=16)
def _distances(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """From every cell to the goal: the exact cost, and a bound of the moves; inf where there is no way."""
    from turngym.envs.path_planning.search.astar import distance_field

    plain = replace(problem.map, costs=np.ones(problem.map.zones.shape), cell_size=1.0)
    longest = SQRT2 if plain.connectivity == 8 else 1.0
    return distance_field(problem.map, problem.goal), distance_field(plain, problem.goal) / longest


def to_go(problem: Problem) -> NDArray[np.float64]:
    """The cost of a cheapest path from every cell to the goal, `(rows, cols)`; inf where there is none."""
    return _distances(problem)[0]


def taught(problem: Problem, rules: Rules, board: Board, limit: int) -> tuple[Proposal, ...]:
    """What RStar2 would propose: the waypoints by which it found its path, as far ahead as their searches reach.

    Where none of them is near enough, or their searches give up, the proposal is another cell on its path.

    Args:
        problem: The problem.
        rules: The rules of the game. RStar2 plans with their distance and budget, and with ε = 2.
        board: Where to go on from.
        limit: Most proposals.

    Returns:
        Proposals whose searches succeed; none where no cell on the path can be reached.
    """
    cell, proposals = board.anchor, list[Proposal]()
    path, waypoints = lesson(problem, cell, distance=rules.distance, threshold=rules.budget)
    while cell != problem.goal and len(proposals) < limit:
        ahead = [there for there in path[path.index(cell) + 1 :] if apart(cell, there) <= rules.distance]
        ahead.sort(key=waypoints.__contains__)  # keeps the order of the path among those that are, and are not
        edges = (_edge(problem, rules, board, Proposal(cell, there)) for there in reversed(ahead))
        edge = next((edge for edge in edges if edge.path), None)
        if edge is None:
            break
        if not (rules.tree and edge in board.edges):
            proposals.append(Proposal(cell, edge.target))
        cell = edge.target
    return tuple(proposals)


def _edge(problem: Problem, rules: Rules, board: Board, proposal: Proposal) -> Edge:
    """The edge of a proposal, known or searched for."""
    return board.known(proposal) or rules.search(problem.map, proposal)
