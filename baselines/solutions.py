"""Our own questions of CodeInterpreter-v0 solved in several ways: what a model may begin to imitate.

A template turns a question into replies. The answer is read off the interpreter's output and is not known beforehand,
so that a program which is wrong gives an episode that fails, and is found out.
"""

import ast
import re
from collections.abc import Callable

import numpy as np

from turngym.envs.code_interpreter.families import KINDS
from turngym.envs.code_interpreter.output import CLOSING, OPENING
from turngym.envs.code_interpreter.tasks import Problem

_NAMES = {kind.name: kind.names.split() for kind in KINDS}
_BEFORE = ("A program will tell.", "I will compute this.", "This takes a program.")
_AFTER = ("The output tells:", "The program printed it:", "So it is")

OTHER_PROGRAMS = {
    "product_sum": "total = a * b\ntotal += c\nprint(total)",
    "remainder": "print(divmod(a, b)[1])",
    "digit_sum": (
        "total, rest = 0, a ** b\nwhile rest:\n    rest, digit = divmod(rest, 10)\n    total += digit\nprint(total)"
    ),
    "fraction_sum": (
        "import math\n"
        "top, bottom = a * d + c * b, b * d\n"
        "common = math.gcd(top, bottom)\n"
        "print(f'{top // common}/{bottom // common}')"
    ),
    "gcd": "while b:\n    a, b = b, a % b\nprint(a)",
    "modular_power": (
        "result = 1\n"
        "while b:\n"
        "    if b % 2:\n"
        "        result = result * a % m\n"
        "    a, b = a * a % m, b // 2\n"
        "print(result % m)"
    ),
    "primes": (
        "prime = [True] * (b + 1)\n"
        "for n in range(2, int(b ** 0.5) + 1):\n"
        "    for multiple in range(n * n, b + 1, n):\n"
        "        prime[multiple] = False\n"
        "print(sum(prime[n] for n in range(max(a, 2), b + 1)))"
    ),
    "divisor_sum": (
        "total, d = 0, 1\n"
        "while d * d <= n:\n"
        "    if n % d == 0:\n"
        "        total += d if d * d == n else d + n // d\n"
        "    d += 1\n"
        "print(total)"
    ),
    "menu": "import math\nprint(math.prod([a, b, c]))",
    "choose": "ways = 1\nfor i in range(k):\n    ways = ways * (n - i) // (i + 1)\nprint(ways)",
    "coins": (
        "ways = [1] * (n + 1)\n"
        "for coin in coins.split(', ')[1:]:\n"
        "    for total in range(int(coin), n + 1):\n"
        "        ways[total] += ways[total - int(coin)]\n"
        "print(ways[-1])"
    ),
    "partitions": (
        "sums = [sum(d for d in range(1, k + 1) if k % d == 0) for k in range(1, n + 1)]\n"
        "ways = [1]\n"
        "for m in range(1, n + 1):\n"
        "    ways.append(sum(map(int.__mul__, sums, reversed(ways))) // m)\n"
        "print(ways[n])"
    ),
    "recurrence": (
        "terms = [a, b]\nwhile len(terms) < n:\n    terms.append(p * terms[-1] + q * terms[-2])\nprint(terms[n - 1])"
    ),
    "modular_recurrence": (
        "terms = [a, b]\n"
        "while len(terms) < n:\n"
        "    terms.append((p * terms[-1] + q * terms[-2]) % m)\n"
        "print(terms[n - 1] % m)"
    ),
    "add_digits": "while k:\n    for digit in str(n):\n        n += int(digit)\n    k -= 1\nprint(n)",
    "weekday": (
        "days = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday']\n"
        "place = days.index(day) + n\n"
        "print(days[place % 7])"
    ),
    "days_between": (
        "from datetime import date\nprint(date.fromisoformat(last).toordinal() - date.fromisoformat(first).toordinal())"
    ),
    "date_after": ("from datetime import date\nprint(date.fromordinal(date.fromisoformat(first).toordinal() + n))"),
    "fridays": (
        "from datetime import date\n"
        "total = 0\n"
        "for year in range(a, b + 1):\n"
        "    for month in range(1, 13):\n"
        "        total += date(year, month, 13).weekday() == 4\n"
        "print(total)"
    ),
    "collatz": (
        "steps = 0\n"
        "while n > 1:\n"
        "    if n % 2:\n"
        "        n = 3 * n + 1\n"
        "    else:\n"
        "        n //= 2\n"
        "    steps += 1\n"
        "print(steps)"
    ),
    "josephus": "place = 0\nfor people in range(2, n + 1):\n    place = (place + k) % people\nprint(place + 1)",
    "queue": "rounds = (n - 1) // c\nprint(rounds * (s - c * a))",
    "doors": ("opened = set()\nfor p in range(1, k + 1):\n    opened ^= set(range(p, n + 1, p))\nprint(len(opened))"),
}
"""A second program for each kind, after the line that names its arguments; another way than the first, where there is
one that is as short."""


