"""Levels for several agents: nobody who plans alone solves them, and the same seed gives the same one everywhere."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.errors import LevelError
from turngym.envs.path_planning.cbs import cbs
from turngym.envs.path_planning.fleet import Fleet, distances
from turngym.envs.path_planning.fleet_levels import (
    FLEET_FAMILIES,
    canonical,
    generate_level,
    level_of,
    load_fleet,
    shortest_sum,
)
from turngym.envs.path_planning.maps import Cell, GridMap

DATA = os.environ.get("TURNGYM_DATA")
LEVEL = Fleet(GridMap.from_ascii("__#_\n____\n#___"), ((0, 0), (1, 1), (2, 3)), ((1, 2), (0, 1), (0, 0)))


@pytest.mark.parametrize("family", FLEET_FAMILIES)
@given(seed=st.integers(0, 2**32), agents=st.integers(2, 4))
@settings(max_examples=8)
def test_agents_must_give_way(family: Any, seed: int, agents: int) -> None:
    level = generate_level(np.random.default_rng(seed), family, agents=agents, size=6)
    fleet = level.fleet
    assert (fleet.map.rows, fleet.map.cols, len(fleet.starts)) == (6, 6, agents)
    assert all(start != goal for start, goal in zip(fleet.starts, fleet.goals, strict=True))
    plan = cbs(fleet, objective="sum_of_loss")
    assert (plan.status, plan.cost, plan.makespan) == ("optimal", level.cost, level.turns)
    alone = sum(distances(fleet.map, goal)[start] for start, goal in zip(fleet.starts, fleet.goals, strict=True))
    assert shortest_sum(fleet) == alone < level.cost
    assert cbs(fleet).cost > alone  # the classical costs ask for it no less


def test_delays_are_as_asked_for() -> None:
    for min_delay in (0, 3):
        levels = [
            generate_level(np.random.default_rng(seed), "random", agents=3, size=6, min_delay=min_delay)
            for seed in range(10)
        ]
        delays = [level.cost - shortest_sum(level.fleet) for level in levels]
        assert min(delays) == min_delay


def test_the_same_level_in_every_process(run_python: Callable[..., str]) -> None:
    code = (
        "import numpy as np; from turngym.envs.path_planning.fleet_levels import *\n"
        "level = generate_level(np.random.default_rng(3), 'caves', agents=4, size=8)\n"
        "print(level.fleet.map.digest, level.fleet.starts, level.fleet.goals, level.cost, level.turns)"
    )
    first = run_python("-c", code, PYTHONHASHSEED="1")
    assert run_python("-c", code, PYTHONHASHSEED="2") == first
    assert len(first) > 80


def turned(fleet: Fleet) -> Fleet:
    def turn(cell: Cell) -> Cell:
        return cell[1], fleet.map.rows - 1 - cell[0]

    zones = np.rot90(fleet.map.zones, -1)
    return Fleet(GridMap(zones), tuple(map(turn, fleet.starts)), tuple(map(turn, fleet.goals)))


def mirrored(fleet: Fleet) -> Fleet:
    def mirror(cell: Cell) -> Cell:
        return cell[0], fleet.map.cols - 1 - cell[1]

    zones = np.fliplr(fleet.map.zones)
    return Fleet(GridMap(zones), tuple(map(mirror, fleet.starts)), tuple(map(mirror, fleet.goals)))


def test_one_name_for_all_orientations_and_numbers() -> None:
    views = [LEVEL, mirrored(LEVEL)]
    for _ in range(3):
        views += [turned(views[-2]), turned(views[-1])]
    assert len({(view.map, view.starts) for view in views}) == 8
    views.append(Fleet(LEVEL.map, LEVEL.starts[::-1], LEVEL.goals[::-1]))
    assert len(set(map(canonical, views))) == 1


def test_other_levels_have_other_names() -> None:
    others = [
        Fleet(LEVEL.map, LEVEL.goals, LEVEL.starts),
        Fleet(LEVEL.map, LEVEL.starts, LEVEL.goals[::-1]),  # the same cells, but others go there
        Fleet(LEVEL.map, LEVEL.starts[:2], LEVEL.goals[:2]),
        Fleet(LEVEL.map.with_free([(0, 2)]), LEVEL.starts, LEVEL.goals),
    ]
    assert len(set(map(canonical, [LEVEL, *others]))) == 5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"family": "terrain"}, ValueError, "family must be one of random, rooms, maze, caves, city, got 'terrain'"),
        ({"min_delay": -1}, ValueError, "min_delay must be at least 0, got -1"),
        ({"size": 3}, ValueError, "rows and cols must be at least 4, got 3 and 3"),
        ({"agents": 16, "size": 4}, LevelError, "no level of 16 agents with min_delay 1 on 1000 random maps of 4 by 4"),
    ],
    ids=str,
)
def test_what_cannot_be_drawn_is_named(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        generate_level(np.random.default_rng(0), **{"family": "random", "agents": 2, "size": 6, **arguments})


def test_a_fleet_of_ones_own_needs_a_plan() -> None:
    row = GridMap.from_ascii("___#_")
    assert level_of(Fleet(row, ((0, 0), (0, 1)), ((0, 1), (0, 2)))).cost == 2
    with pytest.raises(ValueError, match="must have a plan of at least one turn, got one that is at its goals"):
        level_of(Fleet(row, ((0, 0),), ((0, 0),)))
    with pytest.raises(ValueError, match="must have a plan of at least one turn, got one that is unsolvable"):
        level_of(Fleet(row, ((0, 0),), ((0, 4),)))
    with pytest.raises(LevelError, match="no optimum found for 2 agents in 30 expansions"):
        level_of(Fleet(row, ((0, 0), (0, 2)), ((0, 2), (0, 0))), 30)


def write_files(folder: Path) -> tuple[Path, Path]:
    """A map of two rows, and a scenario whose third row starts in a wall."""
    grid_map, scenario = folder / "small.map", folder / "small.scen"
    grid_map.write_text("type octile\nheight 2\nwidth 4\nmap\n....\n..@.\n")
    rows = ["0\tsmall.map\t4\t2\t0\t0\t3\t1\t3.41", "0\tsmall.map\t4\t2\t3\t0\t1\t1\t9", "0\ts\t4\t2\t2\t1\t0\t0\t2"]
    scenario.write_text("\n".join(["version 1", *rows]))
    return grid_map, scenario


def test_scenario_rows_become_a_fleet(tmp_path: Path) -> None:
    fleet = load_fleet(*write_files(tmp_path), 2)
    assert (fleet.starts, fleet.goals) == (((0, 0), (0, 3)), ((1, 3), (1, 1)))
    assert fleet.map.connectivity == 4
    assert shortest_sum(fleet) == 4 + 3  # not the octile lengths of the file


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        (3, r"small.scen, row 3: start \(1, 2\) is blocked"),
        (4, "agents must be between 1 and the 3 rows"),
        (0, "got 0"),
    ],
)
def test_useless_rows_are_named(tmp_path: Path, agents: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_fleet(*write_files(tmp_path), agents)


@pytest.mark.skipif(not DATA, reason="TURNGYM_DATA is not set")
def test_benchmark_scenarios_can_be_played() -> None:
    folder = Path(DATA or "") / "movingai"
    scenarios = sorted((folder / "scenarios/mapf").rglob("*-random-1.scen"))
    assert scenarios
    for path in scenarios:
        name = path.name.rsplit("-", 2)[0]
        fleet = load_fleet(folder / f"maps/mapf/{name}.map", path, 8)
        plan = cbs(fleet, max_expansions=20)
        assert plan.lower >= shortest_sum(fleet)
        assert plan.status in ("optimal", "gave_up")
