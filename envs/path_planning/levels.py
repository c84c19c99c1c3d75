"""Where an environment's problems come from: drawn maps of a family, or the scenarios of a MovingAI map."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from turngym.envs.errors import LevelError
from turngym.envs.path_planning import symmetry
from turngym.envs.path_planning.generators import Family, generate_problem
from turngym.envs.path_planning.maps import Connectivity, GridMap, Problem
from turngym.envs.path_planning.movingai import load_map, load_scenarios
from turngym.envs.path_planning.text_forms import Form, choose_form

_MAX_DRAWS = 100


class Source(Protocol):
    """Draws problems, and names them so that splits can be told apart."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of every map."""

    def draw(self, rng: np.random.Generator) -> Problem:
        """A problem with a way from start to goal."""

    def canonical(self, problem: Problem) -> str:
        """A text that a problem shares with its mirror images and rotations alone."""

    def form(self, max_tokens: int, *, marks: int, sensor: bool) -> Form:
        """The fullest text form in which all problems fit into a budget."""


@dataclass(frozen=True)
class Drawn:
    """Problems that `generate_problem` draws; the attributes are its arguments.

    Raises:
        ValueError: If an argument is out of its range.
        LevelError: If hundreds of maps hold no such problem.
    """

    family: Family
    rows: int
    cols: int
    connectivity: Connectivity
    min_steps: float
    max_steps: float
    min_detour: float

    def __post_init__(self) -> None:
        _try(self)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of every map."""
        return self.rows, self.cols

    def draw(self, rng: np.random.Generator) -> Problem:
        """A problem on a map of its own."""
        return generate_problem(rng, **vars(self))

    def canonical(self, problem: Problem) -> str:
        """The same for all eight orientations of a problem."""
        return symmetry.canonical(problem)

    def form(self, max_tokens: int, *, marks: int, sensor: bool) -> Form:
        """`grid` or `overview`: the length of other forms depends on the map."""
        plain = GridMap.from_array(np.ones((self.rows, self.cols), bool))
        return choose_form(plain, max_tokens, marks=marks, sensor=True)


@lru_cache(maxsize=256)
def _try(source: Drawn) -> None:
    source.draw(np.random.default_rng(0))


class Recorded:
    """The usable rows of a scenario file on its map.

    Args:
        map_path: A `.map` file.
        scenario_path: A `.scen` file; None is the one beside the map, which has the map's name and `.scen` after it.
        connectivity: 4 or 8 neighbours a cell.
        min_steps: Rows of a smaller stated length are left out.
        max_steps: Rows of a greater stated length are left out.

    Raises:
        ValueError: If a file cannot be read, or no row is left.
    """

    def __init__(
        self,
        map_path: str,
        scenario_path: str | None,
        *,
        connectivity: Connectivity,
        min_steps: float,
        max_steps: float,
    ) -> None:
        self.map, self._rows = _recorded(map_path, scenario_path or f"{map_path}.scen", connectivity)
        self._rows = tuple(row for row in self._rows if min_steps <= row[1] <= max_steps)
        if not self._rows:
            raise ValueError(f"min_steps and max_steps leave no row of {map_path}, got {min_steps} and {max_steps}")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the map."""
        return self.map.rows, self.map.cols

    def draw(self, rng: np.random.Generator) -> Problem:
        """The problem of any row that has a way."""
        from turngym.envs.path_planning.search.astar import astar

        for _ in range(_MAX_DRAWS):
            problem, _ = self._rows[int(rng.integers(len(self._rows)))]
            if astar(problem.map, problem.start, problem.goal).path:
                return problem
        raise LevelError(f"no scenario with a way in {_MAX_DRAWS} draws from {len(self._rows)}")

    def canonical(self, problem: Problem) -> str:
        """The map's fingerprint, start and goal: the file has its map in one orientation."""
        return f"{problem.map.digest} {problem.start} {problem.goal}"

    def form(self, max_tokens: int, *, marks: int, sensor: bool) -> Form:
        """The fullest form that fits for this map."""
        return choose_form(self.map, max_tokens, marks=marks, sensor=sensor)


@lru_cache(maxsize=8)
def _recorded(
    map_path: str, scenario_path: str, connectivity: Connectivity
) -> tuple[GridMap, tuple[tuple[Problem, float], ...]]:
    """A map, and the problem and stated length of each row that is usable there."""
    for name, path in (("map_path", map_path), ("scenario_path", scenario_path)):
        if not Path(path).is_file():
            raise ValueError(f"{name} must be a file, got {path}")
    grid_map = load_map(map_path, connectivity=connectivity)
    usable = [row for row in load_scenarios(scenario_path) if row.start != row.goal and not row.flaw(grid_map)]
    return grid_map, tuple((row.problem(grid_map), row.length) for row in usable)


def source_of(
    defaults: Mapping[str, Any],
    *,
    family: Family | None,
    size: int | tuple[int, int] | None,
    connectivity: Connectivity,
    min_steps: float | None,
    max_steps: float | None,
    min_detour: float | None,
    map_path: str | None,
    scenario_path: str | None,
) -> Source:
    """The source that an environment's arguments ask for.

    Args:
        defaults: What stands for `family`, `size`, `min_steps`, `max_steps` and `min_detour` where they are None and
            maps are drawn.
        family: As in `generate_problem`.
        size: Rows and columns, or one number for both.
        connectivity: 4 or 8 neighbours a cell.
        min_steps: Least cost of the best path, or least stated length of a scenario.
        max_steps: Most of it.
        min_detour: As in `generate_problem`.
        map_path: A MovingAI map, in place of drawn ones.
        scenario_path: Its scenarios.

    Raises:
        ValueError: If an argument is out of its range, or two of them contradict each other.
        LevelError: If no such problem is found.
    """
    drawing = {"family": family, "size": size, "min_detour": min_detour}
    steps = {"min_steps": min_steps, "max_steps": max_steps}
    if map_path is not None:
        _refuse("map_path fixes the map", drawing)
        limits = {"min_steps": 0.0, "max_steps": inf} | _given(steps)
        return Recorded(map_path, scenario_path, connectivity=connectivity, **limits)
    _refuse("only a map_path has scenarios", {"scenario_path": scenario_path})
    asked = {**defaults, **_given(drawing | steps)}
    side = asked.pop("size")
    rows, cols = side if isinstance(side, tuple | list) else (side, side)
    return Drawn(rows=rows, cols=cols, connectivity=connectivity, **asked)


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _refuse(reason: str, arguments: Mapping[str, Any]) -> None:
    for name, value in _given(arguments).items():
        raise ValueError(f"{reason}: leave {name} out, got {value!r}")
