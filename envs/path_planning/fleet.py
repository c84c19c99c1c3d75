"""Several agents on one map as pure rules: who moves where when all move at once, and what keeps them apart.

The rules are those of classical multi-agent path finding (R. Stern et al., "Multi-Agent Pathfinding: Definitions,
Variants, and Benchmarks", SoCS 2019): no two agents in one cell, no two swap their cells; to follow an agent into the
cell that it leaves is allowed, and so is turning in a ring. Agents are numbered from 0; cells are `(row, col)`.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from turngym.envs import grid
from turngym.envs.path_planning.maps import OFFSETS, Cell, GridMap

MOVES = (*grid.DIRECTIONS, "Stay")
STAY = len(grid.DIRECTIONS)
MAX_AGENTS = 26

Cells = tuple[Cell, ...]
"""Where every agent is."""


@dataclass(frozen=True)
class Fleet:
    """A map, and for every agent where it starts and where it must go.

    Attributes:
        map: 4-connected and without terrain costs: every move takes one turn.
        starts: One free cell for each of 1 to 26 agents, all of them different.
        goals: As many, different from each other too. Whether a path leads there is not checked.

    Raises:
        ValueError: If the map or a cell is not such, or the numbers of starts and goals are not equal.
    """

    map: GridMap
    starts: Cells
    goals: Cells

    def __post_init__(self) -> None:
        if self.map.connectivity != 4 or (self.map.costs != 1).any():
            raise ValueError(
                f"map must have 4 neighbours a cell and cost factors of 1, got connectivity {self.map.connectivity} "
                f"and factors up to {self.map.costs.max():g}"
            )
        if not 1 <= len(self.starts) <= MAX_AGENTS or len(self.starts) != len(self.goals):
            raise ValueError(
                f"starts and goals must be equally many, 1 to {MAX_AGENTS}, got {len(self.starts)} and "
                f"{len(self.goals)}"
            )
        for name in ("starts", "goals"):
            cells = tuple((int(row), int(col)) for row, col in getattr(self, name))
            object.__setattr__(self, name, cells)
            if len(set(cells)) < len(cells) or not all(map(self.map.is_free, cells)):
                raise ValueError(f"{name} must be free cells of the map, each given once, got {cells}")


Kind = Literal["wall", "cell", "swap", "held"]


class Conflict(NamedTuple):
    """What kept agents where they were.

    Attributes:
        kind: `wall`: the only agent ran into a wall or the map's edge. `cell`: all these agents claimed one cell.
            `swap`: these two would have exchanged their cells. `held`: the first agent claimed a cell that the second
            one did not leave.
        agents: Who, in ascending order (of `held`, in the order just told).
        cell: The cell that was claimed (of `wall`, the one that the agent is in; of `swap`, the one that the first
            agent claimed).
    """

    kind: Kind
    agents: tuple[int, ...]
    cell: Cell


class Turn(NamedTuple):
    """What came of a joint move: where every agent is now, and every conflict, in an order of their own."""

    cells: Cells
    conflicts: tuple[Conflict, ...]


@lru_cache(maxsize=256)
def steps(grid_map: GridMap) -> Mapping[Cell, Cells]:
    """For every free cell of a 4-connected map, the cell that each of `MOVES` leads to; walls and edges hold back."""
    around: dict[Cell, Cells] = {}
    for row in range(grid_map.rows):
        for col in range(grid_map.cols):
            if grid_map.is_free((row, col)):
                open_cells = {there for there, _ in grid_map.neighbours((row, col))}
                ahead = [(row + down, col + across) for down, across in OFFSETS[:STAY]]
                around[row, col] = (*(cell if cell in open_cells else (row, col) for cell in ahead), (row, col))
    return around


@lru_cache(maxsize=1024)
def distances(grid_map: GridMap, goal: Cell) -> Mapping[Cell, int]:
    """The moves from every cell to one, for an agent that is alone; cells without a way are missing."""
    around, found, queue = steps(grid_map), {goal: 0}, deque([goal])
    while queue:
        here = queue.popleft()
        for there in around[here]:
            if there not in found:
                found[there] = found[here] + 1
                queue.append(there)
    return found


def advance(grid_map: GridMap, cells: Cells, moves: Sequence[int]) -> Turn:
    """Move all agents at once.

    Claims are settled on positions, and agents are placed once, at the end. Whoever claims a cell that another agent
    claims too, or would swap with another, stays; then whoever claims the cell of one who stays, stays too, and so on
    until nobody is left who does. The outcome does not depend on the order of the agents.

    Args:
        grid_map: A 4-connected map.
        cells: Where every agent is: free cells, no two the same.
        moves: An index into `MOVES` for every agent.
    """
    around = steps(grid_map)
    claims = [around[cell][move] for cell, move in zip(cells, moves, strict=True)]
    found = [
        Conflict("wall", (agent,), cell)
        for agent, (cell, move) in enumerate(zip(cells, moves, strict=True))
        if claims[agent] == cell and move != STAY
    ]
    movers: dict[Cell, list[int]] = {}
    for agent, (cell, claim) in enumerate(zip(cells, claims, strict=True)):
        if claim != cell:
            movers.setdefault(claim, []).append(agent)
    found += [Conflict("cell", tuple(rivals), cell) for cell, rivals in movers.items() if len(rivals) > 1]
    found += _swaps(cells, claims)
    stopped = {agent for conflict in found for agent in conflict.agents}
    held = _held(cells, claims, movers, stopped)
    stopped |= {conflict.agents[0] for conflict in held}
    placed = tuple(cells[agent] if agent in stopped else claim for agent, claim in enumerate(claims))
    return Turn(placed, tuple(sorted(found + held)))


def _swaps(cells: Cells, claims: Sequence[Cell]) -> list[Conflict]:
    who = {cell: agent for agent, cell in enumerate(cells)}
    pairs = [(agent, who.get(claim, agent)) for agent, claim in enumerate(claims)]
    return [
        Conflict("swap", (agent, other), claims[agent])
        for agent, other in pairs
        if agent < other and claims[other] == cells[agent]
    ]


def _held(
    cells: Cells, claims: Sequence[Cell], movers: Mapping[Cell, Sequence[int]], stopped: set[int]
) -> list[Conflict]:
    """Those whom an agent that stays holds back, one behind the other."""
    staying = [agent for agent, cell in enumerate(cells) if claims[agent] == cell or agent in stopped]
    seen, found = set(staying), []
    while staying:
        holder = staying.pop()
        for agent in movers.get(cells[holder], ()):
            if agent not in seen:
                seen.add(agent)
                staying.append(agent)
                found.append(Conflict("held", (agent, holder), cells[holder]))
    return found
