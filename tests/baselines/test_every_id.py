"""Every registered id starts, trains one short iteration and ends with its table."""

import json
import math

import gymnasium
import pytest

from turngym.baselines import ppo_llm

SHORT = """--demonstration-episodes 4 --sft-epochs 1 --iterations 1 --episodes 2 --validate-every 1
    --validation-episodes 1 --evaluation-episodes 2 --workers 1""".split()  # noqa: SIM905


@pytest.mark.slow
def test_an_id_trains_from_start_to_table(env_id: str, tmp_path, capsys) -> None:
    folder = tmp_path / "run"
    limit = gymnasium.make(env_id).get_wrapper_attr("max_turns")
    arguments = ["--env-args", "max_turns=1x"] if isinstance(limit, str) else []  # as short as can be solved
    assert ppo_llm.main(["--env-id", env_id, *arguments, *SHORT, "--output-dir", str(folder)]) == 0
    summary = json.loads((folder / "summary.json").read_text())
    printed = capsys.readouterr().out
    for row in ("random", "sft", "ppo", "oracle"):
        assert summary[row]["episodes"] == 2
        assert any(line.split()[:1] == [row] for line in printed.splitlines())
    assert ("\nppo, tool use\n" in printed) == (env_id == "CodeInterpreter-v0")
    assert summary["oracle"]["success"] >= summary["random"]["success"]
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in metrics] == ["sft", "ppo"]
    assert all(math.isfinite(value) for line in metrics for value in line.values() if isinstance(value, float))
