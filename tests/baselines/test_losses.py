"""The terms of PPO's objective, worked by hand."""

import math

import torch

from turngym.baselines.losses import approximate_kl, policy_loss, value_loss


def test_the_ratio_is_clipped_on_the_side_that_would_gain() -> None:
    old = torch.zeros(4)
    now = torch.tensor([1.5, 0.5, 1.5, 0.5]).log()
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    loss, clipped = policy_loss(now, old, advantages, clip_low=0.2, clip_high=0.28)
    assert math.isclose(loss.item(), -1.28 - 0.5 + 1.5 + 0.8, rel_tol=1e-6)
    assert clipped.tolist() == [True, False, False, True]


def test_clipped_tokens_have_no_gradient() -> None:
    now = torch.tensor([1.5, 1.1]).log().requires_grad_()
    policy_loss(now, torch.zeros(2), torch.ones(2), clip_low=0.2, clip_high=0.28)[0].backward()
    torch.testing.assert_close(now.grad, torch.tensor([0.0, -1.1]))


def test_a_value_that_leaps_is_charged_for_where_it_was_allowed_to_go() -> None:
    loss = value_loss(torch.tensor([1.0]), torch.tensor([0.0]), torch.tensor([1.0]), clip=0.2)
    assert math.isclose(loss.item(), 0.5 * 0.8**2, rel_tol=1e-6)
    loss = value_loss(torch.tensor([0.1]), torch.tensor([0.0]), torch.tensor([1.0]), clip=0.2)
    assert math.isclose(loss.item(), 0.5 * 0.9**2, rel_tol=1e-6)


def test_approximate_kl() -> None:
    now = torch.tensor([0.25, 0.5]).log()
    old = torch.tensor([0.5, 0.5]).log()
    assert math.isclose(approximate_kl(now, old).item(), 0.5 - 1 + math.log(2), rel_tol=1e-5)