def _named(problem: Problem, rng: np.random.Generator) -> list[str]:
    """The oracle's own: its arguments by name, then the program."""
    return [_call(problem.program)]


def _other(problem: Problem, rng: np.random.Generator) -> list[str]:
    """Another program."""
    return [_call(_second_program(problem))]


def _inline(problem: Problem, rng: np.random.Generator) -> list[str]:
    """One of both, with the numbers where they are needed."""
    program = problem.program if rng.integers(2) else _second_program(problem)
    return [_call(inlined(program.partition("\n")[2], _values(problem)))]


def _fenced(problem: Problem, rng: np.random.Generator) -> list[str]:
    """One of both after a word of what is meant, in a fence, as ReTool's models write it."""
    program = problem.program if rng.integers(2) else _second_program(problem)
    said = _BEFORE[rng.integers(len(_BEFORE))]
    return [f"{said}\n" + _call(f"```python\n{program}\n```")]


def _checked(problem: Problem, rng: np.random.Generator) -> list[str]:
    """One, and then the other to check what it printed."""
    return [_call(problem.program), f"Let me check this in another way.\n{_call(_second_program(problem))}"]


TEMPLATES: dict[str, Callable[[Problem, np.random.Generator], list[str]]] = {
    "named": _named,
    "other": _other,
    "inline": _inline,
    "fenced": _fenced,
    "checked": _checked,
    "text": lambda problem, rng: [],
}
"""Ways to write the programs of a solution, by name; "text" does without, as a policy that has no tool must."""

_WORDY = ("fenced", "checked")


class TemplateAgent:
    """Solves a question by a template, and answers with the last line that the interpreter showed it.

    A question that is known by heart is answered at once, and so is every one by the template "text".

    Args:
        problem: The question, one of our own.
        template: One of `TEMPLATES`.
        rng: Draws what a template leaves open.

    Raises:
        ValueError: If there is no such template, or the question comes from a dataset, which has no programs.
    """

    def __init__(self, problem: Problem, template: str, rng: np.random.Generator) -> None:
        if template not in TEMPLATES:
            raise ValueError(f"templates must be some of {', '.join(TEMPLATES)}, got {template!r}")
        if not problem.kind:
            raise ValueError("templates solve our own questions alone: a dataset's are solved by a model, see --help")
        self._programs = [] if problem.by_heart else TEMPLATES[template](problem, rng)
        self._known = "" if self._programs else problem.answer
        self._lead = f"{_AFTER[rng.integers(len(_AFTER))]} " if self._programs and template in _WORDY else ""

    def act(self, observation: str) -> str:
        """The next program, or the answer."""
        if self._programs:
            return self._programs.pop(0)
        return f"{self._lead}<answer>{self._known or last_line(observation)}</answer>"


def last_line(observation: str) -> str:
    """The last line of an interpreter's output, or "" where there is none."""
    shown = observation.partition(f"{OPENING}\n")[2].rpartition(f"\n{CLOSING}")[0]
    return shown.rpartition("\n")[2].strip()


def inlined(program: str, values: dict[str, int | str]) -> str:
    """A program with values in the place of names; names that it assigns to itself are set in a line before it."""
    tree = ast.parse(program)
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for name in values.keys() - stored:
        program = re.sub(rf"\b{name}\b", lambda match, name=name: repr(values[name]), program)
    kept = [name for name in values if name in stored]
    if not kept:
        return program
    return f"{', '.join(kept)} = {', '.join(repr(values[name]) for name in kept)}\n{program}"


def _call(source: str) -> str:
    return f"<code>\n{source}\n</code>"


def _values(problem: Problem) -> dict[str, int | str]:
    return dict(zip(_NAMES[problem.kind], problem.arguments, strict=True))


def _second_program(problem: Problem) -> str:
    naming, _, _ = problem.program.partition("\n")
    return f"{naming}\n{OTHER_PROGRAMS[problem.kind]}"
