"""Where questions come from: our own kinds, a file of questions and answers, or a dataset of reasoning-gym."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from turngym.envs.code_interpreter.families import KINDS
from turngym.envs.code_interpreter.grading import MAX_ANSWER, needs_algebra
from turngym.envs.code_interpreter.judge import JudgeError, ask_judge
from turngym.envs.code_interpreter.kinds import LEVELS, Arguments, Kind
from turngym.lazy import require

FAMILIES = tuple(dict.fromkeys(kind.family for kind in KINDS))
BY_HEART = 1
"""Up to this level a question is answered at once: to run a program for it would be a waste."""

UNSTABLE = {"isomorphic_strings", "polynomial_multiplication", "ransom_note", "word_ladder"}
"""Datasets whose questions change with the process's hash seed (reasoning-gym 0.1.25)."""
SELF_REFUSING = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Datasets that give no full score to their own answer (reasoning-gym 0.1.25), so that nothing could be learned."""
EVALUATING = {
    "binary_matrix",
    "countdown",
    "intermediate_integration",
    "n_queens",
    "puzzle24",
    "simple_integration",
    "spiral_matrix",
    "string_insertion",
}
"""Datasets whose grader evaluates the answer as Python (reasoning-gym 0.1.25): the model's code would run outside."""

_PREFIX = "reasoning_gym:"


@dataclass(frozen=True)
class Problem:
    """A question with one right answer.

    Attributes:
        key: What makes it this problem and no other; decides its split.
        question: What the model is asked.
        answer: The right answer.
        program: A program that prints the answer, or "" where none is known.
        by_heart: Whether whoever knows the answer should give it at once, rather than run a program.
        grader: Who decides where the answer is not simply compared: a dataset of reasoning-gym and the seed of the
            question, or "".
        difficulty: Its level, for our own questions; None for others.
        kind: Its kind, for our own questions; "" for others.
        arguments: What that kind drew, in the order of its names.
        solution: A worked solution in words, where a dataset has one, or "".
    """

    key: str
    question: str
    answer: str
    program: str = ""
    by_heart: bool = True
    grader: str = ""
    difficulty: int | None = None
    kind: str = ""
    arguments: Arguments = ()
    solution: str = ""


class Source(Protocol):
    """A stream of problems, of whatever split."""

    def draw(self, rng: np.random.Generator) -> Problem:
        """The next problem."""


def make_source(tasks: str | Sequence[str], difficulty: tuple[int, int], dataset: str | Path | None) -> Source:
    """The source that the environment's arguments ask for; `ValueError` where they cannot be served."""
    if dataset is None:
        return Procedural(tasks, difficulty)
    if tasks != "all" or tuple(difficulty) != (LEVELS[0], LEVELS[-1]):
        raise ValueError(
            f"tasks and difficulty choose among our own problems and cannot stand beside dataset={dataset}"
        )
    if isinstance(dataset, str) and dataset.startswith(_PREFIX):
        return ReasoningGym(dataset.removeprefix(_PREFIX))
    return Recorded(Path(dataset))


class Procedural:
    """Our own problems: a level, a family and a kind of it, each equally likely, and arguments for the level.

    Args:
        tasks: Names of families, one or several, or "all".
        difficulty: First and last level, both included.
    """

    def __init__(
        self, tasks: str | Sequence[str] = "all", difficulty: tuple[int, int] = (LEVELS[0], LEVELS[-1])
    ) -> None:
        families = FAMILIES if tasks == "all" else (tasks,) if isinstance(tasks, str) else tuple(tasks)
        if not families or not set(families) <= set(FAMILIES):
            raise ValueError(f'tasks must be "all" or some of {", ".join(FAMILIES)}, got {tasks!r}')
        if len(difficulty) != 2 or not LEVELS[0] <= difficulty[0] <= difficulty[1] <= LEVELS[-1]:
            raise ValueError(
                f"difficulty must be a first and a last level within {LEVELS[0]} and {LEVELS[-1]}, got {difficulty!r}"
            )
        self._families, self._levels = families, range(difficulty[0], difficulty[1] + 1)

    def draw(self, rng: np.random.Generator) -> Problem:
        """The next problem."""
        level = self._levels[rng.integers(len(self._levels))]
        kinds = kinds_of(self._families[rng.integers(len(self._families))], level)
        return pose(kinds[rng.integers(len(kinds))], rng, level)


