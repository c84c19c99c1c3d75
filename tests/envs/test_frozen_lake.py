"""TextFrozenLake: Gymnasium's dynamics, exact values, and words that say what happened."""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import MAPS, FrozenLakeEnv
from hypothesis import given
from hypothesis import strategies as st

from turngym.agents.scripted import OracleAgent
from turngym.envs import grid, lake
from turngym.envs.frozen_lake import TextFrozenLakeEnv
from turngym.envs.lake import Lake, LakeValues, parse_lake, random_lake

GYMNASIUMS_SYMBOLS = str.maketrans({lake.ICE: "F", lake.HOLE: "H"})


def random_lakes(count: int, sizes: tuple[int, ...]) -> Iterator[Lake]:
    rng = np.random.default_rng(5)
    for index in range(count):
        yield random_lake(rng, sizes[index % len(sizes)], 0.7)


def rows(level: Lake) -> list[str]:
    """A lake as Gymnasium writes it."""
    cells = level.cells.translate(GYMNASIUMS_SYMBOLS)
    return [cells[start : start + level.size] for start in range(0, len(cells), level.size)]


def on_level(env: TextFrozenLakeEnv, level: Lake, cell: int | None = None) -> str:
    """Put an environment on a level of the test's choice."""
    env.reset(seed=0)
    state = dataclasses.replace(env.get_state(), level=level, board=level.start if cell is None else cell)
    observation, _ = env.set_state(state)
    return observation


# Dynamics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("success_rate", [1 / 3, 0.8, 0.5, 1.0])
def test_transitions_are_those_of_gymnasium(success_rate: float) -> None:
    for level in random_lakes(12, (2, 3, 4, 5, 8)):
        theirs = FrozenLakeEnv(desc=rows(level), is_slippery=success_rate < 1, success_rate=success_rate)
        table = np.zeros((4, level.size**2, level.size**2))
        for cell, moves in theirs.P.items():
            for move, outcomes in moves.items():
                for probability, there, reward, over in outcomes:
                    table[move, cell, there] += probability
                    if level.cells[cell] not in "OG":
                        assert over == (level.cells[there] in "OG")
                        assert reward == (level.cells[there] == "G")
        np.testing.assert_allclose(lake.transitions(level, success_rate), table, atol=1e-12)


class EvenLuck:
    """Stands for a generator, and gives evenly spaced numbers instead of random ones."""

    def __init__(self, count: int) -> None:
        self._numbers = iter((np.arange(count) + 0.5) / count)

    def random(self) -> float:
        return float(next(self._numbers))


@pytest.mark.parametrize("success_rate", [1 / 3, 0.8])
@pytest.mark.parametrize("move", range(4))
def test_slides_have_the_probabilities_of_the_table(move: int, success_rate: float) -> None:
    count, luck = 3000, EvenLuck(3000)
    went = [lake.slide(move, success_rate, luck) for _ in range(count)]  # type: ignore[arg-type]
    side = (1 - success_rate) / 2
    shares = {move: success_rate, (move - 1) % 4: side, (move + 1) % 4: side, (move + 2) % 4: 0.0}
    assert {way: went.count(way) / count for way in range(4)} == pytest.approx(shares, abs=1 / count)


def test_dry_ice_draws_no_luck() -> None:
    assert [lake.slide(move, 1.0, EvenLuck(0)) for move in range(4)] == [0, 1, 2, 3]  # type: ignore[arg-type]


def test_steps_of_the_environment_follow_the_table() -> None:
    env = TextFrozenLakeEnv(size=4)
    for level in random_lakes(10, (4,)):
        table = lake.transitions(level, 1.0)
        for cell, move in itertools.product(range(16), range(4)):
            if level.cells[cell] in "OG":
                continue
            on_level(env, level, cell)
            _, reward, terminated, truncated, info = env.step(grid.DIRECTIONS[move])
            there = int(table[move, cell].argmax())
            assert env.get_state().board == there
            assert (reward, info["success"]) == (float(level.cells[there] == "G"), level.cells[there] == "G")
            assert terminated == (level.cells[there] in "OG")
            assert not truncated
            assert info["action_is_effective"] == (there != cell)
            assert info["moves"] == 1


