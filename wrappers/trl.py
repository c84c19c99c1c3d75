"""Environments for TRL's GRPOTrainer (extra `trl`): as a tool that models call, or as text that they answer.

```
from trl import GRPOConfig, GRPOTrainer
from turngym.wrappers.trl import spec

game = spec("TextFrozenLake-v0", seeds=range(1000))
GRPOTrainer(model, reward_funcs=game.reward_funcs, train_dataset=game.train_dataset,
            environment_factory=game.environment_factory)  # or rollout_func=game.rollout_func
```

`environment_factory` suits models whose chat template knows tools. `rollout_func` suits all others, base models
without any template included: every reply is the raw text that the environment reads.

TRL repeats a row of the dataset for each member of a group, and the row holds the seed, so a group shares its level.
Luck is drawn with PyTorch's global generator, as TRL draws tokens: the members do not share it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import gymnasium

from turngym.envs.text_env import TextEnv
from turngym.lazy import require
from turngym.wrappers.trl_rollout import TextRollout

Wrapper = Callable[[gymnasium.Env[str, str]], gymnasium.Env[str, str]]
_OVER = "The episode has ended."


class TRLEnvironment:
    """An environment as TRL calls it: `reset` with a row of the dataset, then one tool, then `get_reward`.

    TRL offers every other public method to the model as a tool, so there are none; what may be asked is attributes.

    Args:
        env_id: A registered id.
        wrappers: Applied in this order.
        env_kwargs: Arguments of the environment.

    Attributes:
        instructions: Rules, legend and action grammar.
        stop_strings: Texts that end a reply.
        seed: The seed of the level.
        level_id: Fingerprint of the level.
        turns: Turns played.
        total_reward: Sum of the rewards so far.
        success: Whether the task was solved.
        over: Whether the episode has ended.
    """

    def __init__(self, env_id: str, wrappers: Sequence[Wrapper] = (), env_kwargs: dict[str, Any] | None = None) -> None:
        env: gymnasium.Env[str, str] = gymnasium.make(env_id, **(env_kwargs or {}))
        for wrapper in wrappers:
            env = wrapper(env)
        self._env = env
        self.instructions = str(_attribute(env, "instructions", ""))
        self.stop_strings: tuple[str, ...] = tuple(_attribute(env, "stop_strings", ()))
        self.seed, self.level_id, self.turns, self.total_reward = 0, "", 0, 0.0
        self.success, self.over = False, True

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Begin an episode, forgetting the one before.

        Args:
            seed: The seed of the level; every row of the dataset must hold one, as members of a group must share it.
            **row: The other columns, which say nothing to an environment.

        Returns:
            The first observation, which TRL appends to the prompt.

        Raises:
            ValueError: If there is no seed.
        """
        if seed is None:
            raise ValueError("every row of the dataset must hold a seed, as those of turngym.wrappers.trl.spec do")
        options = {"noise_seed": _draw_noise_seed()} if isinstance(self._env.unwrapped, TextEnv) else None
        observation, info = self._env.reset(seed=int(seed), options=options)
        self.seed, self.level_id = int(seed), str(info.get("level_id", ""))
        self.turns, self.total_reward, self.success, self.over = 0, 0.0, False, False
        return observation

    def act(self, action: str) -> str:
        """Play one turn of the game.

        Args:
            action: What to do, written as the instructions say.

        Returns:
            What happened, and the game as it stands now.
        """
        if self.over:
            return _OVER
        observation, reward, terminated, truncated, info = self._env.step(str(action))
        self.turns += 1
        self.total_reward += float(reward)
        self.over = terminated or truncated
        self.success = bool(info.get("success", terminated and float(reward) > 0))
        return f"{observation}\n{_OVER}" if self.over else observation

    def get_reward(self) -> float:
        """The sum of the episode's rewards, which TRL adds to its reward functions."""
        return self.total_reward


@dataclass(frozen=True)
class TRLSpec:
    """Everything that `GRPOTrainer` needs to train on an environment; built by `spec`.

    Attributes:
        env_id: The environment's id.
        seeds: The seed of each row of the dataset.
        wrappers: Applied to every environment, in this order.
        max_new_tokens: Longest reply of a turn that `rollout_func` plays, in tokens.
        env_kwargs: Arguments of the environment.
    """

    env_id: str
    seeds: tuple[int, ...]
    wrappers: tuple[Wrapper, ...]
    max_new_tokens: int
    env_kwargs: dict[str, Any]

    @cached_property
    def train_dataset(self) -> Any:
        """A `datasets.Dataset` with a row for each seed: `prompt`, the instructions as a user message, and `seed`.

        The message holds the seed too, because it is all that TRL gives to a `rollout_func`.
        """
        content = f"{self.environment_factory().instructions}\n\n"
        prompts = [[{"role": "user", "content": content, "seed": seed}] for seed in self.seeds]
        return require("datasets", "trl").Dataset.from_dict({"prompt": prompts, "seed": list(self.seeds)})

    @property
    def environment_factory(self) -> Callable[[], TRLEnvironment]:
        """Makes environments; can be pickled where the wrappers can."""
        return partial(TRLEnvironment, self.env_id, self.wrappers, self.env_kwargs)

    @property
    def rollout_func(self) -> TextRollout:
        """Plays whole episodes in text; can be pickled where the wrappers can."""
        return TextRollout(self.environment_factory, self.max_new_tokens)

    @property
    def reward_funcs(self) -> list[Callable[..., list[float | None]]]:
        """Reward of what `rollout_func` played; with `environment_factory` it may be given too, and adds nothing."""
        return [episode_reward]


def spec(
    env_id: str,
    seeds: Iterable[int],
    *,
    wrappers: Sequence[Wrapper] = (),
    max_new_tokens: int = 64,
    **env_kwargs: Any,
) -> TRLSpec:
    """Describe training on an environment to TRL.

    Args:
        env_id: A registered id with text in and out, ours or not.
        seeds: The levels to train on, one row of the dataset for each.
        wrappers: Applied to every environment in this order, for example `(ReasoningWrapper,)`.
        max_new_tokens: Longest reply of a turn that `rollout_func` plays, in tokens.
        **env_kwargs: Arguments of the environment.

    Raises:
        ValueError: If there are no seeds, or `max_new_tokens` is not positive.
    """
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    rows = tuple(int(seed) for seed in seeds)
    if not rows:
        raise ValueError("seeds must hold at least one seed, got none")
    return TRLSpec(env_id, rows, tuple(wrappers), max_new_tokens, env_kwargs)


def episode_reward(
    completions: Sequence[Any],
    *,
    environments: Sequence[TRLEnvironment] | None = None,
    total_reward: Sequence[float] | None = None,
    success: Sequence[bool] | None = None,
    log_metric: Callable[[str, float], None] | None = None,
    **_: Any,
) -> list[float | None]:
    """Reward function for TRL: the sum of each episode's rewards; logs the share of successes.

    Returns:
        One number for each completion; None where the environment gives its reward itself, so that it counts once.
    """
    if environments is not None:
        success = [environment.success for environment in environments]
    if log_metric is not None and success:
        log_metric("success", sum(success) / len(success))
    return list(total_reward) if total_reward is not None and environments is None else [None] * len(completions)


def _attribute(env: gymnasium.Env[str, str], name: str, default: Any) -> Any:
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else default


def _draw_noise_seed() -> int:
    return int(require("torch", "trl").randint(2**31, ()))
