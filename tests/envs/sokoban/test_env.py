"""SokobanEnv: levels of the wanted difficulty, promised rewards, an oracle that always finishes, packs and formats."""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from turngym.agents.scripted import OracleAgent
from turngym.envs import ENV_IDS, grid, replies
from turngym.envs.errors import LevelError
from turngym.envs.sokoban import board, formats, play, solver, views
from turngym.envs.sokoban.board import Level
from turngym.envs.sokoban.env import SokobanEnv
from turngym.envs.sokoban.formats import parse_dialect
from turngym.envs.sokoban.packs import load_pack
from turngym.envs.splits import SPLITS, split_of
from turngym.envs.text_env import TextEnv
from turngym.wrappers import ReasoningWrapper, TabularWrapper

IDS = [name for name in ENV_IDS if "Sokoban" in name]
ROOM = parse_dialect("#######\n#P____#\n#_XX__#\n#__O__#\n#__O__#\n#######")
CORNER = parse_dialect("######\n#O___#\n#_XP_#\n#____#\n######")

SMALL_PACK = """
  ####
###  ####
#     $ #
# #  #$ #
# . .#@ #
#########
; one

#####
#@$.#
#####
; two
"""


def on_level(level: Level, **arguments: Any) -> SokobanEnv:
    """An environment on a level of the test's choice; as many turns as for another level."""
    env = SokobanEnv(**arguments)
    env.reset(seed=0)
    env.set_state(dataclasses.replace(env.get_state(), level=level, board=level.start))
    return env


def finish(env: gymnasium.Env[str, str]) -> tuple[float, dict[str, Any]]:
    """Let the oracle play to the end: the sum of rewards, and the last info."""
    agent, total, over, info = OracleAgent(env), 0.0, False, dict[str, Any]()
    while not over:
        _, reward, terminated, truncated, info = env.step(agent.act(""))
        total, over = total + float(reward), terminated or truncated
    return total, info


# Levels ------------------------------------------------------------------------------------------------------------


def fewest_moves(level: Level) -> int:
    """By breadth-first search over the rules alone."""
    met, front, moves = {level.start}, [level.start], 0
    while not any(board.is_solved(level, position) for position in front):
        after = {board.move(level, position, direction) for position in front for direction in range(4)} - met
        met |= after
        front, moves = list(after), moves + 1
    return moves


@pytest.mark.parametrize(
    ("variant", "shape", "boxes", "moves"),
    [
        ("Sokoban-v0", (6, 6), 1, (4, 12)),
        ("Sokoban7x7x2-v0", (7, 7), 2, (8, 24)),
        ("Sokoban8x8x3-v0", (8, 8), 3, (12, 40)),
    ],
)
def test_levels_are_as_hard_as_wanted(variant: str, shape: tuple[int, int], boxes: int, moves: tuple[int, int]) -> None:
    env, found = gymnasium.make(variant).unwrapped, set()
    assert isinstance(env, SokobanEnv)
    for seed in range(15):
        optimum = env.reset(seed=seed)[1]["oracle_steps"]
        codes = env.as_array()
        assert (codes.shape, (codes == 3).sum(), (codes == 2).sum() + (codes == 6).sum()) == (shape, boxes, boxes)
        assert moves[0] <= optimum <= moves[1]
        assert env.turns_left == 3 * optimum
        if boxes < 3:
            assert fewest_moves(env._level) == optimum
        found.add(optimum)
    assert len(found) > 3


def test_difficulty_is_an_argument() -> None:
    env = SokobanEnv(size=(5, 8), boxes=2, min_moves=6, max_moves=9, render_mode="rgb_array")
    assert all(6 <= env.reset(seed=seed)[1]["oracle_steps"] <= 9 for seed in range(10))
    assert env.as_array().shape == (5, 8)
    assert env.render().shape == (5 * 32, 8 * 32, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 3}, "size must be between 5 and 20"),
        ({"boxes": 6}, "boxes must be between 1 and 5"),
        ({"max_moves": 3}, "min_moves must be between 1 and max_moves, got 4 and 3"),
        (
            {"level_pack": "boxoban", "boxes": 4},
            "level_pack fixes the levels, so boxes cannot be given",
        ),
        ({"observation_format": "ascii"}, "observation_format must be one of grid, .*, json, got 'ascii'"),
        ({"reward": "dense"}, "reward must be one of gym_sokoban, sparse, got 'dense'"),
        ({"moves_per_turn": 21}, "moves_per_turn must be between 1 and 20, got 21"),
        ({"invalid_penalty": 1.0}, "invalid_penalty must be at most 0, got 1.0"),
    ],
    ids=str,
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SokobanEnv(**arguments)


# Packs -------------------------------------------------------------------------------------------------------------


def test_boxoban_keeps_its_levels_in_their_splits() -> None:
    optima = {packed.level: packed.moves for packed in load_pack()}
    for split in SPLITS:
        env = SokobanEnv(level_pack="boxoban", split=split)
        for seed in range(20):
            info = env.reset(seed=seed)[1]
            assert info["oracle_steps"] == optima[env._level]
            assert split_of(board.canonical(env._level)) == split