def test_the_environment_slips_as_often_as_the_table_says() -> None:
    env = TextFrozenLakeEnv(success_rate=0.8)
    level = parse_lake("S___\n____\n____\n___G")
    went = []
    for seed in range(2000):
        env.reset(seed=seed)
        env.set_state(dataclasses.replace(env.get_state(), level=level, board=5))
        env.step("Up")
        went.append(env.get_state().board)
    shares = {cell: went.count(cell) / len(went) for cell in (1, 4, 6, 9)}
    assert shares == pytest.approx({1: 0.8, 4: 0.1, 6: 0.1, 9: 0.0}, abs=0.03)


# Values ------------------------------------------------------------------------------------------------------------


class BruteForce:
    """Success and expected moves of the best policy by plain recursion over everything that can happen.

    Shares nothing with `LakeValues`: neighbours by arithmetic on rows and columns, sequences one by one, outcomes one
    by one, and no matrix.
    """

    def __init__(self, level: Lake, success_rate: float, moves_per_turn: int) -> None:
        self._level, self._rate, self._longest = level, success_rate, moves_per_turn
        self._known: dict[tuple[int, int, int], tuple[float, float]] = {}

    def best(self, cell: int, turns: int, moves: int) -> tuple[float, float]:
        """The highest probability of success, and the fewest expected moves that give it."""
        if self._level.cells[cell] in "OG" or turns == 0 or moves == 0:
            return float(self._level.cells[cell] == "G"), 0.0
        if (cell, turns, moves) not in self._known:
            lengths = range(1, min(self._longest, moves) + 1)
            sequences = [moves for length in lengths for moves in itertools.product(range(4), repeat=length)]
            worths = [self.of(sequence, cell, turns, moves) for sequence in sequences]
            most = max(value for value, _ in worths)
            self._known[cell, turns, moves] = most, min(cost for value, cost in worths if value > most - 1e-9)
        return self._known[cell, turns, moves]

    def of(self, sequence: tuple[int, ...], cell: int, turns: int, moves: int) -> tuple[float, float]:
        """Probability of success and expected moves when the turn begins with a given sequence."""
        places, made = {cell: 1.0}, 0.0
        for move in sequence:
            after: dict[int, float] = {}
            for here, chance in places.items():
                awake = self._level.cells[here] not in "OG"
                made += chance * awake
                for there, share in self._outcomes(here, move) if awake else [(here, 1.0)]:
                    after[there] = after.get(there, 0.0) + chance * share
            places = after
        value, cost = 0.0, made
        for here, chance in places.items():
            later = self.best(here, turns - 1, moves - len(sequence))
            value, cost = value + chance * later[0], cost + chance * later[1]
        return value, cost

    def _outcomes(self, cell: int, move: int) -> list[tuple[int, float]]:
        side, size = (1 - self._rate) / 2, self._level.size
        outcomes = []
        for turn, share in ((0, self._rate), (1, side), (-1, side)):
            row, column = divmod(cell, size)
            down, right = [(0, -1), (1, 0), (0, 1), (-1, 0)][(move + turn) % 4]
            row, column = min(max(row + down, 0), size - 1), min(max(column + right, 0), size - 1)
            outcomes.append((row * size + column, share))
        return outcomes


@pytest.mark.parametrize(
    ("moves_per_turn", "turns", "moves", "sizes"),
    [
        (1, 5, None, (2, 3, 4)),
        (2, 3, None, (2, 3)),
        (2, 3, 4, (2, 3)),
        (1, 6, 3, (3,)),
        (3, 2, 5, (2, 3)),
        (3, 3, 2, (3,)),
    ],
)
@pytest.mark.parametrize("success_rate", [1.0, 0.8, 1 / 3])
def test_values_are_those_of_brute_force(
    success_rate: float, moves_per_turn: int, turns: int, moves: int | None, sizes: tuple[int, ...]
) -> None:
    for level in random_lakes(4, sizes):
        exact, plain = LakeValues(level, success_rate, moves_per_turn), BruteForce(level, success_rate, moves_per_turn)
        cap = turns * moves_per_turn if moves is None else moves
        for cell in range(level.size**2):
            value, cost = plain.best(cell, turns, cap)
            assert exact.value(cell, turns, moves) == pytest.approx(value, abs=1e-9)
            if level.cells[cell] not in "OG":
                sequence = exact.best(cell, turns, moves)
                assert 1 <= len(sequence) <= min(moves_per_turn, cap)
                assert plain.of(sequence, cell, turns, cap) == pytest.approx((value, cost), abs=1e-8)


