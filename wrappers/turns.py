"""A budget that the model can see."""

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs


class TurnBudgetWrapper(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Tells at the top of every observation how many turns are left, and how many moves where they are counted too.

    Environments keep their counters out of the observation, so that the same board reads the same; a policy that has
    to plan against the limit needs them. `info["state_key"]` stays that of the board alone.

    Args:
        env: A text environment with the hook `turns_left`, and `moves_left` where moves are limited.
    """

    def __init__(self, env: gymnasium.Env[str, str]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._told(observation), info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._told(observation), float(reward), terminated, truncated, info

    def set_state(self, state: Any) -> tuple[str, dict[str, Any]]:
        """Go on exactly from a state that the environment's `get_state` returned."""
        observation, info = self.env.get_wrapper_attr("set_state")(state)
        return self._told(observation), info

    def _told(self, observation: str) -> str:
        left = [f"{_count(self.env.get_wrapper_attr('turns_left'), 'turn')} left"]
        moves = self.env.get_wrapper_attr("moves_left") if self.env.has_wrapper_attr("moves_left") else None
        if moves is not None:
            left.append(f"{_count(moves, 'move')} left")
        return f"{', '.join(left)}.\n{observation}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
