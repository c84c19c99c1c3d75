"""Advantages without a critic, worked by hand, and what must leave them as they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.baselines.estimators import ESTIMATORS, TURN_ESTIMATORS, over_tokens
from turngym.baselines.group_advantages import compared, gigpo, grpo, hgpo, returns_to_go, rloo

DISCOUNTS = {"turn_gamma": 0.9, "turn_lambda": 0.9}
SETTINGS = {"gae": DISCOUNTS, "bi_level": DISCOUNTS}
few = settings(max_examples=30)


def test_returns_to_go() -> None:
    np.testing.assert_allclose(returns_to_go([1.0, 0.0, 2.0], 0.5), [1 + 0.25 * 2, 1.0, 2.0])


def test_comparison_by_hand() -> None:
    values, keys = np.array([1.0, 5.0, 3.0, 5.0, 9.0]), ["a", "b", "a", "b", "c"]
    np.testing.assert_allclose(compared(values, keys, scale=False), [-1, np.nan, 1, np.nan, np.nan])
    np.testing.assert_allclose(compared(values, keys, scale=True)[[0, 2]], [-(0.5**0.5), 0.5**0.5])


def test_rloo_compares_with_the_others(episode) -> None:
    group = [episode("ab", [reward]) for reward in (1.0, 0.0, 0.5)]
    np.testing.assert_allclose(np.concatenate(rloo(group)), [1 - 0.25, 0 - 0.75, 0.5 - 0.5], atol=1e-12)


def test_grpo_by_hand(episode) -> None:
    group = [episode("abc", [0.0, 1.0]), episode("ab", [0.0]), episode("abcd", [0.0, 0.0, 0.5], group=7)]
    first, second, alone = grpo(group, scale=False)
    assert (first.tolist(), second.tolist(), alone.tolist()) == ([0.5, 0.5], [-0.5], [0.0, 0.0, 0.0])
    scaled = grpo(group)
    np.testing.assert_allclose(scaled[0], [0.5**0.5] * 2)
    np.testing.assert_allclose(scaled[1], [-(0.5**0.5)])


def test_an_episode_has_one_vote_however_long_it_is(episode) -> None:
    """verl-agent's mean over turns would be 0.25 here."""
    short, long = grpo([episode("ab", [1.0]), episode("abcd", [0.0, 0.0, 0.0])], scale=False)
    assert short.tolist() == [0.5]
    assert long.tolist() == [-0.5] * 3


def test_gigpo_compares_turns_from_the_same_state(episode) -> None:
    """Both are in `b` once: one goes on to the goal, the other stays a turn longer in `a` and fails there."""
    won, lost = episode("abg", [0.0, 1.0]), episode("aabh", [0.0, 0.0, 0.0])
    advantages = gigpo([won, lost], turn_gamma=0.5, step_weight=2.0, scale=False)
    from_a = np.array([0.5, 0.0, 0.0]) - 0.5 / 3  # returns to go of the three turns from `a`
    np.testing.assert_allclose(advantages[0], [0.5 + 2 * from_a[0], 0.5 + 2 * 0.5])
    np.testing.assert_allclose(advantages[1], [-0.5 + 2 * from_a[1], -0.5 + 2 * from_a[2], -0.5 - 2 * 0.5])


def test_a_penalty_reaches_the_turns_before_it(episode) -> None:
    clean, untidy = episode("abg", [0.0, 1.0]), episode("abbg", [0.0, -0.1, 1.0])
    first = [own[0] for own in gigpo([clean, untidy], turn_gamma=1.0, scale=False)]
    np.testing.assert_allclose(first, [2 * 0.05, -2 * 0.05])


def test_hgpo_by_hand(episode) -> None:
    """Turns from `c`: two came from `b`, one from `d`; of the two from `b`, one came from `a` and one from `e`."""
    group = [episode("abcg", [0.0, 0.0, 1.0]), episode("ebch", [0.0, 0.0, 0.0]), episode("dcg", [0.0, 0.4])]
    first, second, third = hgpo(group, depth=2, exponent=1.0, scale=False)
    mean = 1.4 / 3
    np.testing.assert_allclose(first[2], (1 * (1 - mean) + 2 * 0.5) / 3)  # nothing to compare with two states back
    np.testing.assert_allclose(second[2], (1 * (0 - mean) + 2 * -0.5) / 3)
    np.testing.assert_allclose(third[1], 0.4 - mean)
    assert first[0] == second[0] == third[0] == 0.0


