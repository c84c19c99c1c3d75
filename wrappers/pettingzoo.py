"""One environment as a PettingZoo game with one player (extra `multiagent`)."""

from typing import Any

import gymnasium
from gymnasium import spaces

from turngym.lazy import require

_ParallelEnv: Any = require("pettingzoo", "multiagent").ParallelEnv

AGENT = "player_0"
Observation = dict[str, str]


class TextParallelEnv(_ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """A text environment for multi-agent libraries.

    The observation of `player_0` is `{"text": str}`, since PettingZoo's tests take no bare text. A finished episode
    leaves no live agents. Of the options that `reset` takes, `noise_seed` is handed on and others are ignored, as
    PettingZoo uses to send options that are meant for whoever understands them.

    Args:
        env: A text environment.
    """

    def __init__(self, env: gymnasium.Env[str, str]) -> None:
        self.env = env
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self.metadata = {**env.metadata, "name": name, "is_parallelizable": True}
        self.render_mode = env.render_mode
        self.possible_agents = [AGENT]
        self.agents: list[str] = []
        self.observation_spaces = {AGENT: spaces.Dict({"text": env.observation_space})}
        self.action_spaces = {AGENT: env.action_space}

    def observation_space(self, agent: str) -> spaces.Dict:
        """The space of `{"text": str}`, the same object every time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[str]:
        """The space of replies, the same object every time."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin an episode."""
        known = {name: value for name, value in (options or {}).items() if name == "noise_seed"}
        text, info = self.env.reset(seed=seed, options=known)
        self.agents = [AGENT]
        return {AGENT: {"text": text}}, {AGENT: info}

    def step(
        self, actions: dict[str, str]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one turn; without a live agent nothing happens.

        Raises:
            ValueError: If the live agent has no action.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        if AGENT not in actions:
            raise ValueError(f"actions must hold one for {AGENT}, got {sorted(actions)}")
        text, reward, terminated, truncated, info = self.env.step(actions[AGENT])
        self.agents = [] if terminated or truncated else [AGENT]
        return (
            {AGENT: {"text": text}},
            {AGENT: float(reward)},
            {AGENT: terminated},
            {AGENT: truncated},
            {AGENT: info},
        )

    def render(self) -> Any:
        """What the environment draws."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