def test_a_pack_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.xsb"
    file.write_text(SMALL_PACK)
    env = SokobanEnv(level_pack=str(file), split="test", render_mode="rgb_array", max_turns=50)
    assert env.shared_splits, "two levels cannot be told apart"
    shapes = set()
    for seed in range(10):
        env.reset(seed=seed)
        shapes.add(env.as_array().shape)
        rows, columns = env.as_array().shape
        assert env.render().shape == (rows * 32, columns * 32, 3)
        assert finish(env)[1]["success"]
    assert shapes == {(6, 9), (3, 5)}


def test_levels_without_a_solution_are_left_out(tmp_path: Path) -> None:
    stuck, fine = "#####\n#$ .#\n# @ #\n#####\n", "#####\n#@$.#\n#####\n"
    (tmp_path / "one.xsb").write_text(stuck)
    with pytest.raises(LevelError, match=r"no level of .*one.xsb was solved among 100 drawn"):
        SokobanEnv(level_pack=str(tmp_path / "one.xsb")).reset(seed=0)
    (tmp_path / "two.xsb").write_text(f"{stuck}\n{fine}")
    env = SokobanEnv(level_pack=str(tmp_path))
    assert {env.reset(seed=seed)[1]["oracle_steps"] for seed in range(10)} == {1}


def test_a_pack_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        SokobanEnv(level_pack="no_such_pack.xsb")


# Rewards -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["moves", "pushes"])
@pytest.mark.parametrize("variant", IDS)
def test_solutions_earn_what_is_promised(variant: str, metric: solver.Metric) -> None:
    """A solution in LURD, replayed move by move: 10, 1 for each box that was not home, and -0.1 a move."""
    env = gymnasium.make(variant, max_turns=300).unwrapped
    assert isinstance(env, TextEnv)
    env.max_moves = None
    for seed in range(5):
        env.reset(seed=seed)
        level = env._level
        lurd = formats.to_lurd(level, solver.solve(level, metric=metric).moves)
        missing = len(level.goals) - board.boxes_on_goals(level, level.start)
        total, promised = 0.0, env.oracle_value()
        for direction in formats.parse_lurd(level, lurd):
            _, reward, terminated, truncated, info = env.step(grid.DIRECTIONS[direction])
            total += reward
        assert (terminated, truncated, info["success"]) == (True, False, True)
        assert total == pytest.approx(10 + missing - len(lurd) / 10, abs=1e-9)
        assert metric == "pushes" or total == pytest.approx(promised, abs=1e-9)


def test_several_moves_in_a_turn() -> None:
    env = on_level(ROOM, moves_per_turn=3)
    observation, reward, _, _, info = env.step("Right || up || DOWN")
    assert (reward, info["moves"], info["action_is_effective"]) == (-0.3, 3, True)
    assert observation.startswith("The wall holds you back.\n# # # # # # #")
    _, reward, *_, info = env.step("Down || Fly")
    assert (reward, info["action_is_valid"], info["moves"]) == (-0.1, False, 0)
    assert "one to 3 moves joined by ||" in env.instructions


def test_sparse_rewards() -> None:
    env = SokobanEnv(reward="sparse", invalid_penalty=0.0)
    for seed in range(10):
        env.reset(seed=seed)
        assert env.oracle_value() == 1
        assert env.step("Fly")[1] == 0
        assert finish(env)[0] == 1


# The oracle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", IDS)
@pytest.mark.parametrize("split", SPLITS)
def test_the_oracle_always_finishes_and_earns_its_value(variant: str, split: str) -> None:
    env = gymnasium.make(variant, split=split)
    for seed in range(5):
        optimum = env.reset(seed=seed)[1]["oracle_steps"]
        promised = env.get_wrapper_attr("oracle_value")()
        total, info = finish(env)
        assert info["success"]
        assert total == pytest.approx(promised, abs=1e-9)
        assert total == pytest.approx(10 + len(env.get_wrapper_attr("_level").goals) - optimum / 10, abs=1e-9)


def test_the_oracle_finds_its_way_from_anywhere() -> None:
    env, rng = SokobanEnv(max_turns=100, moves_per_turn=2), np.random.default_rng(0)
    solved = 0
    for seed in range(30):
        env.reset(seed=seed)
        over = any(any(env.step(env.random_action(rng))[2:4]) for _ in range(3))
        if over or env.is_unsolvable():
            assert (env.oracle_action(), env.oracle_thought()) == (None, "")
            continue
        promised = env.oracle_value()
        assert finish(env)[0] == pytest.approx(promised)
        solved += 1
    assert solved > 10


