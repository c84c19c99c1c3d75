"""Levels of a wanted difficulty: rooms carved at random, boxes pulled off their goals, the optimum proved.

A room is carved by a random walk that clears two to four cells at each step. Boxes stand on its goals at first and are
pulled away, always from the position that seems farthest from a solution; positions on the way are drawn and solved
exactly until one takes as many moves as wanted. The same generator gives the same levels in every process, with and
without numba.
"""

from dataclasses import replace

import numpy as np

from turngym.envs.errors import LevelError
from turngym.envs.sokoban.board import FLOOR, GOAL, WALL, Level, canonical, reachable
from turngym.envs.sokoban.solver import solve

MIN_SIZE, MAX_SIZE = 5, 20
"""Cells along a side, walls included."""

_SHARE_OF_FLOOR = (0.5, 0.9)
_TURN = 0.35
_OFFSETS = ((0, -1), (1, 0), (0, 1), (-1, 0))
_ROOMS = 1000
_TRIES = 4
_POSITIONS = 500
_EXPANSIONS = 10_000
_MISSES = 100


def check_difficulty(*, size: int | tuple[int, int], boxes: int, min_moves: int, max_moves: int) -> None:
    """Say what is wrong with a wish for levels (see `generate`).

    Raises:
        TypeError: If `size` is neither a number nor two.
        ValueError: If there can be no such level.
    """
    height, width = _sides(size)
    if not (min(height, width) >= MIN_SIZE and max(height, width) <= MAX_SIZE):
        raise ValueError(
            f"size must be between {MIN_SIZE} and {MAX_SIZE} cells along each side, walls included, got {size}"
        )
    most = (height - 2) * (width - 2) // 3
    if not 1 <= boxes <= most:
        raise ValueError(f"boxes must be between 1 and {most}, a third of the cells inside, got {boxes}")
    if not 1 <= min_moves <= max_moves:
        raise ValueError(f"min_moves must be between 1 and max_moves, got {min_moves} and {max_moves}")


def generate(
    rng: np.random.Generator, *, size: int | tuple[int, int], boxes: int, min_moves: int, max_moves: int
) -> Level:
    """Draw a level whose shortest solution is proved to take `min_moves` to `max_moves` moves.

    No box stands on a goal at the start.

    Args:
        rng: Source of all luck.
        size: Cells along a side, or rows and columns, with the outer walls, 5 to 20.
        boxes: Number of boxes, at most a third of the cells inside.
        min_moves: Fewest moves of the shortest solution, at least 1.
        max_moves: Most moves of the shortest solution.

    Raises:
        ValueError: If there can be no such level.
        LevelError: If none was found in many rooms.
    """
    check_difficulty(size=size, boxes=boxes, min_moves=min_moves, max_moves=max_moves)
    for _ in range(_ROOMS):
        room = _room(rng, *_sides(size), boxes)
        level = _level(rng, room, min_moves, max_moves)
        if level is not None:
            return level
    raise LevelError(
        f"no level of size {size} with {boxes} boxes and {min_moves} to {max_moves} moves in {_ROOMS} rooms"
    )


def generate_set(
    rng: np.random.Generator,
    count: int,
    *,
    size: int | tuple[int, int],
    boxes: int,
    min_moves: int,
    max_moves: int,
) -> list[Level]:
    """Draw `count` levels as `generate` does, of which no two are the same up to rotation and reflection.

    Raises:
        ValueError: If there can be no such level.
        LevelError: If not enough different ones were found.
    """
    found: dict[str, Level] = {}
    misses = 0
    while len(found) < count:
        level = generate(rng, size=size, boxes=boxes, min_moves=min_moves, max_moves=max_moves)
        misses = misses + 1 if found.setdefault(canonical(level), level) is not level else 0
        if misses == _MISSES:
            raise LevelError(f"only {len(found)} of {count} levels found, then the same ones {_MISSES} times in a row")
    return list(found.values())


def _sides(size: int | tuple[int, int]) -> tuple[int, int]:
    sides = (size, size) if isinstance(size, int) else tuple(size) if isinstance(size, list | tuple) else ()
    if len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        raise TypeError(f"size must be a whole number of cells, or two: rows and columns, got {size!r}")
    return sides[0], sides[1]


def _room(rng: np.random.Generator, height: int, width: int, boxes: int) -> Level:
    """A room with all boxes on goals."""
    inside = (height - 2) * (width - 2)
    floor = _carve(rng, height, width, max(2 * boxes + 2, int(inside * rng.uniform(*_SHARE_OF_FLOOR))))
    order = [floor[index] for index in rng.permutation(len(floor))]
    cells = [WALL] * (height * width)
    for cell in floor:
        cells[cell] = GOAL if cell in order[:boxes] else FLOOR
    return Level("".join(cells), width, tuple(sorted(order[:boxes])), order[boxes])


def _carve(rng: np.random.Generator, height: int, width: int, wanted: int) -> list[int]:
    """Cells that a random walk clears, sorted: at each step its own and one to three beside it."""
    stamps = ((0, 1), (0, width), (0, 1, width, width + 1))
    luck = rng.random((4 * height * width, 3)).tolist()
    row, column, direction = 1 + int(luck[0][0] * (height - 3)), 1 + int(luck[0][1] * (width - 3)), 0
    floor: set[int] = set()
    for turn, way, stamp in luck:
        floor.update([row * width + column + step for step in stamps[int(stamp * 3)]])
        if len(floor) >= wanted:
            break
        if turn < _TURN:
            direction = int(way * 4)
        down, right = _OFFSETS[direction]
        row, column = min(max(row + down, 1), height - 3), min(max(column + right, 1), width - 3)
    return sorted(floor)


def _level(rng: np.random.Generator, room: Level, min_moves: int, max_moves: int) -> Level | None:
    """A level in this room that takes as many moves as wanted, if it is found soon."""
    from turngym.envs.sokoban.drive import pull

    bounds, players, boxes = pull(room, _POSITIONS)
    least, most = 1, max_moves
    for _ in range(_TRIES):
        candidates = np.flatnonzero((bounds >= least) & (bounds <= most))
        if not len(candidates):
            break
        drawn = candidates[int(rng.integers(len(candidates)))]
        walk = sorted(reachable(room, int(players[drawn]), boxes[drawn].tolist()))
        level = replace(room, boxes=tuple(boxes[drawn].tolist()), player=walk[int(rng.integers(len(walk)))])
        solution = solve(level, max_expansions=_EXPANSIONS)
        if solution.status == "gave_up" or len(solution.moves) > max_moves:
            most = int(bounds[drawn]) - 1
        elif len(solution.moves) < min_moves:
            least = int(bounds[drawn]) + 1
        else:
            return level
    return None
