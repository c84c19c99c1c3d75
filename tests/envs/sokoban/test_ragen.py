"""RagenSokoban: RAGEN's grammar, budgets and rewards; its levels are tested with their generator."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from turngym.envs.actions import ParseError
from turngym.envs.errors import LevelError
from turngym.envs.sokoban.board import Level
from turngym.envs.sokoban.formats import parse_dialect
from turngym.envs.sokoban.ragen import RagenSokobanEnv

OPEN = parse_dialect("######\n#P___#\n#_X__#\n#___O#\n#____#\n######")
RIGHT_AHEAD = parse_dialect("######\n#PXO_#\n######")


def on_level(level: Level, **arguments: Any) -> RagenSokobanEnv:
    """An environment on a level of the test's choice."""
    env = RagenSokobanEnv(**arguments)
    env.reset(seed=0)
    env.set_state(dataclasses.replace(env.get_state(), level=level, board=level.start))
    return env


def test_ragens_defaults() -> None:
    env = RagenSokobanEnv()
    assert (env.size, env.boxes, env.search_depth) == (6, 1, 300)
    assert (env.max_turns, env.max_moves, env.moves_per_turn) == (5, 10, 5)
    assert "one to 5 moves joined by ||" in env.instructions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 4}, "size must be between 5 and 10, got 4"),
        ({"boxes": 4}, "boxes must be between 1 and 3, got 4"),
        ({"search_depth": 2}, "search_depth must be between 3 and 300, got 2"),
        ({"max_moves": 0}, "max_moves must be at least 1 or None, got 0"),
        ({"moves_per_turn": 0}, "moves_per_turn must be between 1 and 20, got 0"),
        ({"reward": "dense"}, "reward must be one of gym_sokoban, sparse, got 'dense'"),
    ],
    ids=str,
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RagenSokobanEnv(**arguments)


def test_the_larger_levels_of_ragen() -> None:
    env = RagenSokobanEnv(size=8, boxes=2, search_depth=10)
    env.reset(seed=0)
    assert env.as_array().shape == (8, 8)
    assert (env.as_array() == 3).sum() == 2


# Grammar -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "moves", "unknown"),
    [
        (" riGHt||DOWN ", (2, 1), 0),
        ("Left || Down || Right || Up || Left || Down", (0, 1, 2, 3, 0), 0),
        ("Fly || Left || Left || Left || Left || Left", (0, 0, 0, 0), 1),  # cut first, then dropped
        ("|| Right || || 3 || Down ||", (2, 1), 1),  # nothing between separators is no action
    ],
)
def test_what_is_read(text: str, moves: tuple[int, ...], unknown: int) -> None:
    assert RagenSokobanEnv()._parse(text) == (moves, unknown)


@pytest.mark.parametrize("text", ["", "||", "Right Down", "Fly || Jump", "<answer>Right</answer>", "1"])
def test_a_reply_without_a_known_action_is_a_turn_without_a_move(text: str) -> None:
    env = on_level(OPEN)
    assert isinstance(env._parse(text), ParseError)
    observation, reward, terminated, truncated, info = env.step(text)
    assert (reward, terminated, truncated, info["moves"]) == (-0.1, False, False, 0)
    assert env.get_state().board == OPEN.start
    assert observation.startswith("I could not read a move. Reply with one to 5 moves joined by ||, each one of: Left")
    assert (env.turns_left, env.moves_left) == (4, 10)


@pytest.mark.parametrize(
    ("text", "reward", "told"),
    [
        ("Right", 10.9, "You pushed every box onto a goal."),
        ("Right || Right", 10.9, "You pushed every box"),
        (
            "Fly || Right || Jump",
            10.8,
            "I could not read 2 of the moves, each one of: Left, Down, Right, Up. You pushed",
        ),
        ("Up || Left || Right", 10.7, "The wall holds you back. The wall holds you back. You pushed every box"),
        ("Up || Fly", -0.2, "I could not read 1 of the moves, each one of: Left, Down, Right, Up. The wall holds"),
    ],
)
def test_rewards(text: str, reward: float, told: str) -> None:
    observation, earned, terminated, truncated, info = on_level(RIGHT_AHEAD).step(text)
    assert earned == pytest.approx(reward)
    assert observation.startswith(told)
    assert (info["success"], terminated, truncated) == (reward > 0, reward > 0, False)
    assert info["action_is_valid"]