@cache
def kinds_of(family: str, level: int) -> tuple[Kind, ...]:
    """The kinds of a family that can be asked at a level; there is at least one."""
    return tuple(kind for kind in KINDS if kind.family == family and level in kind.levels)


def pose(kind: Kind, rng: np.random.Generator, level: int) -> Problem:
    """A problem of one kind and level."""
    arguments = kind.draw(rng, level)
    names = kind.names.split()
    values = f"{', '.join(names)} = {', '.join(map(repr, arguments))}"
    return Problem(
        key=f"{kind.name} {arguments!r}",
        question=kind.question.format(**dict(zip(names, arguments, strict=True))),
        answer=str(kind.solve(*arguments)),
        program=f"{values}\n{kind.program}",
        by_heart=level <= BY_HEART,
        difficulty=level,
        kind=kind.name,
        arguments=arguments,
    )


class Recorded:
    """Problems of a file with a JSON object a line: `question`, `answer`, and `options` or a `solution` where known.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ValueError(f'dataset must be a file of JSON lines, or "{_PREFIX}<name>", got {str(path)!r}')
        told = path.stat()
        self._problems = _read(path.resolve(), told.st_mtime_ns, told.st_size)
        if any(needs_algebra(problem.answer) for problem in self._problems):
            require("math_verify", "code")

    def draw(self, rng: np.random.Generator) -> Problem:
        """One of them."""
        return self._problems[rng.integers(len(self._problems))]


@lru_cache(maxsize=8)
def _read(path: Path, changed_ns: int, size: int) -> tuple[Problem, ...]:
    """The problems of a file, read once for all environments of a process while the file stays as it is."""
    lines = path.read_text(encoding="utf-8").splitlines()
    problems = tuple(_recorded(path, number, line) for number, line in enumerate(lines, 1) if line.strip())
    if not problems:
        raise ValueError(f"dataset {path} holds no problem")
    return problems


def _recorded(path: Path, number: int, line: str) -> Problem:
    try:
        record: dict[str, Any] = json.loads(line)
        question, answer = str(record["question"]).strip(), str(record["answer"]).strip()
        options = [str(option) for option in record.get("options") or ()]
        solution = str(record.get("solution") or "").strip()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"dataset {path}, line {number}: expected question and answer ({error!r})") from error
    if not question or not answer or len(answer) > MAX_ANSWER:
        raise ValueError(f"dataset {path}, line {number}: question or answer is empty, or the answer too long")
    key, asked = " ".join(question.lower().split()), "\n".join([question, *options])
    return Problem(key, asked, answer, solution=solution)


class ReasoningGym:
    """Problems of a dataset of reasoning-gym with its default settings; one seed, one problem.

    They are made in the judge's process: its hash seed is fixed, and whatever global randomness a dataset uses is not
    ours.

    Args:
        name: The dataset.
    """

    def __init__(self, name: str) -> None:
        for refused, why in (
            (UNSTABLE, "its questions differ from process to process"),
            (SELF_REFUSING, "its grader does not accept its own answers"),
            (EVALUATING, "its grader evaluates the model's answer as Python, outside of any sandbox"),
        ):
            if name in refused:
                raise ValueError(f"dataset {_PREFIX}{name} is refused: {why}")
        if find_spec("reasoning_gym") is None:
            require("reasoning_gym", "code")
        names = ask_judge("names")
        if name not in names or name == "composite":  # which needs settings
            raise ValueError(f"dataset {_PREFIX}{name} is unknown: reasoning-gym has {', '.join(names)}")
        self._name = name

    def draw(self, rng: np.random.Generator) -> Problem:
        """The next problem."""
        seed = int(rng.integers(2**31))
        item = ask_judge("pose", name=self._name, seed=seed)
        if item is None:
            raise JudgeError(f"reasoning-gym made no item of {self._name} with seed {seed} in time")
        question, answer = str(item["question"]).strip(), str(item["answer"]).strip()
        return Problem(question, question, answer, grader=f"{self._name} {seed}")