@pytest.mark.parametrize(
    ("name", "success_rate", "turns", "published"),
    [("4x4", 1 / 3, 100, 0.744190), ("4x4", 0.8, 100, 0.893954), ("8x8", 1 / 3, 200, 0.913220)],
)
def test_values_on_gymnasiums_maps(name: str, success_rate: float, turns: int, published: float) -> None:
    level = parse_lake("\n".join(MAPS[name]))
    assert LakeValues(level, success_rate, 1).value(level.start, turns) == pytest.approx(published, abs=5e-7)


def test_a_long_episode_is_no_deep_recursion() -> None:
    level = parse_lake("\n".join(MAPS["4x4"]))
    assert LakeValues(level, 1 / 3, 1).value(level.start, 5000) == pytest.approx(14 / 17)  # without a limit on turns


def test_more_turns_are_worth_more_and_so_are_more_moves_in_a_turn() -> None:
    level = parse_lake("\n".join(MAPS["4x4"]))
    by_turns = [LakeValues(level, 1 / 3, 1).value(level.start, turns) for turns in range(5, 60, 5)]
    assert by_turns == sorted(by_turns)
    assert by_turns[0] == 0 < by_turns[1] < by_turns[-1]
    by_moves = [LakeValues(level, 1 / 3, moves).value(level.start, 10) for moves in (1, 2, 3)]
    assert by_moves == sorted(by_moves)
    assert len(set(by_moves)) == 3


# The oracle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 8])
def test_the_oracle_takes_the_shortest_way(size: int) -> None:
    env = TextFrozenLakeEnv(size=size, max_turns="1x")
    agent = OracleAgent(env)
    for seed in range(50):
        observation, info = env.reset(seed=seed)
        assert env.oracle_value() == pytest.approx(1)
        for turn in range(1, info["oracle_steps"] + 1):
            observation, reward, terminated, truncated, step_info = env.step(agent.act(observation))
            assert (terminated, reward) == ((True, 1.0) if turn == info["oracle_steps"] else (False, 0.0))
            assert not truncated
        assert step_info["success"]
        assert env.oracle_action() is None
        assert env.oracle_value() == 0


def test_the_oracle_packs_moves_into_turns_where_it_must() -> None:
    env = TextFrozenLakeEnv(moves_per_turn=5, max_turns=2)
    on_level(env, parse_lake("S___\nOOO_\n____\nG___"))
    made = []
    for _ in range(2):
        _, reward, terminated, _, info = env.step(str(env.oracle_action()))
        made.append(info["moves"])
    assert (sum(made), reward, terminated) == (9, 1.0, True)


def test_the_value_is_what_the_oracle_wins_on_slippery_ice() -> None:
    env = TextFrozenLakeEnv(success_rate=1 / 3, max_turns=20)
    level = parse_lake("\n".join(MAPS["4x4"]))
    agent, wins, episodes = OracleAgent(env), 0, 400
    for seed in range(episodes):
        env.reset(seed=seed)
        env.set_state(dataclasses.replace(env.get_state(), level=level, board=level.start))
        expected, over = env.oracle_value(), False
        while not over:
            _, reward, terminated, truncated, _ = env.step(agent.act(""))
            over = terminated or truncated
        wins += int(reward)
    assert expected is not None
    assert wins / episodes == pytest.approx(expected, abs=4 * (expected * (1 - expected) / episodes) ** 0.5)


