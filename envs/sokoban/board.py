"""Sokoban as pure rules: levels, positions, moves, and one text for all orientations of a level.

Cells are numbered row by row. Directions are the codes of `grid.DIRECTIONS`: Left 0, Down 1, Right 2, Up 3. The player
walks to free cells and pushes, never pulls, one box at a time; a level is solved when every box stands on a goal.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

WALL, FLOOR, GOAL = "#", " ", "."
BOX, BOX_ON_GOAL, PLAYER, PLAYER_ON_GOAL = "$", "*", "@", "+"

_position = tuple.__new__  # half the time of Position(...), which every move would pay
_OFFSETS = ((0, -1), (1, 0), (0, 1), (-1, 0))


class Position(NamedTuple):
    """What changes while a level is played.

    Attributes:
        player: The player's cell.
        boxes: The boxes' cells, sorted.
    """

    player: int
    boxes: tuple[int, ...]


@dataclass(frozen=True)
class Level:
    """One level; `check_level` tells whether it makes sense.

    Attributes:
        cells: What never moves, row by row: `#` wall, space floor, `.` goal.
        width: Cells in a row.
        boxes: Where boxes stand at the start, sorted.
        player: Where the player stands at the start.
    """

    cells: str
    width: int
    boxes: tuple[int, ...]
    player: int

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.cells) // self.width

    @cached_property
    def start(self) -> Position:
        """The position to begin with."""
        return Position(self.player, self.boxes)

    @cached_property
    def goals(self) -> tuple[int, ...]:
        """The cells of the goals, sorted."""
        return tuple(cell for cell, symbol in enumerate(self.cells) if symbol == GOAL)

    @cached_property
    def goal_set(self) -> frozenset[int]:
        """The cells of the goals, to look up."""
        return frozenset(self.goals)

    @cached_property
    def steps(self) -> tuple[tuple[int, int, int, int], ...]:
        """For every cell, the cell reached in each direction; walls and the edge hold the walker back."""
        return _steps(self.cells, self.width)

    @cached_property
    def inside(self) -> frozenset[int]:
        """The cells that the player could walk to if there were no boxes."""
        return reachable(self, self.player, ())


@lru_cache(maxsize=256)
def _steps(cells: str, width: int) -> tuple[tuple[int, int, int, int], ...]:
    def step(cell: int, direction: int) -> int:
        row, column = cell // width + _OFFSETS[direction][0], cell % width + _OFFSETS[direction][1]
        if not (0 <= row < len(cells) // width and 0 <= column < width):
            return cell
        there = row * width + column
        return cell if WALL in (cells[cell], cells[there]) else there

    return tuple((step(cell, 0), step(cell, 1), step(cell, 2), step(cell, 3)) for cell in range(len(cells)))


def move(level: Level, position: Position, direction: int) -> Position:
    """The position after one move or push; the very same object where nothing can move."""
    player, boxes = position
    steps = level.steps
    there = steps[player][direction]
    if there == player:
        return position
    if there not in boxes:
        return _position(Position, (there, boxes))
    beyond = steps[there][direction]
    if beyond == there or beyond in boxes:
        return position
    pushed = list(boxes)
    pushed[pushed.index(there)] = beyond
    pushed.sort()
    return _position(Position, (there, tuple(pushed)))


def is_push(level: Level, position: Position, direction: int) -> bool:
    """Whether a move in this direction pushes a box."""
    there = level.steps[position.player][direction]
    return there in position.boxes and move(level, position, direction) is not position


def legal_moves(level: Level, position: Position) -> list[int]:
    """The directions in which the player can walk or push."""
    return [direction for direction in range(4) if move(level, position, direction) is not position]


def boxes_on_goals(level: Level, position: Position) -> int:
    """How many boxes stand on a goal."""
    return len(level.goal_set.intersection(position.boxes))


def is_solved(level: Level, position: Position) -> bool:
    """Whether every box stands on a goal."""
    return position.boxes == level.goals


def reachable(level: Level, player: int, boxes: Collection[int]) -> frozenset[int]:
    """The cells that a player can walk to without pushing, the own one included."""
    found, front, steps = {player}, [player], level.steps
    while front:
        for there in steps[front.pop()]:
            if there not in found and there not in boxes:
                found.add(there)
                front.append(there)
    return frozenset(found)


def draw(level: Level, position: Position) -> str:
    """All cells in XSB's symbols, row by row: `# .` and `$` box, `*` box on goal, `@` player, `+` player on goal."""
    symbols = list(level.cells)
    for box in position.boxes:
        symbols[box] = BOX_ON_GOAL if symbols[box] == GOAL else BOX
    symbols[position.player] = PLAYER_ON_GOAL if symbols[position.player] == GOAL else PLAYER
    return "".join(symbols)


