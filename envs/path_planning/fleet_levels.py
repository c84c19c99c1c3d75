"""Levels for several agents: drawn so that they must give way to each other, or read from MovingAI's scenarios."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from turngym.envs.errors import LevelError
from turngym.envs.path_planning.cbs import MAX_EXPANSIONS, JointPlan, cbs
from turngym.envs.path_planning.fleet import Fleet, distances, steps
from turngym.envs.path_planning.generators import generate_map
from turngym.envs.path_planning.maps import GridMap
from turngym.envs.path_planning.movingai import load_map, load_scenarios

FleetFamily = Literal["random", "rooms", "maze", "caves", "city"]
FLEET_FAMILIES: tuple[FleetFamily, ...] = get_args(FleetFamily)

_MAX_MAPS = 1000
_DRAWS_PER_MAP = 4
_FEW_EXPANSIONS = 25
"""Enough for most levels of a few agents; a level that needs more is drawn again rather than waited for."""


@dataclass(frozen=True)
class FleetLevel:
    """A fleet and its optimum.

    Attributes:
        fleet: Who goes where.
        cost: The sum of loss of the best plan (see `cbs`), at least 1.
        turns: The fewest turns in which a plan of that cost is done.
    """

    fleet: Fleet
    cost: int
    turns: int


def level_of(fleet: Fleet, max_expansions: int = MAX_EXPANSIONS) -> FleetLevel:
    """A fleet as a level.

    Raises:
        ValueError: If all agents are on their goals, or there is provably no plan.
        LevelError: If the limit was reached before the optimum was found.
    """
    plan = cbs(fleet, objective="sum_of_loss", max_expansions=max_expansions)
    if plan.status == "gave_up":
        raise LevelError(f"no optimum found for {len(fleet.starts)} agents in {max_expansions} expansions")
    if not plan.makespan:
        raise ValueError(f"a fleet must have a plan of at least one turn, got one that is {_verdict(plan)}")
    return FleetLevel(fleet, int(plan.cost), plan.makespan)


def _verdict(plan: JointPlan) -> str:
    return "unsolvable" if plan.status == "unsolvable" else "at its goals"


def generate_level(
    rng: np.random.Generator,
    family: FleetFamily,
    *,
    agents: int,
    size: int,
    min_delay: int = 1,
    accept: Callable[[Fleet], bool] = lambda fleet: True,
) -> FleetLevel:
    """Draw a level.

    Args:
        rng: Where the randomness comes from.
        family: The kind of map, one of `FLEET_FAMILIES`; see `generate_map`.
        agents: How many, at least 1.
        size: Cells along a side, at least 4.
        min_delay: What agents cost each other at least: how much the optimum is above the sum of their shortest paths,
            each alone. With 1 or more nobody who plans alone finds it.
        accept: Which fleets to take; it is asked before the optimum is looked for, which takes most of the time.

    Raises:
        ValueError: If the family, the size or the delay is out of its range.
        LevelError: If hundreds of maps hold no such level.
    """
    if family not in FLEET_FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FLEET_FAMILIES)}, got {family!r}")
    if min_delay < 0:
        raise ValueError(f"min_delay must be at least 0, got {min_delay}")
    for _ in range(_MAX_MAPS):
        grid_map = generate_map(rng, family, rows=size, cols=size)
        for _ in range(_DRAWS_PER_MAP):
            fleet = _draw_fleet(rng, grid_map, agents)
            if fleet is None:
                break
            if not accept(fleet):
                continue
            plan = cbs(fleet, objective="sum_of_loss", max_expansions=_FEW_EXPANSIONS)
            if plan.status == "optimal" and plan.cost >= shortest_sum(fleet) + min_delay:
                return FleetLevel(fleet, int(plan.cost), plan.makespan)
    raise LevelError(
        f"no level of {agents} agents with min_delay {min_delay} on {_MAX_MAPS} {family} maps of {size} by {size}"
    )


def shortest_sum(fleet: Fleet) -> int:
    """The sum of every agent's shortest path, each alone; all goals can be reached."""
    return sum(distances(fleet.map, goal)[start] for start, goal in zip(fleet.starts, fleet.goals, strict=True))


def _draw_fleet(rng: np.random.Generator, grid_map: GridMap, agents: int) -> Fleet | None:
    """Starts and goals in one connected part of the map, nobody starting on the own goal; None where it has no room."""
    places = list(steps(grid_map))
    around = sorted(distances(grid_map, places[int(rng.integers(len(places)))])) if places else []
    if len(around) <= agents:
        return None
    while True:
        starts, goals = (tuple(around[place] for place in rng.permutation(len(around))[:agents]) for _ in range(2))
        if all(start != goal for start, goal in zip(starts, goals, strict=True)):
            return Fleet(grid_map, starts, goals)


def load_fleet(map_path: str | Path, scenario_path: str | Path, agents: int) -> Fleet:
    """The first rows of a MovingAI scenario as one instance, as the multi-agent benchmarks are played.

    The lengths in the file are those of 8 neighbours and are not used.

    Args:
        map_path: The `.map` file.
        scenario_path: A `.scen` file of that map.
        agents: How many rows.

    Raises:
        ValueError: If the file has fewer rows, one of them is of no use on the map, or two agents share a cell.
    """
    grid_map, rows = load_map(map_path, connectivity=4), load_scenarios(scenario_path)
    if not 1 <= agents <= len(rows):
        raise ValueError(f"agents must be between 1 and the {len(rows)} rows of {scenario_path}, got {agents}")
    for number, row in enumerate(rows[:agents], 1):
        if row.flaw(grid_map):
            raise ValueError(f"{scenario_path}, row {number}: {row.flaw(grid_map)}")
    return Fleet(grid_map, tuple(row.start for row in rows[:agents]), tuple(row.goal for row in rows[:agents]))


def canonical(fleet: Fleet) -> str:
    """A fingerprint that a fleet shares with its eight orientations, and with itself under other agents' numbers."""
    return hashlib.blake2b(min(_orientations(fleet)), digest_size=16).hexdigest()


def _orientations(fleet: Fleet) -> Iterator[bytes]:
    """The fleet in all eight orientations, as text without the agents' numbers."""
    zones = fleet.map.zones
    errands = np.array([*zip(fleet.starts, fleet.goals, strict=True)])  # agent, start or goal, row or column
    for view, cells in ((zones, errands), (zones.T, errands[..., ::-1])):
        for _ in range(4):
            yield repr((view.shape, sorted(cells.tolist()))).encode() + view.tobytes()
            cells = np.stack([cells[..., 1], len(view) - 1 - cells[..., 0]], axis=-1)  # a quarter turn, clockwise
            view = view[::-1].T
