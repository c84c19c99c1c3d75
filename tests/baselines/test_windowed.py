"""Training on one sample a turn: credit comes from the whole episode."""

import dataclasses

import gymnasium
import pytest
import torch

from turngym.agents import LLMPolicy, Trajectory, tiny
from turngym.agents.models import PolicyModel
from turngym.baselines import ppo_llm
from turngym.baselines.demonstrations import oracle_demonstrations
from turngym.baselines.environments import make_envs
from turngym.baselines.estimators import ESTIMATORS
from turngym.baselines.parallel import Workers
from turngym.baselines.policy_gradient import Learner
from turngym.baselines.run import Run, demonstrated
from turngym.baselines.samples import concatenated, critic_samples, group_samples


def windowed(episode: Trajectory) -> Trajectory:
    """The same episode, played by somebody who had read other things before each reply."""
    return dataclasses.replace(episode, contexts=[[40 + turn, 50] for turn in range(episode.turns)])


def test_credit_is_that_of_the_whole_episode(episode) -> None:
    """Two turns of 2 and 1 tokens, worth 0 and 1: with discount 1/2 the first has earned 1/2, not 0."""
    plain = episode("abc", [0.0, 1.0], tokens=[2, 1])
    discounts = {"turn_gamma": 0.5, "turn_lambda": 1.0}
    one = critic_samples([windowed(plain), plain], ESTIMATORS["gae"], **discounts)
    assert [len(each.advantages) for each in one] == [2, 1, 3]
    assert one[0].returns.tolist() == [0.5, 0.5]
    assert one[1].returns.tolist() == [1.0]
    for name in ("advantages", "returns", "old_values", "old_log_probs"):
        assert torch.equal(concatenated(one[:2], name), getattr(one[2], name))
    assert [each.trajectory.ids for each in one] == [[40, 50, 3, 3], [41, 50, 3], plain.ids]
    assert [each.trajectory.policy_mask for each in one[:2]] == [[0, 0, 1, 1], [0, 0, 1]]


def test_groups_are_compared_by_episode(episode) -> None:
    better, worse = (windowed(episode("abc", [0.0, end], group=1)) for end in (1.0, 0.0))
    samples = group_samples([better, worse], ESTIMATORS["rloo"])
    assert [each.advantages.tolist() for each in samples] == [[1.0], [1.0], [-1.0], [-1.0]]


@pytest.fixture(scope="module")
def model() -> PolicyModel:
    model = PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")
    torch.nn.init.normal_(model.value_head.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    return model


def test_a_demonstration_is_what_the_policy_would_have_read(model) -> None:
    env = gymnasium.make("turngym:TextFrozenLake-v0")
    (shown,) = oracle_demonstrations(env, model.format, [4], history_turns=1)
    observation, info = env.reset(seed=4)
    earlier = ""
    assert shown.turns > 2
    for part, ids in zip(shown.parts(), shown.replies(), strict=True):
        text = f"<|user|>{info['instructions']}\n\n{earlier}{observation}<|end|><|assistant|>"
        reply = model.decode(ids)
        assert model.tokenizer.decode(part.ids) == f"{text}{reply}<|end|>"
        earlier = f"{observation}<|end|><|assistant|>{reply}<|end|><|user|>"
        observation = env.step(reply)[0]
    (whole,) = oracle_demonstrations(env, model.format, [4])
    assert (whole.ids, whole.contexts) == (shown.ids, [])


def test_ppo_takes_a_step_from_what_was_sampled(model) -> None:
    """An update whose ratios begin at 1: it reads what the policy had read."""
    args = ppo_llm.Args(demonstrations="none", workers=1, episodes=8, max_new_tokens=3, history_turns=1, minibatches=1)
    run = Run(args, model, {"train": make_envs("TextFrozenLake-v0", "train", 8, {"max_turns": 4})}, Workers(1), None)
    played = run.rollout("train", [0, 1], temperature=1.0, seed=[0])
    run.args = dataclasses.replace(args, demonstrations="oracle", demonstration_episodes=4)
    taught = demonstrated(run)
    run.args = args
    for each in (*played, *taught):
        assert len(each.contexts) == len(each.parts()) == each.turns
    before = [weight.clone() for weight in model.parameters()]
    metrics = ppo_llm.iterate(Learner(run, "ppo"), 0)
    assert metrics["ratio_error"] < 1e-4
    assert metrics["turns"] > 2
    assert any(not torch.equal(weight, old) for weight, old in zip(model.parameters(), before, strict=True))


def test_a_memory_of_less_than_nothing_is_refused(model) -> None:
    with pytest.raises(ValueError, match="--history-turns must be at least 0, got -1"):
        ppo_llm.Args(history_turns=-1).check()
    with pytest.raises(ValueError, match="history_turns must be at least 0 or None, got -1"):
        LLMPolicy(model, history_turns=-1)
