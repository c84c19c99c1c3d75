"""Small worlds that run by rules: what becomes of them?"""

from turngym.envs.code_interpreter.kinds import Arguments, Kind, Rng, between


def _draw_collatz(rng: Rng, level: int) -> Arguments:
    bounds = ((2, 8), (3, 16), (20, 90), (10**3, 10**5), (10**8, 10**9), (10**20, 10**21))
    return (between(rng, bounds[level]),)


def _collatz(n: int) -> int:
    steps = 0
    while n != 1:
        zeros = (n & -n).bit_length() - 1  # all halvings at once
        n, steps = n >> zeros, steps + zeros
        if n != 1:
            n, steps = 3 * n + 1, steps + 1
    return steps


def _draw_josephus(rng: Rng, level: int) -> Arguments:
    people, step = (
        ((2, 5), (2, 3)),
        ((3, 7), (2, 4)),
        ((8, 20), (2, 6)),
        ((40, 150), (3, 20)),
        ((2000, 9000), (5, 50)),
        ((5 * 10**4, 10**5), (5, 50)),
    )[level]
    return between(rng, people), between(rng, step)


def _josephus(n: int, k: int) -> int:
    place = 0
    for people in range(2, n + 1):
        place = (place + k) % people
    return place + 1


def _draw_queue(rng: Rng, level: int) -> Arguments:
    counters, gap, extra, customers = (
        ((1, 1), (1, 5), (1, 3), (2, 4)),
        ((1, 1), (1, 9), (1, 6), (3, 8)),
        ((2, 3), (2, 9), (1, 9), (10, 30)),
        ((3, 7), (2, 12), (1, 15), (50, 300)),
        ((5, 20), (3, 40), (1, 60), (10**3, 10**4)),
        ((20, 80), (10, 90), (1, 200), (4 * 10**4, 10**5)),
    )[level]
    c, a = between(rng, counters), between(rng, gap)
    return c, a, c * a + between(rng, extra), between(rng, customers)  # served more slowly than they come


def _queue(c: int, a: int, s: int, n: int) -> int:
    return (n - 1) // c * (s - c * a)


def _draw_doors(rng: Rng, level: int) -> Arguments:
    doors, passes = (
        ((5, 30), (1, 2)),
        ((10, 40), (2, 2)),
        ((20, 60), (3, 5)),
        ((150, 400), (10, 40)),
        ((2000, 5000), (50, 900)),
        ((10**4, 2 * 10**4), (200, 900)),
    )[level]
    return between(rng, doors), between(rng, passes)


def _doors(n: int, k: int) -> int:
    """Doors as the bits of a number, door 1 the highest of each pass."""
    doors = 0
    for step in range(1, min(n, k) + 1):
        touched = ((1 << step * (n // step)) - 1) // ((1 << step) - 1)  # n // step ones, step bits apart
        doors ^= touched << step - 1
    return doors.bit_count()


KINDS = (
    Kind(
        name="collatz",
        family="simulations",
        draw=_draw_collatz,
        names="n",
        question=(
            "Begin with {n}. A step halves an even number, and turns an odd number into three times it plus "
            "1. How many steps does it take to reach 1?"
        ),
        program="steps = 0\nwhile n != 1:\n    n = 3 * n + 1 if n % 2 else n // 2\n    steps += 1\nprint(steps)",
        solve=_collatz,
    ),
    Kind(
        name="josephus",
        family="simulations",
        draw=_draw_josephus,
        names="n k",
        question=(
            "{n} people, numbered from 1, stand in a circle. Counting begins at number 1, and whoever is "
            "counted {k} leaves; it goes on from the next until one is left. What is the number of the last "
            "one?"
        ),
        program=(
            "from collections import deque\n"
            "circle = deque(range(1, n + 1))\n"
            "while len(circle) > 1:\n"
            "    circle.rotate(1 - k)\n"
            "    circle.popleft()\n"
            "print(circle[0])"
        ),
        solve=_josephus,
    ),
    Kind(
        name="queue",
        family="simulations",
        draw=_draw_queue,
        names="c a s n",
        question=(
            "A shop has {c} counters. A customer comes every {a} minutes, the first when it opens, and goes "
            "to the first counter that is free, where each is served for {s} minutes. How many minutes does "
            "customer number {n} wait?"
        ),
        program=(
            "import heapq\n"
            "free = [0] * c\n"
            "for customer in range(n):\n"
            "    start = max(customer * a, free[0])\n"
            "    heapq.heapreplace(free, start + s)\n"
            "print(start - customer * a)"
        ),
        solve=_queue,
    ),
    Kind(
        name="doors",
        family="simulations",
        draw=_draw_doors,
        names="n k",
        question=(
            "{n} doors, numbered from 1, are closed. In pass number p, every door whose number is a multiple "
            "of p is opened if it is closed and closed if it is open. How many doors are open after {k} "
            "passes?"
        ),
        program=(
            "doors = [False] * (n + 1)\n"
            "for p in range(1, k + 1):\n"
            "    for door in range(p, n + 1, p):\n"
            "        doors[door] = not doors[door]\n"
            "print(sum(doors))"
        ),
        solve=_doors,
    ),
)
