"""The package exports lazily, and says how its extras are installed."""

from collections.abc import Callable

import pytest

from turngym import wrappers

_EXTRAS = {"TextParallelEnv": ("pettingzoo", "multiagent"), "make_sb3_env": ("stable_baselines3", "sb3")}


@pytest.mark.parametrize("name", [name for name in wrappers.__all__ if name not in _EXTRAS])
def test_exports_what_it_lists(name: str) -> None:
    assert getattr(wrappers, name).__name__ == name


@pytest.mark.parametrize("name", _EXTRAS)
def test_exports_what_needs_an_extra(name: str) -> None:
    pytest.importorskip(_EXTRAS[name][0])
    assert getattr(wrappers, name).__name__ == name


def test_loads_nothing_heavy(run_python: Callable[..., str]) -> None:
    light = ["ChatWrapper", "ReasoningWrapper", "TRLSpec", "TabularWrapper", "TurnBudgetWrapper", "make_sb3_env"]
    code = (
        f"import sys; from turngym.wrappers import {', '.join(light)};"
        "print(sorted({'torch', 'trl', 'datasets', 'pettingzoo', 'stable_baselines3'} & set(sys.modules)))"
    )
    assert run_python("-c", code).strip() == "[]"


@pytest.mark.parametrize(
    ("library", "extra", "use"),
    [
        ("pettingzoo", "multiagent", "wrappers.TextParallelEnv"),
        ("stable_baselines3", "sb3", "wrappers.make_sb3_env('TextFrozenLake-v0')"),
        ("datasets", "trl", "wrappers.trl.spec('TextFrozenLake-v0', [0]).train_dataset"),
    ],
)
def test_names_the_extra_that_is_missing(run_python: Callable[..., str], library: str, extra: str, use: str) -> None:
    code = f"""
import sys
sys.modules[{library!r}] = None
import turngym.wrappers.trl
from turngym import wrappers
try:
    {use}
except ImportError as error:
    print(error)
"""
    assert f'pip install "turngym[{extra}]"' in run_python("-c", code)
