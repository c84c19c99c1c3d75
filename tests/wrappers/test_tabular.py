import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from turngym.wrappers import ReasoningWrapper, TabularWrapper


def make(planes=None, actions=None, **kwargs):
    return TabularWrapper(gymnasium.make("TextFrozenLake-v0", **kwargs), actions, planes)


@pytest.mark.parametrize("planes", [None, 6])
def test_passes_gymnasiums_checker(planes: int | None) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is different from the unwrapped version", UserWarning)
        check_env(make(planes), skip_render_check=True)


def test_board_and_planes_say_the_same() -> None:
    codes, planes = make(), make(6)
    board, _ = codes.reset(seed=4)
    stack, _ = planes.reset(seed=4)
    assert board.shape == (4, 4)
    assert stack.shape == (6, 4, 4)
    np.testing.assert_array_equal(stack.argmax(0), board)
    np.testing.assert_array_equal(stack.sum(0), np.ones((4, 4)))


def test_numbers_are_the_environments_words() -> None:
    env, plain = make(), gymnasium.make("TextFrozenLake-v0")
    for number, word in enumerate(("Left", "Down", "Right", "Up")):
        env.reset(seed=4)
        plain.reset(seed=4)
        board, reward, terminated, truncated, info = env.step(np.int64(number))
        _, *expected, plain_info = plain.step(word)
        assert [reward, terminated, truncated] == expected
        assert info == plain_info
        np.testing.assert_array_equal(board, plain.unwrapped.as_array())


def test_oracle_and_random_hooks_speak_numbers() -> None:
    env = make()
    env.reset(seed=4)
    rng, over = np.random.default_rng(0), False
    assert {env.random_action(rng) for _ in range(50)} == {0, 1, 2, 3}
    while not over:
        *_, terminated, truncated, info = env.step(env.oracle_action())
        over = terminated or truncated
    assert info["success"]
    assert make(actions=["Stay"]).oracle_action() is None


def test_masks_what_is_not_legal_now() -> None:
    env = make(actions=["Up", "Fly", "Down"])
    assert env.action_masks().tolist() == [True, False, True]
    assert env.action_space.n == 3


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_works_in_vectors(mode: str) -> None:
    wrappers = (partial(TabularWrapper, planes=6),)
    envs = gymnasium.make_vec("TextFrozenLake-v0", 2, vectorization_mode=mode, wrappers=wrappers)
    boards, _ = envs.reset(seed=4)
    assert boards.shape == (2, 6, 4, 4)
    np.testing.assert_array_equal(boards[0], make(6).reset(seed=4)[0])
    moved, *_ = envs.step(np.array([0, 1]))
    alone = make(6)
    alone.reset(seed=5)
    np.testing.assert_array_equal(moved[1], alone.step(1)[0])
    envs.close()


def test_a_number_means_the_same_in_every_instance() -> None:
    assert len({TabularWrapper(gymnasium.make("Bandit-v0")).actions for _ in range(10)}) == 1


def test_unseeded_environments_differ() -> None:
    assert len({make(size=6).reset()[0].tobytes() for _ in range(4)}) > 1


def test_can_be_rebuilt_from_its_spec() -> None:
    env = gymnasium.make(make(6, ["Up", "Down"]).spec)
    assert (env.observation_space.shape, env.action_space.n) == ((6, 4, 4), 2)


def test_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="action must be between 0 and 3, got 4"):
        make().step(4)
    with pytest.raises(ValueError, match=r"planes must cover codes 0 to [345], got planes=2"):
        make(2)
    with pytest.raises(ValueError, match="planes must be at least 1 or None, got 0"):
        make(0)
    with pytest.raises(ValueError, match="give TabularWrapper the actions"):
        TabularWrapper(ReasoningWrapper(gymnasium.make("TextFrozenLake-v0")))
