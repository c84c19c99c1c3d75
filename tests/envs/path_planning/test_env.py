"""PathPlanning-v0: its oracle against all policies, its rewards, what is told and what is hidden."""

import dataclasses
import itertools
from functools import cache
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.path_planning.env import Board, PathPlanningEnv
from turngym.envs.path_planning.maps import GridMap, Problem
from turngym.envs.path_planning.obstacles import MovingObstacle
from turngym.envs.path_planning.text_forms import FORMS, parse
from turngym.envs.path_planning.view import View
from turngym.envs.path_planning.walk import Level
from turngym.envs.text_env import EnvState

TINY = {"size": 4, "min_steps": 3, "min_detour": 1.0}


def on_level(env: PathPlanningEnv, level: Level, **changes: Any) -> str:
    """Put an environment at the start of a level of the test's choice, seen from there if it has a sensor."""
    env.reset(seed=0)
    env._level = level
    state = dataclasses.replace(env.get_state(), level=level, board=env._first_board(level), **changes)
    return env.set_state(state)[0]


def play(env: PathPlanningEnv, act: Any) -> tuple[list[float], list[dict[str, Any]], bool]:
    """Play on to the end: rewards, infos, and whether the task itself ended."""
    rewards, infos, terminated, truncated = [], [], False, False
    while not (terminated or truncated):
        _, reward, terminated, truncated, info = env.step(act())
        rewards.append(reward)
        infos.append(info)
    return rewards, infos, terminated


# Values ------------------------------------------------------------------------------------------------------------


class BruteForce:
    """The best sum of rewards over everything that can be replied, by trying it in the environment itself."""

    def __init__(self, env: PathPlanningEnv) -> None:
        self._env, self._known = env, dict[tuple[Board, int], dict[str, float]]()
        names = list(env.legal_actions() or ())
        lengths = range(1, env._grammar.limit + 1)
        self._replies = ["?", *(" || ".join(some) for n in lengths for some in itertools.product(names, repeat=n))]

    def worths(self, state: EnvState) -> dict[str, float]:
        """What each reply is worth when the best ones follow."""
        key = state.board, state.turns
        if key not in self._known:
            worths = {}
            for reply in self._replies:
                self._env.set_state(state)
                _, reward, terminated, truncated, _ = self._env.step(reply)
                over = terminated or truncated
                worths[reply] = reward + (0.0 if over else max(self.worths(self._env.get_state()).values()))
            self._known[key] = worths
        return self._known[key]

    def states(self) -> list[EnvState]:
        """All states that were met."""
        first = self._env.get_state()
        return [dataclasses.replace(first, board=board, turns=turns, over=False) for board, turns in self._known]


VARIANTS: list[dict[str, Any]] = [
    {"max_turns": "1.5x"},
    {"max_turns": "1.5x", "reward": "cost", "invalid_penalty": -0.02},
    {"max_turns": "1.5x", "reward": "cost", "family": "terrain", "connectivity": 8},
    {"max_turns": 6, "obstacles": 2},
    {"max_turns": 6, "obstacles": 2, "reward": "cost", "invalid_penalty": -0.05},
    {"max_turns": 2, "moves_per_turn": 2},
    {"max_turns": 2, "moves_per_turn": 2, "reward": "cost", "obstacles": 1},
]


@pytest.mark.parametrize("shaping", [False, True])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_oracle_is_as_good_as_the_best_replies(variant: dict[str, Any], shaping: bool) -> None:
    env = PathPlanningEnv(**{**TINY, **variant}, shaping=shaping)
    told = 0
    for seed in range(3):
        env.reset(seed=seed)
        brute = BruteForce(env)
        brute.worths(env.get_state())
        for state in brute.states():
            env.set_state(state)
            value, action, worths = env.oracle_value(), env.oracle_action(), brute.worths(state)
            if value is None:
                continue
            told += 1
            env.set_state(state)
            assert value == pytest.approx(max(worths.values()), abs=1e-9)
            if value >= (0.5 if env.reward == "success" else -0.99):  # the goal is within reach
                assert worths[str(action)] == pytest.approx(value, abs=1e-9)
    assert told >= 10


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_shaping_leaves_the_best_replies_the_best(variant: dict[str, Any]) -> None:
    plain, shaped = (PathPlanningEnv(**{**TINY, **variant}, shaping=shaping) for shaping in (False, True))
    compared = 0
    for seed in range(3):
        plain.reset(seed=seed)
        shaped.reset(seed=seed)
        ours, theirs = BruteForce(plain), BruteForce(shaped)
        ours.worths(plain.get_state())
        for state in ours.states():
            plain.set_state(state)
            board: Board = state.board
            costs = plain._costs()
            if costs.quickest(board.cell, board.time, plain.turns_left * plain._grammar.limit) is None:
                continue
            if plain.reward == "cost" and costs.cost(board.cell, board.time) > costs.cost(state.level.problem.start, 0):
                continue
            compared += 1
            assert best(ours.worths(state)) == best(theirs.worths(state))
    assert compared >= 10


