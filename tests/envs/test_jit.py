"""Kernels run compiled where numba is installed, and as plain Python where it is not, to the same results."""

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """
import sys
if {hidden}:
    sys.modules["numba"] = None  # importing it now fails as if it were not installed
from turngym.envs.jit import COMPILED, jit, vector

@jit
def total(values):
    found = 0
    for index in range(len(values)):
        found += values[index]
    return found

print(COMPILED, total(vector([1, 2, 3])), type(vector([1])).__name__)
"""


def test_without_numba(run_python: Callable[..., str]) -> None:
    assert run_python("-c", PROGRAM.format(hidden=True)).split() == ["False", "6", "list"]


def test_with_numba_switched_off(run_python: Callable[..., str]) -> None:
    pytest.importorskip("numba")
    assert run_python("-c", PROGRAM.format(hidden=False), NUMBA_DISABLE_JIT="1").split() == ["False", "6", "list"]


def test_compiled(run_python: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("numba")
    program = tmp_path / "program.py"  # numba keeps what it compiles beside the source
    program.write_text(PROGRAM.format(hidden=False))
    assert run_python(str(program)).split() == ["True", "6", "ndarray"]
