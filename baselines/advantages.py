"""Advantage estimates over the tokens that the policy sampled; everything else in a transcript is stepped over.

Each function takes one trajectory as 1-D arrays over its sampled tokens, in order. The reward of a turn is credited to
the last token of its reply.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def token_rewards(turn_rewards: Sequence[float], turn_ends: Sequence[bool]) -> Floats:
    """Each turn's reward on the last token of its reply, 0 elsewhere.

    Args:
        turn_rewards: One a turn, K of them.
        turn_ends: For each sampled token whether its turn ends with it; K of them are True.

    Raises:
        ValueError: If the number of turns differs.
    """
    rewards = np.zeros(len(turn_ends))
    ends = np.flatnonzero(turn_ends)
    if len(ends) != len(turn_rewards):
        raise ValueError(f"{len(turn_rewards)} turn rewards, but {len(ends)} turns end among the tokens")
    rewards[ends] = turn_rewards
    return rewards


def gae(
    rewards: Floats,
    values: Floats,
    turn_ends: Sequence[bool],
    bootstrap_value: float,
    *,
    turn_gamma: float,
    turn_lambda: float,
    token_gamma: float = 1.0,
    token_lambda: float = 1.0,
) -> Floats:
    """Generalised advantage estimation with its own discount and decay across turns.

    Args:
        rewards: Reward at each token, `(n,)`.
        values: The critic's estimate just before each token, `(n,)`.
        turn_ends: Whether a turn ends with the token, `(n,)`.
        bootstrap_value: Estimate of what follows the last token: 0 where the episode terminated, the critic's value
            after the last observation where it was truncated.
        turn_gamma: Discount from the last token of a turn to the next turn, in [0, 1].
        turn_lambda: Trace decay there, in [0, 1].
        token_gamma: Discount between tokens of one turn, in [0, 1].
        token_lambda: Trace decay there, in [0, 1].

    Returns:
        Advantages, `(n,)`, not normalised. With equal settings for turns and tokens this is plain GAE.

    Source: Schulman et al. 2015, arXiv:1506.02438; discounts by turn as in VAGEN (arXiv:2510.16907) and Verlog.
    """
    advantages = np.zeros(len(rewards))
    next_value, next_advantage = bootstrap_value, 0.0
    for index in reversed(range(len(rewards))):
        gamma, decay = (turn_gamma, turn_lambda) if turn_ends[index] else (token_gamma, token_lambda)
        delta = rewards[index] + gamma * next_value - values[index]
        next_advantage = delta + gamma * decay * next_advantage
        advantages[index], next_value = next_advantage, values[index]
    return advantages


def bi_level_gae(
    rewards: Floats,
    values: Floats,
    turn_ends: Sequence[bool],
    bootstrap_value: float,
    *,
    turn_gamma: float,
    turn_lambda: float,
    token_gamma: float = 1.0,
    token_lambda: float = 1.0,
) -> Floats:
    """Generalised advantage estimation first over turns and then, inside each turn, over tokens.

    The turn pass uses the value before each turn's first token; its estimate of the return is the terminal term of the
    token pass. Arguments and result are those of `gae`, and the two agree where every turn is one token.

    Source: bi-level GAE of VAGEN, arXiv:2510.16907. Turn ends are given and never read off the rewards, so a turn that
    earned nothing keeps its boundary.
    """
    advantages = np.zeros(len(rewards))
    ends = np.flatnonzero(turn_ends)
    starts = [0, *(ends[:-1] + 1)]
    next_value, turn_advantage = bootstrap_value, 0.0
    for start, end in zip(reversed(starts), reversed(ends), strict=True):
        delta = rewards[end] + turn_gamma * next_value - values[start]
        turn_advantage = delta + turn_gamma * turn_lambda * turn_advantage
        advantage = turn_advantage + values[start] - values[end]
        advantages[end] = advantage
        for index in range(end - 1, start - 1, -1):
            delta = token_gamma * values[index + 1] - values[index]
            advantage = delta + token_gamma * token_lambda * advantage
            advantages[index] = advantage
        next_value = values[start]
    return advantages


ESTIMATORS = {"gae": gae, "bi_level": bi_level_gae}


def whiten(advantages: Floats) -> Floats:
    """Mean 0 and standard deviation 1 over all sampled tokens of a batch; unchanged where there is nothing to scale."""
    deviation = advantages.std() if len(advantages) > 1 else 0.0
    return (advantages - advantages.mean()) / deviation if deviation > 1e-8 else advantages
