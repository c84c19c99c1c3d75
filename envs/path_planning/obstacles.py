"""Obstacles that move, as values: where they are is a pure function of time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np

from turngym.envs.path_planning.maps import Cell, GridMap, Problem


@dataclass(frozen=True)
class MovingObstacle:
    """Goes around a closed sequence of cells, one a time step, forever.

    Attributes:
        cells: Where it is at times 0, 1, …; after the last cell comes the first again. A cell may be repeated: the
            obstacle waits.

    Raises:
        ValueError: If there is no cell.
    """

    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError("cells must hold at least one cell, got none")

    @classmethod
    def patrol(cls, path: Sequence[Cell]) -> "MovingObstacle":
        """An obstacle that walks along a path and back."""
        return cls((*path, *path[-2:0:-1]))

    @property
    def period(self) -> int:
        """Time steps after which everything repeats."""
        return len(self.cells)

    def position(self, time: int) -> Cell:
        """Where the obstacle is at a time step."""
        return self.cells[time % len(self.cells)]


def period(obstacles: Iterable[MovingObstacle]) -> int:
    """Time steps after which all obstacles together repeat; 1 where there are none."""
    return lcm(*(obstacle.period for obstacle in obstacles))


def occupied(obstacles: Iterable[MovingObstacle], time: int) -> frozenset[Cell]:
    """The cells that obstacles stand on at a time step."""
    return frozenset(obstacle.position(time) for obstacle in obstacles)


def collides(obstacles: Iterable[MovingObstacle], time: int, origin: Cell, target: Cell) -> bool:
    """Whether a walker who leaves `origin` at `time` meets an obstacle before or at `target`, one time step later.

    That is: an obstacle arrives there too, or the two swap their cells. Staying is a step from a cell to itself; to
    follow an obstacle into the cell that it leaves is allowed.
    """
    return any(
        obstacle.position(time + 1) == target
        or (obstacle.position(time) == target and obstacle.position(time + 1) == origin)
        for obstacle in obstacles
    )


def random_patrols(
    rng: np.random.Generator, problem: Problem, count: int, *, length: int
) -> tuple[MovingObstacle, ...]:
    """Obstacles that patrol random stretches of a problem's map, and never stand on its start or goal.

    Args:
        rng: Where the randomness comes from.
        problem: The problem. Whether it can still be solved is not checked.
        count: How many obstacles.
        length: Cells of a patrol at most; it is shorter where the walk gets stuck.

    Raises:
        ValueError: If `count` is negative, `length` is below 1, or no cell is left to stand on.
    """
    if count < 0 or length < 1:
        raise ValueError(f"count must be at least 0 and length at least 1, got {count} and {length}")
    kept = problem.map.with_blocked([problem.start, problem.goal])
    places = np.argwhere(kept.zones == problem.map.zones[problem.start]).tolist()
    if count and not places:
        raise ValueError(f"count must be 0 on a map without a cell beside start and goal, got {count}")
    return tuple(_random_patrol(rng, kept, places, length) for _ in range(count))


def _random_patrol(rng: np.random.Generator, kept: GridMap, places: list[list[int]], length: int) -> MovingObstacle:
    """A walk that never comes back to a cell, there and back again."""
    row, col = places[int(rng.integers(len(places)))]
    path: list[Cell] = [(row, col)]
    while len(path) < length:
        ahead = [cell for cell, _ in kept.neighbours(path[-1]) if cell not in path]
        if not ahead:
            break
        path.append(ahead[int(rng.integers(len(ahead)))])
    return MovingObstacle.patrol(path)
