"""RagenFrozenLake: RAGEN's grammar and budgets, its known optimum, and no luck that the level gives away."""

import dataclasses
import doctest
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import seeding
from numpy.typing import NDArray

from turngym.envs import grid, lake
from turngym.envs.actions import ParseError
from turngym.envs.lake import Lake, LakeValues, parse_lake
from turngym.envs.ragen_frozen_lake import VERSIONS, RagenFrozenLakeEnv

OPEN = parse_lake("S___\n____\n____\n___G")
RIGHT_AHEAD = parse_lake("SG__\nOO__\n____\n____")


class Dry(RagenFrozenLakeEnv):
    """Without slips, so that a test can say what happens."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.success_rate = 1.0


def on_level(level: Lake, env: RagenFrozenLakeEnv | None = None) -> RagenFrozenLakeEnv:
    """An environment on a level of the test's choice; without slips unless one is given."""
    env = env or Dry()
    env.reset(seed=0)
    env.set_state(dataclasses.replace(env.get_state(), level=level, board=level.start))
    return env


# Versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "ice", "success", "words"),
    [("v1", 0.8, 1 / 3, "probability 0.33,"), ("v2", 0.9, 0.8, "probability 0.8,")],
)
def test_versions(version: str, ice: float, success: float, words: str) -> None:
    env = gymnasium.make("RagenFrozenLake-v0", version=version).unwrapped
    assert isinstance(env, RagenFrozenLakeEnv)
    assert (env.ice_probability, env.success_rate) == (ice, success)
    assert words in env.instructions
    levels = [env.reset(seed=seed) and env.get_state().level for seed in range(400)]
    holes = np.mean([level.cells.count("O") for level in levels])
    assert holes == pytest.approx(14 * (1 - ice), rel=0.25), "start and goal aside, and solvable ones only"


