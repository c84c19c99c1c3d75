"""What is told of a fleet, and what it is told: boards, conflicts and replies in words, pictures and numbers.

Agents are named by small letters and their goals by the capitals of these. The first line gives the row and the column
of every agent, counted from 0 at the top left, and those of its goal; it tells what the map below cannot, since an
agent covers the goal that it stands on.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from turngym.envs import grid
from turngym.envs.actions import ParseError
from turngym.envs.path_planning.fleet import MOVES, STAY, Cells, Conflict, Fleet, steps
from turngym.envs.path_planning.maps import BLOCKED, Cell, GridMap
from turngym.envs.path_planning.sensor import Mask
from turngym.envs.path_planning.view import UNSEEN, draw, put

NAMES, GOAL_NAMES = ascii_lowercase, ascii_uppercase
SEPARATOR = "|"
CODES = {name.lower(): code for code, name in enumerate(MOVES)}
"""The code of each move by its name in lower case."""

RULES = (
    "All agents move at once. Agents that want one cell stay where they are, and so do two that would swap their cells "
    "and whoever wants the cell of one who stays; to follow and to turn in a ring is allowed. "
    "A turn costs one for every agent but those that rest on their goals; all must be on their goals at once."
)
LEGEND = (
    "# is a wall, _ is free, A is the goal of a, B of b and so on. The first line gives the row and the column of each "
    "agent and of its goal, from 0 at the top left."
)
ARRIVED = "All agents are on their goals."

_BETWEEN = f" {SEPARATOR} "
_MOVE_NAMES = ", ".join(MOVES)
_WALL, _LAND, _WATER = (60, 62, 68), (244, 244, 240), (120, 170, 220)
_AGENTS = (
    *((220, 60, 50), (40, 90, 200), (50, 150, 70), (230, 150, 30)),
    *((130, 60, 170), (20, 160, 170), (200, 70, 140), (120, 85, 50)),
)
_TILE = 32


# Boards ------------------------------------------------------------------------------------------------------------


def describe(fleet: Fleet, cells: Cells, agents: Iterable[int] | None = None, seen: Mask | None = None) -> str:
    """The board as text: agents and goals as numbers, then the map.

    Args:
        fleet: The fleet.
        cells: Where every agent is.
        agents: Those to tell of, in order; None for all. The others are neither listed nor drawn.
        seen: `(rows, cols)`, the cells to draw; the rest is `?`. None for all.
    """
    shown = range(len(cells)) if agents is None else list(agents)
    parts = [f"{NAMES[one]} {_numbers(cells[one])} {GOAL_NAMES[one]} {_numbers(fleet.goals[one])}" for one in shown]
    things = {
        goal: GOAL_NAMES[one] for one, goal in enumerate(fleet.goals) if one in shown or seen is None or seen[goal]
    }
    things |= {cells[one]: NAMES[one] for one in shown}
    text = _drawn(fleet.map) if seen is None else draw(np.where(seen, fleet.map.glyphs(), np.uint8(ord(UNSEEN))))
    return f"{_BETWEEN.join(parts)}\n{put(text, fleet.map.cols, things)}"


@lru_cache(maxsize=64)
def _drawn(grid_map: GridMap) -> str:
    return draw(grid_map.glyphs())


def _numbers(cell: Cell) -> str:
    return f"{cell[0]} {cell[1]}"


def numbered(fleet: Fleet, cells: Cells) -> NDArray[np.int8]:
    """The board as `(3, rows, cols)`: 1 for walls; the agents, counted from 1; the goals, by their agents' numbers."""
    planes = np.zeros((3, fleet.map.rows, fleet.map.cols), np.int8)
    planes[0] = fleet.map.zones == BLOCKED
    for number, (cell, goal) in enumerate(zip(cells, fleet.goals, strict=True), 1):
        planes[(1, *cell)], planes[(2, *goal)] = number, number
    return planes


