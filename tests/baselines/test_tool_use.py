"""Metrics of tool use, by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.agents.trajectory import Trajectory
from turngym.baselines.task_metrics import task_metrics, told
from turngym.baselines.tool_use import by_difficulty, has_tool, statuses, table, tool_use
from turngym.envs.sandbox.results import STATUSES


def played(*programs: str, success: bool, seed: int = 0, difficulty: int | None = 3, valid: bool = True) -> Trajectory:
    """An episode in which programs ended so, and then came an answer."""
    trajectory = Trajectory(seed=seed)
    for status in (*programs, "none"):
        trajectory.record_turn(0.0, {"interpreter": {"status": status}, "difficulty": difficulty})
    trajectory.success, trajectory.valid = success, valid
    return trajectory


def test_shares_by_hand() -> None:
    episodes = [
        played("ok", success=True),
        played("error", "ok", success=True),  # an error, fixed
        played("error", "timeout", success=False),  # two errors that stayed
        played(success=True),
        played("ok", success=True, difficulty=1),  # known by heart: a waste
        played("ok", success=True, valid=False),  # ours: counts nowhere
    ]
    use = tool_use(episodes)
    assert use.episodes == 5
    assert use.success == pytest.approx(4 / 5)
    assert use.call_rate == pytest.approx(4 / 5)
    assert use.calls == pytest.approx(6 / 5)
    assert use.error_rate == pytest.approx(3 / 6)
    assert use.fixed == pytest.approx(1 / 3)
    assert use.wasted == pytest.approx(4 / 6)  # three errors, one by heart
    assert (use.success_with, use.success_without) == (pytest.approx(3 / 4), 1.0)


def test_an_error_after_the_last_good_program_is_not_fixed() -> None:
    assert tool_use([played("ok", "error", success=True)]).fixed == 0.0
    assert tool_use([played("error", "none", "error", "ok", success=True)]).fixed == 1.0


def test_gain_compares_within_levels() -> None:
    """Programs are written for the hard level, so they succeed less: what they bring shows on equal levels alone."""
    easy = [played(success=True, seed=1) for _ in range(8)] + [played("ok", success=True, seed=1)]
    hard = [played("ok", success=True, seed=2), played("ok", success=False, seed=2), played(success=False, seed=2)]
    use = tool_use([*easy, *hard, played("ok", success=True, seed=3)])
    assert use.success_with < use.success_without
    assert use.gain == pytest.approx((0.0 + 0.5) / 2)
    assert use.gain_levels == 2
    assert use.gain_interval == pytest.approx((0.25 - 0.49, 0.25 + 0.49))  # 1.96 * (0.5 / sqrt(2)) / sqrt(2)


def test_difficulties_are_apart_and_in_order() -> None:
    rows = by_difficulty(
        [
            played("ok", success=True, difficulty=5),
            played(success=True, difficulty=0),
            played(success=True, difficulty=None),
        ]
    )
    assert list(rows) == [0, 5]
    assert [row.call_rate for row in rows.values()] == [0.0, 1.0]


def test_nothing_is_a_share_of_nothing() -> None:
    use = tool_use([])
    assert (use.episodes, use.success, use.call_rate, use.fixed, use.gain, use.gain_interval) == (0, *[None] * 5)
    use = tool_use([played(success=True)])
    assert (use.error_rate, use.fixed, use.wasted, use.gain) == (None, None, None, None)
    assert json.loads(json.dumps(use.to_dict()))["fixed"] is None


def test_environments_without_a_tool_have_none() -> None:
    without = Trajectory()
    without.record_turn(1.0, {"success": True})
    assert not has_tool([without])
    assert has_tool([without, played(success=True)])
    assert statuses(without) == []


@given(
    st.lists(st.tuples(st.lists(st.sampled_from(STATUSES), max_size=4), st.booleans(), st.integers(0, 3)), max_size=12)
)
def test_shares_lie_between_0_and_1(drawn: list[tuple[list[str], bool, int]]) -> None:
    use = tool_use([played(*programs, success=success, seed=seed) for programs, success, seed in drawn])
    for name in ("success", "call_rate", "error_rate", "fixed", "wasted", "success_with", "success_without"):
        assert getattr(use, name) is None or 0 <= getattr(use, name) <= 1
    assert use.gain is None or -1 <= use.gain <= 1
    assert use.wasted is None or use.wasted >= use.error_rate


def test_the_table_is_aligned() -> None:
    lines = table({"all": tool_use([played("ok", success=True)]), "level 3": tool_use([])}).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "call rate" in lines[0]
    assert lines[2].split()[2:] == ["0", *["-"] * 7]


def test_evaluation_takes_it_up() -> None:
    episodes = [played("ok", success=True, difficulty=4), played(success=False, difficulty=0)]
    metric = task_metrics(episodes)["tool use"]
    assert metric.values["all"]["call_rate"] == 0.5
    assert metric.values["by_difficulty"][4]["success"] == 1.0
    rows = [line.rpartition(" -")[0].split()[0] for line in metric.text.splitlines()[1:]]
    assert rows == ["difficulty", "difficulty", "all"]
    assert told({"sft": {}, "ppo": {"tool use": metric}}) == f"\nppo, tool use\n{metric.text}\n"
    assert task_metrics([Trajectory()]) == {}
    assert told({"ppo": {}}) == ""
