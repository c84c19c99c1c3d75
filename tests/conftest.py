"""Shared by all tests: everything that takes `env_id` runs once for each registered environment."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from turngym.envs import ENV_IDS

# The same examples in every run, so that a red test is red for everybody; --hypothesis-profile=default draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parents[1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "env_id" in metafunc.fixturenames:
        metafunc.parametrize("env_id", ENV_IDS)


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
