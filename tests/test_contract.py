"""What holds for every registered environment."""

import copy
import pickle
import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.scripted import RandomAgent
from turngym.envs import check_text_env

Record = list[tuple[Any, ...]]


def play(env: gymnasium.Env[str, str], seed: int | None, agent_seed: int = 0) -> Record:
    """An episode of random actions: what every call returned."""
    agent, record = RandomAgent(env, agent_seed), [env.reset(seed=seed)]
    over = False
    while not over:
        turn = env.step(agent.act(record[-1][0]))
        record.append(turn)
        over = turn[2] or turn[3]
    return record


@cache
def shared_env(env_id: str) -> gymnasium.Env[str, str]:
    """One environment for all examples of a property; each begins with its own reset."""
    return gymnasium.make(env_id)


def test_gymnasiums_checker_finds_nothing(env_id: str) -> None:
    check_env(gymnasium.make(env_id).unwrapped)  # warnings are errors, by setup.cfg


def test_our_checker_finds_nothing(env_id: str) -> None:
    env = gymnasium.make(env_id)
    check_text_env(env)
    env.close()


def test_same_seed_same_episode(env_id: str) -> None:
    env, other = gymnasium.make(env_id), gymnasium.make(env_id)
    other.reset(seed=99)
    for seed in (0, 1, 2**63):
        assert play(env, seed) == play(other, seed)


def test_seeds_differ(env_id: str) -> None:
    env = gymnasium.make(env_id)
    starts = {(observation, info["level_id"]) for observation, info in (env.reset(seed=seed) for seed in range(20))}
    assert len(starts) > 1


def test_resets_without_a_seed_go_on_from_the_seed(env_id: str) -> None:
    def three(env: gymnasium.Env[str, str]) -> list[Record]:
        return [play(env, 5), play(env, None), play(env, None)]

    assert three(gymnasium.make(env_id)) == three(gymnasium.make(env_id))


def test_noise_seed_keeps_the_level(env_id: str) -> None:
    env = gymnasium.make(env_id)
    plain = env.reset(seed=3)
    assert env.reset(seed=3, options={"noise_seed": 8}) == plain
    with pytest.raises(ValueError, match="options may hold noise_seed, got 'level'"):
        env.reset(options={"level": 1})


def test_two_environments_do_not_disturb_each_other(env_id: str) -> None:
    alone = play(gymnasium.make(env_id), 4)
    env, other = gymnasium.make(env_id), gymnasium.make(env_id)
    agent, disturber = RandomAgent(env), RandomAgent(other, 1)
    record: Record = [env.reset(seed=4)]
    other_over = True
    for turn in range(1, len(alone)):
        if other_over:
            other.reset(seed=turn)
        _, _, terminated, truncated, _ = other.step(disturber.act(""))
        other_over = terminated or truncated
        record.append(env.step(agent.act("")))
    assert record == alone


def test_no_global_randomness_is_drawn_or_needed(env_id: str) -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), pickle.dumps(np.random.get_state())
    record = play(gymnasium.make(env_id), 6)
    assert (random.getstate(), pickle.dumps(np.random.get_state())) == before
    random.seed(2)
    np.random.seed(2)
    assert play(gymnasium.make(env_id), 6) == record


def test_an_environment_can_be_pickled_and_copied_in_mid_episode(env_id: str) -> None:
    env = gymnasium.make(env_id)
    env.reset(seed=2)
    copies = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    turn = env.step("nonsense")
    assert [one.step("nonsense") for one in copies] == [turn, turn]


def test_branching_in_another_environment(env_id: str) -> None:
    env, other = gymnasium.make(env_id).unwrapped, gymnasium.make(env_id).unwrapped
    first, _ = env.reset(seed=11)
    state = pickle.loads(pickle.dumps(env.get_state()))  # type: ignore[attr-defined]
    actions = [RandomAgent(env, seed).act("") for seed in range(3)]
    for action in actions:
        turns = []
        for one in (env, other):  # the other one was never reset
            observation, info = one.set_state(state)  # type: ignore[attr-defined]
            assert observation == first
            assert "state_key" in info
            turns.append(one.step(action))
        assert turns[0] == turns[1]


def test_a_finished_episode_must_be_reset(env_id: str) -> None:
    env = gymnasium.make(env_id).unwrapped
    with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
        env.step("too early")
    play(env, 0)
    with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
        env.step("too late")
    env.reset()
    env.step("in time")


