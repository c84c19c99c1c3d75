"""Signs of collapse, by hand and on a small model."""

import copy
import math
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents import LLMPolicy, collect_rollout, tiny
from turngym.agents.models import PolicyModel
from turngym.agents.trajectory import Trajectory
from turngym.baselines.demonstrations import oracle_demonstrations
from turngym.baselines.diagnostics import cross_log_probs, sampled_entropy, spike_ratios, thought_information
from turngym.wrappers import ReasoningWrapper


def test_entropy_of_what_was_sampled() -> None:
    each = Trajectory()
    each.append_given([1, 2], "prompt")
    each.append_sampled([3, 4], "thought", [-1.0, -2.0], [0.0, 0.0], 0)
    each.append_sampled([5], "action", [-6.0], [0.0], 0)
    assert sampled_entropy([each]) == 3.0
    assert sampled_entropy([each], "thought") == 1.5
    assert math.isnan(sampled_entropy([each], "code"))


def test_a_spike_stands_out_of_what_was_before() -> None:
    np.testing.assert_allclose(spike_ratios([2.0, 2.0, 4.0, 30.0, 3.0], window=3), [1.0, 1.0, 2.0, 15.0, 0.75])
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        spike_ratios([1.0], window=0)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30), st.floats(0.1, 10))
def test_a_spike_has_no_unit(norms, unit) -> None:
    np.testing.assert_allclose(spike_ratios(norms), spike_ratios([unit * norm for norm in norms]))


def test_information_by_hand() -> None:
    """Two prompts; a thought with 0.8 and 0.2, one with 0.1 and 0.1."""
    found = thought_information(np.log([[0.8, 0.2], [0.1, 0.1]]), [0, 1])
    assert found.mutual_information == pytest.approx(math.log(0.8 / 0.5) / 2)
    assert found.conditional_entropy == pytest.approx(-math.log(0.8 * 0.1) / 2)
    assert (found.retrieval, found.prompts) == (1.0, 2)


def test_a_template_tells_nothing_and_a_code_all() -> None:
    template, code = np.full((4, 4), -700.0), np.full((4, 4), -800.0)
    np.fill_diagonal(code, -1.0)
    assert thought_information(template, range(4)).mutual_information == pytest.approx(0.0, abs=1e-12)
    assert thought_information(code, range(4)).mutual_information == pytest.approx(math.log(4))
    assert thought_information(code, [1, 0, 2, 3]).retrieval == 0.5


@settings(max_examples=50)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32))
def test_information_is_bounded(prompts, thoughts, seed) -> None:
    rng = np.random.default_rng(seed)
    found = thought_information(rng.normal(0, 30, (thoughts, prompts)), rng.integers(prompts, size=thoughts).tolist())
    assert found.mutual_information <= math.log(prompts) + 1e-9


@pytest.fixture(scope="module")
def model() -> Iterator[PolicyModel]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for so little, more of them only wait for each other
    yield PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")
    torch.set_num_threads(threads)


def thinker(prompt: list[int], thought: list[int]) -> Trajectory:
    """A turn with a thought and an action, and another turn with a thought of its own."""
    each = Trajectory()
    each.append_given(prompt, "prompt")
    for turn in range(2):
        each.append_sampled(thought[:: 1 - 2 * turn], "thought", [0.0] * len(thought), [0.0] * len(thought), turn)
        each.append_sampled([7], "action", [0.0], [0.0], turn)
        each.append_given([9], "observation")
    return each


EPISODES = [thinker([10, 11], [40, 41, 42]), thinker([12, 13, 14], [50, 51]), thinker([10, 11], [60])]


def test_first_thoughts_are_scored_under_every_prompt(model) -> None:
    log_probs, own = cross_log_probs(model, EPISODES)
    assert (log_probs.shape, own) == ((3, 2), [0, 1, 0])
    row = torch.tensor([[12, 13, 14, 40, 41, 42]])
    logits = model.lm(row).logits[0].log_softmax(-1)
    expected = sum(logits[at - 1, row[0, at]].item() for at in range(3, 6))
    assert log_probs[0, 1] == pytest.approx(expected, abs=1e-4)


def test_training_on_thoughts_raises_the_information(model) -> None:
    """Each prompt has its own thought: a model that learns to write them tells the prompts apart."""
    learner = copy.deepcopy(model)
    before = thought_information(*cross_log_probs(learner, EPISODES[:2]))
    weights = list(learner.lm.parameters())
    for _ in range(12):
        gradients = torch.autograd.grad(learner.score(EPISODES[:2]).log_probs.mean(), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight += 0.3 * gradient
    after = thought_information(*cross_log_probs(learner, EPISODES[:2]))
    assert after.mutual_information > before.mutual_information + 0.3
    assert after.conditional_entropy < before.conditional_entropy
    assert after.retrieval == 1.0


def test_who_does_not_think_is_left_out(model) -> None:
    env = gymnasium.make("turngym:TextFrozenLake-v0", max_turns=1)
    silent = collect_rollout(LLMPolicy(model, max_new_tokens=2), [env], [0])
    thoughtful = oracle_demonstrations(ReasoningWrapper(env), model.format, range(20))[:1]
    log_probs, own = cross_log_probs(model, [*silent, *thoughtful])
    assert (log_probs.shape, own) == ((1, 1), [0])
    with pytest.raises(ValueError, match="at least one thought, got none"):
        thought_information(*cross_log_probs(model, silent))
