"""A policy that remembers the last turns only: what it reads, and the samples that it leaves."""

import gymnasium
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from turngym.agents import LLMPolicy, Trajectory, collect_rollout, tiny
from turngym.agents.models import PolicyModel
from turngym.agents.window import Window

ENV_ID = "turngym:TextFrozenLake-v0"


@pytest.fixture(scope="module")
def model() -> PolicyModel:
    return PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")


def sampled(trajectory: Trajectory, name: str) -> list:
    return [getattr(trajectory, name)[at] for at in trajectory.policy_positions()]


@pytest.mark.parametrize(
    ("turns", "third", "fourth"),
    [
        (0, [9, -3], [9, -4]),
        (1, [9, -2, 20, 3], [9, -3, 30, 4]),
        (2, [9, -1, 10, 2, 20, 3], [9, -2, 20, 3, 30, 4]),
        (9, [9, -1, 10, 2, 20, 3], [9, -1, 10, 2, 20, 3, 30, 4]),
    ],
)
def test_the_last_turns_are_remembered(turns, third, fourth) -> None:
    """An observation is its number, with a minus where it stands first; the reply to it is tenfold."""
    window = Window([9], lambda text, first: [-int(text) if first else int(text)], turns)
    for number in (1, 2):
        window.hear(str(number))
        window.answer([10 * number])
    assert window.context("3") == third == window.hear("3")
    window.answer([30])
    assert window.hear("4") == fourth


def play(model: PolicyModel, episodes: int = 4, **settings) -> tuple[list[Trajectory], LLMPolicy]:
    envs = [gymnasium.make(ENV_ID, max_turns=6) for _ in range(3)]
    policy = LLMPolicy(model, max_new_tokens=3, **settings)
    return collect_rollout(policy, envs, range(episodes)), policy


def test_every_turn_is_a_conversation_that_began_two_turns_ago(model) -> None:
    for trajectory in play(model, history_turns=2)[0]:
        env = gymnasium.make(ENV_ID, max_turns=6)
        observation, info = env.reset(seed=trajectory.seed)
        observations, replies = [observation], [model.decode(ids) for ids in trajectory.replies()]
        for turn, part in enumerate(trajectory.parts()):
            text = f"<|user|>{info['instructions']}\n\n"
            for earlier in range(max(0, turn - 2), turn):
                text += f"{observations[earlier]}<|end|><|assistant|>{replies[earlier]}<|end|><|user|>"
            written = model.tokenizer.decode(part.ids).removesuffix("<|end|>")
            assert written == f"{text}{observations[turn]}<|end|><|assistant|>{replies[turn]}"
            observations.append(env.step(replies[turn])[0])


@pytest.mark.parametrize("turns", [0, 2])
def test_parts_hold_what_was_sampled_and_score_as_it_was(model, turns) -> None:
    for trajectory in play(model, history_turns=turns)[0]:
        parts = trajectory.parts()
        assert len(parts) == trajectory.turns
        for name in ("ids", "segment", "log_probs", "values"):
            assert [each for part in parts for each in sampled(part, name)] == sampled(trajectory, name)
        with torch.no_grad():
            scores = model.score(parts).log_probs
        assert (scores - torch.tensor(sampled(trajectory, "log_probs"))).abs().max() < 1e-4


def test_who_forgets_nothing_plays_as_ever(model) -> None:
    (short, policy), (whole, plain) = play(model, history_turns=6), play(model)
    assert [each.ids for each in short] == [each.ids for each in whole]
    assert (policy.sequences.tally.tokens, policy.sequences.tally.passes) == (
        plain.sequences.tally.tokens,
        plain.sequences.tally.passes,
    )
    assert all(each.parts() == [each] for each in whole)


def test_only_what_a_turn_does_not_share_with_the_one_before_is_read(model) -> None:
    policy = LLMPolicy(model, max_new_tokens=2, history_turns=1)
    policy.reset([0], ["Walk to the goal."])
    for turn in range(5):
        policy.act([f"{turn}: _ P _"], [0])
    read, before, prompt = 0, list[int](), len(model.format.prompt("Walk to the goal."))
    for turn, part in enumerate(policy.trajectories[0].parts()):
        known = next(at for at, token in enumerate(part.ids) if before[at : at + 1] != [token])
        assert known == len(before) if turn < 2 else prompt <= known < len(before)
        read += len(part.ids) - 1 - known  # the last token has not been read yet
        before = part.ids[:-1]
    assert policy.sequences.tally.tokens == read


def test_an_episode_may_be_longer_than_the_model_can_read() -> None:
    config = GPT2Config(vocab_size=1024, n_positions=150, n_embd=32, n_layer=2, n_head=2)
    model = PolicyModel(GPT2LMHeadModel(config), tiny.build_tokenizer(), "short")
    env = gymnasium.make(ENV_ID, max_turns=20)
    (cut,) = collect_rollout(LLMPolicy(model, max_new_tokens=3), [env], [0])
    (played,) = collect_rollout(LLMPolicy(model, max_new_tokens=3, history_turns=1), [env], [0])
    assert cut.turns < played.turns == 20
    assert len(played.ids) > 150 >= max(len(part.ids) for part in played.parts())
    with torch.no_grad():
        scores = model.score(played.parts()).log_probs
    assert (scores - torch.tensor(sampled(played, "log_probs"))).abs().max() < 1e-4
    (narrow,) = collect_rollout(LLMPolicy(model, max_new_tokens=3, max_tokens=80, history_turns=9), [env], [0])
    assert narrow.truncated
    assert max(len(part.ids) for part in narrow.parts()) <= 80


def test_a_whole_transcript_is_not_gone_on_with_by_who_forgets(model) -> None:
    with pytest.raises(ValueError, match="history_turns must be None to go on with a whole transcript, got 1"):
        LLMPolicy(model, history_turns=1).rejoin(0, [5, 6], turn=2)
