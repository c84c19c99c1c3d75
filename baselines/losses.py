"""The terms of PPO's objective as sums over sampled tokens; the caller divides once, by the tokens of the whole batch.

Summing here and dividing there is what makes the loss of one batch of eight equal to that of eight batches of one.
Every argument is `(tokens,)` unless it says otherwise.
"""

from torch import Tensor


def policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    importance: Tensor | float = 1.0,
    *,
    clip_low: float,
    clip_high: float,
) -> tuple[Tensor, Tensor]:
    """Clipped surrogate, summed over tokens.

    Args:
        log_probs: Under the present policy, differentiable.
        old_log_probs: Under the policy that sampled.
        advantages: Advantage of each token.
        importance: Weight of each token, where another engine sampled it (`importance.py`).
        clip_low: How far the ratio may fall below 1.
        clip_high: How far it may rise above 1; larger than `clip_low` keeps rare tokens alive (clip-higher, DAPO).

    Returns:
        The loss, `()`, and whether each token's ratio was clipped.

    Source: Schulman et al. 2017, arXiv:1707.06347, equation 7.
    """
    ratio = (log_probs - old_log_probs).exp()
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = -importance * (ratio * advantages).minimum(clipped * advantages)
    return loss.sum(), (ratio * advantages > clipped * advantages).detach()


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, *, clip: float) -> Tensor:
    """Half the squared error of the critic, summed; a step beyond `clip` from the old value is not rewarded.

    Args:
        values: The present estimates, differentiable.
        old_values: The estimates at sampling time.
        returns: What they should have been.
        clip: How far an estimate may move, in units of the return.
    """
    near = old_values + (values - old_values).clamp(-clip, clip)
    return 0.5 * (values - returns).square().maximum((near - returns).square()).sum()


def approximate_kl(log_probs: Tensor, old_log_probs: Tensor) -> Tensor:
    """Non-negative estimate of KL(old || present), summed over tokens, in nats.

    Source: Schulman, "Approximating KL divergence" (2020), the estimator called k3.
    """
    log_ratio = log_probs - old_log_probs
    return (log_ratio.exp() - 1 - log_ratio).sum()


def kl_to_reference(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """Estimate of KL(present || reference), summed over tokens that the present policy sampled, in nats.

    Source: the same estimator, as the KL term of GRPO (arXiv:2402.03300, equation 4).
    """
    return approximate_kl(reference_log_probs, log_probs)
