"""Array-style functions that numba compiles where it is installed (extra `fast`), and that run as they are elsewhere.

Import this from modules that hold kernels alone, and those inside the functions that need them: numba takes half a
second to import, which nobody should pay who only plays.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

numba: Any
try:
    import numba
except ModuleNotFoundError:
    numba = None

COMPILED: bool = numba is not None and not numba.config.DISABLE_JIT
"""Whether kernels are compiled: numba is installed, and NUMBA_DISABLE_JIT is not set."""


def jit(function: Function) -> Function:
    """Compile a function on its first call, and keep the result on disk for the next process.

    The function may use numbers, arrays and other functions decorated so, and must not call itself: a recursive
    function that numba loads from its cache crashes the interpreter.
    """
    return cast(Function, numba.njit(cache=True)(function)) if COMPILED else function


def vector(values: Iterable[Any], dtype: Any = np.int64) -> Any:
    """A one-dimensional array where kernels are compiled; a list elsewhere, which plain Python indexes faster."""
    return np.array(list(values), dtype) if COMPILED else list(values)