def test_a_turn_on_its_mean_keeps_its_vote(episode) -> None:
    """The middle of three is 0 at level 0 and above the mean at level 1: the released code drops the 0."""
    group = [episode("abg", [0.0, 0.5]), episode("abh", [0.0, 0.1]), episode("cbg", [0.0, 0.9])]
    middle = hgpo(group, depth=1, exponent=1.0, scale=False)[0][1]
    np.testing.assert_allclose(middle, (1 * 0.0 + 2 * 0.2) / 3)


def test_weights_of_the_levels(episode) -> None:
    """All levels agree on the last turn, so any weights that sum to 1 give the same; with exponents they differ."""
    group = [episode("aabg", [0.0, 0.0, 1.0]), episode("aabh", [0.0, 0.0, 0.0]), episode("cbh", [0.0, 0.0])]
    weights = {0.0: [1 / 3] * 3, 1.0: [1 / 6, 2 / 6, 3 / 6]}
    for exponent, (zero, one, two) in weights.items():
        expected = zero * 2 / 3 + one * 0.5 + two * 0.5
        np.testing.assert_allclose(hgpo(group, exponent=exponent, scale=False)[0][2], expected)


def test_without_history_hgpo_is_the_step_term_of_gigpo(episode) -> None:
    group = [episode("abg", [0.0, 1.0]), episode("aabh", [0.0, 0.0, 0.0]), episode("bag", [0.1, 0.5])]
    whole, flat = gigpo(group), grpo(group)
    for step, both, ep in zip(hgpo(group, depth=0), whole, flat, strict=True):
        np.testing.assert_allclose(step, both - ep, atol=1e-12)


def test_states_must_be_told_apart(episode) -> None:
    for states in (["", ""], ["b"]):
        group = [episode("ab", [1.0]), episode("ab", [0.0])]
        group[1].state_keys = states
        for name in ("gigpo", "hgpo", "graphgpo", "graft"):
            with pytest.raises(ValueError, match="state_keys must name a state before each turn and after the last"):
                ESTIMATORS[name](group)


def test_advantages_are_spread_over_what_was_sampled(episode) -> None:
    group = [episode("abg", [0.0, 1.0], tokens=[2, 3]), episode("ah", [0.0], tokens=[4])]
    by_turn, by_token = gigpo(group), over_tokens(gigpo)(group)
    assert by_token[0].tolist() == [by_turn[0][0]] * 2 + [by_turn[0][1]] * 3
    assert by_token[1].tolist() == [by_turn[1][0]] * 4


def test_reinforce_plus_plus_by_hand(episode) -> None:
    """Returns to go are 0.5 for two tokens and 1 for one; 0 for one token: mean 0.5, variance 0.125."""
    batch = [episode("abg", [0.0, 1.0], tokens=[2, 1]), episode("ah", [0.0], group=1)]
    first, second = ESTIMATORS["reinforce_plus_plus"](batch, turn_gamma=0.5)
    np.testing.assert_allclose(first, [0.0, 0.0, 0.5 / 0.125**0.5], atol=1e-12)
    np.testing.assert_allclose(second, [-0.5 / 0.125**0.5])


def test_reinforce_plus_plus_baseline_by_hand(episode) -> None:
    """Centred returns are 0.5 and -0.5 in one group, 0 in the other: variance 0.5 / 3 over three tokens."""
    batch = [episode("ag", [1.0]), episode("ah", [0.0]), episode("ah", [0.7], group=1)]
    advantages = ESTIMATORS["reinforce_plus_plus_baseline"](batch)
    np.testing.assert_allclose(np.concatenate(advantages), np.array([0.5, -0.5, 0.0]) / (0.5 / 3) ** 0.5)


