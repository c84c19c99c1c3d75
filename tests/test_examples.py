"""The worked examples: one's own environment, and a stock one behind a small wrapper, train with the same command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from turngym.envs import check_text_env

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs/examples"
TINY_RUN = """--sft-epochs 1 --demonstration-episodes 8 --iterations 1 --episodes 8 --validation-episodes 4
    --evaluation-episodes 6 --workers 1""".split()  # noqa: SIM905


def train(env_id: str, folder: Path, *arguments: str) -> dict:
    """From the examples' own folder, as their docstrings say."""
    command = [sys.executable, ROOT / "baselines/ppo_llm.py", "--env-id", env_id, "--output-dir", folder, *TINY_RUN]
    done = subprocess.run([*map(str, command), *arguments], capture_output=True, text=True, cwd=EXAMPLES)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "summary.json").read_text())


def test_ones_own_env_keeps_the_contract(monkeypatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    check_text_env(gymnasium.make("number_lock:NumberLock-v0"))


def test_ones_own_env_trains(tmp_path) -> None:
    summary = train("number_lock:NumberLock-v0", tmp_path / "run")
    assert summary["oracle"]["success"] == 1.0
    assert {"random", "sft", "ppo"} <= set(summary)


@pytest.mark.parametrize("start", ["none", "file"])
def test_a_stock_env_trains(tmp_path, start) -> None:
    episodes = tmp_path / "episodes.jsonl"
    replies = ["Down", "Down", "Right", "Right", "Down", "Right"]
    episodes.write_text("\n".join(json.dumps({"seed": seed, "replies": replies}) for seed in range(8)))
    demonstrations = str(episodes) if start == "file" else "none"
    env_id = "stock_frozen_lake:StockFrozenLake-v0"
    summary = train(env_id, tmp_path / "run", "--demonstrations", demonstrations)
    assert ("sft" in summary) == (start == "file")
    assert "oracle" not in summary
    assert os.path.exists(tmp_path / "run/learning_curve.png")