@pytest.mark.parametrize("action", [None, 3, b"Up", ["Up"], np.int64(1)], ids=repr)
def test_an_action_is_a_string(env_id: str, action: Any) -> None:
    env = gymnasium.make(env_id).unwrapped
    env.reset(seed=0)
    with pytest.raises(TypeError, match=f"an action is a string, got {type(action).__name__}"):
        env.step(action)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "tests"}, "split must be one of train, validation, test, got 'tests'"),
        ({"render_mode": "human"}, "render_mode must be one of .* or None, got 'human'"),
        ({"max_turns": 0}, "max_turns must be at least 1, .* got 0"),
        ({"max_turns": True}, "max_turns must be at least 1, .* got True"),
        ({"max_turns": "-2x"}, "max_turns must be at least 1, .* got '-2x'"),
        ({"max_turns": "infx"}, "max_turns must be at least 1, .* got 'infx'"),
        ({"max_turns": "twice"}, "max_turns must be at least 1, .* got 'twice'"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(env_id: str, arguments: dict[str, Any], message: str) -> None:
    entry_point = gymnasium.spec(env_id).entry_point
    assert isinstance(entry_point, str)
    make: Callable[..., Any] = gymnasium.envs.registration.load_env_creator(entry_point)
    with pytest.raises(ValueError, match=message):
        make(**{**gymnasium.spec(env_id).kwargs, **arguments})


def check_any_text(env: gymnasium.Env[str, str], text: str) -> None:
    _, reset_info = env.reset(seed=0)
    is_last = env.get_wrapper_attr("turns_left") == 1
    observation, reward, terminated, truncated, info = env.step(text)
    assert observation in env.observation_space
    assert np.isfinite(reward)
    if not info["action_is_valid"]:
        assert info["state_key"] == reset_info["state_key"]
        assert (info["action_is_effective"], info["success"]) == (False, False)
        assert (terminated or truncated) == is_last


@given(st.text(max_size=200) | st.text("LeftDownRightUp |<>/answer\n", max_size=60))
@settings(max_examples=40)
def test_any_text_is_an_action(env_id: str, text: str) -> None:
    check_any_text(shared_env(env_id), text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n", "\x00", "\ud800", "\udfff\ud800", *(text * 1_000_000 for text in "x√<\n"), "||" * 500_000],
    ids=lambda text: f"{text[:2]!a}x{len(text)}",
)
def test_extreme_texts_are_actions(env_id: str, text: str) -> None:
    check_any_text(shared_env(env_id), text)


def test_render_modes(env_id: str) -> None:
    modes = gymnasium.spec(env_id).make().metadata["render_modes"]
    assert "ansi" in modes
    for mode in modes:
        env = gymnasium.make(env_id, render_mode=mode)
        observation, _ = env.reset(seed=0)
        frame = env.render()
        if mode == "ansi":
            assert frame == observation
        else:
            assert isinstance(frame, np.ndarray)
            assert (frame.dtype, frame.ndim, frame.shape[-1]) == (np.uint8, 3, 3)
            assert len(np.unique(frame.reshape(-1, 3), axis=0)) > 1
    env = gymnasium.make(env_id).unwrapped
    env.reset(seed=0)
    assert env.render() is None


def test_closing_twice(env_id: str) -> None:
    env = gymnasium.make(env_id)
    env.reset(seed=0)
    for _ in range(2):
        assert env.close() is None
    assert gymnasium.make(env_id).close() is None  # never reset


def vector_episode(envs: gymnasium.vector.VectorEnv[Any, Any, Any], texts: tuple[str, str]) -> list[Any]:
    """Two turns in a vector of two."""
    try:
        observations, infos = envs.reset(seed=[0, 1])
        first, rewards, terminated, truncated, step_infos = envs.step(texts)
        keys = infos["state_key"].tolist(), step_infos["state_key"].tolist()
        return [observations, *keys, first, rewards.tolist(), terminated.tolist(), truncated.tolist()]
    finally:
        envs.close()


def makers(env_id: str) -> list[Callable[[], gymnasium.Env[str, str]]]:
    return [partial(gymnasium.make, f"turngym:{env_id}")] * 2


def test_vector_environments_agree(env_id: str) -> None:
    texts = []
    for seed in (0, 1):
        env = gymnasium.make(env_id)
        env.reset(seed=seed)
        texts.append(RandomAgent(env).act(""))
    sync = vector_episode(SyncVectorEnv(makers(env_id)), (texts[0], texts[1]))
    assert all(type(part) is tuple and all(type(text) is str for text in part) for part in (sync[0], sync[3]))
    spawned = AsyncVectorEnv(makers(env_id), shared_memory=False, context="spawn")
    assert vector_episode(spawned, (texts[0], texts[1])) == sync


def test_same_step_autoreset_keeps_the_last_observation(env_id: str) -> None:
    envs = SyncVectorEnv(makers(env_id), autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=[0, 1])
    for _ in range(10_000):
        observations, _, terminated, truncated, infos = envs.step(("", ""))
        if (terminated | truncated).any():
            ended = int(np.argmax(terminated | truncated))
            assert infos["final_obs"][ended] != observations[ended]
            assert infos["final_info"]["success"][ended] is np.False_
            break
    else:
        pytest.fail("no end")
    envs.close()


def test_shared_memory_fails_loudly(env_id: str) -> None:
    with pytest.raises(ValueError, match="shared_memory=False"):
        AsyncVectorEnv(makers(env_id), context="spawn")
