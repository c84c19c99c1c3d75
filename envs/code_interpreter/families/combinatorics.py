"""How many ways there are."""

from itertools import count

from turngym.envs.code_interpreter.kinds import Arguments, Kind, Rng, between


def _draw_menu(rng: Rng, level: int) -> Arguments:
    low, high = ((2, 9), (4, 12), (12, 60), (100, 999), (10**5, 10**6), (10**14, 10**15))[level]
    return tuple(sorted(between(rng, (low, high)) for _ in range(3)))


def _draw_choose(rng: Rng, level: int) -> Arguments:
    n = between(rng, ((3, 8), (5, 9), (9, 15), (16, 40), (60, 140), (150, 400))[level])
    return n, between(rng, (1, n - 1) if level < 3 else (n // 4, n - n // 4))


def _choose(n: int, k: int) -> int:
    ways = 1
    for index in range(1, k + 1):
        ways = ways * (n - k + index) // index
    return ways


_COINS = (1, 2, 5, 10, 20, 50)


def _draw_coins(rng: Rng, level: int) -> Arguments:
    amount, coins = (((3, 20), 2), ((10, 40), 2), ((20, 60), 3), ((80, 300), 4), ((500, 1500), 6), ((2000, 6000), 6))[
        level
    ]
    return between(rng, amount), ", ".join(map(str, _COINS[:coins]))


def _coins(amount: int, coins: str) -> int:
    ways = [1] * (amount + 1)  # with coins of 1 alone
    for coin in map(int, coins.split(", ")[1:]):
        for offset in range(coin):
            total = 0
            for place in range(offset, amount + 1, coin):
                total += ways[place]
                ways[place] = total
    return ways[amount]


def _draw_partitions(rng: Rng, level: int) -> Arguments:
    return (between(rng, ((3, 6), (5, 9), (10, 18), (20, 50), (60, 160), (200, 500))[level]),)


def _partitions(n: int) -> int:
    """By Euler's pentagonal numbers."""
    ways = [1]
    for total in range(1, n + 1):
        found = 0
        for index in count(1):
            first = index * (3 * index - 1) // 2
            if first > total:
                break
            pair = ways[total - first] + (ways[total - first - index] if first + index <= total else 0)
            found += pair if index % 2 else -pair
        ways.append(found)
    return ways[n]


KINDS = (
    Kind(
        name="menu",
        family="combinatorics",
        draw=_draw_menu,
        names="a b c",
        question=("A menu has {a} starters, {b} main courses and {c} desserts. How many meals of all three are there?"),
        program="print(a * b * c)",
        solve=lambda a, b, c: c * (b * a),
    ),
    Kind(
        name="choose",
        family="combinatorics",
        draw=_draw_choose,
        names="n k",
        question="In how many ways can {k} of {n} different things be chosen, order aside?",
        program="import math\nprint(math.comb(n, k))",
        solve=_choose,
    ),
    Kind(
        name="coins",
        family="combinatorics",
        draw=_draw_coins,
        names="n coins",
        question="In how many ways can {n} be paid with coins of {coins}, order aside?",
        program=(
            "ways = [1] + [0] * n\n"
            "for coin in map(int, coins.split(', ')):\n"
            "    for total in range(coin, n + 1):\n"
            "        ways[total] += ways[total - coin]\n"
            "print(ways[n])"
        ),
        solve=_coins,
    ),
    Kind(
        name="partitions",
        family="combinatorics",
        draw=_draw_partitions,
        names="n",
        question="In how many ways can {n} be written as a sum of one or more positive whole numbers, order aside?",
        program=(
            "ways = [1] + [0] * n\n"
            "for part in range(1, n + 1):\n"
            "    for total in range(part, n + 1):\n"
            "        ways[total] += ways[total - part]\n"
            "print(ways[n])"
        ),
        solve=_partitions,
    ),
)
