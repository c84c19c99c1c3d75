"""Resample on correct: of twice as many episodes, an update sees half, successes with clean tool use first.

    penalties = [episode_penalty(each, replies_of(each)) for each in episodes]
    kept = [episodes[index] for index in resample_on_correct(episodes, penalties, rng)]

Rewarding the answer alone also rewards the failed calls on the way to it; charging for them invites not to call at all.
So the reward stays as it is and the selection is uneven: failures keep their variety, successes are thinned out by what
went wrong in them. What went wrong is read off typed statuses, not off the words of an output: the released detector
looks for "error" in it, and takes a mean squared error for one and a timeout for none.

Source: GRPO-RoC of rStar2-Agent, arXiv:2508.20722, equations 4 and 5.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from turngym.agents.trajectory import Trajectory


class ToolUse(NamedTuple):
    """How an episode used its tool.

    Attributes:
        errors: Calls that did not end well.
        calls: All calls.
    """

    errors: int
    calls: int


def interpreter_use(trajectory: Trajectory) -> ToolUse:
    """Programs of an episode of `CodeInterpreter-v0`; those that were stopped or left early are errors too."""
    said = trajectory.infos[-1]["interpreter"]
    return ToolUse(said["errors"], said["calls"])


def waypoint_use(trajectory: Trajectory) -> ToolUse:
    """Waypoints of an episode of `RStar2-v0`; those that its bounded search did not reach (`avoid`) are errors."""
    outcomes = [bool(info["avoid"]) for info in trajectory.infos if info.get("avoid") is not None]
    return ToolUse(sum(outcomes), len(outcomes))


def tool_use(trajectory: Trajectory) -> ToolUse:
    """Calls of an episode, of whichever kind its environment tells; none where it tells of no calls."""
    return interpreter_use(trajectory) if "interpreter" in trajectory.infos[-1] else waypoint_use(trajectory)


def error_share(trajectories: Sequence[Trajectory]) -> float | None:
    """Share of all calls of some episodes that did not end well; None where there was no call."""
    uses = [tool_use(each) for each in trajectories]
    calls = sum(use.calls for use in uses)
    return sum(use.errors for use in uses) / calls if calls else None


def episode_penalty(trajectory: Trajectory, replies: Sequence[str]) -> float:
    """What went wrong in an episode: its calls, and the form of its replies.

    Answer tags are counted where there is an interpreter, since an answer ends such an episode. Elsewhere replies have
    no such tag, and the second term is the share of turns that could not be read.

    Args:
        trajectory: The episode.
        replies: Its texts, one a turn.
    """
    if "interpreter" in trajectory.infos[-1]:
        form = format_penalty(sum(reply.count("<answer>") for reply in replies), trajectory.turns)
    else:
        form = float(np.mean([not info.get("action_is_valid", True) for info in trajectory.infos]))
    return tool_penalty(tool_use(trajectory)) + form


def tool_penalty(use: ToolUse) -> float:
    """Share of the calls that failed, in [0, 1]; 0.5 without a call, so that calling stays worth while."""
    return use.errors / use.calls if use.calls else 0.5


def format_penalty(answers: int, turns: int) -> float:
    """For an episode with so many answer tags in so many turns: 1 without any, else `(answers - 1) / turns`, at most 1.

    In the released code an answer in a single turn without a call has penalty 1, since it counts turns by a tag that
    the first turn has not.
    """
    return min(1.0, (answers - 1) / turns) if answers else 1.0


def resample_on_correct(
    trajectories: Sequence[Trajectory], penalties: Sequence[float], rng: np.random.Generator
) -> list[int]:
    """Keep half of each group: failures at random, successes with probability in inverse proportion to their penalty.

    A group of 2 G with f failures keeps f / 2 of them, rounded down, and half of its successes, rounded up: G in all.
    Successes are drawn one after the other without replacement; those without any penalty come before all others.

    Args:
        trajectories: The groups, by `group`.
        penalties: What went wrong in each, at least 0, for example `tool_penalty + format_penalty`. Those of failures
            are not looked at.
        rng: Draws.

    Returns:
        Indices of those that are kept, ascending.

    Raises:
        ValueError: If a penalty is missing or negative.
    """
    _check(trajectories, penalties)
    kept: list[int] = []
    for solved, failed in _split(trajectories):
        # An exponential draw times the penalty is least with probability proportional to 1 / penalty, and so on among
        # the rest (Efraimidis and Spirakis 2006); the second key breaks the ties of penalty 0.
        keys = [(penalties[index] * rng.exponential(), rng.random(), index) for index in solved]
        kept += [index for *_, index in sorted(keys)[: -(-len(solved) // 2)]]
        kept += rng.permutation(failed)[: len(failed) // 2].tolist()
    return sorted(kept)


def resample_as_released(
    trajectories: Sequence[Trajectory], penalties: Sequence[float], keep: int, *, least: int = 2
) -> list[int]:
    """What the released code does instead: the least penalised of both kinds, without chance.

    Of each group `keep` are kept, failures and successes in the proportion in which they are there, but `least` of
    either kind where there are so many. Failures lose their variety, since they too are chosen by their penalty, and a
    success with a penalty among many without is never seen. Groups of fewer than `keep` are dropped.

    Args:
        trajectories: The groups, by `group`.
        penalties: What went wrong in each.
        keep: How many of each group; the code's `down_sample_to_n`.
        least: The code's `min_zero_reward_trace_num` and `min_non_zero_reward_trace_num`.

    Returns:
        Indices of those that are kept, ascending; among equals those that come first.

    Raises:
        ValueError: If a penalty is missing or negative, or `keep` is less than twice `least`.
    """
    _check(trajectories, penalties)
    if keep < 2 * least:
        raise ValueError(f"keep must be at least twice least ({least}), got {keep}")
    kept: list[int] = []
    for solved, failed in _split(trajectories):
        size = len(solved) + len(failed)
        if size < keep:
            continue
        losers = max(round(len(failed) * keep / size), min(least, len(failed)))
        losers = min(losers, keep - min(least, len(solved)))
        kept += sorted(failed, key=lambda index: penalties[index])[:losers]
        kept += sorted(solved, key=lambda index: penalties[index])[: keep - losers]
    return sorted(kept)


def _split(trajectories: Sequence[Trajectory]) -> list[tuple[list[int], list[int]]]:
    """Indices of successes and of failures, for each group."""
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for index, each in enumerate(trajectories):
        solved, failed = groups.setdefault(each.group, ([], []))
        (solved if each.success else failed).append(index)
    return list(groups.values())


def _check(trajectories: Sequence[Trajectory], penalties: Sequence[float]) -> None:
    if len(penalties) != len(trajectories):
        raise ValueError(f"penalties must be one a trajectory ({len(trajectories)}), got {len(penalties)}")
    if min(penalties, default=0.0) < 0:
        raise ValueError(f"penalties must be at least 0, got {min(penalties)}")
