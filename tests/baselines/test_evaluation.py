"""Scores and their intervals."""

import json
import math

import gymnasium
import pytest

from turngym.agents.scripted import OracleAgent, RandomAgent
from turngym.agents.trajectory import Trajectory
from turngym.baselines import evaluate, ppo_llm
from turngym.baselines.evaluation import normalized, pass_at_k, play, score_trajectories, table
from turngym.envs.errors import TurngymError
from turngym.envs.scores import wilson_interval


def test_wilson_interval_against_published_values() -> None:
    low, high = wilson_interval(81, 263)  # Newcombe 1998, table I: 0.2553 to 0.3662
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    assert wilson_interval(0, 10)[0] == pytest.approx(0.0, abs=1e-12)
    assert wilson_interval(10, 10)[1] == pytest.approx(1.0)


def test_normalised_score() -> None:
    assert normalized(0.6, (0.2, 1.0)) == pytest.approx(0.5)
    assert math.isnan(normalized(0.5, (1.0, 1.0)))


def test_floor_and_ceiling() -> None:
    env = gymnasium.make("turngym:TextFrozenLake-v0", split="validation")
    rows = {}
    for name, agent in (("random", RandomAgent(env)), ("oracle", OracleAgent(env))):
        rows[name] = score_trajectories(play(env, agent, range(60)), (0.24, 1.0))
    assert rows["oracle"].success == 1.0
    assert 0.05 < rows["random"].success < 0.5
    assert rows["random"].invalid_rate == 0.0
    lines = table(rows).splitlines()
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1


def test_episodes_name_the_state_before_each_turn_and_after_the_last() -> None:
    env = gymnasium.make("turngym:TextFrozenLake-v0")
    episode = play(env, OracleAgent(env), [3])[0]
    assert len(episode.state_keys) == episode.turns + 1
    assert episode.state_keys[0] == env.reset(seed=3)[1]["state_key"]


def test_pass_at_k_by_hand() -> None:
    # Of 4 samples 0, 1 and 4 solve the level: 2 of them miss with 1, C(3, 2) / C(4, 2) and 0.
    assert pass_at_k([0, 1, 4], samples=4, k=2) == pytest.approx((0 + (1 - 3 / 6) + 1) / 3)
    assert pass_at_k([0, 1, 4], samples=4, k=1) == pytest.approx(5 / 12)
    assert pass_at_k([0, 1, 4], samples=4, k=4) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="k must lie in"):
        pass_at_k([1], samples=4, k=5)


def test_a_finished_run_is_evaluated_by_samples(tmp_path, capsys) -> None:
    folder = tmp_path / "run"
    small = """--demonstration-episodes 8 --sft-epochs 1 --iterations 1 --episodes 8 --validation-episodes 4 --workers 1
        --evaluation-episodes 4 --env-id TextFrozenLakeSlippery-v0""".split()  # noqa: SIM905
    assert ppo_llm.main([*small, "--output-dir", str(folder)]) == 0
    board = {path.name for path in (folder / "tensorboard").iterdir()}
    assert evaluate.main([str(folder), "--levels", "5", "--samples", "3", "--workers", "1"]) == 0
    result = json.loads((folder / "evaluation.json").read_text())
    assert (result["split"], result["levels"]) == ("test", 5)
    assert result["metrics"] == {"sft": {}, "ppo": {}}  # a lake has no tool
    for scores in (result["policies"]["sft"], result["policies"]["ppo"]):
        assert scores["pass@1"]["mean"] <= scores["pass@3"]["mean"]
    assert {path.name for path in (folder / "tensorboard").iterdir()} == board
    assert evaluate.main([str(folder), "--levels", "2", "--samples", "1", "--env-args", "size=5", "max_turns=1"]) == 0
    elsewhere = json.loads((folder / "evaluation-size=5-max_turns=1.json").read_text())
    assert elsewhere["env_args"] == ["size=5", "max_turns=1"]
    assert elsewhere["policies"]["ppo"]["pass@1"]["mean"] == 0.0  # the goal is eight steps away
    assert json.loads((folder / "evaluation.json").read_text()) == result
    capsys.readouterr()
    assert evaluate.main([str(tmp_path)]) == 2
    assert "no complete run is here" in capsys.readouterr().err
    assert evaluate.main([str(folder), "--samples", "0"]) == 2
    assert "--samples must be at least 1" in capsys.readouterr().err
    assert evaluate.main([str(folder), "--env-args", "colour=red"]) == 2
    assert "colour" in capsys.readouterr().err


def test_episodes_that_we_spoiled_count_nowhere() -> None:
    won, lost, void = (Trajectory(rewards=[reward], infos=[{}], success=reward > 0) for reward in (1.0, -1.0, -1.0))
    void.record_turn(0.0, {"valid": False, "action_is_valid": False})
    score = score_trajectories([won, lost, void], (0.0, 1.0))
    assert (score.success, score.episode_return, score.turns, score.invalid_rate) == (0.5, 0.0, 1.0, 0.0)
    assert (score.episodes, score.void) == (2, 1)
    with pytest.raises(TurngymError, match="spoiled all 1 episodes"):
        score_trajectories([void], (0.0, 1.0))
