"""Every way to the environments leads to the same registration, once, and loads nothing heavy."""

import ast
from collections.abc import Callable
from pathlib import Path

import gymnasium
import pytest

import turngym
from turngym.envs import ENV_IDS

_SPECS = """
import warnings
from gymnasium.envs.registration import registry
ours = {name: spec.to_json() for name, spec in registry.items() if "turngym" in str(spec.entry_point)}
print(sorted(ours.items()))
"""


def test_ids_are_registered_once_and_in_order() -> None:
    assert ENV_IDS[0] == "TextFrozenLake-v0"
    assert len(ENV_IDS) == len(set(ENV_IDS))
    assert all(env_id in gymnasium.registry for env_id in ENV_IDS)


def test_make_gives_the_registered_environment(env_id: str) -> None:
    env = gymnasium.make(env_id)
    assert env.spec is not None
    assert env.spec.id == env_id
    assert f"{type(env.unwrapped).__module__}:{type(env.unwrapped).__name__}" == gymnasium.spec(env_id).entry_point
    assert env.spec.max_episode_steps is None, "the turn limit is the environment's own"
    assert gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()).id == env_id


def test_the_module_prefix_imports_by_itself(run_python: Callable[..., str]) -> None:
    code = "import gymnasium; print(gymnasium.make('turngym:TextFrozenLake-v0').reset(seed=7)[0])"
    assert run_python("-c", code) == gymnasium.make("TextFrozenLake-v0").reset(seed=7)[0] + "\n"


def test_all_ways_in_register_the_same(run_python: Callable[..., str], root: Path) -> None:
    ours = run_python("-c", f"import turngym\n{_SPECS}")
    assert len(ast.literal_eval(ours)) == len(ENV_IDS)
    assert run_python("-c", f"import envs\n{_SPECS}", cwd=root) == ours
    assert run_python("-c", f"import envs, turngym, turngym.envs\n{_SPECS}", cwd=root) == ours
    assert run_python("-c", f"import turngym, envs\n{_SPECS}", cwd=root) == ours


def test_gymnasiums_own_ids_are_left_alone(run_python: Callable[..., str]) -> None:
    specs = "print([spec.to_json() for name, spec in gymnasium.registry.items() if name.startswith('Frozen')])"
    untouched = run_python("-c", f"import gymnasium; {specs}")
    assert "FrozenLake-v1" in untouched
    assert run_python("-c", f"import gymnasium, turngym; {specs}") == untouched


@pytest.mark.parametrize("module", ["turngym", "turngym.agents.scripted", "turngym.envs.checker", "turngym.__main__"])
def test_the_core_imports_nothing_heavy(run_python: Callable[..., str], module: str) -> None:
    heavy = {"torch", "transformers", "tokenizers", "tyro", "matplotlib", "pettingzoo", "pygame", "scipy", "pytest"}
    loaded = ast.literal_eval(run_python("-c", f"import {module}, sys; print([*sys.modules])"))
    assert not heavy & {name.split(".")[0] for name in loaded}


def test_importing_the_package_loads_no_environment(run_python: Callable[..., str]) -> None:
    loaded = ast.literal_eval(run_python("-c", "import turngym, sys; print([*sys.modules])"))
    assert {name for name in loaded if name.startswith("turngym")} == {"turngym", "turngym.envs", "turngym.lazy"}


def test_the_checker_is_exported_when_asked_for() -> None:
    from turngym.envs.checker import check_text_env

    assert turngym.envs.check_text_env is check_text_env
    with pytest.raises(AttributeError, match=r"module 'turngym.envs' has no attribute 'nothing'"):
        _ = turngym.envs.nothing
