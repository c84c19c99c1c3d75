"""How waypoints are written and read, and how the graph of what was searched for is told."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from turngym.envs.actions import SEPARATOR, ParseError
from turngym.envs.path_planning.maps import Cell, Problem
from turngym.envs.path_planning.waypoint_rules import Board, Edge, Proposal, Rules

_CELL = r"([0-9]{1,6})\s+([0-9]{1,6})"
_WAYPOINT = re.compile(rf"(?:from\s+{_CELL}\s+to\s+)?(?:{_CELL}|(goal))", re.IGNORECASE)


@dataclass(frozen=True)
class Grammar:
    """How proposals are written.

    Attributes:
        rules: The rules of the game.
        shape: Rows and columns of the maps.
        limit: How many proposals one reply may hold.
    """

    rules: Rules
    shape: tuple[int, int]
    limit: int

    @cached_property
    def expected(self) -> str:
        """What a reply should look like."""
        distance, row, col = self.rules.distance, self.shape[0] // 2, self.shape[1] // 3
        waypoint = f"at most {distance} rows and {distance} columns away, such as {row} {col}, or with goal"
        if self.rules.tree:
            waypoint = f"such as from {row} {row} to {row} {col}, at most {distance} rows and {distance} columns apart"
        kind = "a waypoint" if self.limit == 1 else f"one to {self.limit} waypoints joined by {SEPARATOR}, each"
        return f"Reply with {kind} {waypoint}."

    @property
    def tokens(self) -> int:
        """Room for a reply, in tokens of the `tiny` model, its end token included."""
        cell = sum(len(str(side - 1)) for side in self.shape)
        return max(8, self.limit * (2 * cell + 3 if self.rules.tree else cell + 1))

    def parse(self, text: str, problem: Problem, board: Board) -> tuple[Proposal, ...] | ParseError:
        """Read a reply, all or nothing; proposals have no flaw, if those before them reach their waypoints."""
        items = text.split(SEPARATOR, self.limit)
        if len(items) > self.limit:
            return ParseError(f"At most {self.limit} {'waypoint is' if self.limit == 1 else 'waypoints are'} allowed.")
        proposals = list[Proposal]()
        for item in items:
            proposal = self._read(item, problem.goal, board.anchor)
            if proposal is None:
                return ParseError("I could not read a waypoint.")
            flaw = self.rules.flaw(problem, board, proposal)
            if flaw:
                return ParseError(flaw)
            proposals.append(proposal)
            board = self.hoped(board, proposal)
        return tuple(proposals)

    def hoped(self, board: Board, proposal: Proposal) -> Board:
        """The board if the search for a proposal succeeds, as far as further proposals depend on it."""
        return board.after(board.known(proposal) or Edge(*proposal, tuple(proposal), 0.0, 0, 0))

    def _read(self, text: str, goal: Cell, anchor: Cell) -> Proposal | None:
        match = _WAYPOINT.fullmatch(text.strip())
        if match is None or (match[1] and not self.rules.tree):
            return None
        origin = (int(match[1]), int(match[2])) if match[1] else anchor
        return Proposal(origin, goal if match[5] else (int(match[3]), int(match[4])))

    def spell(self, proposals: Sequence[Proposal]) -> str:
        """Proposals as a reply."""
        return f" {SEPARATOR} ".join([self._spell(proposal) for proposal in proposals])

    def _spell(self, proposal: Proposal) -> str:
        target = written(proposal.target)
        return f"from {written(proposal.origin)} to {target}" if self.rules.tree else target


def written(cell: Cell) -> str:
    """A cell as its row and its column."""
    return f"{cell[0]} {cell[1]}"


def table(board: Board) -> list[str]:
    """A line for each edge: `from 5 0 to 3 3 cost 5 in 8` was found in eight expansions, `X in 16` was not."""
    return [f"from {written(edge.origin)} to {written(edge.target)} {_found(edge)}" for edge in board.edges]


def _found(edge: Edge) -> str:
    cost = f"cost {edge.cost:.2f}".rstrip("0").rstrip(".") if edge.path else "X"
    return f"{cost} in {edge.expansions}"


def legend(rules: Rules) -> str:
    """What to tell a model about the game, but for the map and the form of replies."""
    begin = "any waypoint that was reached" if rules.tree else "P"
    return (
        f"Each waypoint is searched for from {begin}. A search may expand {rules.budget} cells. If it gets there P "
        "goes there, else the edge is X, to be avoided. Lines below the map are edges: from, to, cost or X, and how "
        "many cells were expanded. Cost, expanded cells and waypoints are charged."
    )
