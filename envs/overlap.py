"""Do splits share levels? Counted on levels that are really drawn, rather than argued from how they are meant to be."""

from dataclasses import dataclass
from itertools import combinations

import gymnasium

from turngym.envs.splits import SPLITS, Split
from turngym.envs.text_env import TextEnv


@dataclass(frozen=True)
class Overlap:
    """What was drawn, and what splits have in common.

    Attributes:
        distinct: How many different levels were drawn in each split, mirror images and rotations counted as equal.
        shared: How many of them two splits share: none, if all is well.
        by_design: Whether the environment says that all its splits hold the same levels.
    """

    distinct: dict[Split, int]
    shared: dict[tuple[Split, Split], int]
    by_design: bool


def measure_overlap(env_id: str, count: int) -> Overlap:
    """Draw levels of every split as `reset` does, and compare them.

    Args:
        env_id: The environment's id.
        count: How many levels to draw of each split, at least 1.

    Raises:
        ValueError: If `count` is below 1, or the environment is no `TextEnv` and so has no canonical form of a level.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    task = gymnasium.make(env_id).unwrapped
    if not isinstance(task, TextEnv):
        raise ValueError(f"env_id must name a TextEnv, whose levels can be compared, got {env_id!r}")
    levels = {split: _canonical_levels(env_id, split, count) for split in SPLITS}
    return Overlap(
        distinct={split: len(drawn) for split, drawn in levels.items()},
        shared={(one, other): len(levels[one] & levels[other]) for one, other in combinations(SPLITS, 2)},
        by_design=task.shared_splits,
    )


def _canonical_levels(env_id: str, split: Split, count: int) -> set[str]:
    env = gymnasium.make(env_id, split=split)
    task, levels = env.unwrapped, set()
    assert isinstance(task, TextEnv), "the same class in every split"
    for index in range(count):
        env.reset(seed=0 if index == 0 else None)
        levels.add(task._canonical(task._level))
    env.close()
    return levels
