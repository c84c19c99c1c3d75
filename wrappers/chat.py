"""The transcript as chat messages, for models that are spoken to over an API."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import gymnasium
from gymnasium.utils import RecordConstructorArgs

Message = dict[str, str]
InstructionsRole = Literal["user", "system"]


@dataclass(frozen=True)
class ChatState:
    """A state of the wrapped environment, and the transcript up to there; picklable."""

    state: Any
    said: tuple[tuple[str, str], ...]


class ChatWrapper(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Keeps the conversation, and gives it in `info["messages"]` at every call.

    The observation stays one text, as the contract wants it. The messages are a new list of new dicts each time,
    `{"role": "system" | "user" | "assistant", "content": str}`: instructions, then observations and replies in turn,
    ending with the observation that is to be answered.

    Args:
        env: A text environment.
        instructions_role: "user" puts the instructions before the first observation, in one message with it; "system"
            makes them a message of their own, which not all chat templates take.

    Raises:
        ValueError: If there is no such role.
    """

    def __init__(self, env: gymnasium.Env[str, str], instructions_role: InstructionsRole = "user") -> None:
        RecordConstructorArgs.__init__(self, instructions_role=instructions_role)
        gymnasium.Wrapper.__init__(self, env)
        if instructions_role not in get_args(InstructionsRole):
            raise ValueError(f"instructions_role must be user or system, got {instructions_role!r}")
        self.instructions_role = instructions_role
        self._said: tuple[tuple[str, str], ...] = ()

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a copy."""
        return [{"role": role, "content": content} for role, content in self._said]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode and a conversation."""
        observation, info = self.env.reset(seed=seed, options=options)
        instructions = str(info.get("instructions", ""))
        if self.instructions_role == "system":
            self._said = (("system", instructions), ("user", observation))
        else:
            self._said = (("user", f"{instructions}\n\n{observation}" if instructions else observation),)
        return observation, {**info, "messages": self.messages}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn; reply and observation join the conversation."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._said += (("assistant", action), ("user", observation))
        return observation, float(reward), terminated, truncated, {**info, "messages": self.messages}

    def get_state(self) -> ChatState:
        """The episode as a value."""
        return ChatState(self.env.get_wrapper_attr("get_state")(), self._said)

    def set_state(self, state: ChatState) -> tuple[str, dict[str, Any]]:
        """Go on exactly from a state that `get_state` returned."""
        observation, info = self.env.get_wrapper_attr("set_state")(state.state)
        self._said = state.said
        return observation, {**info, "messages": self.messages}