def best(worths: dict[str, float]) -> set[str]:
    return {reply for reply, worth in worths.items() if worth > max(worths.values()) - 1e-9}


@pytest.mark.parametrize("variant", [{}, {"obstacles": 3}, {"reward": "cost", "family": "terrain", "max_steps": 30}])
def test_shaping_adds_up_to_the_potentials(variant: dict[str, Any]) -> None:
    plain, shaped = (PathPlanningEnv(**variant, shaping=shaping, moves_per_turn=3) for shaping in (False, True))
    rng, ends = np.random.default_rng(0), set()
    for seed in range(30):
        plain.reset(seed=seed)
        shaped.reset(seed=seed)
        costs = plain._costs()
        earned, given = 0.0, 0.0
        over = False
        while not over:
            reply = plain.random_action(rng)
            _, reward, terminated, truncated, _ = plain.step(reply)
            given += shaped.step(reply)[1]
            earned, over = earned + reward, terminated or truncated
        left = costs.distance(plain._board.cell) / costs.distance(plain._level.problem.start)
        assert given - earned == pytest.approx(1.0 if terminated else 1.0 - left)
        ends.add(terminated)
    assert ends == {True, False} or not variant.get("obstacles")


# The oracle, the teacher and the figures of a step -----------------------------------------------------------------


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"family": "maze", "size": (9, 12), "max_steps": 60, "moves_per_turn": 3},
        {"family": "terrain", "connectivity": 8, "size": 12, "max_steps": 60, "reward": "cost"},
        {"obstacles": 4},
        {"view_radius": 2, "connectivity": 8, "family": "rooms"},
    ],
    ids=str,
)
def test_the_oracle_walks_a_cheapest_way(variant: dict[str, Any]) -> None:
    env = PathPlanningEnv(**variant, max_turns="1x")
    for seed in range(20):
        _, first = env.reset(seed=seed)
        value, thought = env.oracle_value(), env.oracle_thought()
        rewards, infos, _ = play(env, env.oracle_action)
        assert infos[-1]["success"]
        assert sum(info["moves"] for info in infos) == first["oracle_steps"]
        assert sum(info["cost"] for info in infos) == pytest.approx(infos[-1]["optimum"])
        assert all(info["regret"] == pytest.approx(0, abs=1e-9) for info in infos)
        assert value is None if env._sensor else sum(rewards) == pytest.approx(value)
        row, col = infos[0]["path"][-1]
        assert thought.endswith(f"next {row} {col}")
        assert (env.oracle_action(), env.oracle_value(), env.oracle_thought()) == (None, 0.0, "")
        assert env.rstar2_action() is None


def test_regret_is_what_was_wasted() -> None:
    env, rng = PathPlanningEnv(max_turns="20x", min_steps=2, min_detour=1.0), np.random.default_rng(0)
    won = 0
    for seed in range(20):
        env.reset(seed=seed)
        _, infos, _ = play(env, lambda: env.random_action(rng))
        assert all(info["regret"] >= 0 for info in infos)
        cost, regret = (sum(info[name] for info in infos) for name in ("cost", "regret"))
        left = env._costs().cost(env._board.cell, 0)
        assert cost + left - infos[-1]["optimum"] == pytest.approx(regret)
        cells = [cell for info in infos for cell in info["path"][1:]]
        assert len(cells) == sum(info["moves"] for info in infos) == len(infos)
        won += infos[-1]["success"]
    assert won > 5


