"""Rules that are applied again and again."""

from turngym.envs.code_interpreter.kinds import Arguments, Kind, Rng, between, digit_sum, with_digits


def _draw_recurrence(rng: Rng, level: int) -> Arguments:
    start, factor, n = (((1, 6), (1, 2), (3, 3)), ((1, 9), (1, 3), (4, 4)), ((1, 9), (1, 4), (6, 9)))[level]
    return between(rng, start), between(rng, start), between(rng, factor), between(rng, factor), between(rng, n)


def _recurrence(a: int, b: int, p: int, q: int, n: int) -> int:
    terms = [a, b]
    while len(terms) < n:
        terms.append(p * terms[-1] + q * terms[-2])
    return terms[n - 1]


def _draw_modular_recurrence(rng: Rng, level: int) -> Arguments:
    n, modulus = (((15, 40), (50, 99)), ((10**3, 10**4), (10**4, 10**5)), ((10**5, 4 * 10**5), (10**9, 10**10)))[
        level - 3
    ]
    return *(between(rng, (1, 9)) for _ in range(4)), between(rng, n), between(rng, modulus)


def _modular_recurrence(a: int, b: int, p: int, q: int, n: int, m: int) -> int:
    """By powers of the 2x2 matrix of the step, as (x, y) with the step's matrix M satisfying M² = pM + qI."""
    x, y, base_x, base_y, steps = 0, 1, 1, 0, n - 1  # xM + yI, and the power of M to multiply by
    while steps:
        if steps & 1:
            x, y = (p * x * base_x + x * base_y + y * base_x) % m, (q * x * base_x + y * base_y) % m
        base_x, base_y = (
            (p * base_x * base_x + 2 * base_x * base_y) % m,
            (q * base_x * base_x + base_y * base_y) % m,
        )
        steps >>= 1
    return (x * b + y * a) % m


def _draw_add_digits(rng: Rng, level: int) -> Arguments:
    digits, steps = ((2, (1, 1)), (3, (1, 2)), (3, (4, 7)), (4, (12, 30)), (6, (500, 900)), (9, (2000, 4000)))[level]
    return with_digits(rng, digits), between(rng, steps)


def _add_digits(n: int, k: int) -> int:
    for _ in range(k):
        n += digit_sum(n)
    return n


KINDS = (
    Kind(
        name="recurrence",
        family="sequences",
        draw=_draw_recurrence,
        names="a b p q n",
        question=(
            "A sequence begins {a}, {b}. Each later term is {p} times the term before it plus {q} times the "
            "one before that. What is term number {n}?"
        ),
        program="for _ in range(n - 1):\n    a, b = b, p * b + q * a\nprint(a)",
        solve=_recurrence,
        levels=range(3),
    ),
    Kind(
        name="modular_recurrence",
        family="sequences",
        draw=_draw_modular_recurrence,
        names="a b p q n m",
        question=(
            "A sequence begins {a}, {b}. Each later term is {p} times the term before it plus {q} times the "
            "one before that. What is the remainder when term number {n} is divided by {m}?"
        ),
        program="for _ in range(n - 1):\n    a, b = b, (p * b + q * a) % m\nprint(a % m)",
        solve=_modular_recurrence,
        levels=range(3, 6),
    ),
    Kind(
        name="add_digits",
        family="sequences",
        draw=_draw_add_digits,
        names="n k",
        question=(
            "Begin with {n}. A step adds to the number the sum of its own decimal digits. What is it after {k} steps?"
        ),
        program="for _ in range(k):\n    n += sum(map(int, str(n)))\nprint(n)",
        solve=_add_digits,
    ),
)