def test_the_value_counts_the_turns_that_are_left() -> None:
    env = TextFrozenLakeEnv(max_turns=6)
    on_level(env, parse_lake("S___\n____\n____\n___G"))
    assert [env.oracle_value(), env.step("Left")[1], env.oracle_value()] == [1.0, 0.0, 0.0]


# Levels ------------------------------------------------------------------------------------------------------------


def test_levels_are_solvable_and_of_both_kinds_of_cell() -> None:
    holes = []
    for level in random_lakes(300, (4,)):
        assert level.cells.count("S") == level.cells.count("G") == 1
        assert set(level.cells) <= set("_OSG")
        assert level.shortest_path >= 1
        holes.append(level.cells.count("O"))
    assert min(holes) == 0
    assert max(holes) > 5
    assert 2 < np.mean(holes) < 5


def test_starts_and_goals_are_anywhere() -> None:
    env = TextFrozenLakeEnv()
    levels = [env.reset(seed=seed) and env.get_state().level for seed in range(400)]
    assert {level.start for level in levels} == {level.goal for level in levels} == set(range(16))


def test_the_shortest_path_goes_around_holes() -> None:
    assert parse_lake("S O G\n_ O _\n_ _ _").shortest_path == 6
    assert parse_lake("S O G\n_ O _\n_ O _").shortest_path == -1


def test_luck_is_apart_from_the_level() -> None:
    env = TextFrozenLakeEnv(success_rate=1 / 3, max_turns=50)

    def walk(**options: Any) -> tuple[str, list[str]]:
        _, info = env.reset(seed=3, options=options)
        boards = []
        for _ in range(3):
            observation, _, terminated, truncated, _ = env.step("Up")
            boards.append(observation)
            if terminated or truncated:
                break
        return info["level_id"], boards

    walks = [walk(noise_seed=k) for k in range(20)]
    assert len({level for level, _ in walks}) == 1
    assert len({tuple(boards) for _, boards in walks}) > 3
    assert walk(noise_seed=5) == walks[5]
    assert walk() == walk()


def test_luck_cannot_be_read_off_the_level() -> None:
    """Were it the stream that drew the level, a first cell of ice would tell of a low first draw."""
    env = TextFrozenLakeEnv(ice_probability=0.5, success_rate=0.5)
    lucky: dict[str, list[bool]] = {lake.ICE: [], lake.HOLE: []}
    for seed in range(1500):
        env.reset(seed=seed)
        assert env._noise is not None
        lucky.setdefault(env.get_state().level.cells[0], []).append(env._noise.random() < 0.5)
    for outcomes in (lucky[lake.ICE], lucky[lake.HOLE]):
        assert len(outcomes) > 300
        assert abs(np.mean(outcomes) - 0.5) < 4 * 0.5 / len(outcomes) ** 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "as many cells in a row as it has rows, got rows of"),
        ("SG", r"got rows of \[2\]"),
        ("SG\n_", r"got rows of \[2, 1\]"),
        ("S#\n_G", r"drawn with _ O S G \(or F H S G\), got .*#"),
        ("SS\n_G", "exactly one start S and one goal G"),
        ("S_\n__", "exactly one start S and one goal G"),
    ],
)
def test_maps_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_lake(text)


def test_both_alphabets_are_read() -> None:
    assert parse_lake("SFH\nFFF\nHFG") == parse_lake("S _ O\n_ _ _\n\nO _ G\n") == Lake(3, "S_O___O_G")


# Words -------------------------------------------------------------------------------------------------------------

LEVEL = parse_lake("S _ O\n_ _ _\nO _ G")
UP_TO_THREE = "Reply with one to 3 moves joined by ||, each one of: Left, Down, Right, Up."


@pytest.mark.parametrize("text", ["Left", "down", " RIGHT\n", "\tuP "])
def test_one_move_in_any_case_and_space(text: str) -> None:
    env = TextFrozenLakeEnv(size=3)
    on_level(env, LEVEL)
    assert env.step(text)[4]["action_is_valid"]


