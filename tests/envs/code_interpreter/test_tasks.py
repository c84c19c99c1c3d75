"""Our own questions: their programs print the answers that are computed without them; and questions from elsewhere."""

import inspect
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.code_interpreter.env import CodeInterpreterEnv
from turngym.envs.code_interpreter.families import KINDS
from turngym.envs.code_interpreter.grading import MAX_ANSWER, is_correct, needs_algebra
from turngym.envs.code_interpreter.kinds import LEVELS, between, with_digits
from turngym.envs.code_interpreter.tasks import (
    EVALUATING,
    FAMILIES,
    SELF_REFUSING,
    UNSTABLE,
    Problem,
    ReasoningGym,
    Recorded,
    make_source,
    pose,
)
from turngym.envs.splits import SPLITS

MATH = Path(__file__).parents[4] / "shared/data/math"
BY_NAME = {kind.name: kind for kind in KINDS}
CASES = [(kind, level) for kind in KINDS for level in kind.levels]

_RUNNER = """
import contextlib, io, json, sys
for program in json.load(sys.stdin):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    print(json.dumps(printed.getvalue()))
"""


def drawn(kind_name: str, level: int, seeds: range) -> list[Problem]:
    return [pose(BY_NAME[kind_name], np.random.default_rng([level, seed]), level) for seed in seeds]


def test_every_program_prints_the_answer() -> None:
    problems = [one for kind, level in CASES for one in drawn(kind.name, level, range(20 if level < 4 else 4))]
    done = subprocess.run(
        [sys.executable, "-I", "-c", _RUNNER],
        input=json.dumps([problem.program for problem in problems]),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(printed) == len(problems) > 1500
    wrong = [one for one, text in zip(problems, printed, strict=True) if text != f"{one.answer}\n"]
    assert not wrong


@pytest.mark.parametrize("kind", BY_NAME)
def test_the_demonstrator_wins_in_the_sandbox(kind: str, needs_sandbox: None) -> None:
    env = CodeInterpreterEnv()
    for level in (BY_NAME[kind].levels[0], BY_NAME[kind].levels[-1]):
        env.reset(seed=0)
        env._level = drawn(kind, level, range(1))[0]
        while env.oracle_action() is not None:
            _, reward, _, _, info = env.step(env.oracle_action() or "")
        assert (reward, info["success"], info["interpreter"]["errors"]) == (1.0, True, 0)
        assert info["interpreter"]["calls"] == (level > 1)
    env.close()


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("product_sum", (12, 3, 4), 40),
        ("remainder", (17, 5), 2),
        ("digit_sum", (2, 15), 26),  # 32768; Project Euler 16 gives 1366 for 2 ** 1000
        ("digit_sum", (2, 1000), 1366),
        ("fraction_sum", (1, 2, 1, 3), Fraction(5, 6)),
        ("gcd", (1071, 462), 21),  # Euclid's algorithm on Wikipedia
        ("modular_power", (4, 13, 497), 445),
        ("primes", (1, 100), 25),
        ("primes", (2, 2), 1),
        ("primes", (1, 1000), 168),
        ("divisor_sum", (28,), 56),  # perfect
        ("divisor_sum", (97,), 98),
        ("divisor_sum", (720,), 2418),
        ("menu", (2, 3, 4), 24),
        ("choose", (49, 6), 13_983_816),
        ("coins", (5, "1, 2, 5"), 4),
        ("coins", (100, "1, 2, 5, 10, 20, 50"), 4562),  # Project Euler 31 without the two large coins
        ("partitions", (5,), 7),
        ("partitions", (100,), 190_569_292),
        ("recurrence", (1, 1, 1, 1, 10), 55),  # Fibonacci
        ("recurrence", (0, 1, 2, 1, 6), 29),  # Pell
        ("modular_recurrence", (1, 1, 1, 1, 100, 10**9), 261_915_075),  # the end of 354224848179261915075
        ("modular_recurrence", (3, 5, 2, 7, 1, 50), 3),
        ("modular_recurrence", (3, 5, 2, 7, 2, 50), 5),
        ("add_digits", (19, 2), 40),
        ("weekday", ("Monday", 3), "Thursday"),
        ("days_between", ("2000-02-28", "2000-03-01"), 2),
        ("days_between", ("1900-02-28", "1900-03-01"), 1),
        ("date_after", ("1999-12-31", 1), "2000-01-01"),
        ("date_after", ("2000-02-28", 1), "2000-02-29"),
        ("date_after", ("2023-02-28", 1), "2023-03-01"),
        ("date_after", ("1600-01-01", 146_097), "2000-01-01"),
        ("fridays", (2026, 2026), 3),
        ("fridays", (2000, 2399), 688),
        ("collatz", (27,), 111),
        ("collatz", (1,), 0),
        ("josephus", (41, 3), 31),
        ("josephus", (7, 2), 7),
        ("queue", (1, 2, 5, 4), 9),
        ("queue", (2, 3, 10, 5), 8),
        ("doors", (100, 100), 10),
        ("doors", (7, 2), 4),
        ("doors", (5, 9), 2),
    ],
)
def test_known_answers(name: str, arguments: tuple[Any, ...], answer: object) -> None:
    assert BY_NAME[name].solve(*arguments) == answer