def test_regret() -> None:
    env = on_level(CORNER, max_turns=20)
    assert env.oracle_action() == "Left", "push it to the wall"
    losses = {action: env.regret(action) for action in (*grid.DIRECTIONS, "Fly")}
    assert losses["Left"] == 0
    assert losses["Fly"] == 0.1, "a turn for nothing"
    assert losses["Right"] == 0.2, "there and back"
    assert all(loss is not None and loss >= 0 for loss in losses.values())
    assert env.turns_left == 20, "asking changes nothing"


def test_a_fatal_push() -> None:
    level = parse_dialect("######\n#O___#\n#_X__#\n#_P__#\n######")
    env = on_level(level, max_turns=10)
    value = env.oracle_value()
    assert env.regret("Right") == 0.2
    for action in ("Left", "Up"):  # to the box's left side
        env.step(action)
    assert env.is_unsolvable() is False
    env.step("Right")
    env.step("Right")
    assert env.is_unsolvable() is True, "the box is at the wall, and the goal on the other side"
    assert env.oracle_action() is None
    assert env.oracle_value() == pytest.approx(-0.1 * env.turns_left)
    env.set_state(dataclasses.replace(env.get_state(), board=level.start, turns=0))
    assert env.oracle_value() == value


def test_nothing_is_regretted_after_the_end() -> None:
    env = on_level(parse_dialect("######\n#PXO_#\n######"))
    env.step("Right")
    assert (env.oracle_value(), env.oracle_action(), env.oracle_thought()) == (0.0, None, "")
    with pytest.raises(ResetNeeded):
        env.regret("Right")


# Texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observation_format", views.FORMATS)
@pytest.mark.parametrize("variant", IDS)
def test_observations_are_positions_in_the_wanted_format(variant: str, observation_format: str) -> None:
    env, rng = gymnasium.make(variant, observation_format=observation_format).unwrapped, np.random.default_rng(0)
    assert isinstance(env, TextEnv)
    observation, _ = env.reset(seed=1)
    assert views.legend(observation_format) in env.instructions
    for _ in range(5):
        feedback, _, rest = observation.partition("\n")
        shown = views.parse(rest if feedback.endswith(".") else observation, observation_format)
        assert (shown.cells, shown.start) == (env._level.cells, env._board)
        observation, _, terminated, truncated, _ = env.step(env.random_action(rng))
        if terminated or truncated:
            break


def test_boards_are_the_same_as_numbers() -> None:
    env = on_level(ROOM)
    env.step("Right")
    env.step("Right")
    env.step("Down")
    symbols = views.render(ROOM, env._board, "grid").split()
    assert [("_#OX√PS").index(symbol) for symbol in symbols] == env.as_array().ravel().tolist()


def test_every_symbol_has_its_colour() -> None:
    level = parse_dialect("######\n#S√XO#\n#__X_#\n######")
    env = on_level(level, render_mode="rgb_array")
    colours = {tuple(colour) for colour in env.render()[16::32, 16::32].reshape(-1, 3).tolist()}
    assert colours == {play.COLOURS[symbol] for symbol in "#+*$. "}


# Tokens of `tiny` --------------------------------------------------------------------------------------------------


def test_thoughts_are_short_and_made_of_whole_tokens() -> None:
    tiny = pytest.importorskip("turngym.agents.tiny")
    tokenizer, env, rng = tiny.build_tokenizer(), SokobanEnv(), np.random.default_rng(0)
    for seed in range(20):
        env.reset(seed=seed)
        over = False
        while not over:
            thought = env.oracle_thought()
            count = len(tokenizer.encode(thought))
            assert count <= 40
            assert count == len(thought.replace(",", " ,").split()), "one a word"
            over = any(env.step(env.random_action(rng))[2:4])


def test_what_is_read_is_one_token_a_word() -> None:
    tokenizer = pytest.importorskip("turngym.agents.tiny").build_tokenizer()
    env = SokobanEnv()
    observation, _ = env.reset(seed=0)
    assert len(tokenizer.encode(observation)) == len(observation.replace("\n", " ; ").split()) == 59
    told = "The wall holds you back. The box could not move. You pushed every box onto a goal."
    assert len(tokenizer.encode(told)) == len(told.replace(".", " .").split())
    assert len(tokenizer.encode(replies.spell([0] * 5))) + 1 <= SokobanEnv(moves_per_turn=5).reply_tokens


# Wrappers ----------------------------------------------------------------------------------------------------------


def test_as_a_classic_environment() -> None:
    env = TabularWrapper(gymnasium.make("Sokoban-v0"), planes=7)
    for seed in range(5):
        codes, _ = env.reset(seed=seed)
        assert codes.shape == (7, 6, 6)
        assert env.action_masks().all()
        over, info = False, dict[str, Any]()
        while not over:
            action = env.oracle_action()
            assert action is not None
            codes, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        assert info["success"]


def test_with_thoughts() -> None:
    env = ReasoningWrapper(gymnasium.make("Sokoban-v0"))
    env.reset(seed=0)
    assert str(env.oracle_action()).startswith("<think>I am at ")
    assert finish(env)[1]["success"]
