"""Advantages, worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.baselines.advantages import bi_level_gae, gae, token_rewards, whiten


def test_rewards_stand_on_the_last_token_of_a_turn() -> None:
    assert token_rewards([0.5, 1.0], [False, True, True]).tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(ValueError, match="1 turn rewards, but 2 turns end"):
        token_rewards([1.0], [True, True])


def test_gae_by_hand() -> None:
    rewards, values = np.array([0.0, 0.0, 1.0]), np.array([0.5, 0.6, 0.2])
    ends = [False, True, True]
    advantages = gae(rewards, values, ends, 0.0, turn_gamma=0.9, turn_lambda=0.8)
    third = 1.0 - 0.2
    second = 0.0 + 0.9 * 0.2 - 0.6 + 0.9 * 0.8 * third
    first = 0.0 + 0.6 - 0.5 + second
    np.testing.assert_allclose(advantages, [first, second, third])


def test_a_truncated_episode_is_bootstrapped() -> None:
    advantages = gae(np.array([0.0]), np.array([0.25]), [True], 0.5, turn_gamma=0.9, turn_lambda=1.0)
    np.testing.assert_allclose(advantages, [0.9 * 0.5 - 0.25])


lists = st.lists(st.floats(-2, 2), min_size=1, max_size=12)


@given(lists, st.floats(0, 1), st.floats(0, 1), st.data())
def test_equal_settings_are_plain_gae(values, gamma, decay, data) -> None:
    count = len(values)
    ends = [*data.draw(st.lists(st.booleans(), min_size=count - 1, max_size=count - 1)), True]
    rewards = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=count, max_size=count)))
    mine = gae(
        rewards, np.array(values), ends, 0.3, turn_gamma=gamma, turn_lambda=decay, token_gamma=gamma, token_lambda=decay
    )
    deltas = [rewards[t] + gamma * [*values, 0.3][t + 1] - values[t] for t in range(count)]
    plain = [sum((gamma * decay) ** (k - t) * deltas[k] for k in range(t, count)) for t in range(count)]
    np.testing.assert_allclose(mine, plain, atol=1e-9)


@given(lists)
def test_with_no_discount_advantage_plus_value_is_the_return(values) -> None:
    rewards = np.linspace(-1, 1, len(values))
    advantages = gae(rewards, np.array(values), [True] * len(values), 0.0, turn_gamma=1.0, turn_lambda=1.0)
    np.testing.assert_allclose(advantages + values, np.cumsum(rewards[::-1])[::-1], atol=1e-9)


def test_whitening() -> None:
    np.testing.assert_allclose(whiten(np.array([1.0, 3.0])), [-1.0, 1.0])
    assert whiten(np.array([0.7])).tolist() == [0.7]
    assert whiten(np.zeros(5)).tolist() == [0.0] * 5


def test_bi_level_by_hand() -> None:
    rewards, values = np.array([0.0, 0.0, 1.0]), np.array([0.5, 0.6, 0.2])
    advantages = bi_level_gae(rewards, values, [False, True, True], 0.0, turn_gamma=0.9, turn_lambda=0.8)
    second_turn = 1.0 - 0.2
    first_turn = 0.0 + 0.9 * 0.2 - 0.5 + 0.9 * 0.8 * second_turn
    last_token = first_turn + 0.5 - 0.6
    np.testing.assert_allclose(advantages, [0.6 - 0.5 + last_token, last_token, second_turn])


@given(lists, st.floats(0, 1), st.floats(0, 1))
def test_with_one_token_a_turn_both_levels_are_one(values, gamma, decay) -> None:
    rewards, ends = np.linspace(1, -1, len(values)), [True] * len(values)
    settings = {"turn_gamma": gamma, "turn_lambda": decay}
    plain = gae(rewards, np.array(values), ends, 0.4, **settings)
    np.testing.assert_allclose(bi_level_gae(rewards, np.array(values), ends, 0.4, **settings), plain, atol=1e-9)


@given(lists, st.data())
def test_without_discount_both_levels_are_monte_carlo(values, data) -> None:
    count = len(values)
    ends = [*data.draw(st.lists(st.booleans(), min_size=count - 1, max_size=count - 1)), True]
    rewards = np.where(ends, np.linspace(0, 1, count), 0.0)
    plain, bi_level = (
        estimator(rewards, np.array(values), ends, 0.0, turn_gamma=1.0, turn_lambda=1.0)
        for estimator in (gae, bi_level_gae)
    )
    np.testing.assert_allclose(bi_level, plain, atol=1e-9)


def test_turns_that_earned_nothing_keep_their_boundary() -> None:
    values = np.array([0.1, 0.2, 0.3, 0.4])
    advantages = bi_level_gae(np.zeros(4), values, [False, True, False, True], 0.0, turn_gamma=0.5, turn_lambda=0.0)
    np.testing.assert_allclose(advantages, [0.2 - 0.1 + 0.15 - 0.2, 0.15 - 0.2, 0.4 - 0.3 - 0.4, -0.4])