@pytest.mark.parametrize(
    "text",
    ["", "Lefty", "Go Left", "Left.", "Left Right", "Left||", "||", "Left || Up", "L", "<answer>Up</answer>", "↑", "0"],
)
def test_nothing_else_is_a_move(text: str) -> None:
    env = TextFrozenLakeEnv(size=3, invalid_penalty=-0.25)
    before = on_level(env, LEVEL)
    observation, reward, terminated, truncated, info = env.step(text)
    assert observation.endswith(f"Reply with one of: Left, Down, Right, Up.\n{before}")
    assert (reward, terminated, truncated, info["action_is_valid"], info["moves"]) == (-0.25, False, False, False, 0)


@pytest.mark.parametrize(
    ("text", "moves", "cell"),
    [
        ("Right", 1, 1),
        ("Right || Down", 2, 4),
        ("right||DOWN||left", 3, 3),
        ("  Down  ||\n Right ", 2, 4),
        ("Right || Down || Down || Right", 0, 0),  # four are too many: nothing moves
        ("Right || Fly", 0, 0),  # all or nothing
        ("Right || ", 0, 0),
        ("|| Right", 0, 0),
        ("Right | Down", 0, 0),
    ],
)
def test_several_moves_in_a_turn(text: str, moves: int, cell: int) -> None:
    env = TextFrozenLakeEnv(size=3, moves_per_turn=3)
    on_level(env, LEVEL)
    info = env.step(text)[4]
    assert (info["moves"], env.get_state().board, info["action_is_valid"]) == (moves, cell, moves > 0)


def test_moves_after_the_end_are_not_made() -> None:
    env = TextFrozenLakeEnv(size=3, moves_per_turn=5)
    on_level(env, LEVEL)
    _, reward, terminated, _, info = env.step("Right || Right || Left || Down || Down")
    assert (reward, terminated, info["moves"], info["success"]) == (0.0, True, 2, False)
    on_level(env, LEVEL)
    _, reward, terminated, _, info = env.step("Down || Right || Right || Down || Left")
    assert (reward, terminated, info["moves"], info["success"]) == (1.0, True, 4, True)


@pytest.mark.parametrize(
    ("cell", "action", "told", "board"),
    [
        (0, "Right", "", "_ P O\n_ _ _\nO _ G"),
        (0, "Left", "The edge holds you back.\n", "P _ O\n_ _ _\nO _ G"),
        (1, "Right", "You fell into a hole.\n", "_ _ X\n_ _ _\nO _ G"),
        (5, "Down", "You reached the goal.\n", "_ _ O\n_ _ _\nO _ √"),
        (0, "Up || Right", "The edge holds you back.\n", "_ P O\n_ _ _\nO _ G"),
        (0, "Up || Right || Right", "The edge holds you back. You fell into a hole.\n", "_ _ X\n_ _ _\nO _ G"),
        (0, "?", f"I could not read a move. {UP_TO_THREE}\n", "P _ O\n_ _ _\nO _ G"),
        (0, "Up||Up||Up||Up", f"At most 3 moves are allowed in one reply. {UP_TO_THREE}\n", "P _ O\n_ _ _\nO _ G"),
    ],
)
def test_feedback_and_board(cell: int, action: str, told: str, board: str) -> None:
    env = TextFrozenLakeEnv(size=3, moves_per_turn=3)
    on_level(env, LEVEL, cell)
    assert env.step(action)[0] == told + board


def test_a_slip_is_told() -> None:
    env = TextFrozenLakeEnv(size=3, success_rate=0.01)
    on_level(env, parse_lake("S___\n____\n____\n___G"), 5)
    observation = env.step("Up")[0]
    assert re.match(r"You intended Up and slid (Left|Right)\.\n", observation)


def test_the_instructions_tell_the_rules_that_hold() -> None:
    plain, wild = TextFrozenLakeEnv(), TextFrozenLakeEnv(success_rate=1 / 3, moves_per_turn=2)
    assert "slippery" not in plain.instructions
    assert plain.instructions.endswith("Reply with one of: Left, Down, Right, Up.")
    assert "with probability 0.33" in wild.instructions
    assert wild.instructions.endswith("Reply with one to 2 moves joined by ||, each one of: Left, Down, Right, Up.")


