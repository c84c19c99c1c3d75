"""Figures of merit, by hand."""

import json
from math import isnan
from typing import Any

import gymnasium
import numpy as np
import pytest

from turngym.agents.scripted import OracleAgent
from turngym.agents.trajectory import Trajectory
from turngym.baselines.task_metrics import task_metrics
from turngym.envs.path_planning.metrics import measure, smoothness, spl


def turn(success: bool = False, valid: bool = True, **entries: Any) -> dict[str, Any]:
    return {"success": success, "action_is_valid": valid, "optimum": 4.0, "cost": 0.0, "path": ()} | entries


def search(expansions: int, failures: int = 0, **entries: Any) -> dict[str, Any]:
    baselines = {"astar_expansions": 20, "weighted_astar_expansions": 10}
    return turn(expansions=expansions, searches=1, failures=failures, **baselines, **entries)


def test_walks() -> None:
    there = [turn(cost=2.0, path=((0, 0), (0, 1), (0, 2))), turn(valid=False, path=((0, 2),))]
    back = [turn(True, cost=3.0, path=((0, 2), (1, 2), (1, 1), (1, 0)))]
    found = measure([there + back, [turn(True, cost=4.0, path=((0, 0), (1, 0)))], [turn(cost=9.0), turn(), turn()]])
    assert (found.episodes, found.success, found.turns) == (3, 2 / 3, 7 / 3)
    assert found.spl == pytest.approx((4 / 5 + 1) / 3)
    assert found.suboptimality == pytest.approx((1.125, 1.225))  # of 1.25 and 1
    assert found.invalid_rate == 1 / 7
    assert found.smoothness == pytest.approx((2 * 90 / 4 + 0) / 2)
    assert isnan(found.avoid_rate)
    assert all(map(isnan, (*found.against_astar, *found.against_weighted_astar)))


def test_searches() -> None:
    won = [search(8, path=((0, 0), (0, 1)), cost=1.0), search(4, 1), search(3, success=True, cost=3.0)]
    found = measure([won, [search(30, 1)], [turn(valid=False, expansions=0, astar_expansions=20)]])
    assert found.avoid_rate == 2 / 4
    assert found.against_astar.median == pytest.approx(0.75)  # of 0, 0.75 and 1.5
    assert found.against_weighted_astar == pytest.approx((2.25, 2.85))  # of 1.5 and 3


def test_nobody_arrives() -> None:
    found = measure([[turn()]])
    assert (found.success, found.spl) == (0, 0)
    assert isnan(found.suboptimality.p90)
    assert isnan(found.smoothness)


@pytest.mark.parametrize("episodes", [[], [[]], [[turn()], []]])
def test_nothing_to_measure(episodes: Any) -> None:
    with pytest.raises(ValueError, match="episodes must be at least one, with a turn each"):
        measure(episodes)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ([(0, 0)], 0),
        ([(0, 0), (0, 1), (0, 1), (0, 2)], 0),
        ([(0, 0), (0, 1), (1, 1)], 90),
        ([(0, 0), (0, 1), (1, 2)], 45),
        ([(0, 0), (-1, -1), (-1, -2), (0, -3)], 45),  # the angle jumps from 180 to -180 degrees between two steps
        ([(0, 0), (0, 1), (0, 0)], 180),
    ],
)
def test_smoothness(path: list[tuple[int, int]], expected: float) -> None:
    assert smoothness(path) == pytest.approx(expected)


def test_spl() -> None:
    assert (spl(4.0, 4.0), spl(8.0, 4.0), spl(3.99999, 4.0)) == (1, 0.5, 1)


def test_an_oracle_is_perfect() -> None:
    env = gymnasium.make("turngym:PathPlanning-v0")
    agent, episodes = OracleAgent(env), []
    for seed in range(5):
        env.reset(seed=seed)
        infos: list[dict[str, Any]] = []
        while not (infos and infos[-1]["success"]):
            infos.append(env.step(agent.act(""))[4])
        episodes.append(infos)
    found = measure(episodes)
    assert (found.success, found.spl, found.suboptimality, found.invalid_rate) == (1, 1, (1, 1), 0)
    assert found.turns == np.mean([len(infos) for infos in episodes])


def test_evaluation_takes_it_up() -> None:
    won = Trajectory(infos=[search(8, path=((0, 0), (0, 1)), cost=1.0), search(3, success=True, cost=4.0)])
    metric = task_metrics([won, Trajectory(infos=[search(9, 1)])])["planning"]
    assert (metric.values["success"], metric.values["avoid_rate"]) == (0.5, 1 / 3)
    assert metric.values["suboptimality"]["median"] == 1.25
    assert "avoid rate: 0.333" in metric.text
    nobody = task_metrics([Trajectory(infos=[turn()])])["planning"].values
    assert nobody["smoothness"] is nobody["against_astar"]["p90"] is None
    json.dumps(nobody, allow_nan=False)
    assert task_metrics([Trajectory(infos=[{"success": True}])]) == {}
