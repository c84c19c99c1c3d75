"""CodeInterpreter-v0 for a model that rewrites solutions: with each question it reads one that is known to be right.

    python -m turngym.agents.api --env-id turngym.baselines.rewriting:CodeInterpreterRewriting-v0 --split train ...

ReTool's cold start lets a model replace what a solution works out by hand with programs and what they print. Here the
model plays the environment itself, so every output is the interpreter's. `cold_start.py` checks the replies and keeps
them without what the model was shown.
"""

from typing import Any

import gymnasium
from gymnasium.envs.registration import register, registry
from gymnasium.utils import RecordConstructorArgs

from turngym.envs.code_interpreter.env import CodeInterpreterEnv
from turngym.envs.code_interpreter.tasks import Problem

ID = "CodeInterpreterRewriting-v0"
TASK = (
    "Write a solution of your own for a reader who has not seen this one. Say in a few words what is to be computed, "
    "let a program compute it instead of working it out by hand, read what it prints, and answer. Where there is "
    "nothing to compute, answer at once."
)


class RewritingWrapper(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Shows a solution below the question, once.

    Args:
        env: A CodeInterpreter environment, wrapped or not.
    """

    def __init__(self, env: gymnasium.Env[str, str]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode with the question, a solution and what is to be done with it."""
        question, info = self.env.reset(seed=seed, options=options)
        known = known_solution(self.env.get_wrapper_attr("problem"))
        return f"{question}\n\nFor you alone, a solution:\n{known}\n\n{TASK}", info


def known_solution(problem: Problem) -> str:
    """A worked solution where the dataset has one; else the program that finds the answer; else the answer alone."""
    if problem.solution:
        return f"{problem.solution}\nSo the answer is {problem.answer}."
    if problem.program and not problem.by_heart:
        return f"The answer is {problem.answer}, as this program prints:\n{problem.program}"
    return f"The answer is {problem.answer}."


def make(**arguments: Any) -> gymnasium.Env[str, str]:
    """CodeInterpreter-v0 with these arguments, and a solution shown with each question."""
    return RewritingWrapper(CodeInterpreterEnv(**arguments))


if ID not in registry:
    register(ID, entry_point="turngym.baselines.rewriting:make")
