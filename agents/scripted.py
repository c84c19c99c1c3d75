"""Floor and ceiling of every table: an agent that acts at random, and one that asks the environment's oracle."""

import gymnasium
import numpy as np


class RandomAgent:
    """Replies drawn uniformly from the valid ones.

    Args:
        env: An environment with the `random_action` hook, wrapped or not.
        seed: Seed of the draws; independent of the environment's own streams.
    """

    def __init__(self, env: gymnasium.Env[str, str], seed: int = 0) -> None:
        self._random_action = env.get_wrapper_attr("random_action")
        self._rng = np.random.default_rng([seed, 0x7261])

    def act(self, observation: str) -> str:
        """A reply; the observation is not read."""
        return str(self._random_action(self._rng))


class OracleAgent:
    """The environment's own best reply: a ceiling, and a demonstrator. It sees the hidden state, so it is no policy.

    Args:
        env: An environment with the `oracle_action` hook, wrapped or not.
        teacher: Whose hook to ask: `<teacher>_action`. Only "oracle" is a ceiling.

    Raises:
        ValueError: On the first `act`, if the environment knows no best reply.
    """

    def __init__(self, env: gymnasium.Env[str, str], teacher: str = "oracle") -> None:
        self._env, self._teacher = env, teacher
        self._action = env.get_wrapper_attr(f"{teacher}_action")

    def act(self, observation: str) -> str:
        """A best reply from the environment's present state; the observation is not read."""
        action = self._action()
        if action is None:
            raise ValueError(f"{self._env} has no {self._teacher} in this state")
        return str(action)
