"""Success on held-out levels, with intervals, and the tables that report it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any, Protocol

import gymnasium
import numpy as np

from turngym.agents.trajectory import Trajectory
from turngym.envs.errors import TurngymError
from turngym.envs.scores import wilson_interval

Env = gymnasium.Env[str, str]


class Agent(Protocol):
    """Anything that answers an observation."""

    def act(self, observation: str) -> str:
        """A reply."""


@dataclass(frozen=True)
class Score:
    """How an agent did on a set of levels.

    Attributes:
        success: Share of episodes that were solved.
        success_interval: 95% Wilson interval of that share over these episodes (levels and luck, not training seeds).
        normalized: Where the success lies between a random agent (0) and the oracle (1).
        episodes: How many were played.
        episode_return: Mean sum of rewards.
        turns: Mean number of turns.
        invalid_rate: Share of turns whose reply could not be read.
        void: How many further episodes a failure of ours has spoiled; they count nowhere else.
    """

    success: float
    success_interval: tuple[float, float]
    normalized: float
    episodes: int
    episode_return: float
    turns: float
    invalid_rate: float
    void: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers."""
        return asdict(self)


def score_trajectories(trajectories: Sequence[Trajectory], reference: tuple[float, float]) -> Score:
    """Summarise episodes.

    Args:
        trajectories: At least one that no failure of ours has spoiled.
        reference: Success of the random agent and of the oracle on the same id.
    """
    played = len(trajectories)
    trajectories = [each for each in trajectories if each.valid]
    if not trajectories:
        raise TurngymError(f"a failure of ours has spoiled all {played} episodes: there is nothing to report")
    successes, turns = sum(each.success for each in trajectories), sum(each.turns for each in trajectories)
    success = successes / len(trajectories)
    invalid = sum(not info.get("action_is_valid", True) for each in trajectories for info in each.infos)
    return Score(
        success=success,
        success_interval=wilson_interval(successes, len(trajectories)),
        normalized=normalized(success, reference),
        episodes=len(trajectories),
        episode_return=float(np.mean([each.episode_return for each in trajectories])),
        turns=turns / len(trajectories),
        invalid_rate=invalid / turns,
        void=played - len(trajectories),
    )


def normalized(success: float, reference: tuple[float, float]) -> float:
    """`(success - random) / (oracle - random)`; NaN where random is as good as the oracle."""
    floor, ceiling = reference
    return (success - floor) / (ceiling - floor) if ceiling > floor else float("nan")


def pass_at_k(solved: Sequence[int], samples: int, k: int) -> float:
    """Probability that at least one of `k` samples solves a level, averaged over levels, without bias.

    The mean of `1 - C(n - c, k) / C(n, k)`, for `c` solved of `n` samples (Chen et al. 2021, arXiv:2107.03374, eq. 1).

    Args:
        solved: How many of a level's samples solved it, for each level.
        samples: How many were drawn of each.
        k: At most `samples`.

    Raises:
        ValueError: If `k` is out of range.
    """
    if not 1 <= k <= samples:
        raise ValueError(f"k must lie in 1 .. samples ({samples}), got {k}")
    return float(np.mean([1 - comb(samples - each, k) / comb(samples, k) for each in solved]))


def play(env: Env, agent: Agent, seeds: Sequence[int]) -> list[Trajectory]:
    """Episodes of an agent that has no tokens, one for each seed, without a transcript."""
    episodes = []
    for seed in seeds:
        observation, info = env.reset(seed=seed)
        episode = Trajectory(seed=seed, level_id=str(info.get("level_id", "")))
        episode.state_keys.append(str(info.get("state_key", "")))
        while not (episode.terminated or episode.truncated):
            observation, reward, episode.terminated, episode.truncated, info = env.step(agent.act(observation))
            episode.record_turn(float(reward), info)
        episodes.append(episode)
    return episodes


def table(scores: dict[str, Score]) -> str:
    """Scores as an aligned text table, one agent a row."""
    rows = [("agent", "success", "95% interval", "normalised", "return", "turns", "invalid", "episodes")]
    for name, score in scores.items():
        low, high = score.success_interval
        rows.append(
            (
                name,
                f"{score.success:.3f}",
                f"{low:.3f} to {high:.3f}",
                f"{score.normalized:.3f}",
                f"{score.episode_return:.3f}",
                f"{score.turns:.1f}",
                f"{score.invalid_rate:.3f}",
                str(score.episodes),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