def picture(fleet: Fleet, cells: Cells) -> NDArray[np.uint8]:
    """The board as an image, `(rows * 32, cols * 32, 3)`: agents are squares on their goals' colours."""
    colours = {"#": _WALL, "_": _LAND, "-": _WATER}
    colours |= {GOAL_NAMES[agent]: _pale(_colour(agent)) for agent in range(len(cells))}
    ground = _drawn(fleet.map)
    ground = put(ground, fleet.map.cols, {goal: GOAL_NAMES[agent] for agent, goal in enumerate(fleet.goals)})
    image = grid.paint("".join(ground.split()), fleet.map.cols, colours, tile=_TILE)
    margin = _TILE // 4
    for agent, (row, col) in enumerate(cells):
        top, left, side = row * _TILE + margin, col * _TILE + margin, _TILE - 2 * margin + 1
        image[top : top + side, left : left + side] = _colour(agent)
    return image


def _colour(agent: int) -> tuple[int, int, int]:
    return _AGENTS[agent % len(_AGENTS)]


def _pale(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    red, green, blue = (255 - (255 - part) * 2 // 5 for part in colour)
    return red, green, blue


# Conflicts ---------------------------------------------------------------------------------------------------------


def tell(conflicts: Iterable[Conflict]) -> str:
    """Conflicts in words, a sentence each; "" where there are none."""
    return " ".join([_told(conflict) for conflict in conflicts])


def _told(conflict: Conflict) -> str:
    who = [NAMES[agent] for agent in conflict.agents]
    if conflict.kind == "wall":
        return f"The wall holds {who[0]} back."
    if conflict.kind == "held":
        return f"{who[1]} holds {who[0]} back."
    listed = f"{', '.join(who[:-1])} and {who[-1]}"
    return f"{listed} {'cannot swap' if conflict.kind == 'swap' else f'want {_numbers(conflict.cell)} and stay'}."


# Replies -----------------------------------------------------------------------------------------------------------


def expected(agents: int) -> str:
    """What a joint reply of so many agents should look like."""
    example = spell([3, STAY, 0][:agents] + [STAY] * (agents - 3))
    return f"Reply such as {example}, each one of: {_MOVE_NAMES}."


def spell(moves: Sequence[int]) -> str:
    """A joint move as a reply."""
    return _BETWEEN.join([f"{NAMES[agent]} {MOVES[move]}" for agent, move in enumerate(moves)])


def spell_plan(moves: Sequence[Sequence[int]], after: Cells) -> str:
    """The next joint moves, and where every agent is after the first of them."""
    plans = []
    for agent, planned in enumerate(zip(*moves, strict=True)):
        names = [MOVES[move] for move in planned]
        while len(names) > 1 and names[-1] == MOVES[STAY]:
            names.pop()
        plans.append(f"{NAMES[agent]} {' '.join(names)}")
    places = [f"{NAMES[agent]} {_numbers(cell)}" for agent, cell in enumerate(after)]
    return f"plan {_BETWEEN.join(plans)}, next {_BETWEEN.join(places)}"


def parse(text: str, agents: int) -> tuple[int, ...] | ParseError:
    """Read a joint reply, all or nothing.

    Args:
        text: `a Up | b Stay`: for every agent, in any order and any case, its name and its move, and nothing else.
        agents: How many there are.

    Returns:
        A code for every agent; or a `ParseError` that says what was expected.
    """
    names, moves = set(NAMES[:agents]), dict[str, int]()
    items = text.lower().split(SEPARATOR, agents)
    for item in items:
        words = item.split()
        if len(words) != 2 or words[0] not in names or words[1] not in CODES:
            return ParseError("I could not read a move.")
        moves[words[0]] = CODES[words[1]]
    if len(moves) != agents or len(items) != agents:
        return ParseError("Every agent needs one move.")
    return tuple(moves[NAMES[agent]] for agent in range(agents))


def move_between(grid_map: GridMap, origin: Cell, target: Cell) -> int:
    """The move that leads from a cell to another, or to itself."""
    return STAY if origin == target else steps(grid_map)[origin].index(target)