def test_turns_run_out() -> None:
    env = TextFrozenLakeEnv(size=3, max_turns="1.5x")
    env.reset(seed=0)
    limit = env.turns_left
    assert limit == int(np.ceil(1.5 * env.get_state().level.shortest_path))
    ends = [env.step("Fly")[2:4] for _ in range(limit)]
    assert ends == [(False, False)] * (limit - 1) + [(False, True)]


def test_the_goal_in_the_last_turn_is_no_truncation() -> None:
    env = TextFrozenLakeEnv(size=3, max_turns=1)
    on_level(env, LEVEL, 5)
    assert env.step("Down")[1:4] == (1.0, True, False)


# State and views ---------------------------------------------------------------------------------------------------


def test_branches_from_one_state() -> None:
    env = TextFrozenLakeEnv(size=3, max_turns=3)
    on_level(env, LEVEL)
    env.step("Fly")
    state, boards = env.get_state(), {}
    for action in ("Right", "Down", "Left", "Fly"):
        observation, info = env.set_state(state)
        assert observation.startswith("I could not read a move.")
        assert env.turns_left == 2
        boards[action] = env.step(action)[4]["state_key"]
        assert env.step("Fly")[3], "turns are part of the state"
    assert boards["Left"] == boards["Fly"] == info["state_key"]
    assert len(set(boards.values())) == 3


def test_branches_share_their_luck() -> None:
    env = TextFrozenLakeEnv(success_rate=1 / 3, max_turns=100)
    env.reset(seed=1)
    state = env.get_state()

    def walk() -> list[str]:
        env.set_state(state)
        return [env.step("Up")[0]]

    assert walk() == walk()


@given(st.integers(0, 10_000), st.sampled_from([2, 3, 4, 7]))
def test_the_three_views_of_a_board_agree(seed: int, size: int) -> None:
    env = TextFrozenLakeEnv(size=size, render_mode="rgb_array")
    observation, _ = env.reset(seed=seed)
    symbols = {"_": 0, "O": 1, "G": 2, "P": 3, "X": 4, "√": 5}
    for action in ("Left", "Up", "Fly"):
        board = observation.split("\n")[-size:]
        numbers = np.array([[symbols[cell] for cell in row.split(" ")] for row in board])
        np.testing.assert_array_equal(env.as_array(), numbers)
        image = env.render()
        assert image.shape == (32 * size, 32 * size, 3)
        colours = [[tuple(image[32 * row + 16, 32 * column + 16]) for column in range(size)] for row in range(size)]
        assert colours == [[lake.COLOURS[cell] for cell in row.split(" ")] for row in board]
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break


def test_the_state_key_is_of_the_board_alone() -> None:
    env = TextFrozenLakeEnv(size=3)
    _, info = env.reset(seed=0)
    assert env.step("Fly")[4]["state_key"] == info["state_key"]
    on_level(env, LEVEL)
    keys = {env.step(action)[4]["state_key"] for action in ("Right", "Down", "Left", "Up")}
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 1}, "size must be between 2 and 32, got 1"),
        ({"size": 33}, "size must be between 2 and 32, got 33"),
        ({"ice_probability": 0}, "ice_probability must be above 0 and at most 1, got 0"),
        ({"ice_probability": 1.5}, "ice_probability must be above 0 and at most 1, got 1.5"),
        ({"success_rate": 0}, "success_rate must be above 0 and at most 1, got 0"),
        ({"success_rate": 1.01}, "success_rate must be above 0 and at most 1, got 1.01"),
        ({"moves_per_turn": 0}, "moves_per_turn must be between 1 and 5, got 0"),
        ({"moves_per_turn": 6}, "moves_per_turn must be between 1 and 5, got 6"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextFrozenLakeEnv(**arguments)


def test_make_passes_arguments_on() -> None:
    env = gymnasium.make("TextFrozenLake-v0", size=6, moves_per_turn=2)
    observation, _ = env.reset(seed=0)
    assert len(observation.split("\n")) == 6