@pytest.mark.parametrize("name", BY_NAME)
def test_questions_name_their_arguments_and_not_the_answer(name: str) -> None:
    kind = BY_NAME[name]
    for level in kind.levels:
        for problem in drawn(name, level, range(5)):
            assert not set("{}") & set(problem.question)
            assert all(line.rstrip() == line for line in problem.program.splitlines())
            assert problem.by_heart == (level < 2)
            assert not needs_algebra(problem.answer)
            assert len(problem.answer) <= MAX_ANSWER // 4
            assert is_correct(problem.answer, problem.answer)
            assert pickle.loads(pickle.dumps(problem)) == problem


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("level", LEVELS)
def test_every_family_has_problems_of_every_level_and_split(family: str, level: int) -> None:
    for split in SPLITS:
        env = CodeInterpreterEnv(tasks=family, difficulty=(level, level), split=split)
        keys = set()
        for seed in range(12):
            env.reset(seed=seed)
            keys.add(env._level.key)
            assert BY_NAME[env._level.key.split()[0]].family == family
        assert len(keys) > 3


def test_all_families_and_levels_come_up() -> None:
    env, kinds, by_heart = CodeInterpreterEnv(), set(), 0
    for seed in range(400):
        env.reset(seed=seed)
        kinds.add(env._level.key.split()[0])
        by_heart += env._level.by_heart
    assert kinds == set(BY_NAME)
    assert by_heart / 400 == pytest.approx(1 / 3, abs=0.1)


def test_the_order_of_terms_makes_no_second_problem() -> None:
    for name in ("product_sum", "gcd", "menu", "fraction_sum"):
        for problem in drawn(name, 0, range(30)):
            values = [int(part) for part in problem.key.partition(" ")[2].strip("()").split(",")]
            if name == "product_sum":
                assert values[0] >= values[1]
            elif name == "fraction_sum":
                assert values[:2] <= values[2:]
            else:
                assert values == sorted(values)


@given(st.integers(-(10**30), 10**30), st.integers(0, 10**30), st.integers(0, 2**32))
def test_numbers_are_drawn_within_bounds(low: int, span: int, seed: int) -> None:
    assert low <= between(np.random.default_rng(seed), (low, low + span)) <= low + span


def test_numbers_are_drawn_evenly() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount([between(rng, (3, 9)) for _ in range(7000)])[3:]
    assert counts == pytest.approx(np.full(7, 1000), abs=130)
    assert {len(str(with_digits(rng, 25))) for _ in range(100)} == {25}
    with pytest.raises(AssertionError, match="empty range"):
        between(rng, (2, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": "algebra"}, "tasks must be \"all\" or some of arithmetic, .*, got 'algebra'"),
        ({"tasks": ()}, r"tasks must be .*, got \(\)"),
        ({"tasks": ["dates", "poems"]}, "tasks must be .* got .*poems"),
        ({"difficulty": (3, 2)}, r"difficulty must be .* within 0 and 5, got \(3, 2\)"),
        ({"difficulty": (0, 6)}, r"difficulty must be .* got \(0, 6\)"),
        ({"difficulty": (0,)}, r"difficulty must be .* got \(0,\)"),
        ({"dataset": "nowhere.jsonl"}, "dataset must be a file of JSON lines, or .*, got 'nowhere.jsonl'"),
        ({"dataset": "nowhere.jsonl", "tasks": "dates"}, "cannot stand beside dataset=nowhere.jsonl"),
        ({"dataset": "reasoning_gym:word_ladder"}, "refused: its questions differ from process to process"),
        ({"dataset": "reasoning_gym:rush_hour"}, "refused: its grader does not accept its own answers"),
        ({"dataset": "reasoning_gym:countdown"}, "refused: its grader evaluates the model's answer as Python"),
        ({"timeout_s": 0}, "timeout_s must be above 0, got 0"),
        ({"max_output": 1}, "max_output must be at least 2, got 1"),
        ({"profile": "torch"}, "profile must be one of stdlib, math, science, got 'torch'"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CodeInterpreterEnv(**arguments)


def written(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in records), encoding="utf-8")
    return path


def test_questions_of_a_file(tmp_path: Path) -> None:
    path = written(
        tmp_path / "questions.jsonl",
        *({"question": f"How much is  {number} + 1?", "answer": number + 1, "source": "us"} for number in range(200)),
        "",
        {"question": "Which?", "answer": "B", "options": ["A)1", "B)2"]},
    )
    source = Recorded(path)
    rng = np.random.default_rng(0)
    problems = {problem.key: problem for problem in (source.draw(rng) for _ in range(2000))}
    assert len(problems) == 201
    assert problems["how much is 7 + 1?"] == Problem("how much is 7 + 1?", "How much is  7 + 1?", "8")
    assert problems["which?"].question == "Which?\nA)1\nB)2"
    seen = {}
    for split in SPLITS:
        env = CodeInterpreterEnv(dataset=path, split=split)
        seen[split] = {env.reset(seed=seed)[0] for seed in range(300)}
        assert env.oracle_action() == f"<answer>{env._level.answer}</answer>"
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["validation"]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{", "line 2: expected question and answer"),
        ("[1]", "line 2: expected question and answer"),
        ({"question": "x"}, "line 2: expected question and answer"),
        ({"question": "x", "answer": " "}, "line 2: question or answer is empty"),
        ({"question": "x", "answer": "1" * (MAX_ANSWER + 1)}, "line 2: .* or the answer too long"),
    ],
    ids=str,
)
def test_a_broken_line_is_named(record: Any, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "questions.jsonl", {"question": "x", "answer": "1"}, record)
    with pytest.raises(ValueError, match=message):
        Recorded(path)


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no problem"):
        make_source("all", (0, 5), written(tmp_path / "empty.jsonl"))


