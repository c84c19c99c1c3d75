"""What may be learned from an episode: the tokens that the policy sampled, and nothing that it was given.

A policy that is trained on an interpreter's output learns to make it up. Implementations have got this wrong in many
ways (a mask found by looking for control tokens, ids encoded again, a template's tokens counted as sampled), and none
of them raises by itself. The recipes check every rollout.
"""

from collections.abc import Iterable

from turngym.agents.trajectory import Trajectory

GIVEN = ("prompt", "observation")
"""Segments that the policy has read and not written."""


def check_masks(trajectories: Iterable[Trajectory]) -> None:
    """Check that mask, turn and segment of every token say the same of who wrote it, and that every turn has a token.

    Raises:
        AssertionError: If they do not: the mask is wrong, and so would be what is trained on it. The message names
            episode, token and segment.
    """
    for each in trajectories:
        where = f"episode of seed {each.seed}"
        lists = (each.policy_mask, each.turn_id, each.segment, each.log_probs, each.values)
        if any(len(own) != len(each.ids) for own in lists):
            raise AssertionError(f"{where}: {len(each.ids)} tokens, but lists of {[len(own) for own in lists]}")
        for at, (sampled, turn, segment) in enumerate(zip(each.policy_mask, each.turn_id, each.segment, strict=True)):
            if (sampled == 1) != (segment not in GIVEN) or (sampled == 1) != (turn >= 0):
                raise AssertionError(
                    f"{where}: token {at} is part of the {segment} (turn {turn}), and policy_mask says {sampled}"
                )
        written = [turn for turn in each.turn_id if turn >= 0]
        if written != sorted(written) or sorted(set(written)) != list(range(each.turns)):
            raise AssertionError(f"{where}: {each.turns} turns, but tokens of turns {sorted(set(written))}")
