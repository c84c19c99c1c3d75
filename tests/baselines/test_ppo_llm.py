"""The PPO baseline: what its loss sees, and the command line from the outside."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from turngym.agents import LLMPolicy, Trajectory, collect_rollout, tiny
from turngym.agents.models import PolicyModel
from turngym.baselines import policy_gradient, ppo_llm
from turngym.baselines.estimators import ESTIMATORS
from turngym.baselines.parallel import Workers
from turngym.baselines.policy_gradient import set_gradients
from turngym.baselines.ppo_llm import Args, objective
from turngym.baselines.run import Run, limited, reply_tokens
from turngym.baselines.samples import Sample, critic_samples

ROOT = Path(__file__).parents[2]
SMALL = Args(workers=1, max_new_tokens=3)


@pytest.fixture(scope="module")
def model() -> PolicyModel:
    model = PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")
    torch.nn.init.normal_(model.value_head.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    return model


@pytest.fixture(scope="module")
def trajectories(model) -> list[Trajectory]:
    envs = [gymnasium.make("turngym:TextFrozenLake-v0", max_turns=3) for _ in range(8)]
    played = collect_rollout(LLMPolicy(model, max_new_tokens=3), envs, range(8))
    for index, each in enumerate(played):
        each.rewards[-1] += index % 2  # so that there is something to learn from
    return played


def run_with(model: PolicyModel, args: Args = SMALL, workers: int = 1) -> Run:
    return Run(args, model, {}, Workers(workers), folder=None)


def samples_of(trajectories: list[Trajectory]) -> list[Sample]:
    return critic_samples(trajectories, ESTIMATORS["gae"], turn_gamma=0.95, turn_lambda=0.95)


def test_a_scale_of_rewards_is_what_the_environment_might_have_paid(trajectories) -> None:
    paid = [replace(each, rewards=[10 * reward for reward in each.rewards]) for each in trajectories]
    discounts = {"turn_gamma": 0.95, "turn_lambda": 0.95}
    for one, other in zip(
        samples_of(trajectories), critic_samples(paid, ESTIMATORS["gae"], reward_scale=0.1, **discounts), strict=True
    ):
        torch.testing.assert_close(one.returns, other.returns)
        torch.testing.assert_close(one.advantages, other.advantages)
        assert other.trajectory.rewards == [10 * reward for reward in one.trajectory.rewards]


def batch_gradients(run: Run, samples: list[Sample]) -> dict[str, float]:
    return set_gradients(run, samples, objective)


def gradients(model: PolicyModel, samples: list, args: Args = SMALL, workers: int = 1) -> list[torch.Tensor]:
    batch_gradients(run_with(model, args, workers), samples)
    return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]


def test_the_first_ratio_is_one(model, trajectories) -> None:
    metrics = batch_gradients(run_with(model), samples_of(trajectories))
    assert metrics["ratio_error"] < 1e-4
    assert metrics["clip_fraction"] == 0.0
    assert abs(metrics["approximate_kl"]) < 1e-6


def test_one_batch_of_eight_is_eight_batches_of_one(model, trajectories) -> None:
    samples = samples_of(trajectories)
    whole = gradients(model, samples, Args(max_tokens=10**6))
    split = gradients(model, samples, Args(max_tokens=1))
    shared, again = (gradients(model, samples, Args(max_tokens=1), workers=2) for _ in range(2))
    for one, many, threads, repeated in zip(whole, split, shared, again, strict=True):
        torch.testing.assert_close(one, many, atol=1e-5, rtol=1e-3)
        torch.testing.assert_close(many, threads, atol=1e-5, rtol=1e-3)
        assert torch.equal(threads, repeated)


def test_only_positions_before_sampled_tokens_are_trained(model, trajectories) -> None:
    """The gradient reaches a last hidden state exactly where the next token was sampled."""
    (trajectory, *_) = trajectories
    kept = {}

    def keep(self, ids, attended, positions, cache=None):
        kept["hidden"] = hidden(self, ids, attended, positions, cache)
        kept["hidden"].retain_grad()
        return kept["hidden"]

    hidden = PolicyModel.hidden
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PolicyModel, "hidden", keep)
        scores = model.score([trajectory])
        (scores.log_probs.sum() + scores.values.sum() + scores.entropy.sum()).backward()
    touched = kept["hidden"].grad[0].abs().sum(-1) > 0
    assert touched.nonzero().flatten().tolist() == [at - 1 for at in trajectory.policy_positions()]
    model.zero_grad()


def test_what_stands_at_observation_logits_does_not_matter(model, trajectories) -> None:
    samples = samples_of(trajectories)
    before = batch_gradients(run_with(model), samples)
    sampled = {at - 1 for at in samples[0].trajectory.policy_positions()}
    hidden = PolicyModel.hidden

    def disturb(self, ids, attended, positions, cache=None):
        states = hidden(self, ids, attended, positions, cache)
        noise = torch.zeros_like(states)
        noise[0, [at for at in range(states.shape[1]) if at not in sampled]] = 100.0
        return states + noise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PolicyModel, "hidden", disturb)
        after = batch_gradients(run_with(model), samples[:1])
    alone = batch_gradients(run_with(model), samples[:1])
    assert {name: after[name] for name in alone if name != "ratio_error"} == {
        name: alone[name] for name in alone if name != "ratio_error"
    }
    assert before["policy_loss"] != alone["policy_loss"]


@pytest.mark.parametrize("turns", [1, 3])
def test_no_reward_at_all_stays_finite(model, turns) -> None:
    envs = [gymnasium.make("turngym:TextFrozenLake-v0", max_turns=turns, invalid_penalty=0.0) for _ in range(2)]
    played = collect_rollout(LLMPolicy(model, max_new_tokens=2), envs, [0, 1])
    for each in played:
        each.rewards = [0.0] * each.turns
    metrics = batch_gradients(run_with(model), samples_of(played))
    assert all(map(math.isfinite, metrics.values()))
    assert all(bool(weight.grad.isfinite().all()) for weight in model.parameters() if weight.grad is not None)
    single = samples_of(played[:1])
    assert all(map(math.isfinite, batch_gradients(run_with(model), single).values()))


def test_a_spoiled_sample_teaches_nothing(model, trajectories) -> None:
    assert len(samples_of(trajectories)) == 8
    trajectories[3].valid = False
    samples = samples_of(trajectories)
    trajectories[3].valid = True
    assert [sample.trajectory.seed for sample in samples] == [0, 1, 2, 4, 5, 6, 7]


def test_advantages_are_white_over_all_sampled_tokens(model, trajectories) -> None:
    advantages = torch.cat([sample.advantages for sample in samples_of(trajectories)])
    assert abs(advantages.mean()) < 1e-6
    assert abs(advantages.std(unbiased=False) - 1) < 1e-5


def test_the_schedule_rises_and_falls() -> None:
    rates = [policy_gradient.schedule(iteration, 100) for iteration in range(100)]
    assert np.argmax(rates) == 4
    assert rates[0] < 0.25
    assert 0.1 < rates[-1] < 0.12


def test_levels_are_tried_again_until_they_are_solved() -> None:
    def episode(seed: int, success: bool) -> Trajectory:
        played = Trajectory(seed=seed)
        played.record_turn(0.0, {"success": success})
        return played

    failed = policy_gradient.still_failed([], [episode(1, False), episode(2, True), episode(3, False)])
    assert failed == [1, 3]
    failed = policy_gradient.still_failed(failed, [episode(3, False), episode(3, True), episode(4, False)])
    assert failed == [1, 4]
    assert policy_gradient.still_failed(failed, [episode(1, False)]) == [4, 1]
    many = [episode(seed, False) for seed in range(3000)]
    assert policy_gradient.still_failed(failed, many)[-1] == 2999
    assert len(policy_gradient.still_failed(failed, many)) < 3000


def test_a_share_of_each_rollout_is_a_second_try(model) -> None:
    seeds: list[int] = []

    class Recorder(Run):
        def rollout(self, split, given, **settings):
            seeds[:] = given
            return []

    run = Recorder(Args(episodes=12, group_size=3, retry_share=0.5, workers=1), model, {}, Workers(1), folder=None)
    policy_gradient.play(run, 0, [5, 6, 7, 8])
    tried = [seed for seed in seeds if seed < 10]
    assert len(seeds) == 12
    assert len(tried) == 6
    assert len(set(tried)) == 2
    assert len(set(seeds)) == 4
    policy_gradient.play(run, 0, [5])
    assert sum(seed < 10 for seed in seeds) == 3


BAD_INPUT = {
    "an unknown id": (["--env-id", "TextFrozenPond-v0"], "TextFrozenLake-v0"),
    "an id with a typing error": (["--env-id", "TextFrozenLak-v0"], "TextFrozenLake"),
    "a missing module": (["--env-id", "nowhere:Env-v0"], "nowhere"),
    "an env without text": (["--env-id", "CartPole-v1"], "text"),
    "an unknown model": (["--model", "huge"], "Allowed are tiny"),
    "a size out of range": (["--env-args", "size=99"], "size must be between 2 and 32, got 99"),
    "an unknown argument": (["--env-args", "colour=blue"], "colour"),
    "no argument at all": (["--env-args", "size"], "name=value"),
    "a negative seed": (["--seed", "-1"], "--seed must be at least 0, got -1"),
    "no such demonstrations": (["--demonstrations", "expert"], "allowed are oracle, rstar2, none, or an existing file"),
    "nothing to go on with": (["--resume", "nowhere"], "no run was begun here"),
    "more second tries than levels": (["--retry-share", "1.5"], "--retry-share must lie in 0 .. 1, got 1.5"),
    "rewards times nothing": (["--reward-scale", "0"], "--reward-scale must be above 0, got 0.0"),
    "no workers": (["--workers", "0"], "--workers must be at least 1, got 0"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gives_one_clear_line_and_code_2(case, tmp_path, capsys) -> None:
    arguments, expected = BAD_INPUT[case]
    if "--resume" not in arguments:
        arguments = [*arguments, "--output-dir", str(tmp_path / "run")]
    assert ppo_llm.main(arguments) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert len(message.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_quick_run_has_fewer_episodes_where_replies_are_long() -> None:
    short, long = (
        limited(Args(env_id=each), iterations=8, episodes=128) for each in ("Bandit-v0", "CodeInterpreter-v0")
    )
    assert (short.episodes, short.iterations, short.demonstration_episodes) == (128, 8, 300)
    assert 8 * long.episodes < short.episodes
    assert long.demonstration_episodes > 8 * long.episodes  # to read a reply costs little, to write it much
    assert limited(Args(iterations=0, episodes=5), iterations=8, episodes=128).iterations == 0
    assert limited(Args(max_new_tokens=10**6), iterations=8, episodes=128).episodes == 1
    with pytest.raises(ValueError, match="TextFrozenLake-v0"):
        limited(Args(env_id="Pond-v0"), iterations=8, episodes=128)


def test_a_quick_run_has_fewer_episodes_where_they_are_long() -> None:
    few, many = (
        limited(Args(env_id="Sokoban-v0", env_args=(f"max_turns={turns}",)), iterations=8, episodes=128).episodes
        for turns in (40, 4)
    )
    assert many == 128
    assert few <= many // 7
    assert limited(Args(), iterations=8, episodes=128).episodes == 128


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path, capsys) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    assert ppo_llm.main(["--output-dir", str(tmp_path)]) == 2
    assert "this is in use" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_help_teaches_every_setting() -> None:
    done = subprocess.run([sys.executable, ROOT / "baselines/ppo_llm.py", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    for setting in Args.__dataclass_fields__:
        assert f"--{setting.replace('_', '-')}" in text
    assert "Discount from turn to turn" in text


def test_a_whole_run_from_the_command_line(tmp_path) -> None:
    """Demonstrations, SFT, PPO, the table, and everything that the folder should hold."""
    folder = tmp_path / "run"
    command = f"baselines/ppo_llm.py --quick --demonstration-episodes 40 --sft-epochs 1 --iterations 2 --episodes 16 \
        --validate-every 1 --validation-episodes 16 --evaluation-episodes 20 --seed 3 --output-dir {folder}"
    done = subprocess.run([sys.executable, *command.split()], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "not a result" in done.stdout
    assert "success=" in done.stderr  # the progress bars
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["env_id"] == "TextFrozenLake-v0"
    assert summary["seed"] == 3
    assert summary["oracle"]["success"] == 1.0
    for row in ("random", "sft", "ppo", "oracle"):
        assert set(summary[row]) >= {"success", "success_interval", "normalized", "episodes"}
        assert summary[row]["episodes"] == 20
    stages = [json.loads(line)["stage"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert stages == ["sft", "ppo", "ppo"]
    episode = json.loads((folder / "trajectories.jsonl").read_text().splitlines()[0])
    assert len(episode["ids"]) == len(episode["policy_mask"])
    assert "<|assistant|>" in episode["text"]
    assert (folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"sft.safetensors", "ppo.safetensors"}
    assert list((folder / "tensorboard").iterdir())


@pytest.mark.parametrize(
    "settings",
    [
        ["--reply-format", "think", "--max-new-tokens", "12", "--env-args", "max_turns=3"],
        ["--group-size", "4", "--kl-coefficient", "0.1", "--critic-warmup", "1", "--estimator", "bi_level"],
    ],
    ids=["thoughts", "everything else"],
)
def test_the_other_settings_train(settings, tmp_path) -> None:
    folder = tmp_path / "run"
    common = """--demonstration-episodes 8 --sft-epochs 1 --iterations 2 --episodes 8 --validate-every 2 --workers 1
        --validation-episodes 4 --evaluation-episodes 4""".split()  # noqa: SIM905
    assert ppo_llm.main([*common, *settings, "--output-dir", str(folder)]) == 0
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert all(math.isfinite(value) for line in lines for value in line.values() if isinstance(value, float))
    if "--group-size" in settings:
        assert "group_reward_std" in lines[-1]
        assert lines[1]["approximate_kl"] == pytest.approx(0.0, abs=1e-6)  # the critic alone learned
        assert lines[2]["reference_kl"] == pytest.approx(0.0, abs=1e-3)
    else:
        assert "reference_kl" not in lines[-1]
        episode = json.loads((folder / "trajectories.jsonl").read_text().splitlines()[0])
        assert "Think first, then act" in episode["text"]


def test_thoughts_are_told_from_actions() -> None:
    from turngym.agents.templates import turn_format
    from turngym.baselines.demonstrations import oracle_demonstrations
    from turngym.wrappers import ReasoningWrapper

    form = turn_format(tiny.build_tokenizer())
    env = ReasoningWrapper(gymnasium.make("turngym:TextFrozenLake-v0"))
    (episode,) = oracle_demonstrations(env, form, [0])
    thought = [token for token, part in zip(episode.ids, episode.segment, strict=True) if part == "thought"]
    action = [token for token, part in zip(episode.ids, episode.segment, strict=True) if part == "action"]
    assert form.tokenizer.decode(thought).startswith("<think>I am at")
    assert form.tokenizer.decode(thought).endswith("</think>")
    assert form.tokenizer.decode(action).startswith("<answer>")
    assert episode.success


@pytest.mark.parametrize(
    ("name", "reply_format", "tokens"),
    [("TextFrozenLake-v0", "action", 8), ("TextFrozenLake-v0", "think", 64), ("CodeInterpreter-v0", "action", 160)],
)
def test_an_environment_says_how_long_its_replies_are(name: str, reply_format: str, tokens: int) -> None:
    assert reply_tokens(gymnasium.make(f"turngym:{name}"), reply_format) == tokens