@pytest.mark.skipif(not MATH.is_dir(), reason="the shared problems are not on this machine")
@pytest.mark.parametrize("name", ["gsm8k_test", "svamp", "aqua_test"])
def test_shared_problems(name: str) -> None:
    env = CodeInterpreterEnv(dataset=MATH / f"{name}.jsonl", split="test")
    for seed in range(20):
        env.reset(seed=seed)
        _, reward, terminated, _, _ = env.step(env.oracle_action() or "")
        assert (reward, terminated) == (1.0, True)


_GYM_PROBLEM = """
import numpy as np
from turngym.envs.code_interpreter.tasks import ReasoningGym
print(repr(ReasoningGym("family_relationships").draw(np.random.default_rng(5))))
"""


def test_reasoning_gym(run_python: Callable[..., str]) -> None:
    pytest.importorskip("reasoning_gym")
    source = ReasoningGym("family_relationships")
    problem = source.draw(np.random.default_rng(5))
    assert run_python("-c", _GYM_PROBLEM, PYTHONHASHSEED="1") == f"{problem!r}\n"
    assert is_correct(f" {problem.answer.upper()}", problem.answer, problem.grader)
    assert not is_correct("nobody", problem.answer, problem.grader)
    env = CodeInterpreterEnv(dataset="reasoning_gym:leg_counting", split="validation")
    for seed in range(3):
        env.reset(seed=seed)
        assert env.step(env.oracle_action() or "")[1] == 1.0
        env.reset(seed=seed)
        assert env.step("<answer>-1</answer>")[1] == -1.0


def test_reasoning_gyms_own_rule_decides() -> None:
    pytest.importorskip("reasoning_gym")
    problem = ReasoningGym("number_sorting").draw(np.random.default_rng(0))
    assert is_correct(problem.answer.replace("', '", "',   '"), problem.answer, problem.grader)
    assert not is_correct("[]", problem.answer, problem.grader)


def test_refused_datasets_exist() -> None:
    pytest.importorskip("reasoning_gym")
    with pytest.raises(ValueError, match=r"reasoning_gym:sudoku9 is unknown: reasoning-gym has .*sudoku") as caught:
        ReasoningGym("sudoku9")
    with pytest.raises(ValueError, match="composite is unknown"):
        ReasoningGym("composite")
    assert all(name in str(caught.value) for name in UNSTABLE | SELF_REFUSING | EVALUATING)


def test_no_other_grader_evaluates_the_answer() -> None:
    """Read from the library's source, so that a new version has to be looked at."""
    factory = pytest.importorskip("reasoning_gym.factory")
    calls = re.compile(r"(?<![\w.])(?:eval|exec|sympify|(?:\w+\.)?parse_expr)\((?!expr|self|[lr]\w*_expr|sub_expr)")
    found = set()
    for name, (dataset, _) in factory.DATASETS.items():
        if calls.search(inspect.getsource(inspect.getmodule(dataset))):
            found.add(name)
    their_own = {"basic_arithmetic", "bitwise_arithmetic", "codeio", "number_sorting"}  # never what the model wrote
    assert found - EVALUATING - UNSTABLE - SELF_REFUSING == their_own
    assert found >= EVALUATING


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from turngym.envs.code_interpreter import tasks

    monkeypatch.setattr(tasks, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ImportError, match=r'pip install "turngym\[code\]"'):
        ReasoningGym("sudoku")
