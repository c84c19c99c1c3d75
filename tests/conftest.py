"""Shared by all tests: everything that takes `env_id` runs once for each registered environment."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from turngym.envs import ENV_IDS
from turngym.envs.errors import SandboxError

# The same examples in every run, so that a red test is red for everybody; --hypothesis-profile=default draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parents[1]

# Two threads of PyTorch gain nothing on models this small, and wait for each other without end on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "env_id" in metafunc.fixturenames:
        metafunc.parametrize("env_id", ENV_IDS)


@cache
def sandbox_refusal() -> str:
    """Why no program can be run in isolation on this machine, or ""."""
    from turngym.envs.sandbox import default_sandbox

    try:
        default_sandbox()
    except SandboxError as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what plays CodeInterpreter-v0 on a machine that cannot have its sandbox."""
    parameters = getattr(item, "callspec", None)
    played = [str(parameters.params.get(name)) for name in ("env_id", "name")] if parameters else []
    if {"CodeInterpreter-v0", "code_interpreter", "code_interpreter_out_of_turns"} & set(played) and sandbox_refusal():
        pytest.skip(f"no sandbox here: {sandbox_refusal()}")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def run_python(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run code or a module in a process of its own, away from the repository, and return what it prints."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments: str, cwd: Path = elsewhere, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", *arguments],
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
