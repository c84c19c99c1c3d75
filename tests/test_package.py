"""Wheel and sdist build, install into an empty environment, and work there; a missing extra names its install line."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMOKE = """
import sys, gymnasium, turngym
env = gymnasium.make("TextFrozenLake-v0")
observation, info = env.reset(seed=1)
observation, reward, terminated, truncated, info = env.step(env.get_wrapper_attr("oracle_action")())
assert info["action_is_valid"] and turngym.__version__
from turngym.envs.scores import reference
assert reference("TextFrozenLake-v0").oracle > 0.9
assert not {"torch", "transformers"} & set(sys.modules)
from turngym.agents.scripted import RandomAgent
"""


def run(*command: object, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **kwargs)


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy of what git would hand out, so that nothing else can slip into the build."""
    folder = tmp_path_factory.mktemp("source") / "turngym"
    files = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.split()
    for name in files:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def built(source) -> Path:
    done = run(sys.executable, "-m", "build", "--outdir", source / "dist", source)
    assert done.returncode == 0, done.stdout + done.stderr
    return source / "dist"


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_it_installs_into_an_empty_environment(built, kind, tmp_path) -> None:
    (package,) = built.glob(kind)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    installed = run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", package)
    assert installed.returncode == 0, installed.stderr
    smoke = run(python, "-c", SMOKE, cwd=tmp_path)
    assert smoke.returncode == 0, smoke.stderr
    listed = run(python, "-m", "turngym", "envs", cwd=tmp_path)
    assert "TextFrozenLake-v0" in listed.stdout, listed.stderr
    baseline = run(python, "-m", "turngym.baselines.ppo_llm", cwd=tmp_path)
    assert baseline.returncode == 2
    assert 'pip install "turngym[llm]"' in baseline.stderr
