"""Moving obstacles and the sensor: pure functions of time and of what has been seen."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.path_planning.generators import generate_problem
from turngym.envs.path_planning.maps import GridMap, Problem
from turngym.envs.path_planning.obstacles import MovingObstacle, collides, occupied, period, random_patrols
from turngym.envs.path_planning.sensor import Sensor, assumed, nothing_seen

ALONG = MovingObstacle.patrol([(0, 0), (0, 1), (0, 2)])
AROUND = MovingObstacle(((2, 0), (2, 1), (1, 1)))


def test_patrols_walk_there_and_back() -> None:
    assert [ALONG.position(time)[1] for time in range(9)] == [0, 1, 2, 1, 0, 1, 2, 1, 0]
    assert MovingObstacle.patrol([(0, 0), (0, 1)]).cells == ((0, 0), (0, 1))
    assert MovingObstacle.patrol([(0, 0)]).cells == ((0, 0),)


def test_several_obstacles() -> None:
    assert period([ALONG, AROUND]) == 12
    assert period([]) == 1
    assert occupied([ALONG, AROUND], 5) == {(0, 1), (1, 1)}
    for time in range(12):
        assert occupied([ALONG, AROUND], time) == occupied([ALONG, AROUND], time + 12)


@pytest.mark.parametrize(
    ("time", "origin", "target", "expected"),
    [
        (0, (1, 1), (0, 1), True),  # it arrives there too
        (0, (0, 1), (0, 1), True),  # it runs into one who waits
        (0, (0, 1), (0, 0), True),  # the two swap
        (0, (1, 0), (0, 0), False),  # it leaves as the walker comes
        (1, (0, 0), (0, 1), False),  # the walker follows it
        (2, (0, 1), (0, 2), True),  # it turns round
        (1, (0, 3), (0, 2), True),
    ],
)
def test_collisions(time: int, origin: tuple[int, int], target: tuple[int, int], expected: bool) -> None:
    assert collides([AROUND, ALONG], time, origin, target) == expected


@given(st.integers(0, 2**32), st.sampled_from([4, 8]), st.integers(1, 8))
def test_random_patrols_take_legal_steps_and_leave_start_and_goal_alone(seed: int, ways: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    problem = generate_problem(rng, "caves", rows=8, cols=8, connectivity=ways)  # type: ignore[arg-type]
    patrols = random_patrols(rng, problem, 3, length=length)
    assert len(patrols) == 3
    for patrol in patrols:
        assert not {problem.start, problem.goal} & set(patrol.cells)
        assert patrol.period <= max(1, 2 * length - 2)
        for time in range(patrol.period):
            here, there = patrol.position(time), patrol.position(time + 1)
            assert here == there or problem.map.step_cost(here, there) > 0


def test_what_a_sensor_sees() -> None:
    sensor = Sensor(1)
    grid_map = GridMap.from_ascii("_#2_\n-_#_\n____")
    start = nothing_seen(grid_map)
    seen = sensor.look(start, (0, 3))
    assert seen.tolist() == [[False, False, True, True]] * 2 + [[False] * 4]
    later = sensor.look(seen, (2, 0))
    assert later.tolist() == [[False, False, True, True], [True] * 4, [True, True, False, False]]
    assert not start.any()
    assert assumed(grid_map, later).to_ascii() == "__2_\n-_#_\n____"
    assert assumed(grid_map, start) == GridMap(np.ones((3, 4), bool))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MovingObstacle(()), "at least one cell"),
        (lambda: Sensor(0), "radius must be at least 1, got 0"),
        (lambda: random_patrols(np.random.default_rng(0), SHORT, 1, length=2), "beside start and goal, got 1"),
        (lambda: random_patrols(np.random.default_rng(0), SHORT, -1, length=2), "got -1 and 2"),
        (lambda: random_patrols(np.random.default_rng(0), SHORT, 1, length=0), "got 1 and 0"),
    ],
)
def test_misuse(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


SHORT = Problem(GridMap.from_ascii("__"), (0, 0), (0, 1))
