"""The questions of our own problems, a module a family."""

from turngym.envs.code_interpreter.families import (
    arithmetic,
    combinatorics,
    dates,
    number_theory,
    sequences,
    simulations,
)
from turngym.envs.code_interpreter.kinds import Kind

KINDS: tuple[Kind, ...] = (
    *arithmetic.KINDS,
    *number_theory.KINDS,
    *combinatorics.KINDS,
    *sequences.KINDS,
    *dates.KINDS,
    *simulations.KINDS,
)