def enclosed(level: Level) -> Level:
    """The same level with walls wherever the player can never be, and no more rows and columns than it needs."""
    inside = {divmod(cell, level.width) for cell in level.inside}
    top, left = min(row for row, _ in inside) - 1, min(column for _, column in inside) - 1
    height, width = max(row for row, _ in inside) - top + 2, max(column for _, column in inside) - left + 2
    numbers = {cell: (cell // level.width - top) * width + cell % level.width - left for cell in level.inside}
    cells = [WALL] * (height * width)
    for cell, number in numbers.items():
        cells[number] = level.cells[cell]
    boxes = tuple(sorted(numbers[box] for box in level.boxes if box in numbers))
    return Level("".join(cells), width, boxes, numbers[level.player])


def canonical(level: Level) -> str:
    """The same text for all eight orientations of a level, whatever lies outside its walls."""
    level = enclosed(level)
    symbols = draw(level, level.start)
    rows = [symbols[first : first + level.width] for first in range(0, len(symbols), level.width)]
    columns = [symbols[first :: level.width] for first in range(level.width)]
    views = ["\n".join(lines) for lines in (rows, rows[::-1], columns, columns[::-1])]
    return min(*views, *(view[::-1] for view in views))  # read backwards, a grid is turned by half a circle


def check_level(level: Level) -> None:
    """Say what is wrong with a level.

    Raises:
        ValueError: If rows differ in length, a cell is neither wall, floor nor goal, the player or a box stands in a
            wall or on a box, there is no box, there are not as many goals as boxes, the walls do not close around the
            player, or a box or a goal that is not done with lies where the player can never be.
    """
    cells = level.cells
    if level.width < 1 or not cells or len(cells) % level.width:
        raise ValueError(f"a level has rows of one width, got {len(cells)} cells for width {level.width}")
    unknown = next((cell for cell, symbol in enumerate(cells) if symbol not in (WALL, FLOOR, GOAL)), None)
    if unknown is not None:
        raise ValueError(f"cells are drawn with '#', ' ' and '.', got {cells[unknown]!r} at {_at(level, unknown)}")
    if list(level.boxes) != sorted(set(level.boxes)):
        raise ValueError(f"boxes are sorted and stand on different cells, got {level.boxes}")
    _check_places(level)
    if not level.boxes:
        raise ValueError("a level has at least one box, got none")
    if len(level.boxes) != len(level.goals):
        raise ValueError(
            f"a level has as many goals as boxes, got {len(level.boxes)} boxes and {len(level.goals)} goals"
        )
    _check_inside(level)


def _check_places(level: Level) -> None:
    for name, cell in [("player", level.player), *(("box", box) for box in level.boxes)]:
        if not 0 <= cell < len(level.cells) or level.cells[cell] == WALL:
            raise ValueError(f"the {name} stands on floor or a goal, got cell {cell}")
    if level.player in level.boxes:
        raise ValueError(f"the player stands on no box, got both at {_at(level, level.player)}")


def _check_inside(level: Level) -> None:
    width, seen, front = level.width, {level.player}, [level.player]
    while front:
        cell = front.pop()
        if cell // width in (0, level.height - 1) or cell % width in (0, width - 1):
            raise ValueError(f"walls close around the player, got a way out at {_at(level, cell)}")
        found = {cell - 1, cell + 1, cell - width, cell + width} - seen
        front += [there for there in found if level.cells[there] != WALL]
        seen |= found
    away = sorted((set(level.boxes) ^ level.goal_set) - seen)
    if away:
        raise ValueError(f"boxes and goals lie where the player can go, got one outside at {_at(level, away[0])}")


def _at(level: Level, cell: int) -> str:
    """A cell in words, counted from 1 as in an editor."""
    return f"row {cell // level.width + 1}, column {cell % level.width + 1}"
