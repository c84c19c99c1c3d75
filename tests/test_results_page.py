"""The page of a study of benchmarks/, from figures made by hand."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def learning(monkeypatch):
    """`benchmarks/learning.py`, which lies in no package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import learning

    return learning


def use(success: float, call_rate: float, fixed: float | None = None) -> dict[str, float | None]:
    return {"success": success, "call_rate": call_rate, "error_rate": 0.5, "fixed": fixed, "wasted": None}


def run(*uses: dict[str, float | None]) -> dict:
    by_difficulty = {str(level): each for level, each in enumerate(uses)}
    return {"tool_use": {"ppo": {"all": uses[0], "by_difficulty": by_difficulty}}}


def test_difficulties_are_means_over_the_seeds_that_say_something(learning) -> None:
    runs = {"tool": {"0": run(use(0.5, 1.0, 0.25), use(0.1, 1.0)), "1": run(use(0.5, 1.0), use(0.3, 1.0))}}
    header, _, *rows = learning.tool_use(runs)[3:]
    assert header == "| difficulty | 0 | 1 | all |"
    assert rows == [
        "| tool, ppo: success | 0.500 ± 0.000 | 0.200 ± 1.271 | 0.500 ± 0.000 |",
        "| tool, ppo: call rate | 1.000 ± 0.000 | 1.000 ± 0.000 | 1.000 ± 0.000 |",
        "| tool, ppo: error rate | 0.500 ± 0.000 | 0.500 ± 0.000 | 0.500 ± 0.000 |",
        "| tool, ppo: fixed | 0.250 |  | 0.250 |",  # and nobody wasted a program
    ]
    assert learning.tool_use({"other": {"0": {}}}) == []


def test_a_study_says_how_its_data_are_made(learning) -> None:
    for study in learning.STUDIES.values():
        for path, command in study.data.items():
            assert path in command.split()
            assert (BENCHMARKS.parent / command.split()[0]).is_file()
            assert any(path in settings.split() for settings in study.variants.values())


def summary(**policies: float) -> dict:
    return {"env_id": "A-v0", "seed": 3, "cpu_s": 10.0, **{name: {"success": each} for name, each in policies.items()}}


def test_commands_follow_each_other(learning) -> None:
    study = learning.Study("?", {"plain": "--iterations 3", "chain": "baselines/a.py --x && baselines/b.py {before}/m"})
    assert study.commands("plain") == ["baselines/ppo_llm.py --iterations 3"]
    assert study.commands("chain") == ["baselines/a.py --x", "baselines/b.py {before}/m"]


def test_what_is_kept_of_a_run(learning) -> None:
    from study_runs import record

    sft = [{"stage": "sft", "step": 0, "wall_s": 1.0, "loss": 0.5}]
    grpo = [
        {"stage": "grpo", "step": step, "wall_s": 1.0, "turns": 2.5, "entropy": step / 10}
        | ({"validation_success": 0.7} if step == 19 else {})
        for step in range(20)
    ]
    evaluation = {"policies": {"grpo": {"pass@1": 0.6}, "ppo": {}}, "metrics": {"grpo": {}, "ppo": {}}}
    first, second = summary(random=0.1, sft=0.5, ppo=0.5), summary(random=0.1, grpo=0.8)
    kept = record([(first, 0, sft), (second, 8, grpo)], evaluation, threads=2)
    assert {name: kept[name]["success"] for name in ("random", "sft", "grpo")} == {
        "random": 0.1,
        "sft": 0.5,
        "grpo": 0.8,
    }
    assert "ppo" not in kept  # no iteration of it was made: those are the weights of sft
    assert kept["sampled"] == {"grpo": {"pass@1": 0.6}}
    assert (kept["cpu_s"], kept["training_turns"], kept["threads"]) == (20.0, 20 * 8 * 2.5, 2)
    assert kept["curve"]["entropy"] == pytest.approx([(4 * tenth + 1) / 20 for tenth in range(10)])
    assert kept["curve"]["validation_success"] == [None] * 9 + [0.7]
