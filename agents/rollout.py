"""Environments and a policy, put together: whole episodes, as many at a time as there are environments."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import gymnasium

from turngym.agents.llm_policy import LLMPolicy
from turngym.agents.trajectory import Trajectory

Env = gymnasium.Env[str, str]
Call = Callable[[], Any]
_THREADS = 16
_QUICK_S = 1e-3
"""Calls that take less than this are not worth a thread."""


def collect_rollout(
    policy: LLMPolicy,
    envs: Sequence[Env],
    seeds: Sequence[int],
    *,
    groups: Sequence[int] | None = None,
    noise_seeds: Sequence[int] | None = None,
    first_index: int = 0,
    asynchronous: bool | None = None,
) -> list[Trajectory]:
    """Play one episode for each seed, as many at a time as there are environments.

    An environment whose episode has ended goes on with the next. A truncated episode ends with the critic's estimate
    of what would have followed; one that the policy has no room for is truncated, too.

    Args:
        policy: The policy.
        envs: Environments of one id; any that take and return text. What they do not tell is left empty.
        seeds: The seed of each episode.
        groups: The group of each episode; by default each is a group of its own.
        noise_seeds: Luck of each episode, where group members share a level and not their luck.
        first_index: Number of the first episode. The draws of an episode depend on the policy's seed and its number,
            so that a rollout in several parts is the rollout in one.
        asynchronous: Whether the others go on while an environment is at work, each in a thread of its own. Who is
            read together with whom, and so the last bits of a float32, then depend on how long they take; otherwise a
            rollout is the same to the last bit every time. By default as the environments say (`is_slow`).

    Returns:
        One trajectory for each seed, in that order.
    """
    env = envs[0]
    if asynchronous is None:
        asynchronous = env.has_wrapper_attr("is_slow") and bool(env.get_wrapper_attr("is_slow"))
    lucks = noise_seeds if noise_seeds else [None] * len(seeds)
    episodes = [_Episode(first_index + place, *each) for place, each in enumerate(zip(seeds, lucks, strict=True))]
    with ThreadPoolExecutor(min(_THREADS, len(envs))) as threads:
        _Rollout(policy, envs, episodes, Concurrent(threads) if asynchronous else InTurn(threads)).play()
    trajectories = [policy.trajectories[each.index] for each in episodes]
    for place, trajectory in enumerate(trajectories):
        trajectory.group = groups[place] if groups else first_index + place
    return trajectories


@dataclass(frozen=True)
class _Episode:
    """An episode that is to be played."""

    index: int
    seed: int
    luck: int | None


class InTurn:
    """Calls that are all made and answered before anything else goes on."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads, self._calls = threads, dict[int, Call]()
        self._slow = False

    def __len__(self) -> int:
        return len(self._calls)

    def submit(self, key: int, call: Call) -> None:
        """Have a call made."""
        self._calls[key] = call

    def answers(self, *, block: bool) -> list[tuple[int, Any]]:
        """All answers, in the order of the calls."""
        calls, self._calls = self._calls, {}
        begun = time.perf_counter()
        answers = list(self._threads.map(_made, calls.values()) if self._slow else map(_made, calls.values()))
        self._slow = time.perf_counter() - begun > _QUICK_S * len(calls)  # changes how long it takes, and nothing else
        return list(zip(calls, answers, strict=True))


class Concurrent:
    """Calls that are made in threads; who has an answer goes on."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads, self._calls = threads, dict[Future[Any], int]()

    def __len__(self) -> int:
        return len(self._calls)

    def submit(self, key: int, call: Call) -> None:
        """Have a call made."""
        self._calls[self._threads.submit(call)] = key

    def answers(self, *, block: bool) -> list[tuple[int, Any]]:
        """The answers that have come, in the order of the calls; with `block` at least one, if there are calls."""
        done = wait(self._calls, None if block else 0, FIRST_COMPLETED).done if self._calls else set()
        come = [future for future in self._calls if future in done]
        return [(self._calls.pop(future), future.result()) for future in come]


def _made(call: Call) -> Any:
    return call()


class _Rollout:
    """Episodes that are played side by side."""

    def __init__(
        self, policy: LLMPolicy, envs: Sequence[Env], episodes: Iterable[_Episode], calls: InTurn | Concurrent
    ) -> None:
        self._policy, self._calls = policy, calls
        self._to_play: Iterator[_Episode] = iter(episodes)
        self._envs: dict[int, Env] = {}
        self._beginning: dict[int, _Episode] = {}
        policy.reset([], [])
        for env in envs:
            self._next(env)

    def play(self) -> None:
        """Play all of them to their ends."""
        while len(self._calls) or self._policy.is_busy:
            for index, answer in self._calls.answers(block=not self._policy.is_busy):
                if index in self._beginning:
                    self._begin(self._beginning.pop(index), *answer)
                else:
                    self._go_on(index, *answer)
            for index, reply in self._policy.advance().items():
                self._calls.submit(index, lambda env=self._envs[index], reply=reply: env.step(reply))

    def _next(self, env: Env) -> None:
        """Let an environment begin the next episode, if there is one."""
        episode = next(self._to_play, None)
        if episode is None:
            return
        options = None if episode.luck is None else {"noise_seed": episode.luck}
        self._envs[episode.index], self._beginning[episode.index] = env, episode
        self._calls.submit(episode.index, lambda: env.reset(seed=episode.seed, options=options))

    def _begin(self, episode: _Episode, observation: str, info: dict[str, Any]) -> None:
        self._policy.join([episode.index], [str(info.get("instructions", ""))])
        trajectory, spec = self._policy.trajectories[episode.index], self._envs[episode.index].spec
        trajectory.seed, trajectory.env_id = episode.seed, spec.id if spec else ""
        trajectory.level_id = str(info.get("level_id", ""))
        trajectory.state_keys.append(str(info.get("state_key", "")))
        self._policy.observe(episode.index, observation)

    def _go_on(
        self, index: int, observation: str, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        trajectory = self._policy.trajectories[index]
        has_room = self._policy.has_room(index, observation)
        trajectory.terminated, trajectory.truncated = terminated, truncated or not (terminated or has_room)
        trajectory.record_turn(float(reward), info)
        if not (terminated or trajectory.truncated):
            self._policy.observe(index, observation)
            return
        if terminated:
            self._policy.release([index])
        else:
            self._policy.close(index, observation)
        self._next(self._envs.pop(index))