def test_the_first_version_is_the_default() -> None:
    env = gymnasium.make("RagenFrozenLake-v0").unwrapped
    assert isinstance(env, RagenFrozenLakeEnv)
    assert (env.version, env.max_turns, env.max_moves) == ("v1", 5, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": "v3"}, "version must be one of v1, v2, got 'v3'"),
        ({"max_moves": 0}, "max_moves must be at least 1 or None, got 0"),
        ({"moves_per_turn": 6}, "moves_per_turn must be between 1 and 5, got 6"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RagenFrozenLakeEnv(**arguments)


# Grammar -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "moves", "unknown"),
    [
        ("Right", "R", 0),
        (" riGHt||DOWN ", "RD", 0),
        ("Left || Down || Right || Up || Left", "LDRUL", 0),
        ("Left || Down || Right || Up || Left || Down", "LDRUL", 0),
        ("Fly || Left || Left || Left || Left || Left", "LLLL", 1),  # cut first, then dropped
        ("Left || Left || Left || Left || Left || Fly", "LLLLL", 0),  # what was cut costs nothing
        ("Right || Fly || 3 || Down", "RD", 2),
        ("|| Right || || Down ||", "RD", 0),  # nothing between separators is no action
        ("Right | Down || Up", "U", 1),
    ],
)
def test_what_is_read(text: str, moves: str, unknown: int) -> None:
    reply = RagenFrozenLakeEnv()._parse(text)
    assert not isinstance(reply, ParseError)
    assert "".join(grid.DIRECTIONS[move][0] for move in reply.moves) == moves
    assert reply.unknown == unknown


@pytest.mark.parametrize("text", ["", "||", "Right Down", "Fly || Jump", "<answer>Right</answer>", "right.", "1"])
def test_a_reply_without_a_known_action_is_a_turn_without_a_move(text: str) -> None:
    env = on_level(OPEN)
    board = env.get_state().board
    observation, reward, terminated, truncated, info = env.step(text)
    assert (reward, terminated, truncated) == (-0.1, False, False)
    assert not info["action_is_valid"]
    assert info["moves"] == 0
    assert env.get_state().board == board
    assert observation.startswith("I could not read a move. Reply with one to 5 moves joined by ||, each one of: Left")
    assert (env.turns_left, env.moves_left) == (4, 10)


@pytest.mark.parametrize(
    ("text", "reward", "told"),
    [
        ("Right", 1.0, "You reached the goal."),
        (
            "Right || Fly",
            0.9,
            "I could not read 1 of the moves, each one of: Left, Down, Right, Up. You reached",
        ),
        ("Fly || Right || Jump", 0.9, "I could not read 2 of the moves, each one of"),
        ("Down", 0.0, "You fell into a hole."),
        ("Down || Fly", -0.1, "I could not read 1 of the moves, each one of"),
        ("Up || Fly", -0.1, "I could not read 1 of the moves, each one of"),
    ],
)
def test_rewards(text: str, reward: float, told: str) -> None:
    observation, earned, terminated, truncated, info = on_level(RIGHT_AHEAD).step(text)
    assert earned == pytest.approx(reward)
    assert observation.startswith(told)
    assert (info["success"], truncated) == (reward > 0, False)
    assert terminated == ("Up" not in text)
    assert info["action_is_valid"]


def test_the_penalty_is_an_argument() -> None:
    env = on_level(OPEN, Dry(invalid_penalty=-0.5))
    assert [env.step(text)[1] for text in ("Fly", "Right || Fly", "Right")] == [-0.5, -0.5, 0.0]


def test_moves_in_a_turn_are_an_argument() -> None:
    env = on_level(OPEN, Dry(moves_per_turn=2))
    assert "one to 2 moves" in env.instructions
    assert env.step("Right || Fly || Fly")[1] == -0.1
    assert env.step("Right || Down || Down")[4]["moves"] == 2
    assert len(str(env.oracle_action()).split(" || ")) <= 2


# Budgets -----------------------------------------------------------------------------------------------------------


def test_five_turns() -> None:
    env = on_level(OPEN)
    endings = [env.step("Left")[2:4] for _ in range(5)]
    assert endings == [(False, False)] * 4 + [(False, True)]


def test_ten_moves_and_the_rest_is_cut() -> None:
    env = on_level(OPEN)
    made, left, endings = [], [], []
    for text in ("Left || Left || Left || Left || Left", "Left || Left || Left", "Down || Down || Down || Right"):
        _, _, terminated, truncated, info = env.step(text)
        made.append(info["moves"])
        left.append((env.turns_left, env.moves_left))
        endings.append((terminated, truncated))
    assert made == [5, 3, 2]
    assert left == [(4, 5), (3, 2), (2, 0)]
    assert endings == [(False, False), (False, False), (False, True)]
    assert env.get_state().board == 8, "two of the four moves down and right were made"


def test_the_goal_with_the_last_move_is_no_truncation() -> None:
    env = on_level(OPEN)
    env.step("Left || Left || Left || Left")
    _, reward, terminated, truncated, info = env.step("Down || Down || Down || Right || Right")
    assert (reward, terminated, truncated, env.moves_left) == (0.0, False, False, 1)
    _, reward, terminated, truncated, info = env.step("Right || Right")
    assert (reward, terminated, truncated, info["moves"]) == (1.0, True, False, 1)


def test_moves_after_the_end_are_not_made_or_counted() -> None:
    env = on_level(RIGHT_AHEAD)
    assert env.step("Right || Right || Right")[4]["moves"] == 1
    assert env.moves_left == 9


def test_a_saved_state_remembers_the_moves_that_were_made() -> None:
    env, fresh = on_level(OPEN), Dry()
    env.step("Left || Left || Left || Left || Left")
    fresh.set_state(env.get_state())
    assert (fresh.turns_left, fresh.moves_left) == (4, 5)
    assert fresh.step("Left || Left || Left || Left || Left")[3]


# The oracle --------------------------------------------------------------------------------------------------------


def ragens_levels(ice_probability: float) -> Iterator[Lake]:
    """The lakes of RAGEN's evaluation seeds 123 to 378, drawn from NumPy as its generator draws them."""
    for seed in range(123, 379):
        rng, _ = seeding.np_random(seed)
        level = None
        while level is None or level.shortest_path < 0:
            cells = rng.choice(["_", "O"], (4, 4), p=[ice_probability, 1 - ice_probability])
            start, goal = (tuple(rng.integers(4, size=2)) for _ in range(2))
            if start != goal:
                cells[start], cells[goal] = "S", "G"
                level = Lake(4, "".join(cells.ravel()))
        yield level


@pytest.mark.parametrize(
    ("version", "turns", "moves_per_turn", "known"),
    [("v1", 5, 5, 0.477), ("v2", 5, 5, 0.940), ("v1", 10, 1, 0.483), ("v2", 10, 1, 0.944)],
)
def test_known_optimum_on_ragens_own_levels(version: str, turns: int, moves_per_turn: int, known: float) -> None:
    """Figures that were computed before, and apart from this code: five turns of five moves, and ten turns of one."""
    ice_probability, success_rate = VERSIONS[version]
    values = [
        LakeValues(level, success_rate, moves_per_turn).value(level.start, turns, 10)
        for level in ragens_levels(ice_probability)
    ]
    assert np.mean(values) == pytest.approx(known, abs=5e-4)


def play(env: RagenFrozenLakeEnv, seed: int, act: Callable[[], str]) -> bool:
    env.reset(seed=seed)
    over, success = False, False
    while not over:
        _, _, terminated, truncated, info = env.step(act())
        over, success = terminated or truncated, info["success"]
    return success


def greedy(env: RagenFrozenLakeEnv, moves: int) -> str:
    """So many moves along a shortest way, as if nothing slipped."""
    left, cell, plan = distances_to_goal(env._level), env._board, list[str]()
    for _ in range(moves):
        ways = grid.steps(4)[cell]
        move = min(range(4), key=lambda move: left[ways[move]])
        plan.append(grid.DIRECTIONS[move])
        cell = ways[move]
        if cell == env._level.goal:
            break
    return " || ".join(plan)


@cache
def distances_to_goal(level: Lake) -> list[int]:
    return [steps if steps >= 0 else 99 for steps in grid.distances(level.cells, 4, level.goal, lake.HOLE)]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_no_policy_beats_the_oracle(version: str) -> None:
    env, rng = RagenFrozenLakeEnv(version=version), np.random.default_rng(0)
    policies: dict[str, Callable[[], str]] = {
        "oracle": lambda: str(env.oracle_action()),
        "random": partial(env.random_action, rng),
        "shortest path": lambda: greedy(env, 5),
        "greedy": lambda: greedy(env, 1),
    }
    values = []
    for seed in range(150):
        env.reset(seed=seed)
        values.append(float(env.oracle_value() or 0))
    wins = {name: sum(play(env, seed, act) for seed in range(150)) for name, act in policies.items()}
    spread = 4 * sum(value * (1 - value) for value in values) ** 0.5
    assert wins["oracle"] == pytest.approx(sum(values), abs=spread)
    assert all(won <= sum(values) + spread for won in wins.values())
    assert max(wins["random"], wins["greedy"], wins["shortest path"]) < wins["oracle"]


def test_the_value_is_that_of_what_is_left() -> None:
    env = on_level(OPEN)
    env._values = None
    assert env.oracle_value() == 1
    env.step("Left || Left || Left || Left")
    assert env.oracle_value() == 1, "six moves are left, and six are needed"
    env.step("Left")
    assert env.oracle_value() == 0
    assert env.oracle_action() is not None


# RAGEN's leak ------------------------------------------------------------------------------------------------------

TURNS = 10


class Recorder:
    """Stands for a generator, and keeps what it gave."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.given: NDArray[np.float64] = np.zeros(0)

    def random(self, count: int) -> NDArray[np.float64]:
        self.given = self._rng.random(count)
        return self.given


class Leaking(RagenFrozenLakeEnv):
    """As in RAGEN: the uniform that made cell t is also the luck of move t."""

    def _generate(self, rng: np.random.Generator) -> Lake:
        recorder = Recorder(rng)
        level = lake.random_lake(recorder, 4, self.ice_probability)  # type: ignore[arg-type]
        self._made_of = recorder.given
        return level

    def reset(self, **arguments: Any) -> tuple[str, dict[str, Any]]:
        answer = super().reset(**arguments)
        numbers = iter(self._made_of.tolist())
        self._noise = type("Luck", (), {"random": staticmethod(lambda: next(numbers))})()
        return answer


def slip_shares(symbol: str) -> tuple[float, float, float]:
    """Shares of intended, one side, other side, for a uniform of which a cell's symbol is known (v1)."""
    low, high = {lake.ICE: (0.0, 0.8), lake.HOLE: (0.8, 1.0)}.get(symbol, (0.0, 1.0))
    edges = np.clip([0.0, 1 / 3, 2 / 3, 1.0], low, high)
    first, second, third = np.diff(edges) / (high - low)
    return float(first), float(second), float(third)


def knowing_policy(level: Lake) -> NDArray[np.int64]:
    """Best single moves `(turn, cell)` of somebody who takes the symbol of cell t for a sign of slip t."""
    value = np.array([float(symbol == lake.GOAL) for symbol in level.cells])
    asleep = np.array([symbol in (lake.GOAL, lake.HOLE) for symbol in level.cells])
    ways, policy = np.array(grid.steps(4)), []
    for turn in reversed(range(TURNS)):
        ahead, left, right = slip_shares(level.cells[turn])
        of_direction = value[ways]
        of_move = (
            ahead * of_direction + left * np.roll(of_direction, 1, axis=1) + right * np.roll(of_direction, -1, axis=1)
        )
        policy.append(of_move.argmax(axis=1))
        value = np.where(asleep, value, of_move.max(axis=1))
    return np.array(policy[::-1])


def value_under_fair_luck(level: Lake, policy: NDArray[np.int64]) -> float:
    step = lake.transitions(level, 1 / 3)
    value = np.array([float(symbol == lake.GOAL) for symbol in level.cells])
    for moves in policy[::-1]:
        value = (step[moves, np.arange(16)] * value).sum(axis=1)
    return float(value[level.start])


def knowing_wins(env: RagenFrozenLakeEnv, seeds: range) -> tuple[int, list[float], list[float]]:
    """Wins of the knowing policy, its exact values under fair luck, and the optimum, level by level."""
    wins, fair, best = 0, [], []
    for seed in seeds:
        env.reset(seed=seed)
        level: Lake = env._level
        policy = knowing_policy(level)
        fair.append(value_under_fair_luck(level, policy))
        best.append(LakeValues(level, 1 / 3, 1).value(level.start, TURNS))
        wins += play(env, seed, lambda policy=policy: next_move(env, policy))  # type: ignore[misc]
    return wins, fair, best


def next_move(env: RagenFrozenLakeEnv, policy: NDArray[np.int64]) -> str:
    return grid.DIRECTIONS[policy[TURNS - env.turns_left, env._board]]


def test_knowing_how_the_level_was_drawn_gains_nothing() -> None:
    wins, fair, best = knowing_wins(RagenFrozenLakeEnv(max_turns=TURNS), range(600))
    spread = 4 * sum(value * (1 - value) for value in fair) ** 0.5
    assert wins == pytest.approx(sum(fair), abs=spread), "luck follows the table, whatever the level"
    assert wins < sum(best) + spread
    assert sum(fair) < sum(best)


def test_it_would_gain_much_if_the_streams_were_one() -> None:
    """The test above can fail: the same policy on the leak that RAGEN has wins far more than any policy should."""
    wins, _, best = knowing_wins(Leaking(max_turns=TURNS), range(300))
    assert wins > sum(best) + 5 * (300 * 0.25) ** 0.5


def test_single_moves_in_ten_turns_are_the_closed_loop() -> None:
    env = RagenFrozenLakeEnv(max_turns=TURNS)
    for seed in range(5):
        env.reset(seed=seed)
        level: Lake = env.get_state().level
        assert env.oracle_value() == pytest.approx(LakeValues(level, 1 / 3, 1).value(level.start, TURNS))


def test_the_transcript_in_the_docstring_is_real() -> None:
    transcript = re.search(r"## Transcript\n    ```\n(.*?)    ```\n", str(RagenFrozenLakeEnv.__doc__), re.DOTALL)
    assert transcript is not None
    test = doctest.DocTestParser().get_doctest(transcript.group(1), {}, "transcript", None, 0)
    assert len(test.examples) > 5
    told: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(test, out=told.append).failed == 0, "".join(told)
