"""Divisors, primes and modular powers."""

from functools import cache

from turngym.envs.code_interpreter.kinds import Arguments, Kind, Rng, between


def _draw_gcd(rng: Rng, level: int) -> Arguments:
    common, most = ((6, 6), (9, 9), (20, 30), (99, 999), (10**5, 10**6), (10**12, 10**15))[level]
    factor = between(rng, (2, common))
    return tuple(sorted(factor * between(rng, (1, most)) for _ in range(2)))


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _draw_modular_power(rng: Rng, level: int) -> Arguments:
    base, exponent, modulus = (
        ((2, 9), (2, 2), (3, 9)),
        ((2, 9), (2, 3), (5, 19)),
        ((3, 30), (5, 12), (7, 60)),
        ((11, 99), (20, 99), (101, 999)),
        ((10**5, 10**6), (10**5, 10**6), (10**6, 10**7)),
        ((10**11, 10**12), (10**11, 10**12), (10**12, 10**13)),
    )[level]
    return between(rng, base), between(rng, exponent), between(rng, modulus)


def _modular_power(a: int, b: int, m: int) -> int:
    result, square = 1, a % m
    while b:
        if b & 1:
            result = result * square % m
        square, b = square * square % m, b >> 1
    return result


def _draw_primes(rng: Rng, level: int) -> Arguments:
    start, width = (
        ((2, 20), (3, 9)),
        ((5, 50), (8, 14)),
        ((50, 300), (30, 60)),
        ((1000, 5000), (100, 300)),
        ((10**4, 10**5), (1000, 2000)),
        ((10**5, 9 * 10**5), (3000, 6000)),
    )[level]
    first = between(rng, start)
    return first, first + between(rng, width)


def _primes_between(a: int, b: int) -> int:
    return sum(_sieve(10**6)[a : b + 1])


@cache
def _sieve(limit: int) -> bytearray:
    """1 at every prime below the limit."""
    is_prime = bytearray([1]) * limit
    is_prime[:2] = b"\0\0"
    for number in range(2, int(limit**0.5) + 1):
        if is_prime[number]:
            is_prime[number * number :: number] = bytes(len(range(number * number, limit, number)))
    return is_prime


def _draw_divisor_sum(rng: Rng, level: int) -> Arguments:
    bounds = ((2, 12), (10, 40), (60, 400), (10**3, 10**4), (10**6, 10**7), (10**10, 10**11))
    return (between(rng, bounds[level]),)


def _divisor_sum(n: int) -> int:
    total, prime = 1, 2
    while prime * prime <= n:
        powers = 1
        while n % prime == 0:
            n //= prime
            powers = powers * prime + 1
        total *= powers
        prime += 1 if prime == 2 else 2
    return total * (n + 1) if n > 1 else total


KINDS = (
    Kind(
        name="gcd",
        family="number_theory",
        draw=_draw_gcd,
        names="a b",
        question="What is the greatest common divisor of {a} and {b}?",
        program="import math\nprint(math.gcd(a, b))",
        solve=_gcd,
    ),
    Kind(
        name="modular_power",
        family="number_theory",
        draw=_draw_modular_power,
        names="a b m",
        question="What is the remainder when {a} ** {b} is divided by {m}?",
        program="print(pow(a, b, m))",
        solve=_modular_power,
    ),
    Kind(
        name="primes",
        family="number_theory",
        draw=_draw_primes,
        names="a b",
        question="How many prime numbers are there from {a} to {b}, both included?",
        program="print(sum(n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in range(a, b + 1)))",
        solve=_primes_between,
    ),
    Kind(
        name="divisor_sum",
        family="number_theory",
        draw=_draw_divisor_sum,
        names="n",
        question="What is the sum of all positive divisors of {n}, 1 and {n} included?",
        program="print(sum({x for d in range(1, int(n ** 0.5) + 1) if n % d == 0 for x in (d, n // d)}))",
        solve=_divisor_sum,
    ),
)
