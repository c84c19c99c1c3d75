"""Where problems come from: scenario files, choice of a text form, and problems that only seem usable."""

import os
from math import inf
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from turngym.agents.scripted import OracleAgent
from turngym.envs.errors import LevelError
from turngym.envs.path_planning.levels import Drawn, Recorded
from turngym.envs.path_planning.movingai import load_map, load_scenarios

DATA = os.environ.get("TURNGYM_DATA")
MAP = "type octile\nheight 4\nwidth 6\nmap\n......\n.@@@@.\n......\nWWWW@.\n"
ROWS = (
    (0, 0, 5, 0, 5.0),
    (0, 0, 5, 2, 7.0),
    (5, 3, 0, 0, 8.0),
    (0, 0, 1, 1, 2.0),  # ends in a wall
    (0, 0, 0, 3, 3.0),  # ends in water
    (0, 0, 0, 0, 0.0),
)


@pytest.fixture
def files(tmp_path: Path) -> str:
    path = tmp_path / "pond.map"
    path.write_text(MAP)
    rows = [f"0\tpond.map\t6\t4\t{x}\t{y}\t{gx}\t{gy}\t{length}" for x, y, gx, gy, length in ROWS]
    Path(f"{path}.scen").write_text("\n".join(["version 1", *rows, ""]))
    return str(path)


def drawn_from(source: Recorded) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    rng = np.random.default_rng(0)
    return {(problem.start, problem.goal) for problem in (source.draw(rng) for _ in range(60))}


def test_usable_rows_are_drawn(files: str) -> None:
    rows = {5.0: ((0, 0), (0, 5)), 7.0: ((0, 0), (2, 5)), 8.0: ((3, 5), (0, 0))}
    source = Recorded(files, None, connectivity=4, min_steps=0, max_steps=inf)
    assert drawn_from(source) == set(rows.values())
    assert (source.shape, source.form(1024, marks=0, sensor=False)) == ((4, 6), "grid")
    some = Recorded(files, f"{files}.scen", connectivity=8, min_steps=6, max_steps=7.5)
    assert drawn_from(some) == {rows[7.0]}
    assert some.map.connectivity == 8
    problem = some.draw(np.random.default_rng(0))
    assert some.canonical(problem) == some.canonical(some.draw(np.random.default_rng(1)))
    with pytest.raises(ValueError, match=r"min_steps and max_steps leave no row of .*pond.map, got 9 and inf"):
        Recorded(files, None, connectivity=4, min_steps=9, max_steps=inf)


def test_a_file_without_a_way_is_refused(files: str) -> None:
    Path(f"{files}.scen").write_text("version 1\n0\tx\t6\t4\t0\t0\t5\t0\t5\n")
    Path(files).write_text(MAP.replace("......\n.@", "..@...\n@@", 1))
    source = Recorded(files, None, connectivity=4, min_steps=0, max_steps=inf)
    with pytest.raises(LevelError, match="no scenario with a way in 100 draws from 1"):
        source.draw(np.random.default_rng(0))


def test_an_environment_plays_a_file(files: str) -> None:
    rows = [f"0 6 4 {x} {y} {gx} {gy} 1" for x in range(6) for y in (0, 2) for gx in range(6) for gy in (0, 2)]
    Path(f"{files}.scen").write_text("\n".join(["version 1.0", *rows]))
    starts = {}
    for split in ("train", "validation", "test"):
        env = gymnasium.make("turngym:PathPlanning-v0", map_path=files, split=split)
        seen = set()
        for seed in range(40):
            observation, info = env.reset(seed=seed)
            seen.add(observation)
            assert observation.split("\n")[4] == "- - - - # _"
        agent, over = OracleAgent(env), False
        while not over:
            _, _, terminated, truncated, info = env.step(agent.act(""))
            over = terminated or truncated
        assert info["success"]
        starts[split] = seen
    assert not (starts["train"] & starts["test"])
    assert not (starts["train"] & starts["validation"])


@pytest.mark.parametrize(("size", "form"), [(8, "grid"), (31, "grid"), (32, "overview")])
def test_maps_that_are_drawn_have_one_form(size: int, form: str) -> None:
    source = Drawn("rooms", size, size, 4, 4, 60, 1.0)
    assert source.form(1024, marks=0, sensor=False) == form


def test_a_source_that_has_no_problem_says_so_when_it_is_made() -> None:
    with pytest.raises(LevelError, match="no problem on a random map of 4 by 4"):
        Drawn("random", 4, 4, 4, 14, 15, 1.0)


@pytest.mark.skipif(DATA is None, reason="TURNGYM_DATA is not set")
def test_published_maps_are_played_at_any_size() -> None:
    assert DATA is not None
    for name in ("dao/arena", "mazes/maze512-32-9", "random/random512-25-2", "bg512/AR0011SR"):
        (path,) = Path(DATA).glob(f"movingai/maps/{name}.map")
        (scenario,) = Path(DATA).glob(f"movingai/scenarios/{name}.map.scen")
        env = gymnasium.make(
            "turngym:PathPlanning-v0",
            map_path=str(path),
            scenario_path=str(scenario),
            connectivity=8,
            moves_per_turn=16,
        )
        _, info = env.reset(seed=0)
        unwrapped = env.unwrapped
        problem = unwrapped._level.problem  # type: ignore[attr-defined]
        row = next(row for row in load_scenarios(scenario) if (row.start, row.goal) == (problem.start, problem.goal))
        agent, over, cost = OracleAgent(env), False, 0.0
        while not over:
            _, _, terminated, truncated, info = env.step(agent.act(""))
            over, cost = terminated or truncated, cost + info["cost"]
        assert info["success"]
        assert load_map(path) == problem.map
        assert cost == pytest.approx(row.length, abs=0.02, rel=1e-5)
