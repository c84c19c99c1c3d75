"""Scores and their intervals."""

import math

import gymnasium
import pytest

from turngym.agents.scripted import OracleAgent, RandomAgent
from turngym.baselines.evaluation import normalized, play, score_trajectories, table
from turngym.envs.scores import wilson_interval


def test_wilson_interval_against_published_values() -> None:
    low, high = wilson_interval(81, 263)  # Newcombe 1998, table I: 0.2553 to 0.3662
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    assert wilson_interval(0, 10)[0] == pytest.approx(0.0, abs=1e-12)
    assert wilson_interval(10, 10)[1] == pytest.approx(1.0)


def test_normalised_score() -> None:
    assert normalized(0.6, (0.2, 1.0)) == pytest.approx(0.5)
    assert math.isnan(normalized(0.5, (1.0, 1.0)))


def test_floor_and_ceiling() -> None:
    env = gymnasium.make("turngym:TextFrozenLake-v0", split="validation")
    rows = {}
    for name, agent in (("random", RandomAgent(env)), ("oracle", OracleAgent(env))):
        rows[name] = score_trajectories(play(env, agent, range(60)), (0.24, 1.0))
    assert rows["oracle"].success == 1.0
    assert 0.05 < rows["random"].success < 0.5
    assert rows["random"].invalid_rate == 0.0
    lines = table(rows).splitlines()
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
