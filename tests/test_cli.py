"""The command line: what it prints, where, and with which exit code."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from turngym.__main__ import main
from turngym.envs import ENV_IDS, scores

_BROKEN = """
import gymnasium
from turngym.envs.frozen_lake import TextFrozenLakeEnv

class Broken(TextFrozenLakeEnv):
    def random_action(self, rng):
        return "Fly"

gymnasium.register("Broken-v0", Broken)
"""


def test_envs_lists_every_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["id", "random", "oracle"]
    assert [row.split()[0] for row in rows] == ENV_IDS
    assert f"{scores.reference(ENV_IDS[0]).random:.1%} [" in rows[0]


def test_envs_shows_what_was_not_measured_yet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scores, "REFERENCE_FILE", tmp_path / "none.json")
    assert main(["envs"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [ENV_IDS[0], "-", "-"]


def test_check_passes_a_good_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "turngym:TextFrozenLake-v0"]) == 0
    assert capsys.readouterr().out == "turngym:TextFrozenLake-v0 keeps the text-environment contract\n"


def test_check_finds_a_module_in_the_working_directory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "my_broken_module.py").write_text(_BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the working directory
    assert main(["check", "my_broken_module:Broken-v0"]) == 1
    told = capsys.readouterr()
    assert "found info['action_is_valid'] False for 'Fly' from random_action" in told.out
    assert told.err == ""


def test_overlap_counts_nothing_shared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["overlap", "TextFrozenLake-v0", "--levels", "150"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "TextFrozenLake-v0: 150 levels drawn of each split"
    assert lines[-3:] == [
        "levels shared by train and validation: 0",
        "levels shared by train and test: 0",
        "levels shared by validation and test: 0",
    ]


def test_scores_writes_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    file.write_text(scores.REFERENCE_FILE.read_text())
    before = json.loads(file.read_text())
    assert main(["scores", "--env-id", ENV_IDS[0], "--episodes", "20", "--output", str(file)]) == 0
    after = json.loads(file.read_text())
    assert after.pop(ENV_IDS[0])["episodes"] == 20
    before.pop(ENV_IDS[0])
    assert after == before
    assert capsys.readouterr().out.startswith(f"{ENV_IDS[0]}: random ")


def play(monkeypatch: pytest.MonkeyPatch, typed: str, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    return main(["play", "TextFrozenLake-v0", *arguments])


def test_play_shows_the_rules_gives_hints_and_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert play(monkeypatch, "?\nFly\n ? \nUp\n", "--seed", "7") == 0
    told = capsys.readouterr().out
    assert told.startswith("You walk on a frozen lake.")
    assert told.count("> Up\n") == 2, "the oracle's hint, twice"
    assert "I could not read a move." in told
    assert told.endswith("\nWell done: you earned 0.9.\n")


def test_play_can_be_left(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for typed in ("", "quit\n", "Down\nquit\nUp\n"):
        assert play(monkeypatch, typed, "--seed", "7", "--split", "train") == 0
        assert capsys.readouterr().out.endswith("You left.\n")


def test_play_says_how_it_ended(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(monkeypatch, "Right\n" * 12, "--seed", "7") == 0
    assert capsys.readouterr().out.endswith("\nNo turns left: you earned 0.\n")
    assert play(monkeypatch, "Up\n", "--seed", "3", "--split", "test") == 0
    assert capsys.readouterr().out.endswith("\nThat was the end: you earned 0.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND (see turngym --help)"),
        (["fly"], "argument COMMAND: invalid choice: 'fly'"),
        (["check"], "the following arguments are required: ENV_ID (see turngym check --help)"),
        (["check", "Sudoku-v0"], "argument ENV_ID: Environment `Sudoku` doesn't exist; turngym envs lists ours"),
        (["check", "no_such_module:Sudoku-v0"], "argument ENV_ID: No module named 'no_such_module'"),
        (["check", "not an id"], "argument ENV_ID: "),
        (["overlap", "FrozenLake-v1"], "env_id must name a TextEnv, whose levels can be compared, got 'FrozenLake-v1'"),
        (["overlap", "TextFrozenLake-v0", "--levels", "0"], "must be a whole number of at least 1, got '0'"),
        (["scores", "--env-id", "Sudoku-v0"], "argument --env-id: Environment `Sudoku` doesn't exist"),
        (["scores", "--episodes", "many"], "argument --episodes: must be a whole number of at least 1, got 'many'"),
        (["play", "TextFrozenLake-v0", "--split", "dev"], "argument --split: invalid choice: 'dev'"),
        (
            ["play", "TextFrozenLake-v0", "--seed", "-1"],
            "argument --seed: must be a whole number of at least 0, got '-1'",
        ),
        (["play", "FrozenLake-v1"], "FrozenLake-v1 cannot be played in words: it has no instructions"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_code_two(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("turngym: ")
    assert message in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("command", ["", "envs", "check", "overlap", "scores", "play"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: turngym {command}".rstrip())


def test_the_module_runs_and_its_code_is_the_exit_code(run_python: Callable[..., str]) -> None:
    assert run_python("-m", "turngym", "envs").startswith("id ")
    with pytest.raises(AssertionError, match="turngym: argument ENV_ID: Environment `Sudoku` doesn't exist"):
        run_python("-m", "turngym", "check", "Sudoku-v0")
