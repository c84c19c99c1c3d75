"""An environment as the rules of `turngym.envs.checker` see it: typed calls, named exceptions, recorded episodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import gymnasium
import numpy as np

from turngym.envs.errors import ContractError

MAX_TURNS = 10_000
"""An episode that is longer than this is taken for one without end."""


@dataclass(frozen=True)
class Turn:
    """What one call of `step` returned (`reset`: without reward and ends)."""

    observation: str
    info: dict[str, Any]
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False

    @property
    def over(self) -> bool:
        """Whether the episode has ended, either way."""
        return self.terminated or self.truncated


class Probe:
    """An environment whose calls are checked for their types, and whose exceptions become contract errors.

    Args:
        env: The environment, wrapped or not.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self.name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._turns = 0

    def fail(self, found: str, expected: str) -> NoReturn:
        """Say which rule is broken."""
        raise ContractError(f"{self.name}: found {found}; expected {expected}")

    def reset(self, seed: int | None = None) -> Turn:
        """Begin an episode."""
        with self.named(f"reset(seed={seed})"):
            observation, info = self._env.reset(seed=seed)
        self._turns = 0
        self._check_observation(observation, "reset")
        return Turn(observation, info)

    def step(self, action: str) -> Turn:
        """Play one turn; an episode that comes to no end is broken too."""
        self._turns += 1
        if self._turns > MAX_TURNS:
            self.fail(f"no end after {MAX_TURNS} turns", "a limit on turns")
        with self.named(f"step({short(action)})"):
            observation, reward, terminated, truncated, info = self._env.step(action)
            reward = float(reward)
        self._check_observation(observation, "step")
        if terminated and truncated:
            self.fail(f"terminated and truncated both true after step({short(action)})", "one of them")
        return Turn(observation, info, reward, terminated, truncated)

    def draw(self, rng: np.random.Generator) -> str:
        """A random valid action."""
        action = self.ask("random_action", rng)
        if not isinstance(action, str):
            self.fail(f"{kind_of(action)} from random_action(rng)", "a str")
        return action

    def play(self, seed: int, turns: int | None = None) -> list[Turn]:
        """Reset and play random valid actions, to the end or for some turns; the first entry is the reset."""
        rng, record = np.random.default_rng(seed), [self.reset(seed)]
        while not record[-1].over and (turns is None or len(record) <= turns):
            record.append(self.step(self.draw(rng)))
        return record

    def has(self, hook: str) -> bool:
        """Whether the environment or a wrapper around it has an attribute."""
        return self._env.has_wrapper_attr(hook)

    def attribute(self, name: str, meaning: str) -> Any:
        """An attribute or hook of the environment or of a wrapper around it, which must be there."""
        if not self.has(name):
            self.fail(f"no `{name}`", meaning)
        return self._env.get_wrapper_attr(name)

    def turns_left(self) -> int | None:
        """Turns before the episode ends by itself, or None where the environment does not say."""
        left: int | None = self._env.get_wrapper_attr("turns_left") if self.has("turns_left") else None
        return left

    def ask(self, hook: str, *arguments: Any) -> Any:
        """Call a hook."""
        with self.named(f"{hook}()"):
            return self._env.get_wrapper_attr(hook)(*arguments)

    def render(self) -> None:
        """Draw, where a render mode was chosen."""
        if self._env.render_mode is not None:
            with self.named("render()"):
                self._env.render()

    @contextmanager
    def named(self, call: str) -> Iterator[None]:
        """Turn what a call raises into a contract error that names it."""
        try:
            yield
        except Exception as error:
            found = f"{type(error).__name__} from {call}: {error}"
            raise ContractError(f"{self.name}: found {found}; expected no exception") from error

    def _check_observation(self, observation: Any, call: str) -> None:
        if not isinstance(observation, str):
            self.fail(f"an observation of type {kind_of(observation)} from {call}", "a str")


def kind_of(value: Any) -> str:
    """The type's name, with its module where there is one: NumPy too has a `bool`."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def short(text: str) -> str:
    """A text for a message: in ASCII, and cut."""
    return ascii(text) if len(text) <= 40 else f"{text[:40]!a}... of {len(text)} characters"