def test_a_collision_loses_the_goal() -> None:
    env = PathPlanningEnv(obstacles=1, size=4, min_detour=1.0)
    grid_map = GridMap.from_ascii("____\n____\n____\n____")
    level = Level(Problem(grid_map, (0, 0), (0, 3)), (MovingObstacle(((0, 1), (1, 1))),))
    text = on_level(env, level)
    assert text.startswith("P 0 0 G 0 3 * 0 1\nP * _ G\n")
    assert text.endswith("obstacle at 0 1 then 1 1")
    text, reward, terminated, _, info = env.step("Down")
    assert (reward, terminated, info["regret"]) == (0.0, False, 2.0)
    text, reward, terminated, _, info = env.step("Right")  # the obstacle goes to 0 1: no one is met
    assert text.startswith("P 1 1 G 0 3 * 0 1")
    text, reward, terminated, _, info = env.step("Up")  # they change places
    assert text.startswith("You met a moving obstacle.\nP 0 1 G 0 3 * 1 1")
    assert (reward, terminated, info["success"], info["regret"]) == (0.0, True, False, inf)


@pytest.mark.parametrize("variant", [{}, {"connectivity": 8, "family": "caves"}, {"moves_per_turn": 4}], ids=str)
def test_rstar2_teaches_from_every_cell(variant: dict[str, Any]) -> None:
    env = PathPlanningEnv(**variant, max_turns=200)
    for seed in range(5):
        env.reset(seed=seed)
        start, costs = env.get_state(), env._costs()
        for cell in map(tuple, np.argwhere(np.isfinite(costs.distances)).tolist()):
            if cell == start.level.problem.goal:
                continue
            env.set_state(dataclasses.replace(start, board=Board(cell)))
            _, infos, _ = play(env, env.rstar2_action)
            cost = sum(info["cost"] for info in infos)
            assert infos[-1]["success"]
            if cell == start.level.problem.start:
                assert cost <= 2 * costs.distance(cell) + 1e-9


def test_rstar2_teaches_nothing_where_obstacles_move() -> None:
    env = PathPlanningEnv(obstacles=1)
    env.reset(seed=0)
    assert env.rstar2_action() is None


# What is told and what is hidden -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("view_radius", [None, 2])
def test_texts_can_be_read_back(form: Any, view_radius: int | None) -> None:
    env = PathPlanningEnv(text_form=form, view_radius=view_radius, family="terrain", min_steps=15, max_steps=40)
    rng = np.random.default_rng(0)
    text, _ = env.reset(seed=1)
    for _ in range(4):
        board = env._describe()
        assert text.endswith(board)
        read = parse(board, form)
        assert form in ("roads", "overview") or read == env._view()
        text = env.step(env.random_action(rng))[0]


def test_what_has_not_been_seen_changes_nothing() -> None:
    """Maps that differ where nobody has looked give the same texts and the same advice of the teacher."""
    env, rng = PathPlanningEnv(view_radius=1, max_turns=30, min_steps=6), np.random.default_rng(1)
    compared = 0
    for seed in range(10):
        env.reset(seed=seed)
        state = env.get_state()
        moves = [env.random_action(rng) for _ in range(6)]
        episode = told(env, state, moves)
        hidden = np.argwhere(~env._view().seen).tolist()  # type: ignore[operator]
        problem: Problem = state.level.problem
        others = [tuple(cell) for cell in hidden if tuple(cell) not in (problem.start, problem.goal)]
        changed = problem.map.with_free([cell for cell in others if rng.random() < 0.3])
        changed = changed.with_blocked([cell for cell in others if rng.random() < 0.3])
        level = Level(Problem(changed, problem.start, problem.goal))
        if np.isfinite(env._costs().cost(problem.start, 0)) and changed != problem.map:
            compared += 1
            assert told(env, dataclasses.replace(state, level=level), moves) == episode
    assert compared > 5


def told(env: PathPlanningEnv, state: EnvState, moves: list[str]) -> list[Any]:
    record: list[Any] = [env.set_state(state)[0]]
    try:
        record.extend((env.rstar2_action(), env.step(move)[0]) for move in moves)
    except AssertionError:
        record.append("the teacher sees no way")
    return record


