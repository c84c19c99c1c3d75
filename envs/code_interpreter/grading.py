"""Is this the right answer? Decided here and nowhere else, and never by anything that a program printed.

A number is compared exactly, whichever way it is written. It has to be written out: an expression that is worth the
number is no answer to "how much is it". Words are compared as words. What is neither is compared by math-verify, in a
process of its own that is stopped when it takes too long (`judge`).
"""

import re
from fractions import Fraction

from turngym.envs.code_interpreter.judge import ask_judge

MAX_ANSWER = 1_000
"""Longer answers are wrong, in characters. The longest right one of our own problems has fewer than 200."""
_MAX_EXPONENT = 400
_MAX_ALGEBRA = 300

_INTEGER = r"(?:\d{1,3}(?:[, ]\d{3})+|\d+)"
_DECIMAL = rf"(?:{_INTEGER}(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(
    rf"([+-]?)({_DECIMAL})(?:[eE]([+-]?\d{{1,4}})|(?:\*|\\times|\\cdot|×)10\^\{{?([+-]?\d{{1,4}})\}}?)?"
)
_RATIO = re.compile(rf"([+-]?)(?:\\[dt]?frac\{{({_INTEGER})\}}\{{({_INTEGER})\}}|({_INTEGER})/({_INTEGER}))")
_WORDS = re.compile(r"[\w\s.:'-]+")
_CURRENCY = re.compile(r"^([+-]?)\\?[$€£]|(?:\\?[%°]|\\?[$€£])$")
_OPERATOR = re.compile(r"\s*(\\times|\\cdot|[×*/])\s*|(?<=[+-])\s+")
_GROUPS = str.maketrans("", "", ", ")
_MINUS = str.maketrans({"−": "-", "–": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " "})


def is_correct(given: str, expected: str, grader: str = "") -> bool:
    """Whether an answer is right.

    Args:
        given: What the model answered; any text.
        expected: The right answer, from a trusted source.
        grader: A dataset of reasoning-gym and the seed of its question, whose own rule then decides too; or "".

    Raises:
        JudgeError: If our own judge cannot be started; the answer is then neither right nor wrong.
    """
    if len(given) > MAX_ANSWER:
        return False
    given, expected = bare(given), bare(expected)
    if not given:
        return False
    number = as_number(expected)
    if plain(given) == plain(expected) or (number is not None and as_number(given) == number):
        return True
    if grader:
        name, seed = grader.split()
        return bool(ask_judge("score", name=name, seed=int(seed), given=given))
    if not needs_algebra(expected) or len(given) > _MAX_ALGEBRA:
        return False
    return bool(ask_judge("verify", given=given, expected=expected))


def needs_algebra(expected: str) -> bool:
    """Whether a right answer is neither a number nor words, so that math-verify has to compare."""
    expected = bare(expected)
    return as_number(expected) is None and not _WORDS.fullmatch(expected)


def bare(text: str) -> str:
    r"""The answer inside `\boxed{}`, dollar signs and a full stop, as far as they stand around all of it."""
    text = text.translate(_MINUS).strip()
    for _ in range(3):  # each can stand around the other
        text = text.removesuffix(".").rstrip() if not text.endswith("..") else text
        for opening, closing in (
            ("$$", "$$"),
            ("$", "$"),
            (r"\(", r"\)"),
            (r"\[", r"\]"),
            (r"\boxed{", "}"),
            (r"\text{", "}"),
        ):
            inside = text[len(opening) : len(text) - len(closing)]
            if text.startswith(opening) and text.endswith(closing) and inside and _is_whole(inside, opening):
                text = inside.strip()
    return text


def _is_whole(inside: str, opening: str) -> bool:
    """Whether what is inside is in one piece: `a}+{b` and `a$ or $b` are two."""
    if not opening.endswith("{"):
        return opening[-1] not in inside
    depth = 0
    for character in inside:
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return False
    return depth == 0


def as_number(text: str) -> Fraction | None:
    """The value of a number that is written out: `1,234`, `-42.0`, `.5`, `3/4`, `6.02e23`, `$7`, `7%`; else None."""
    text = _CURRENCY.sub(r"\1", _OPERATOR.sub(r"\1", text.replace("{,}", ",").replace(r"\,", ""))).strip()
    match = _RATIO.fullmatch(text)
    if match:
        above, below = (int((one or other).translate(_GROUPS)) for one, other in (match.group(2, 4), match.group(3, 5)))
        return _signed(match.group(1), Fraction(above, below)) if below else None
    match = _NUMBER.fullmatch(text)
    if not match:
        return None
    exponent = int(match.group(3) or match.group(4) or 0)
    if abs(exponent) > _MAX_EXPONENT:  # else a few characters would ask for gigabytes
        return None
    return _signed(match.group(1), Fraction(_padded(match.group(2))) * Fraction(10) ** exponent)


def _padded(decimal: str) -> str:
    """A decimal as `Fraction` reads it: no separators of thousands, a digit on either side of the point."""
    whole, _, part = decimal.translate(_GROUPS).partition(".")
    return f"{whole or 0}.{part or 0}"


def _signed(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value


def plain(text: str) -> str:
    """A text for comparison as words: case and the amount of white space make no difference."""
    return " ".join(text.casefold().split())
