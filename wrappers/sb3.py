"""Environments for Stable-Baselines3 (extra `sb3`), by way of the tabular view."""

from collections.abc import Sequence
from typing import Any, SupportsFloat, SupportsInt

import gymnasium

from turngym.lazy import require
from turngym.wrappers.tabular import Board, TabularWrapper


def make_sb3_env(
    env_id: str,
    n_envs: int = 1,
    *,
    seed: int | None = None,
    actions: Sequence[str] | None = None,
    planes: int | None = None,
    **env_kwargs: Any,
) -> Any:
    """A `VecEnv` of an environment's tabular view, as Stable-Baselines3's algorithms take it.

    Environment i is seeded with `seed + i` once, and draws a level after another from there. Episode statistics are
    recorded, success among them (`rollout/success_rate` in the logs), and `action_masks` is there for MaskablePPO.

    Args:
        env_id: A registered id.
        n_envs: How many environments are stepped together, in this process.
        seed: The first environment's seed.
        actions: As in `TabularWrapper`.
        planes: As in `TabularWrapper`.
        **env_kwargs: Arguments of the environment.

    Returns:
        A `stable_baselines3.common.vec_env.DummyVecEnv`.

    Raises:
        ImportError: If Stable-Baselines3 is not installed; the message is the line that installs it.
    """

    def view(env: gymnasium.Env[str, str]) -> gymnasium.Env[Board, SupportsInt]:
        return _TellSuccess(TabularWrapper(env, actions, planes))

    make_vec_env = require("stable_baselines3.common.env_util", "sb3").make_vec_env
    return make_vec_env(env_id, n_envs, seed=seed, wrapper_class=view, env_kwargs=env_kwargs)


class _TellSuccess(gymnasium.Wrapper[Board, SupportsInt, Board, SupportsInt]):
    """Success under the name by which Stable-Baselines3 looks for it."""

    def step(self, action: SupportsInt) -> tuple[Board, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "is_success": info["success"]}

    def action_masks(self) -> Any:
        return self.env.get_wrapper_attr("action_masks")()
