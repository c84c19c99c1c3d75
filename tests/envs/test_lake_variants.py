"""Registered variants of TextFrozenLake, fixed maps, and levels that stay what they were."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import MAPS

from turngym.envs import grid, lake, replies
from turngym.envs.frozen_lake import TextFrozenLakeEnv
from turngym.envs.lake import Lake
from turngym.envs.overlap import measure_overlap
from turngym.envs.splits import SPLITS, digest


def made(env_id: str, **arguments: Any) -> TextFrozenLakeEnv:
    env = gymnasium.make(env_id, **arguments).unwrapped
    assert isinstance(env, TextFrozenLakeEnv)
    return env


# Registered variants -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "size", "success_rate", "turns"),
    [
        ("TextFrozenLake-v0", 4, 1.0, 12),
        ("TextFrozenLakeSlippery-v0", 4, 0.8, 20),
        ("TextFrozenLake8x8-v0", 8, 1.0, 24),
    ],
)
def test_what_an_id_stands_for(variant: str, size: int, success_rate: float, turns: int) -> None:
    env = made(variant)
    observation, _ = env.reset(seed=0)
    assert [len(row.split(" ")) for row in observation.split("\n")] == [size] * size
    assert env.turns_left == turns
    assert env.success_rate == success_rate
    assert ("slippery" in env.instructions) == (success_rate < 1)
    assert not env.shared_splits


def random_policy_value(env: TextFrozenLakeEnv) -> float:
    """Exact success probability of uniformly random single moves from the start."""
    level: Lake = env.get_state().level
    step = lake.transitions(level, env.success_rate).mean(axis=0)
    return float(np.linalg.matrix_power(step, env.turns_left)[level.start, level.goal])


@pytest.mark.parametrize(
    ("variant", "optimum", "random"),
    [
        ("TextFrozenLake-v0", 1.0, 0.234),
        ("TextFrozenLakeSlippery-v0", 0.942, 0.277),
        ("TextFrozenLake8x8-v0", 1.0, 0.075),
    ],
)
def test_the_documented_difficulty(variant: str, optimum: float, random: float) -> None:
    env, values, floors = made(variant, split="test"), [], []
    for seed in range(300):
        env.reset(seed=seed)
        values.append(env.oracle_value())
        floors.append(random_policy_value(env))
    assert np.mean(values) == pytest.approx(optimum, abs=0.015)
    assert np.mean(floors) == pytest.approx(random, abs=0.035)


def test_no_policy_beats_the_oracle_on_slippery_ice() -> None:
    env, wins, values = made("TextFrozenLakeSlippery-v0"), {"oracle": 0, "shortest": 0, "random": 0}, []
    rng = np.random.default_rng(0)
    for seed in range(400):
        for policy in wins:
            env.reset(seed=seed)
            value, over = env.oracle_value(), False
            assert value is not None
            while not over:
                move = {
                    "oracle": lambda: str(env.oracle_action()),
                    "shortest": lambda: towards_the_goal(env.get_state()),
                    "random": lambda: env.random_action(rng),
                }[policy]()
                _, _, terminated, truncated, info = env.step(move)
                over = terminated or truncated
            wins[policy] += info["success"]
        values.append(value)
    spread = 4 * sum(value * (1 - value) for value in values) ** 0.5
    assert abs(wins["oracle"] - sum(values)) < spread
    assert wins["random"] < wins["shortest"] < wins["oracle"]


def towards_the_goal(state: Any) -> str:
    """A move along a shortest way, as if nothing slipped."""
    level: Lake = state.level
    left = grid.distances(level.cells, level.size, level.goal, lake.HOLE)
    here = grid.steps(level.size)[state.board]
    return grid.DIRECTIONS[min(range(4), key=lambda move: left[here[move]] if left[here[move]] >= 0 else 999)]


# Fixed maps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "success_rate", "turns", "value"),
    [
        ("4x4", 1 / 3, 200, 0.816734),
        ("8x8", 1 / 3, 100, 0.640719),
        ("8x8", 0.8, 100, 0.980303),
        ("8x8", 0.8, 200, 0.996571),
        ("8x8", 1.0, 14, 1.0),
        ("8x8", 1.0, 13, 0.0),
    ],
)
def test_gymnasiums_maps_by_name(name: str, success_rate: float, turns: int, value: float) -> None:
    env = TextFrozenLakeEnv(map_name=name, success_rate=success_rate, max_turns=turns)
    observation, info = env.reset(seed=0)
    drawn = "\n".join(MAPS[name]).replace("S", "P").translate(str.maketrans("FH", "_O"))
    assert observation.replace(" ", "") == drawn
    assert info["oracle_steps"] == {"4x4": 6, "8x8": 14}[name]
    assert env.oracle_value() == pytest.approx(value, abs=5e-7)


def test_a_fixed_map_is_won_as_any_other() -> None:
    env = TextFrozenLakeEnv(desc=["S F", "H G"])
    assert env.reset(seed=5)[0] == "P _\nO G"
    env.step("Right")
    assert env.step("Down")[1:3] == (1.0, True)


def test_a_map_of_your_own_in_either_alphabet() -> None:
    assert TextFrozenLakeEnv(desc=("SF", "HG")).reset()[0] == TextFrozenLakeEnv(desc=["S_", "OG"]).reset()[0]


def test_a_fixed_map_is_the_level_of_every_split_and_says_so() -> None:
    envs = [TextFrozenLakeEnv(map_name="4x4", split=split) for split in SPLITS]
    assert all(env.shared_splits for env in envs)
    assert len({env.reset(seed=seed)[1]["level_id"] for seed, env in enumerate(envs)}) == 1
    assert not TextFrozenLakeEnv.shared_splits, "set on the instance alone"


def test_the_count_of_shared_levels_knows_of_it() -> None:
    gymnasium.register("OneLake-v0", TextFrozenLakeEnv, kwargs={"map_name": "4x4"})
    try:
        found = measure_overlap("OneLake-v0", 3)
    finally:
        del gymnasium.registry["OneLake-v0"]
    assert found.by_design
    assert set(found.distinct.values()) == set(found.shared.values()) == {1}


def test_a_size_may_be_said_twice() -> None:
    assert made("TextFrozenLake8x8-v0", map_name="8x8").size == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"map_name": "5x5"}, "map_name must be one of 4x4, 8x8, got '5x5'"),
        ({"map_name": "4x4", "desc": ["SG", "FF"]}, "give map_name or desc, not both, got map_name='4x4' and desc="),
        ({"map_name": "4x4", "size": 8}, "size is 4 by the map_name that was given, got size=8"),
        ({"desc": ["SG", "FF"], "size": 4}, "size is 2 by the desc that was given, got size=4"),
        ({"map_name": "8x8", "ice_probability": 0.8}, "map_name fixes one, got ice_probability=0.8"),
        ({"desc": ["SG", "FF"], "ice_probability": 1.0}, "desc fixes one, got ice_probability=1.0"),
        ({"desc": ["SH", "HG"]}, r"desc must have a way from S to G around the holes, got \['SH', 'HG'\]"),
        ({"desc": ["SF", "G"]}, r"as many cells in a row as it has rows, got rows of \[2, 1\]"),
        ({"desc": []}, "as many cells in a row"),
        ({"desc": ["SS", "FG"]}, "exactly one start S and one goal G"),
    ],
    ids=str,
)
def test_arguments_that_contradict_a_fixed_map(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextFrozenLakeEnv(**arguments)


# Levels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "fingerprint"),
    [
        ("TextFrozenLake-v0", "37f5a3c740c85419"),
        ("TextFrozenLake8x8-v0", "33203d9d7ec19325"),
        ("RagenFrozenLake-v0", "37f5a3c740c85419"),
    ],
)
def test_levels_never_change(variant: str, fingerprint: str) -> None:
    """Whoever changes what a seed draws makes reported figures incomparable, and has to raise the version."""
    env = gymnasium.make(variant, split="test")
    assert digest(" ".join(env.reset(seed=seed)[1]["level_id"] for seed in range(100))) == fingerprint


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 12])
def test_the_bitwise_shortest_path_is_that_of_the_plain_search(size: int) -> None:
    rng, found = np.random.default_rng(size), set()
    for _ in range(150):
        cells = "".join(rng.choice(list("_#O"), p=[0.6, 0.2, 0.2], size=size * size))
        source, target = (int(cell) for cell in rng.choice(size * size, 2, replace=False))
        cells = "".join("_" if cell == source else symbol for cell, symbol in enumerate(cells))
        length = grid.shortest_path(cells, size, source, target, "#O")
        assert length == grid.distances(cells, size, source, "#O")[target]
        found.add(length)
    assert -1 in found
    assert max(found) >= size - 1


@pytest.mark.parametrize("size", [2, 4, 7])
def test_a_drawn_board_is_the_flat_board_with_spaces(size: int) -> None:
    level = lake.random_lake(np.random.default_rng(size), size, 0.7)
    for cell, board in enumerate(level.boards):
        assert level.drawn(cell) == grid.spaced(board, size)


def test_random_moves_are_uniform_over_sequences() -> None:
    rng, counts = np.random.default_rng(0), dict[tuple[int, ...], int]()
    for _ in range(20_000):
        moves = replies.random_moves(rng, 2)
        counts[moves] = counts.get(moves, 0) + 1
    assert len(counts) == 4 + 16
    assert min(counts.values()) > 850
    assert max(counts.values()) < 1150