def test_a_critic_takes_the_same_arguments(episode) -> None:
    each = episode("abg", [0.0, 1.0], tokens=[2, 1])
    each.values = [0.0, 0.0, 0.5, 0.6, 0.0, 0.0, 0.2]
    (advantages,) = ESTIMATORS["gae"]([each], turn_gamma=0.9, turn_lambda=0.8)
    np.testing.assert_allclose(advantages[-1], 1.0 - 0.2)
    np.testing.assert_allclose(advantages[1], 0.9 * 0.2 - 0.6 + 0.9 * 0.8 * advantages[2])


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    "batch",
    [
        [("abcd", [0.0] * 3, 0), ("ab", [0.0], 0), ("aad", [0.0] * 2, 0), ("ab", [0.0], 1)],
        [("ab", [1.0], 0), ("cd", [1.0], 1)],
        [("ab", [0.3], 0), ("ab", [0.3], 0), ("ab", [0.3], 0)],
        [("abac", [0.0, 0.0, 1.0], 0)],
    ],
    ids=["no reward", "groups of one", "one turn, all alike", "a lone loop"],
)
def test_nothing_to_learn_is_finite(episode, name, batch) -> None:
    trajectories = [episode(states, rewards, group=group) for states, rewards, group in batch]
    advantages = ESTIMATORS[name](trajectories, **SETTINGS.get(name, {}))
    assert [len(own) for own in advantages] == [len(rewards) for _, rewards, _ in batch]
    flat = np.concatenate(advantages)
    assert np.isfinite(flat).all()
    alike = len({sum(rewards) for _, rewards, _ in batch}) == 1
    if name in TURN_ESTIMATORS and alike and len(batch) > 1:
        assert not flat.any()


rollouts = st.lists(
    st.tuples(st.integers(0, 2), st.text("abc", min_size=2, max_size=5), st.sampled_from([0.0, 0.25, 1.0])),
    min_size=2,
    max_size=7,
)


def played(episode, rollout) -> list:
    return [episode(states, [0.0] * (len(states) - 2) + [last], group=group) for group, states, last in rollout]


@few
@given(rollouts, st.randoms(use_true_random=False))
def test_the_order_of_trajectories_does_not_matter(episode, rollout, random) -> None:
    trajectories, order = played(episode, rollout), list(range(len(rollout)))
    random.shuffle(order)
    for name in set(ESTIMATORS) - set(SETTINGS):
        straight = ESTIMATORS[name](trajectories)
        shuffled = ESTIMATORS[name]([trajectories[index] for index in order])
        for index, own in zip(order, shuffled, strict=True):
            np.testing.assert_allclose(own, straight[index], atol=1e-7, err_msg=name)


@few
@given(rollouts, st.floats(-3, 3))
def test_a_constant_on_every_return_changes_nothing(episode, rollout, constant) -> None:
    plain = played(episode, rollout)
    shifted = played(episode, [(group, states, last + constant) for group, states, last in rollout])
    for name in ("rloo", "grpo", "reinforce_plus_plus_baseline"):
        for own, other in zip(ESTIMATORS[name](plain), ESTIMATORS[name](shifted), strict=True):
            np.testing.assert_allclose(own, other, atol=1e-6, err_msg=name)


@few
@given(rollouts)
def test_groups_do_not_mix(episode, rollout) -> None:
    trajectories = played(episode, rollout)
    for name, estimate in TURN_ESTIMATORS.items():
        together = estimate(trajectories)
        for group in {each.group for each in trajectories}:
            places = [index for index, each in enumerate(trajectories) if each.group == group]
            alone = estimate([trajectories[index] for index in places])
            for index, own in zip(places, alone, strict=True):
                np.testing.assert_allclose(own, together[index], atol=1e-7, err_msg=name)


@pytest.mark.parametrize("name", ["gigpo", "hgpo", "graphgpo"])
@few
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=5))
def test_where_every_state_is_new_the_step_terms_vanish(episode, name, outcomes) -> None:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    group = [episode("".join(next(letters) for _ in range(3)), [0.0, outcome]) for outcome in outcomes]
    flat = grpo(group) if name != "hgpo" else [np.zeros(2)] * len(group)
    for own, expected in zip(TURN_ESTIMATORS[name](group), flat, strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-9)


def test_a_copy_that_is_there_too_early_is_seen(episode) -> None:
    """What padding before advantages does: a turn that nothing compares with gets an advantage, from its own copy."""
    group = [episode("abg", [0.0, 1.0]), episode("ach", [0.0, 0.0])]
    padded = [*group, episode("abg", [0.0, 1.0])]
    assert hgpo(group, depth=0, scale=False)[0][0] == 0.95 / 2
    assert hgpo(padded, depth=0, scale=False)[0][0] == pytest.approx(0.95 / 3)
