"""Bandit: which arm is better, what the arms pay, and a single turn."""

import doctest
import re
from typing import Any

import gymnasium
import numpy as np
import pytest

from turngym.envs.bandit import ARMS, BanditEnv
from turngym.envs.overlap import measure_overlap
from turngym.envs.splits import SPLITS

IDS = {"Bandit-v0": "Dragon", "BanditReversed-v0": "Phoenix"}


def other(arm: str) -> str:
    return ARMS[1 - ARMS.index(arm)]


def pulls(env: Any, arm: str, count: int) -> list[float]:
    rewards = []
    for seed in range(count):
        env.reset(seed=seed)
        _, reward, terminated, truncated, _ = env.step(arm)
        assert (terminated, truncated) == (True, False)
        rewards.append(reward)
    return rewards


@pytest.mark.parametrize(("variant", "risky"), IDS.items())
def test_what_the_arms_pay(variant: str, risky: str) -> None:
    env = gymnasium.make(variant)
    assert set(pulls(env, other(risky), 50)) == {0.1}
    paid = pulls(env, risky, 2000)
    assert set(paid) == {0.0, 1.0}
    assert np.mean(paid) == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 2000) ** 0.5)


@pytest.mark.parametrize(("variant", "risky"), IDS.items())
def test_success_is_the_better_arm_whatever_it_paid(variant: str, risky: str) -> None:
    env = gymnasium.make(variant)
    for seed in range(20):
        for arm in ARMS:
            env.reset(seed=seed)
            assert env.step(arm)[4]["success"] == (arm == risky)


@pytest.mark.parametrize(("variant", "risky"), IDS.items())
def test_the_oracle(variant: str, risky: str) -> None:
    env = gymnasium.make(variant)
    env.reset(seed=0)
    assert env.get_wrapper_attr("oracle_action")() == risky
    assert env.get_wrapper_attr("oracle_value")() == 0.25
    env.step(risky)
    assert env.get_wrapper_attr("oracle_action")() is None
    assert env.get_wrapper_attr("oracle_value")() == 0


def test_a_random_action_is_either_arm() -> None:
    env, rng = BanditEnv(), np.random.default_rng(0)
    drawn = [env.random_action(rng) for _ in range(1000)]
    assert drawn.count("Dragon") == pytest.approx(500, abs=4 * 1000**0.5 / 2)
    assert set(drawn) == set(ARMS)


@pytest.mark.parametrize("split", SPLITS)
def test_either_arm_comes_first_in_every_split(split: Any) -> None:
    env = BanditEnv(split=split)
    first = [env.reset(seed=seed)[0].split(" | ")[0] for seed in range(400)]
    assert first.count("Dragon") == pytest.approx(200, abs=40)
    assert set(first) == set(ARMS)


def test_the_order_says_nothing_of_the_luck() -> None:
    env = BanditEnv()
    paid: dict[str, list[float]] = {}
    for seed in range(3000):
        shown, _ = env.reset(seed=seed)
        paid.setdefault(shown, []).append(env.step("Dragon")[1])
    means = [np.mean(rewards) for rewards in paid.values()]
    assert means == pytest.approx([0.25, 0.25], abs=4 * (0.25 * 0.75 / 1400) ** 0.5)


def test_luck_comes_from_its_own_stream() -> None:
    env, starts, paid = BanditEnv(), set(), set()
    for noise_seed in range(40):
        starts.add(env.reset(seed=1, options={"noise_seed": noise_seed})[0])
        paid.add(env.step("Dragon")[1])
    assert len(starts) == 1
    assert paid == {0.0, 1.0}


def test_splits_hold_the_same_level_and_say_so() -> None:
    found = measure_overlap("Bandit-v0", 20)
    assert found.by_design
    assert set(found.distinct.values()) == set(found.shared.values()) == {1}


@pytest.mark.parametrize("text", ["Dragon", "dragon", " DRAGON\n"])
def test_names_in_any_case_and_space(text: str) -> None:
    env = BanditEnv()
    env.reset(seed=0)
    assert env.step(text)[4]["action_is_valid"]


@pytest.mark.parametrize("text", ["", "Dragon Phoenix", "Dragon || Phoenix", "pull Dragon", "Dragon.", "0"])
def test_what_cannot_be_read_ends_the_only_turn_without_a_pull(text: str) -> None:
    env = BanditEnv()
    start, first = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(text)
    assert observation == f"I could not read an arm. Reply with one of: Dragon, Phoenix.\n{start}"
    assert (reward, terminated, truncated) == (-0.1, True, False)
    assert [info[key] for key in ("action_is_valid", "action_is_effective", "success", "moves")] == [False] * 3 + [0]
    assert info["state_key"] == first["state_key"]


def test_more_turns_give_more_tries_and_one_pull() -> None:
    env = BanditEnv(max_turns=3)
    env.reset(seed=0)
    assert env.step("what?")[1:4] == (-0.1, False, False)
    assert env.step("Phoenix")[1:4] == (0.1, True, False)


def test_what_is_shown() -> None:
    env = BanditEnv()
    seen = set()
    for seed in range(10):
        shown, info = env.reset(seed=seed)
        assert info["oracle_steps"] == 1
        assert env.legal_actions() == shown.split(" | ")
        before = env.as_array().tolist()
        after, _, _, _, step_info = env.step("Phoenix")
        assert after == f"Phoenix paid 0.1.\n{shown.replace('Phoenix', 'Phoenix *')}"
        assert step_info["action_is_effective"]
        assert step_info["moves"] == 1
        assert [before, env.as_array().tolist()] in ([[0, 1], [0, 3]], [[1, 0], [3, 0]])
        seen.add(shown)
    assert seen == {"Dragon | Phoenix", "Phoenix | Dragon"}


def test_the_instructions_do_not_tell_which_arm_is_better() -> None:
    assert BanditEnv().instructions == BanditEnv(risky="Phoenix").instructions
    assert all(arm in BanditEnv().instructions for arm in ARMS)


def test_the_low_arm_of_the_paper() -> None:
    env = BanditEnv(low_reward=0.15, high_probability=1.0)
    env.reset(seed=0)
    assert env.oracle_value() == 1
    assert env.step("Phoenix")[1] == 0.15
    assert set(pulls(env, "Dragon", 20)) == {1.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"risky": "dragon"}, "risky must be one of Dragon, Phoenix, got 'dragon'"),
        ({"low_reward": 0.25}, "low_reward must be .* got low_reward=0.25 and high_probability=0.25"),
        ({"low_reward": -0.1}, "low_reward must be at least 0"),
        ({"high_probability": 1.1}, "high_probability, which is at most 1, got"),
    ],
    ids=str,
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BanditEnv(**arguments)


def test_the_transcript_in_the_docstring_is_real() -> None:
    transcript = re.search(r"## Transcript\n    ```\n(.*?)    ```\n", str(BanditEnv.__doc__), re.DOTALL)
    assert transcript is not None
    test = doctest.DocTestParser().get_doctest(transcript.group(1), {}, "transcript", None, 0)
    assert len(test.examples) > 5
    told: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(test, out=told.append).failed == 0, "".join(told)
