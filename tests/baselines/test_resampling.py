"""Which episodes an update sees, by hand and by counting."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.agents.scripted import OracleAgent
from turngym.agents.trajectory import Trajectory
from turngym.baselines.evaluation import play
from turngym.baselines.resampling import (
    ToolUse,
    format_penalty,
    interpreter_use,
    resample_as_released,
    resample_on_correct,
    tool_penalty,
    waypoint_use,
)


def group_of(solved: int, failed: int, group: int = 0) -> list[Trajectory]:
    return [Trajectory(group=group, success=index < solved) for index in range(solved + failed)]


@pytest.mark.parametrize(("errors", "calls", "penalty"), [(0, 0, 0.5), (0, 3, 0.0), (1, 4, 0.25), (2, 2, 1.0)])
def test_penalty_of_tool_errors(errors, calls, penalty) -> None:
    assert tool_penalty(ToolUse(errors, calls)) == penalty


@pytest.mark.parametrize(
    ("answers", "turns", "penalty"), [(0, 1, 1.0), (0, 5, 1.0), (1, 1, 0.0), (1, 4, 0.0), (2, 4, 0.25), (9, 4, 1.0)]
)
def test_penalty_of_the_format(answers, turns, penalty) -> None:
    assert format_penalty(answers, turns) == penalty


def test_errors_are_read_off_typed_statuses() -> None:
    """What a program printed plays no part."""
    each = Trajectory()
    for status, errors in (("ok", 0), ("error", 1), ("none", 1)):
        each.record_turn(0.0, {"interpreter": {"status": status, "calls": 1 + errors, "errors": errors}})
    assert interpreter_use(each) == ToolUse(errors=1, calls=2)


def test_unreached_waypoints_are_errors() -> None:
    each = Trajectory()
    for info in ({"avoid": False}, {"avoid": True}, {"avoid": None}, {}):
        each.record_turn(0.0, info)
    assert waypoint_use(each) == ToolUse(errors=1, calls=2)


@pytest.mark.parametrize("name", ["CodeInterpreter-v0"])
def test_the_interpreter_says_what_is_needed(name) -> None:
    env = gymnasium.make(f"turngym:{name}", difficulty=(4, 4))
    (each,) = play(env, OracleAgent(env), [1])
    env.close()
    assert each.success
    assert interpreter_use(each) == ToolUse(errors=0, calls=each.turns - 1)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**32))
def test_half_is_kept_failures_rounded_down(solved, failed, seed) -> None:
    batch = group_of(solved, failed) + group_of(failed, solved, group=1)
    kept = resample_on_correct(batch, [0.5] * len(batch), np.random.default_rng(seed))
    assert kept == sorted(set(kept))
    for group, (good, bad) in enumerate([(solved, failed), (failed, solved)]):
        mine = [batch[index] for index in kept if batch[index].group == group]
        assert sum(each.success for each in mine) == (good + 1) // 2
        assert sum(not each.success for each in mine) == bad // 2
    assert (solved + failed) % 2 or len(kept) == solved + failed


def shares(batch: list[Trajectory], penalties: list[float], draws: int = 4000) -> np.ndarray:
    """How often each is kept."""
    rng = np.random.default_rng(0)
    kept = [index for _ in range(draws) for index in resample_on_correct(batch, penalties, rng)]
    return np.bincount(kept, minlength=len(batch)) / draws


def test_successes_are_drawn_in_inverse_proportion_to_their_penalty() -> None:
    """One of two: 1 / 0.25 against 1 / 0.75."""
    np.testing.assert_allclose(shares(group_of(2, 0), [0.25, 0.75]), [0.75, 0.25], atol=0.03)


def test_two_of_four_by_counting_all_orders() -> None:
    weights = np.array([8.0, 4.0, 2.0, 1.0])
    total, expected = weights.sum(), np.zeros(4)
    for first in range(4):
        for second in set(range(4)) - {first}:
            chance = weights[first] / total * weights[second] / (total - weights[first])
            expected[[first, second]] += chance
    np.testing.assert_allclose(shares(group_of(4, 0), (1 / weights).tolist()), expected, atol=0.03)


def test_what_is_clean_comes_first_and_evenly() -> None:
    np.testing.assert_allclose(shares(group_of(4, 0), [0.0, 1.0, 0.0, 0.0]), [2 / 3, 0.0, 2 / 3, 2 / 3], atol=0.03)


def test_failures_are_drawn_evenly_whatever_their_penalty() -> None:
    np.testing.assert_allclose(shares(group_of(0, 4), [0.0, 2.0, 1.0, 0.1]), [0.5] * 4, atol=0.03)


def test_the_same_stream_gives_the_same_draw() -> None:
    batch = group_of(8, 8)
    first, again = (resample_on_correct(batch, [0.5] * 16, np.random.default_rng(3)) for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("solved", "failed", "keep", "expected"),
    [
        (4, 4, 4, (2, 2)),
        (7, 1, 4, (3, 1)),  # a kind with one member keeps it
        (6, 2, 4, (2, 2)),  # two of each kind where they are there, against 3 and 1 in proportion
        (2, 14, 8, (2, 6)),
        (0, 8, 4, (0, 4)),
        (8, 0, 4, (4, 0)),
        (3, 1, 4, (3, 1)),
        (2, 1, 4, (0, 0)),  # too few: dropped
    ],
)
def test_released_counts(solved, failed, keep, expected) -> None:
    batch = group_of(solved, failed)
    kept = [batch[index].success for index in resample_as_released(batch, [0.5] * len(batch), keep)]
    assert (kept.count(True), kept.count(False)) == expected


def test_the_release_takes_the_least_penalised_of_both_kinds() -> None:
    penalties = [0.9, 0.0, 0.2, 0.1, 1.5, 1.0, 0.3, 0.4]
    assert resample_as_released(group_of(4, 4), penalties, 4) == [1, 3, 6, 7]


def test_bad_arguments_are_named() -> None:
    batch, rng = group_of(2, 2), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"one a trajectory \(4\), got 3"):
        resample_on_correct(batch, [0.0] * 3, rng)
    with pytest.raises(ValueError, match=r"at least 0, got -0\.5"):
        resample_on_correct(batch, [0.0, -0.5, 0.0, 0.0], rng)
    with pytest.raises(ValueError, match=r"keep must be at least twice least \(2\), got 3"):
        resample_as_released(batch, [0.0] * 4, 3)
