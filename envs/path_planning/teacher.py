"""The planner RStar2 as a teacher: the way that it finds, and the waypoints that it found it by."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from turngym.envs.path_planning.maps import Cell, GridMap, Problem

_EPSILON = 2.0


class Lesson(NamedTuple):
    """What RStar2 found.

    Attributes:
        path: Cells from start to goal.
        waypoints: Those of them that are nodes of its graph.
    """

    path: tuple[Cell, ...]
    waypoints: frozenset[Cell]


def lesson(problem: Problem, cell: Cell, *, distance: int, threshold: int) -> Lesson:
    """The way that a pupil should go on from a cell.

    RStar2 plans once from the start, with ε = 2 and a generator of its own. From the cells of that path the lesson is
    the rest of it; from any other cell, a path that RStar2 has proved to be a cheapest one, which ends in the first
    path or at the goal: so nobody who follows goes round in circles.

    Args:
        problem: The problem, with a way from start to goal.
        cell: A cell with a way to the goal.
        distance: RStar2's Δ.
        threshold: RStar2's limit of expansions of a search that is not tried again.
    """
    planned = _plan(problem.map, problem.start, problem.goal, _EPSILON, distance, threshold)
    if cell not in planned.path:
        return exact_lesson(problem.map, cell, problem.goal, distance=distance, threshold=threshold)
    return Lesson(planned.path[planned.path.index(cell) :], planned.waypoints)


def exact_lesson(grid_map: GridMap, cell: Cell, goal: Cell, *, distance: int, threshold: int) -> Lesson:
    """A way that RStar2 has proved to be a cheapest one; arguments as for `lesson`."""
    return _plan(grid_map, cell, goal, 1.0, distance, threshold)


@lru_cache(maxsize=16)
def _plan(grid_map: GridMap, start: Cell, goal: Cell, epsilon: float, distance: int, threshold: int) -> Lesson:
    from turngym.envs.path_planning.search.rstar2 import rstar2

    rng, prove = np.random.default_rng(0), epsilon == 1.0
    result = rstar2(
        grid_map, start, goal, rng=rng, epsilon=epsilon, prove=prove, distance=distance, threshold=threshold
    )
    assert result.path, f"no way from {start} to {goal}"
    assert result.graph is not None, "RStar2 returns its graph"
    return Lesson(result.path, frozenset(result.graph.nodes) & frozenset(result.path))
