"""Figures of merit of planning, from what the environments' infos tell of each turn.

Ratios of costs and expansions have heavy tails, so they are reported as median and 90th percentile.

Source of SPL: P. Anderson et al., "On Evaluation of Embodied Navigation Agents" (2018), arXiv:1807.06757.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import atan2, degrees, nan, pi
from typing import Any, NamedTuple

import numpy as np

from turngym.envs.path_planning.maps import Cell


class Spread(NamedTuple):
    """Median and 90th percentile; both nan where there is nothing to describe."""

    median: float
    p90: float


@dataclass(frozen=True)
class Metrics:
    """What some episodes amount to.

    Attributes:
        episodes: How many.
        success: Share of episodes that reached the goal.
        spl: Success weighted by path length: the mean over all episodes of optimum / max(cost, optimum), 0 without
            success.
        suboptimality: Cost over optimum, of the successful ones; 1 is best.
        against_astar: Cells expanded, over those that A* expands, of all; nan where nothing is searched.
        against_weighted_astar: The same over those of weighted A*, weight 2.
        avoid_rate: Share of the searches that failed; nan where nothing is searched.
        invalid_rate: Share of turns with a reply that could not be read or was refused.
        turns: Mean number of turns.
        smoothness: Mean over the successful ones of `smoothness` of their paths; 0 is straight.
    """

    episodes: int
    success: float
    spl: float
    suboptimality: Spread
    against_astar: Spread
    against_weighted_astar: Spread
    avoid_rate: float
    invalid_rate: float
    turns: float
    smoothness: float


def measure(episodes: Iterable[Sequence[Mapping[str, Any]]]) -> Metrics:
    """The figures of some episodes of `PathPlanning-v0` or `RStar2-v0`.

    Args:
        episodes: The infos of each episode's turns, as in `Trajectory.infos`; at least one episode of at least one.

    Raises:
        ValueError: If there is no episode, or one without a turn.
    """
    played = [list(infos) for infos in episodes]
    if not played or not all(played):
        raise ValueError(f"episodes must be at least one, with a turn each, got {[len(infos) for infos in played]}")
    won = [infos for infos in played if infos[-1]["success"]]
    turns = [info for infos in played for info in infos]
    searches = sum(info.get("searches", 0) for info in turns)
    failures = sum(info.get("failures", 0) for info in turns)
    return Metrics(
        episodes=len(played),
        success=len(won) / len(played),
        spl=sum(spl(_cost(infos), infos[-1]["optimum"]) for infos in won) / len(played),
        suboptimality=_spread([_cost(infos) / infos[-1]["optimum"] for infos in won]),
        against_astar=_spread(_expansion_ratios(played, "astar_expansions")),
        against_weighted_astar=_spread(_expansion_ratios(played, "weighted_astar_expansions")),
        avoid_rate=failures / searches if searches else nan,
        invalid_rate=sum(not info["action_is_valid"] for info in turns) / len(turns),
        turns=len(turns) / len(played),
        smoothness=float(np.mean([smoothness(_path(infos)) for infos in won])) if won else nan,
    )


def spl(cost: float, optimum: float) -> float:
    """What one successful episode adds to SPL: 1 for a cheapest path, less for a dearer one.

    Args:
        cost: Of the path, at least 0.
        optimum: The cost of a cheapest path, above 0.
    """
    return optimum / max(cost, optimum)


def smoothness(path: Sequence[Cell]) -> float:
    """How much a path turns: the mean change of direction from step to step, in degrees; 0 is straight.

    Args:
        path: Cells that follow each other; staying on a cell is no step.
    """
    headings = [atan2(there[0] - here[0], there[1] - here[1]) for here, there in pairwise(path) if here != there]
    turns = [abs((after - before + pi) % (2 * pi) - pi) for before, after in pairwise(headings)]
    return degrees(sum(turns) / len(turns)) if turns else 0.0


def _cost(infos: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(info["cost"] for info in infos))


def _path(infos: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """The parts of a path that the turns have added, each of which begins where the one before it ended."""
    first, *later = [info["path"] for info in infos if info["path"]]
    return [*first, *(cell for part in later for cell in part[1:])]


def _expansion_ratios(episodes: Sequence[Sequence[Mapping[str, Any]]], baseline: str) -> list[float]:
    return [
        sum(info["expansions"] for info in infos) / infos[-1][baseline] for infos in episodes if baseline in infos[-1]
    ]


def _spread(values: Sequence[float]) -> Spread:
    return Spread(float(np.median(values)), float(np.quantile(values, 0.9))) if values else Spread(nan, nan)
