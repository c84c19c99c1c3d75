"""The judge's own process: a JSON request a line in, a JSON reply a line out. Run as a script, by `judge`."""

import json
import os
import resource
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_MEMORY = 4 * 2**30


def verify(math_verify: Any, given: str, expected: str) -> bool:
    """Whether math-verify takes two answers for the same.

    Both are read as LaTeX alone: its other way to read text hands it to SymPy's parser, which evaluates.
    """
    if "$" in given:
        return False  # it would end the formula early
    latex = [math_verify.LatexExtractionConfig()]
    expected, given = (
        math_verify.parse(f"${text}$", latex, parsing_timeout=None, raise_on_error=False) for text in (expected, given)
    )
    same = bool(expected and given) and math_verify.verify(expected, given, timeout_seconds=None, raise_on_error=False)
    return bool(same)


def pose(reasoning_gym: Any, name: str, seed: int) -> dict[str, str]:
    """Question and answer of a dataset's item."""
    entry = reasoning_gym.create_dataset(name, size=1, seed=seed)[0]
    return {"question": str(entry["question"]), "answer": str(entry["answer"])}


def score(reasoning_gym: Any, name: str, seed: int, given: str) -> bool:
    """Whether a dataset gives the full score to an answer."""
    dataset = reasoning_gym.create_dataset(name, size=1, seed=seed)
    return bool(dataset.score_answer(given, dataset[0]) >= 1)


def names(reasoning_gym: Any) -> list[str]:
    """The names of reasoning-gym's datasets."""
    return sorted(reasoning_gym.factory.DATASETS)


_TASKS: dict[str, tuple[Callable[..., Any], str]] = {
    "verify": (verify, "math_verify"),
    "pose": (pose, "reasoning_gym"),
    "score": (score, "reasoning_gym"),
    "names": (names, "reasoning_gym"),
}
"""What can be asked, and the library that it needs."""


def main() -> None:
    """Answer until there is nothing more to read."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints is no reply
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    limit_s = int(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        task, library = _TASKS[request.pop("task")]
        _limit_cpu(None)
        reply: dict[str, Any] = {"result": None}
        try:
            module = import_module(library)
            print(json.dumps({"begun": True}), file=replies, flush=True)
            _limit_cpu(limit_s)
            reply = {"result": task(module, **request)}
        except ImportError as error:
            reply = {"broken": str(error)}
        except (Exception, RecursionError, MemoryError):
            pass  # no answer found
        print(json.dumps(reply), file=replies, flush=True)


def _limit_cpu(more_s: int | None) -> None:
    """Let the kernel end this process after so many more seconds of CPU time, whoever else is gone by then."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = resource.RLIM_INFINITY if more_s is None else int(used.ru_utime + used.ru_stime) + more_s + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
