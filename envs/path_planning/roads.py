"""A map as a road map: junctions, dead ends and what stands on the map, and the corridors between them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from turngym.envs.grid import DIRECTIONS
from turngym.envs.path_planning.maps import BLOCKED, OFFSETS, Cell, GridMap
from turngym.envs.path_planning.sensor import Mask
from turngym.envs.path_planning.view import UNSEEN, Header, View, read_header

NAMES = (*DIRECTIONS, "Down Left", "Down Right", "Up Right", "Up Left")
"""The steps of `OFFSETS` in words."""

Roads = dict[Cell, dict[str, tuple[Cell, float]]]
"""For each node, the direction of each road's first step, the node at its other end, and what it costs to go there."""


@dataclass(frozen=True)
class RoadMap:
    """What the road form states.

    Attributes:
        header: Who stands where.
        roads: The nodes that the player can reach, with their roads. Nodes are all cells with another number of steps
            than two, and those that something stands on. Costs are rounded to hundredths.
        frontier: Nodes beside a cell that has not been seen.
    """

    header: Header
    roads: Roads
    frontier: frozenset[Cell]


def road_map(view: View) -> RoadMap:
    """What has been seen of a map as roads."""
    known, frontier = view.map, np.zeros(view.map.zones.shape, bool)
    if view.seen is not None:
        known = replace(known, zones=np.where(view.seen, known.zones, np.uint8(BLOCKED)))
        frontier = (known.zones != BLOCKED) & _beside(~view.seen)
    nodes = junctions(known) | frontier
    for cell in (view.player, view.goal, *view.marks):
        nodes[cell] = True
    roads = trace_roads(known, nodes, [view.player])
    return RoadMap(read_header(view.header), roads, frozenset(cell for cell in roads if frontier[cell]))


def junctions(grid_map: GridMap) -> NDArray[np.bool_]:
    """Free cells with another number of steps than two, `(rows, cols)`."""
    zones = np.pad(grid_map.zones, 1)

    def same(down: int, across: int) -> NDArray[np.bool_]:
        rows, cols = grid_map.zones.shape
        shifted = zones[1 + down : 1 + down + rows, 1 + across : 1 + across + cols]
        return np.asarray((shifted == grid_map.zones) & (grid_map.zones != BLOCKED))

    needed = {"both_free": 2, "one_free": 1, "always": 0}[grid_map.corners]
    steps = np.zeros(grid_map.zones.shape, np.uint8)
    for down, across in grid_map.offsets:
        allowed = same(down, across)
        if down and across:
            allowed &= same(down, 0).astype(np.uint8) + same(0, across) >= needed
        steps += allowed
    return np.asarray((grid_map.zones != BLOCKED) & (steps != 2))


def trace_roads(grid_map: GridMap, nodes: NDArray[np.bool_], roots: Iterable[Cell]) -> Roads:
    """The roads of all nodes that can be reached from some of them; a road that leads back to its start is left out."""
    found: Roads = {}
    todo = list(roots)
    while todo:
        node = todo.pop()
        if node in found:
            continue
        found[node] = {}
        for there, cost in grid_map.neighbours(node):
            end, total = _follow(grid_map, nodes, node, there, cost)
            if end != node:
                name = NAMES[OFFSETS.index((there[0] - node[0], there[1] - node[1]))]
                found[node][name] = (end, round(total, 2))
                todo.append(end)
    return dict(sorted(found.items()))


def road_text(roads: Roads, frontier: frozenset[Cell] = frozenset()) -> str:
    """One line a node: `from 0 0 | Right 4 to 0 4 | Down 3 to 3 0`; a `?` after the node says that it is a frontier."""
    return "\n".join(
        " | ".join(
            [
                f"from {row} {col}" + (f" {UNSEEN}" if (row, col) in frontier else ""),
                *(f"{name} {_number(cost)} to {end[0]} {end[1]}" for name, (end, cost) in ways.items()),
            ]
        )
        for (row, col), ways in roads.items()
    )


def read_roads(header: Header, lines: list[str]) -> RoadMap:
    """Read the lines of `road_text`.

    Raises:
        ValueError: If they are not such lines.
    """
    roads: Roads = {}
    frontier = set()
    for line in lines:
        origin, *ways = line.split(" | ")
        word, row, col, *rest = origin.split()
        if word != "from" or rest not in ([], [UNSEEN]):
            raise ValueError(f"a line begins with from, row and column, got {line!r}")
        node = int(row), int(col)
        roads[node] = dict(_read_way(way) for way in ways)
        if rest:
            frontier.add(node)
    return RoadMap(header, roads, frozenset(frontier))


def _read_way(way: str) -> tuple[str, tuple[Cell, float]]:
    *name, cost, _, row, col = way.split()
    if " ".join(name) not in NAMES:
        raise ValueError(f"a road begins with one of {', '.join(NAMES)}, got {way!r}")
    return " ".join(name), ((int(row), int(col)), float(cost))


def _follow(grid_map: GridMap, nodes: NDArray[np.bool_], node: Cell, there: Cell, cost: float) -> tuple[Cell, float]:
    """The node at the end of a corridor, and the cost to it."""
    before = node
    while not nodes[there]:
        ((ahead, step),) = [way for way in grid_map.neighbours(there) if way[0] != before]
        before, there, cost = there, ahead, cost + step
    return there, cost


def _beside(mask: Mask) -> Mask:
    """Cells that have a cell of the mask among the eight around them, or are one."""
    padded = np.pad(mask, 1)
    lines = padded[:-2] | padded[1:-1] | padded[2:]
    return np.asarray(lines[:, :-2] | lines[:, 1:-1] | lines[:, 2:])


def _number(cost: float) -> str:
    return f"{cost:.2f}".rstrip("0").rstrip(".")
