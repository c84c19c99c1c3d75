"""Gymnasium's own FrozenLake, made a text environment by a small wrapper.

Train on it from this folder (or with this folder on PYTHONPATH). It has no oracle, so imitation has nothing to start
from unless a file of episodes is given:

    python ../../baselines/ppo_llm.py --env-id stock_frozen_lake:StockFrozenLake-v0 --demonstrations none --quick
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import register

from turngym.envs.text_env import TextSpace

_NAMES = ("Left", "Down", "Right", "Up")


class StockFrozenLake(gymnasium.Wrapper[str, str, int, int]):
    """Draws the board as text, and reads the names of the moves; anything else is no move and costs a tenth."""

    instructions = (
        "You walk on a frozen lake. P is you, F is ice, H is a hole, G is the goal. "
        "Reply with one of: Left, Down, Right, Up."
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(gymnasium.make("FrozenLake-v1", is_slippery=False, **kwargs))
        self.observation_space: TextSpace = TextSpace()
        self.action_space: TextSpace = TextSpace()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        self._cell, _ = self.env.reset(seed=seed, options=options)
        return self._board(), {"instructions": self.instructions}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Make a move."""
        if action not in _NAMES:
            return self._board(), -0.1, False, False, {"action_is_valid": False, "success": False}
        self._cell, reward, terminated, truncated, _ = self.env.step(_NAMES.index(action))
        info = {"action_is_valid": True, "success": float(reward) > 0}
        return self._board(), float(reward), terminated, truncated, info

    def random_action(self, rng: np.random.Generator) -> str:
        """Any move."""
        return _NAMES[rng.integers(4)]

    def _board(self) -> str:
        rows = [[symbol.decode() for symbol in row] for row in self.env.unwrapped.desc]
        rows[self._cell // len(rows[0])][self._cell % len(rows[0])] = "P"
        return "\n".join(" ".join(row) for row in rows)


register("StockFrozenLake-v0", entry_point="stock_frozen_lake:StockFrozenLake", max_episode_steps=20)
