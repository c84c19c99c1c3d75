"""Sums, products, remainders, digits and fractions."""

from fractions import Fraction

from turngym.envs.code_interpreter.kinds import Arguments, Kind, Rng, between, digit_sum, with_digits


def _draw_product_sum(rng: Rng, level: int) -> Arguments:
    first, second = ((1, 1), (2, 1), (2, 2), (4, 4), (9, 9), (25, 25))[level]
    return *sorted((with_digits(rng, first), with_digits(rng, second)), reverse=True), with_digits(rng, second)


def _draw_remainder(rng: Rng, level: int) -> Arguments:
    digits, divisor_digits = ((2, 1), (2, 1), (4, 2), (7, 3), (15, 7), (40, 18))[level]
    return with_digits(rng, digits), max(2, with_digits(rng, divisor_digits))


def _draw_digit_sum(rng: Rng, level: int) -> Arguments:
    base, exponent = (
        ((2, 31), (1, 1)),
        ((2, 31), (2, 2)),
        ((2, 12), (3, 6)),
        ((11, 30), (6, 12)),
        ((11, 99), (50, 200)),
        ((11, 99), (500, 2000)),
    )[level]
    return between(rng, base), between(rng, exponent)


def _digit_sum_of_power(base: int, exponent: int) -> int:
    return digit_sum(base**exponent)


def _draw_fraction_sum(rng: Rng, level: int) -> Arguments:
    most = (5, 9, 20, 100, 10**4, 10**9)[level]
    terms = sorted((between(rng, (1, most)), between(rng, (2, most))) for _ in range(2))
    return *terms[0], *terms[1]


KINDS = (
    Kind(
        name="product_sum",
        family="arithmetic",
        draw=_draw_product_sum,
        names="a b c",
        question="What is {a} * {b} + {c}?",
        program="print(a * b + c)",
        solve=lambda a, b, c: c + b * a,
    ),
    Kind(
        name="remainder",
        family="arithmetic",
        draw=_draw_remainder,
        names="a b",
        question="What is the remainder when {a} is divided by {b}?",
        program="print(a % b)",
        solve=lambda a, b: a - a // b * b,
    ),
    Kind(
        name="digit_sum",
        family="arithmetic",
        draw=_draw_digit_sum,
        names="a b",
        question="What is the sum of the decimal digits of {a} ** {b}?",
        program="print(sum(int(digit) for digit in str(a ** b)))",
        solve=_digit_sum_of_power,
    ),
    Kind(
        name="fraction_sum",
        family="arithmetic",
        draw=_draw_fraction_sum,
        names="a b c d",
        question="What is {a}/{b} + {c}/{d}, as a fraction?",
        program="from fractions import Fraction\nprint(Fraction(a, b) + Fraction(c, d))",
        solve=lambda a, b, c, d: Fraction(a * d + c * b, b * d),
    ),
)
