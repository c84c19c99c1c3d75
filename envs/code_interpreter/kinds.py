"""What a kind of question is: how its arguments grow with the level, a program, and the answer.

The answer is computed here, in the trusted process, and wherever that is possible by another way than the program's, so
that a test which compares the two would find a mistake in either.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

Rng = np.random.Generator
Arguments = tuple[int | str, ...]

LEVELS = range(6)
"""0 and 1: known by heart, a program is a waste. 2 and 3: pencil and paper. 4 and 5: far beyond mental arithmetic."""


@dataclass(frozen=True)
class Kind:
    """One kind of question.

    Attributes:
        name: Its name, unique.
        family: The group of kinds that it belongs to.
        draw: Arguments for a level. Where their order makes no difference they come sorted, so that one question has
            one form.
        names: What program and question call the arguments.
        question: The question, to be formatted with the arguments.
        program: What follows the line that assigns the arguments; prints the answer.
        solve: The answer, from the arguments.
        levels: The levels that it can be asked at.
    """

    name: str
    family: str
    draw: Callable[[Rng, int], Arguments]
    names: str
    question: str
    program: str
    solve: Callable[..., int | str | Fraction]
    levels: range = LEVELS


def between(rng: Rng, bounds: tuple[int, int]) -> int:
    """A whole number within both bounds, of any size."""
    low, span = bounds[0], bounds[1] - bounds[0] + 1
    assert span > 0, f"empty range {bounds}"
    words = -(-span.bit_length() // 32) + 2  # two words more than needed: the bias of the remainder is below 2**-64
    number = 0
    for word in rng.integers(2**32, size=words):
        number = number << 32 | int(word)
    return low + number % span


def with_digits(rng: Rng, digits: int) -> int:
    """A positive number of so many decimal digits."""
    return between(rng, (10 ** (digits - 1), 10**digits - 1))


def digit_sum(number: int) -> int:
    """The sum of the decimal digits of a number that is not negative."""
    total = 0
    while number:
        number, digit = divmod(number, 10)
        total += digit
    return total
