"""Replies that think first: `<think>…</think><answer>ACTION</answer>`."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from turngym.envs.actions import ParseError

_TEXT = r"([^<]*(?:<(?!/?(?:think|answer)>)[^<]*)*)"  # anything but the four tags, in one pass
_REPLY = re.compile(rf"\s*<think>{_TEXT}</think>\s*<answer>{_TEXT}</answer>\s*")
_EXPECTED = "Reply with <think>your thought</think><answer>your action</answer> and nothing else."


@dataclass(frozen=True)
class Reply:
    """A reply that keeps the grammar.

    Attributes:
        thought: What stands in the think block.
        action: What stands in the answer block.
    """

    thought: str
    action: str

    def __str__(self) -> str:
        return f"<think>{self.thought}</think><answer>{self.action}</answer>"


def parse_reply(text: str) -> Reply | ParseError:
    """Read a whole reply: one think block, then one answer block, and white space at most around them."""
    match = _REPLY.fullmatch(text)
    return Reply(*match.groups()) if match else ParseError("I could not read a thought and an answer.")


@dataclass(frozen=True)
class ReasoningState:
    """A state of the wrapped environment, and what the wrapper said above its observation; picklable."""

    state: Any
    note: str


class ReasoningWrapper(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Asks for a thought before each action.

    A reply is `<think>…</think><answer>ACTION</answer>`, where `ACTION` is in the environment's own grammar, which
    must not use these tags itself. The whole reply has to be of that form: nothing is searched for or guessed. Any
    other reply is passed on as the empty action, which the environment counts as a turn that it cannot read; its
    reward is then the environment's own for such a turn plus `format_penalty`, and the observation begins with what
    was expected. `info["format_is_valid"]` tells whether the form was kept, `info["action_is_valid"]` whether the
    action could be read too.

    Args:
        env: A text environment.
        format_penalty: Added to the reward of a turn whose reply has not the form; at most 0.

    Raises:
        ValueError: If `format_penalty` is positive, or the environment's own replies end with this wrapper's tag.
    """

    stop_strings: ClassVar[tuple[str, ...]] = ("</answer>",)
    """Texts that end a reply: a policy may stop sampling after them."""

    def __init__(self, env: gymnasium.Env[str, str], format_penalty: float = -0.1) -> None:
        RecordConstructorArgs.__init__(self, format_penalty=format_penalty)
        gymnasium.Wrapper.__init__(self, env)
        if format_penalty > 0:
            raise ValueError(f"format_penalty must be at most 0, got {format_penalty}")
        if set(self.stop_strings) & set(getattr(env.unwrapped, "stop_strings", ())):
            raise ValueError(f"replies in {env} have <answer> tags of their own: write thoughts before them, unwrapped")
        self.format_penalty = format_penalty
        self.instructions = _with_grammar(str(env.get_wrapper_attr("instructions")))
        self._note = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; the instructions in the info say how to reply."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._note = ""
        return observation, {**info, "instructions": self.instructions}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play the answer of a reply; the info also says `format_is_valid`."""
        reply = parse_reply(action)
        action, self._note, penalty = "", "", 0.0
        if isinstance(reply, Reply):
            action = reply.action
        else:
            self._note, penalty = f"{reply.reason} {_EXPECTED}\n", self.format_penalty
        observation, reward, terminated, truncated, info = self.env.step(action)
        info = {**info, "format_is_valid": isinstance(reply, Reply)}
        return self._note + observation, float(reward) + penalty, terminated, truncated, info

    def oracle_action(self) -> str | None:
        """The environment's best reply, after the thought that leads to it (an empty one where it gives none)."""
        action = self.env.get_wrapper_attr("oracle_action")()
        if action is None:
            return None
        thinks = self.env.has_wrapper_attr("oracle_thought")
        return str(Reply(self.env.get_wrapper_attr("oracle_thought")() if thinks else "", action))

    def random_action(self, rng: np.random.Generator) -> str:
        """An empty thought, and an action drawn uniformly from the valid ones."""
        return str(Reply("", self.env.get_wrapper_attr("random_action")(rng)))

    def legal_actions(self) -> list[str] | None:
        """None: thoughts cannot be listed."""
        return None

    def get_state(self) -> ReasoningState:
        """The episode as a value."""
        return ReasoningState(self.env.get_wrapper_attr("get_state")(), self._note)

    def set_state(self, state: ReasoningState) -> tuple[str, dict[str, Any]]:
        """Go on exactly from a state that `get_state` returned."""
        observation, info = self.env.get_wrapper_attr("set_state")(state.state)
        self._note = state.note
        return self._note + observation, info


def _with_grammar(instructions: str) -> str:
    return (
        f"{instructions} Think first, then act: write <think>your thought</think><answer>your action</answer>, "
        "where the action is as described above."
    )
