"""The eight orientations of a problem, and a name that all of them share."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from turngym.envs.path_planning.maps import Cell, GridMap, Problem


def transposed(problem: Problem) -> Problem:
    """The problem with rows and columns exchanged."""
    grid_map = replace(problem.map, zones=problem.map.zones.T, costs=problem.map.costs.T)
    return Problem(grid_map, problem.start[::-1], problem.goal[::-1])


def turned(problem: Problem) -> Problem:
    """The problem turned by a quarter of a circle, clockwise."""
    grid_map = problem.map

    def turn(cell: Cell) -> Cell:
        return cell[1], grid_map.rows - 1 - cell[0]

    rotated = replace(grid_map, zones=grid_map.zones[::-1].T, costs=grid_map.costs[::-1].T)
    return Problem(rotated, turn(problem.start), turn(problem.goal))


def orientations(problem: Problem) -> Iterator[Problem]:
    """The problem in all eight orientations, itself first."""
    for view in (problem, transposed(problem)):
        for _ in range(4):
            yield view
            view = turned(view)


def canonical(problem: Problem) -> str:
    """A fingerprint shared by the eight orientations of a problem, for `splits.split_of` (32 hexadecimal characters).

    It is made of terrain, start and goal; `connectivity`, `corners` and `cell_size` do not count, so that a level
    belongs to one split whatever the rules it is played by.
    """
    return hashlib.blake2b(min(_content(view) for view in orientations(problem)), digest_size=16).hexdigest()


def _content(problem: Problem) -> bytes:
    grid_map: GridMap = problem.map
    frame = repr((grid_map.rows, grid_map.cols, problem.start, problem.goal)).encode()
    return frame + grid_map.zones.tobytes() + grid_map.costs.tobytes()