def test_the_view_grows_with_every_move_of_a_turn() -> None:
    env = PathPlanningEnv(view_radius=1, moves_per_turn=2, size=6, min_detour=1.0)
    level = Level(Problem(GridMap.from_ascii("\n".join(["______"] * 6)), (0, 0), (5, 5)))
    text = on_level(env, level)
    assert text.split("\n")[1:4] == ["P _ ? ? ? ?", "_ _ ? ? ? ?", "? ? ? ? ? ?"]
    text = env.step("Right || Down")[0]
    assert text.split("\n")[1:5] == ["_ _ _ ? ? ?", "_ P _ ? ? ?", "_ _ _ ? ? ?", "? ? ? ? ? ?"]
    assert env.as_array()[5, 5] == 2
    assert set(env.as_array().ravel().tolist()) == {0, 2, 3, 6}


def test_boards_as_numbers() -> None:
    env = PathPlanningEnv(obstacles=1, size=4, min_detour=1.0)
    level = Level(Problem(GridMap.from_ascii("_2#-\n__9_"), (0, 0), (1, 0)), (MovingObstacle(((1, 3),)),))
    on_level(env, level)
    assert env.as_array().tolist() == [[3, 8, 1, 5], [2, 0, 15, 7]]
    env.step("Down")
    assert env.as_array().tolist()[1][0] == 4


@given(seed=st.integers(0, 2**32), connectivity=st.sampled_from([4, 8]))
def test_moves_are_the_steps_of_the_map(seed: int, connectivity: Any) -> None:
    env, rng = PathPlanningEnv(connectivity=connectivity, max_turns=12), np.random.default_rng(seed)
    env.reset(seed=seed)
    over = False
    while not over:
        here = env._board.cell
        neighbours = dict(env._level.problem.map.neighbours(here))
        _, _, terminated, truncated, info = env.step(env.random_action(rng))
        there = info["path"][-1]
        assert there in neighbours or there == here
        assert info["cost"] == neighbours.get(there, 1.0)
        assert info["action_is_effective"] == (there != here)
        over = terminated or truncated


def test_rules_are_told() -> None:
    plain, full = PathPlanningEnv(), PathPlanningEnv(obstacles=2, view_radius=3, connectivity=8, moves_per_turn=4)
    assert plain.instructions.endswith("Reply with one of: Left, Down, Right, Up.")
    assert "obstacle" not in plain.instructions
    for words in ("moving obstacle", "7 by 7 cells", "one to 4 moves joined by ||", "Down Left", "Stay"):
        assert words in full.instructions
    assert (plain.reply_tokens, full.reply_tokens) == (8, 12)


# Arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"family": "forest"}, "family must be one of random, .*, got 'forest'"),
        ({"size": 3}, "rows and cols must be at least 4, got 3 and 3"),
        ({"min_steps": 99}, "min_steps must be from 0 to max_steps, got 99 and 16"),
        ({"min_detour": 0.5}, "min_detour must be at least 1, got 0.5"),
        ({"connectivity": 6}, "connectivity must be 4 or 8, got 6"),
        ({"moves_per_turn": 0}, "moves_per_turn must be between 1 and 16, got 0"),
        ({"view_radius": 0}, "radius must be at least 1, got 0"),
        ({"obstacles": 9}, "obstacles must be between 0 and 8, got 9"),
        ({"reward": "fun"}, "reward must be one of success, cost, got 'fun'"),
        ({"text_form": "picture"}, "text_form must be one of grid, .* or None, got 'picture'"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"max_tokens": 20}, "max_tokens must be at least .* for an overview"),
        ({"scenario_path": "x.scen"}, "only a map_path has scenarios: leave scenario_path out, got 'x.scen'"),
        ({"map_path": "nowhere.map"}, "map_path must be a file, got nowhere.map"),
        ({"map_path": "nowhere.map", "size": 8}, "map_path fixes the map: leave size out, got 8"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PathPlanningEnv(**arguments)


def test_images_and_views_agree() -> None:
    env = PathPlanningEnv(render_mode="rgb_array", size=(5, 9), min_steps=3)
    env.reset(seed=0)
    assert env.render().shape == (5 * 32, 9 * 32, 3)
    assert isinstance(env._view(), View)


@cache
def splits_of(split: Any) -> frozenset[str]:
    env = PathPlanningEnv(split=split, size=4, min_steps=2, min_detour=1.0)
    return frozenset(env._canonical(env._level) for _ in range(100 if split == "train" else 25) if env.reset())


def test_no_level_is_in_two_splits() -> None:
    train, validation, test = (splits_of(split) for split in ("train", "validation", "test"))
    assert len(train) > 50
    assert not (train & test)
    assert not (train & validation)
    assert not (validation & test)
