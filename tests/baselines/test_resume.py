"""An interrupted run goes on to the very same weights as one that was left alone."""

import hashlib
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from turngym.baselines import ppo_llm

ROOT = Path(__file__).parents[2]
SETTINGS = """--demonstration-episodes 24 --sft-epochs 3 --sft-batch 8 --iterations 4 --episodes 12 --checkpoint-every 1
    --validate-every 2 --validation-episodes 8 --evaluation-episodes 8 --workers 2 --seed 5""".split()  # noqa: SIM905
LINES = 3 + 4  # of metrics.jsonl in a whole run


def start(arguments: list[str]) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "baselines/ppo_llm.py"), *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def traces(folder: Path) -> dict[str, object]:
    """What must not differ: weights to the bit, metrics and episodes without their times."""
    weights = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("checkpoints/*")}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    episodes = (folder / "trajectories.jsonl").read_text()
    timeless = [
        {name: value for name, value in each.items() if name not in ("wall_s", "cpu_s")} for each in [*lines, summary]
    ]
    return {"weights": weights, "lines": timeless, "episodes": episodes}


def kill_when(process: subprocess.Popen, folder: Path, lines: int, mercy: int) -> None:
    """SIGKILL after so many metrics lines and then so many lines of progress output: a moment of no meaning."""
    assert process.stderr is not None
    metrics = folder / "metrics.jsonl"
    while process.poll() is None:
        process.stderr.read(1 + mercy)
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= lines:
            process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert ppo_llm.main([*SETTINGS, "--output-dir", str(folder)]) == 0
    return traces(folder)


def interrupted_run(folder: Path, moments: list[tuple[int, int]]) -> dict[str, object]:
    arguments = [*SETTINGS, "--output-dir", str(folder)]
    for lines, mercy in moments:
        kill_when(start(arguments), folder, lines, mercy)
        assert not (folder / "summary.json").exists()
        arguments = ["--resume", str(folder)]
    assert ppo_llm.main(arguments) == 0
    return traces(folder)


def test_killed_in_sft_and_in_ppo(undisturbed, tmp_path) -> None:
    assert interrupted_run(tmp_path / "run", [(1, 3), (5, 40)]) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_random_moments(undisturbed, tmp_path, seed) -> None:
    rng = random.Random(seed)
    moments = sorted((rng.randrange(LINES), rng.randrange(80)) for _ in range(3))
    assert interrupted_run(tmp_path / "run", moments) == undisturbed


def test_a_complete_run_is_not_resumed(tmp_path, capsys) -> None:
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "summary.json").write_text("{}")
    assert ppo_llm.main(["--resume", str(folder)]) == 2
    assert "this run is complete" in capsys.readouterr().err


def test_other_settings_may_not_stand_beside_resume(tmp_path, capsys) -> None:
    assert ppo_llm.main(["--resume", str(tmp_path), "--seed", "3"]) == 2
    assert "leave the other settings out" in capsys.readouterr().err
