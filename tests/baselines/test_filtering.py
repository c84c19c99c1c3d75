"""Which groups an update sees."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.baselines.filtering import group_stds, keep_uncertain, min_p, top_k, top_p

STDS = np.array([0.1, 0.5, 0.0, 0.3, 0.1])


@pytest.mark.parametrize(
    ("rule", "share", "kept"),
    [
        (top_k, 0.4, [1, 3]),
        (top_k, 0.6, [0, 1, 3]),  # of two equals, the first
        (top_k, 0.39, [1]),  # 1.95 groups, rounded down
        (top_k, 0.01, [1]),
        (top_k, 1.0, [0, 1, 2, 3, 4]),
        (top_p, 0.5, [1]),  # 0.5 of 1.0 in all
        (top_p, 0.51, [1, 3]),
        (top_p, 0.9, [0, 1, 3]),
        (top_p, 1.0, [0, 1, 3, 4]),
        (min_p, 0.6, [1, 3]),
        (min_p, 0.2, [0, 1, 3, 4]),
        (min_p, 0.01, [0, 1, 3, 4]),
        (min_p, 1.0, [1]),
    ],
)
def test_by_hand(rule, share, kept) -> None:
    assert np.flatnonzero(rule(STDS, share)).tolist() == kept


def test_where_all_groups_agree() -> None:
    stds = np.zeros(4)
    assert not top_p(stds, 0.9).any()
    assert not min_p(stds, 0.5).any()
    assert top_k(stds, 0.5).tolist() == [True, True, False, False]


@pytest.mark.parametrize("rule", [top_k, top_p, min_p])
@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_a_share_out_of_range_is_named(rule, share) -> None:
    with pytest.raises(ValueError, match=f"share must be above 0 and at most 1, got {share}"):
        rule(STDS, share)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=12), st.floats(0.01, 1), st.floats(0.1, 10))
def test_a_unit_of_reward_changes_nothing(stds, share, unit) -> None:
    """What is kept has no smaller deviation than what is not, whatever a reward is counted in."""
    stds = np.round(np.array(stds), 3)
    for rule in (top_k, top_p, min_p):
        kept = rule(stds, share)
        assert kept.tolist() == rule(stds * unit, share).tolist()
        assert min(stds[kept], default=np.inf) >= max(stds[~kept], default=0.0)


def test_whole_groups_are_kept(episode) -> None:
    rewards = {3: [0.0, 1.0], 1: [0.5, 0.5], 2: [0.0, 0.1], 9: [1.0]}
    batch = [episode("ab", [reward], group=group) for group, own in rewards.items() for reward in own]
    assert group_stds(batch) == {3: 0.5, 1: 0.0, 2: 0.05, 9: 0.0}
    assert [each.group for each in keep_uncertain(batch, partial(top_p, share=1.0))] == [3, 3, 2, 2]
    assert [each.group for each in keep_uncertain(batch[::-1], partial(top_p, share=0.9))] == [3, 3]
    assert keep_uncertain([batch[-1]], partial(top_p, share=0.9)) == []