def test_the_penalty_and_the_reward_are_arguments() -> None:
    env = on_level(OPEN, invalid_penalty=-0.5, reward="sparse")
    assert [env.step(text)[1] for text in ("Fly", "Up || Fly", "Up")] == [-0.5, -0.5, 0.0]
    assert on_level(RIGHT_AHEAD, reward="sparse").step("Right")[1] == 1.0


# Budgets -----------------------------------------------------------------------------------------------------------


def test_five_turns() -> None:
    env = on_level(OPEN)
    assert [env.step("Left")[2:4] for _ in range(5)] == [(False, False)] * 4 + [(False, True)]


def test_ten_moves_and_the_rest_is_cut() -> None:
    env = on_level(OPEN)
    turns = [
        env.step(text) for text in ("Left || Left || Left || Left || Left", "Up || Up || Up", "Down || Down || Down")
    ]
    assert [turn[4]["moves"] for turn in turns] == [5, 3, 2]
    assert [turn[1] for turn in turns] == [-0.5, -0.3, -0.2]
    assert [turn[2:4] for turn in turns] == [(False, False), (False, False), (False, True)]
    assert env.get_state().board.player == 3 * 6 + 1, "two of the three moves down were made"


def test_levels_that_take_too_many_moves_are_drawn_again() -> None:
    env = RagenSokobanEnv(max_moves=3)
    assert max(env.reset(seed=seed)[1]["oracle_steps"] for seed in range(50)) == 3
    with pytest.raises(LevelError, match="no level can be solved in max_moves=1 among 200 drawn"):
        RagenSokobanEnv(boxes=2, size=5, max_moves=1).reset(seed=0)


# The oracle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moves_per_turn", [2, 5])
def test_the_oracle_wins_and_earns_what_it_promises(moves_per_turn: int) -> None:
    env = RagenSokobanEnv(moves_per_turn=moves_per_turn)
    for seed in range(100):
        env.reset(seed=seed)
        total, promised, over, success = 0.0, env.oracle_value(), False, False
        while not over:
            assert env.oracle_thought().startswith("I am at ")
            _, reward, terminated, truncated, info = env.step(str(env.oracle_action()))
            total, over, success = total + reward, terminated or truncated, info["success"]
        assert success
        assert total == pytest.approx(promised)
        assert (env.oracle_action(), env.oracle_value(), env.oracle_thought()) == (None, 0.0, "")


def test_no_reply_is_better_than_the_oracles() -> None:
    env, rng = RagenSokobanEnv(), np.random.default_rng(0)
    for seed in range(20):
        env.reset(seed=seed)
        over = False
        while not over:
            is_in_time = (env.oracle_value() or 0) > 0
            assert not is_in_time or env.regret(str(env.oracle_action())) == 0
            action = env.random_action(rng)
            before = env.get_state()
            loss = env.regret(action)
            assert env.get_state() == before, "asking changes nothing"
            assert loss is not None
            assert loss >= 0
            _, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated


def test_the_value_is_that_of_what_is_left() -> None:
    env = on_level(OPEN)  # Right, Down, Left, Down, Right, Right
    assert env.oracle_value() == pytest.approx(11 - 0.6)
    for _ in range(2):
        env.step("Up || Up || Up")
    env.step("Up")
    assert (env.turns_left, env.moves_left) == (2, 3)
    assert env.oracle_value() == pytest.approx(-0.2), "too few moves are left: two turns of one move lose least"
    assert env.oracle_action() is not None, "the way there all the same"
    assert env.is_unsolvable() is False


def test_a_box_in_a_corner() -> None:
    env = on_level(parse_dialect("######\n#X_O##\n#_P__#\n######"))
    assert (env.oracle_action(), env.oracle_thought(), env.is_unsolvable()) == (None, "", True)
    assert env.oracle_value() == pytest.approx(-0.5)
