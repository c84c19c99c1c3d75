"""Environments and a policy, put together: whole episodes, batch by batch."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium

from turngym.agents.llm_policy import LLMPolicy
from turngym.agents.trajectory import Trajectory

Env = gymnasium.Env[str, str]
_THREADS = 16


def collect_rollout(
    policy: LLMPolicy,
    envs: Sequence[Env],
    seeds: Sequence[int],
    *,
    groups: Sequence[int] | None = None,
    noise_seeds: Sequence[int] | None = None,
    first_index: int = 0,
) -> list[Trajectory]:
    """Play one episode for each seed, as many at a time as there are environments.

    Only live episodes are stepped, each in a thread of its own, so that a turn lasts as long as its slowest
    environment and not as long as all of them together. A truncated episode ends with the critic's estimate of what
    would have followed.

    Args:
        policy: The policy.
        envs: Environments of one id; any that take and return text. What they do not tell is left empty.
        seeds: The seed of each episode.
        groups: The group of each episode; by default each is a group of its own.
        noise_seeds: Luck of each episode, where group members share a level and not their luck.
        first_index: Number of the first episode. The draws of an episode depend on the policy's seed and its number,
            so that a rollout in several parts is the rollout in one.

    Returns:
        One trajectory for each seed, in that order.
    """
    trajectories: list[Trajectory] = []
    with ThreadPoolExecutor(min(_THREADS, len(envs))) as threads:
        for start in range(0, len(seeds), len(envs)):
            places = range(start, min(start + len(envs), len(seeds)))
            numbered = dict(zip((first_index + place for place in places), envs, strict=False))
            batch = _Batch(policy, numbered, threads)
            batch.reset([seeds[place] for place in places], noise_seeds and [noise_seeds[place] for place in places])
            batch.play()
            for index, place in zip(numbered, places, strict=True):
                policy.trajectories[index].group = groups[place] if groups else index
                trajectories.append(policy.trajectories[index])
    return trajectories


class _Batch:
    """Episodes that are played side by side."""

    def __init__(self, policy: LLMPolicy, envs: dict[int, Env], threads: ThreadPoolExecutor) -> None:
        self._policy, self._envs, self._threads = policy, envs, threads
        self._observations: dict[int, str] = {}

    def reset(self, seeds: Sequence[int], noise_seeds: Sequence[int] | None) -> None:
        options = [{"noise_seed": noise_seed} for noise_seed in noise_seeds] if noise_seeds else [None] * len(seeds)

        def begin(index: int, seed: int, luck: dict[str, Any] | None) -> tuple[str, dict[str, Any]]:
            return self._envs[index].reset(seed=seed, options=luck)

        begun = dict(zip(self._envs, self._threads.map(begin, self._envs, seeds, options), strict=True))
        self._policy.reset(list(begun), [str(info.get("instructions", "")) for _, info in begun.values()])
        for seed, (index, (observation, info)) in zip(seeds, begun.items(), strict=True):
            trajectory, spec = self._policy.trajectories[index], self._envs[index].spec
            trajectory.seed, trajectory.env_id = seed, spec.id if spec else ""
            trajectory.level_id = str(info.get("level_id", ""))
            trajectory.state_keys.append(str(info.get("state_key", "")))
            self._observations[index] = observation

    def play(self) -> None:
        live = list(self._envs)
        while live:
            replies = self._policy.act([self._observations[index] for index in live], live)
            steps = self._threads.map(lambda index, reply: self._envs[index].step(reply), live, replies)
            for index, (observation, reward, terminated, truncated, info) in zip(live, steps, strict=True):
                trajectory = self._policy.trajectories[index]
                trajectory.terminated, trajectory.truncated = terminated, truncated
                trajectory.record_turn(float(reward), info)
                self._observations[index] = observation
            live = self._finish(live)

    def _finish(self, played: list[int]) -> list[int]:
        """Close what has ended, and return what is still live."""
        trajectories = self._policy.trajectories
        cut = [index for index in played if trajectories[index].truncated and not trajectories[index].terminated]
        if cut:
            values = self._policy.value([self._observations[index] for index in cut], cut)
            for index, value in zip(cut, values, strict=True):
                trajectories[index].bootstrap_value = value
        live = [index for index in played if not (trajectories[index].terminated or trajectories[index].truncated)]
        self._policy.release([index for index in played if index not in live])
        return live
