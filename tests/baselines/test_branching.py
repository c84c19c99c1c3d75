"""What else could have been done: outcomes by hand and by replay, what is made of them, and what leaks."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents import tiny
from turngym.agents.scripted import OracleAgent
from turngym.agents.templates import turn_format
from turngym.baselines.branching import Branch, Outcome, Rank, alternatives, branch, leaks, reflection, transition

FORM = turn_format(tiny.build_tokenizer())
LAKE = ["S_", "OG"]  # right, then down; a hole below the start


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def small_lake() -> gymnasium.Env:
    return gymnasium.make("turngym:TextFrozenLake-v0", desc=LAKE)


@pytest.fixture(scope="module")
def branches() -> list[Branch]:
    return branch(small_lake(), ["Right", "Down"], 0, count=3, rng=rng())


def test_outcomes_on_a_small_lake(branches) -> None:
    first, second = branches
    assert {each.action: each.rank for each in first.outcomes} == {
        "Down": Rank.LOST,
        "Left": Rank.NOTHING,
        "Right": Rank.GOES_ON,
        "Up": Rank.NOTHING,
    }
    assert {each.action: each.rank for each in second.outcomes} == {
        "Down": Rank.SOLVED,
        "Left": Rank.GOES_ON,
        "Right": Rank.NOTHING,
        "Up": Rank.NOTHING,
    }
    assert (first.chosen.action, second.chosen.action) == ("Right", "Down")
    assert (first.observation, second.observation) == ("P _\nO G", first.chosen.observation)
    assert second.chosen.reward == 1.0


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_a_branch_is_what_a_replay_would_have_come_to(seed) -> None:
    """Under the same luck, and the demonstration itself is not disturbed."""
    compare_with_replays("TextFrozenLakeSlippery-v0", seed)


def test_a_branch_of_sokoban() -> None:
    compare_with_replays("Sokoban-v0", 5)


def compare_with_replays(env_id: str, seed: int) -> None:
    env, again = (gymnasium.make(f"turngym:{env_id}") for _ in range(2))
    observation, _ = env.reset(seed=seed)
    agent, actions, over = OracleAgent(env), [], False
    while not over:
        actions.append(agent.act(observation))
        observation, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    branches = branch(env, actions, seed, count=2, rng=rng(seed))
    assert len(branches) == len(actions)
    assert branches[-1].chosen.observation == observation
    for turn in {0, len(actions) // 2, len(actions) - 1}:
        assert len(branches[turn].tried) == 2
        for outcome in branches[turn].outcomes:
            again.reset(seed=seed)
            for action in actions[:turn]:
                again.step(action)
            seen, reward, *_ = again.step(outcome.action)
            assert (seen, reward) == (outcome.observation, outcome.reward)


def test_a_limit_around_the_environment_does_not_count_branches() -> None:
    env = gymnasium.wrappers.TimeLimit(small_lake(), 2)
    _, second = branch(env, ["Right", "Down"], 0, count=3, rng=rng())
    assert second.chosen.rank is Rank.SOLVED


def test_an_unreadable_action_is_an_outcome_too() -> None:
    (only, *_) = branch(small_lake(), ["Fly"], 0, count=4, rng=rng())
    assert only.chosen.rank is Rank.UNREAD
    assert "could not read" in only.chosen.observation
    assert len(only.tried) == 4


def test_alternatives_are_other_actions() -> None:
    lake, bandit = small_lake(), gymnasium.make("turngym:Bandit-v0")
    lake.reset(seed=0)
    assert sorted(alternatives(lake, "Up", 9, rng())) == ["Down", "Left", "Right"]
    assert len(alternatives(lake, "Up", 1, rng())) == 1
    assert len({tuple(alternatives(lake, "Up", 1, rng(seed))) for seed in range(20)}) == 3
    bandit.reset(seed=0)
    assert alternatives(bandit, "Dragon", 3, rng()) == ["Phoenix"]
    with pytest.raises(ValueError, match="neither legal_actions nor random_action"):
        alternatives(gymnasium.make("CartPole-v1"), "0", 1, rng())
    with pytest.raises(ValueError, match="no get_state and set_state"):
        branch(gymnasium.make("CartPole-v1"), ["0"], 0, count=1, rng=rng())


def test_an_example_for_a_world_model(branches) -> None:
    """Its own prompt, a delimited target, and a mask on nothing but the target."""
    (first, _) = branches
    lost = next(each for each in first.outcomes if each.rank is Rank.LOST)
    example = transition(first, lost, "The rules.", FORM)
    given = [token for token, mask in zip(example.ids, example.policy_mask, strict=True) if not mask]
    target = [token for token, mask in zip(example.ids, example.policy_mask, strict=True) if mask]
    asked = FORM.tokenizer.decode(given)
    assert asked.startswith("<|user|>The rules. Do not act")
    assert asked.endswith("P _\nO G\nAction: Down<|end|><|assistant|>")
    assert FORM.tokenizer.decode(target) == f"Observation:\n{lost.observation}<|end|>"
    assert example.policy_mask == sorted(example.policy_mask)


def test_a_reflection_weighs_what_was_executed(branches) -> None:
    assert reflection(branches[0]) == (
        "Down: ends the game. Left: Nothing happened. Right: goes on. Up: Nothing happened. So Right."
    )
    assert reflection(branches[1]).endswith("So Down.")
    assert len(FORM.encode(reflection(branches[0]))) <= 40


def outcome(action: str, rank: Rank) -> Outcome:
    return Outcome(action, f"after {action}", 0.0, rank)


@pytest.mark.parametrize(
    ("chosen", "tried", "kept"),
    [
        (Rank.GOES_ON, [Rank.LOST], True),
        (Rank.GOES_ON, [Rank.LOST, Rank.GOES_ON], True),
        (Rank.GOES_ON, [Rank.GOES_ON], False),  # nothing speaks for it
        (Rank.GOES_ON, [Rank.SOLVED, Rank.LOST], False),  # another did better
        (Rank.LOST, [Rank.NOTHING], False),
        (Rank.SOLVED, [Rank.GOES_ON], True),
        (Rank.SOLVED, [], False),
    ],
)
def test_outcomes_must_speak_for_the_choice(chosen, tried, kept) -> None:
    others = tuple(outcome(f"b{index}", rank) for index, rank in enumerate(tried))
    thought = reflection(Branch("here", outcome("a", chosen), others))
    assert (thought is not None) == kept


def test_leaks(branches) -> None:
    now, later = branches
    thought = reflection(now)
    assert not leaks(thought, now, [later])
    assert leaks(f"The expert goes Right. {thought}", now, [later])
    assert leaks("Right is the correct action.", now, [later])
    assert leaks(f"{thought} Then I shall see\n{later.chosen.observation}", now, [later])
    assert not leaks(f"I shall see\n{now.chosen.observation}", now, [later])  # that was executed here
