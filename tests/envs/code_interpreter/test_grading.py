"""Right and wrong answers, and answers that are meant to break whoever reads them."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.code_interpreter import judge
from turngym.envs.code_interpreter.grading import MAX_ANSWER, as_number, is_correct, needs_algebra
from turngym.envs.code_interpreter.judge import Judge, JudgeError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("42", "42"),
        (" 42 \n", "42"),
        ("+42", "42"),
        ("042", "42"),
        ("42.0", "42"),
        ("42.", "42"),
        ("4.2e1", "42"),
        (r"\boxed{42}", "42"),
        (r"$\boxed{42}$.", "42"),
        (r"$$42$$", "42"),
        (r"\(42\)", "42"),
        (r"\[ 42 \]", "42"),
        ("1,234", "1234"),
        ("1{,}234", "1234"),
        (r"1\,234", "1234"),
        ("1 234 567", "1234567"),
        ("1\u202f234", "1234"),
        ("−7", "-7"),
        ("- 7", "-7"),
        ("-0", "0"),
        ("3/4", "0.75"),
        ("0.75", "3/4"),
        ("6 / 8", "3/4"),
        (r"\frac{3}{4}", "3/4"),
        (r"-\dfrac{3}{4}", "-3/4"),
        (".5", "1/2"),
        ("84/2", "42"),
        ("$18", "18"),
        (r"\$18", "18"),
        ("-$18", "-18"),
        ("18 €", "18"),
        ("50%", "50"),
        (r"6.02 \times 10^{23}", "602000000000000000000000"),
        ("tuesday", "Tuesday"),
        (r"\text{Tuesday}.", "Tuesday"),
        ("The  cat", "the cat"),
        ("b", "B"),
        ("1987-03-04", "1987-03-04"),
        (str(math.comb(400, 200)), str(math.comb(400, 200))),
    ],
)
def test_right_answers(given: str, expected: str) -> None:
    assert is_correct(given, expected)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "42"),
        (".", "42"),
        ("$$", "42"),
        ("41", "42"),
        ("42 or 43", "42"),
        ("42 43", "42"),
        ("x = 42", "42"),
        ("forty-two", "42"),
        ("6*7", "42"),  # an expression is no answer
        ("6**2 + 6", "42"),
        ("int('42')", "42"),
        ("answer", "42"),
        ("4 2", "42"),
        ("12,34", "1234"),
        ("1,2345", "12345"),
        ("3,5", "3.5"),
        ("--42", "42"),
        ("42%%", "42"),
        ("1/0", "1"),
        ("0/0", "0.5"),
        ("3/4/5", "0.15"),
        ("0x2a", "42"),
        ("42j", "42"),
        ("4_2", "42"),
        ("inf", "42"),
        ("nan", "nan2"),
        ("\\boxed{4}\\boxed{2}", "42"),
        ("\\boxed{42", "42"),
        ("$4$2$", "42"),
        ("Monday or Tuesday", "Tuesday"),
        ("Tues", "Tuesday"),
        ("A, B, C, D, E", "B"),
        ("1987-3-4", "1987-03-04"),
        ("1987-03-04", "1980"),  # 1987 - 3 - 4
        ("0.3333333333333333", "1/3"),
        ("9" * MAX_ANSWER, "9"),
        ("42" + " " * MAX_ANSWER, "42"),
    ],
)
def test_wrong_answers(given: str, expected: str) -> None:
    assert not is_correct(given, expected)


@pytest.mark.parametrize(
    "given",
    [
        "9**9**9",
        "10^10^10",
        "9^{9^{9^{9}}}",
        "1e400",
        "1e9999",
        "1e99999999999",
        "-1e-9999",
        r"1 \times 10^{9999}",
        "1" * 999,
        "1," * 400,
        "1 " * 400,
        "1/" * 400,
        "{" * 900,
        r"\boxed{" * 100,
        "\\frac{" * 100,
        "$" * 999,
        "e" * 999,
        "__import__('os').abort()",
        "\x00",
        "\ud800",
        "९",
        "((((((((" * 100,
    ],
    ids=lambda text: ascii(text[:20]),
)
@pytest.mark.parametrize("expected", ["42", "Tuesday"])
def test_hostile_answers_are_wrong_at_once(given: str, expected: str) -> None:
    start = perf_counter()
    assert not is_correct(given, expected)
    assert perf_counter() - start < 0.2


@given(st.text(max_size=60) | st.text("0123456789.,/-+eE$%\\{} ", max_size=40))
def test_any_text_is_a_number_or_not(text: str) -> None:
    number = as_number(text)
    assert number is None or isinstance(number, Fraction)


@given(st.fractions())
def test_a_number_is_itself_however_it_is_written(number: Fraction) -> None:
    assert as_number(str(number)) == number
    assert as_number(f"{number.numerator:,}") == number.numerator
    assert is_correct(f"\\boxed{{{number}}}", str(number))
    assert not is_correct(str(number + 1), str(number))


def test_what_needs_algebra() -> None:
    assert not any(map(needs_algebra, ["42", "3/4", "Tuesday", "1987-03-04", "B", r"\boxed{7}", "$5$"]))
    assert all(map(needs_algebra, [r"\sqrt{2}", "(1,2)", "x+1", r"\frac{\pi}{2}", "[0, 1)"]))


class TestAlgebra:
    @pytest.fixture(autouse=True)
    def _needs_math_verify(self) -> None:
        pytest.importorskip("math_verify")

    @pytest.mark.parametrize(
        ("given", "expected", "right"),
        [
            (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}", True),
            ("y + x + 1", "1 + x + y", True),
            ("(1, 2)", "(1,2)", True),
            (r"\frac{\pi}{2}", r"\pi/2", True),
            ("x + 1", "1 + x + y", False),
            (r"\sqrt{3}", r"\sqrt{2}", False),
            (r"\sqrt{2}$ or $\sqrt{3}", r"\sqrt{2}", False),
            ("__import__('os').abort()", r"\sqrt{2}", False),
            ("\x00", r"\sqrt{2}", False),
            ("\ud800", r"\sqrt{2}", False),
            ("(" * 300, r"\sqrt{2}", False),
        ],
    )
    def test_it_is_compared(self, given: str, expected: str, right: bool) -> None:
        assert is_correct(given, expected) is right

    def test_it_is_bounded_in_any_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(judge, "TIMEOUT_S", 1.0)
        mine = Judge()

        def ask(given: str) -> Any:
            return mine.ask({"task": "verify", "given": given, "expected": r"\sqrt{2}"})

        with ThreadPoolExecutor(4) as threads:
            hard = threads.submit(ask, "9^{9^{9^{9}}}")
            easy = [threads.submit(ask, r"\frac{2}{\sqrt{2}}") for _ in range(6)]
            assert hard.result() is None
            assert all(one.result() for one in easy)
        mine.close()


def test_a_judge_that_cannot_start_is_our_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge.sys, "executable", "/bin/false")
    broken = Judge()
    for _ in range(2):
        with pytest.raises(JudgeError, match="did not start"):
            broken.ask({"task": "verify", "given": "1", "expected": "x"})
    broken.close()


def test_a_judge_that_was_killed_is_started_again() -> None:
    pytest.importorskip("math_verify")
    mine = Judge()
    question = {"task": "verify", "given": "1+x", "expected": "x+1"}
    assert mine.ask(question) is True
    assert mine._worker is not None
    mine._worker.process.kill()
    mine._worker.process.wait()
    assert mine.ask(question) is True
    mine.close()
    mine.close()


def test_a_missing_library_is_our_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    reply = json.dumps({"broken": "No module named x"})
    script.write_text(f"while input(): print({reply!r}, flush=True)", encoding="utf-8")
    monkeypatch.setattr(judge, "_WORKER", script)
    mine = Judge()
    for _ in range(2):
        with pytest.raises(JudgeError, match="the judge cannot answer: No module named x"):
            mine.ask({"task": "verify"})
    mine.close()
