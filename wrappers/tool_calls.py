"""Programs as tool calls, in a model's own form, for environments whose replies are `<code>` and `<answer>`."""

import re
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from turngym.envs.actions import ParseError
from turngym.wrappers.tool_formats import ARGUMENT, TOOL_NAME, Answer, Call, tool_format

_TAG = re.compile(r"</?(?:code|answer)>", re.IGNORECASE)
_CODE = re.compile(r"<code>(.*)</code>", re.DOTALL)
_EXAMPLE = "print(6 * 7)"


@dataclass(frozen=True)
class ToolCallState:
    """A state of the wrapped environment, and what the wrapper said in place of its observation; picklable."""

    state: Any
    complaint: str


class ToolCallWrapper(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Reads calls of the tool `python` in place of `<code>` tags.

    A call becomes `<code>…</code>`, an answer stays `<answer>…</answer>`, and any other reply is passed on as the empty
    action, which the environment counts as a turn that it cannot read; the observation then says what was expected of a
    call. So is a call whose program spells out one of these tags, since the environment would read it otherwise than it
    was meant. Observations are the environment's own, the output of a program between `<interpreter>` tags: a chat
    template that knows tools writes what stands inside as a tool's result (`turngym.agents.templates`).

    Args:
        env: A text environment whose replies are `<code>…</code>` and `<answer>…</answer>`.
        form: How calls are written: "hermes", "llama", "deepseek" or "anthropic".
        show_form: Whether the instructions show a call. A model whose chat template describes tools need not be told.

    Raises:
        ValueError: If there is no such form, or the environment's replies are not of that kind.
    """

    def __init__(self, env: gymnasium.Env[str, str], form: str = "hermes", *, show_form: bool = True) -> None:
        RecordConstructorArgs.__init__(self, form=form, show_form=show_form)
        gymnasium.Wrapper.__init__(self, env)
        stops = env.get_wrapper_attr("stop_strings") if env.has_wrapper_attr("stop_strings") else ()
        if not {"</code>", "</answer>"} <= set(stops):
            raise ValueError(f"replies in {env} have no <code> and <answer> tags that calls could stand for")
        self.form = tool_format(form)
        self.stop_strings = self.form.stop_strings
        if env.has_wrapper_attr("reply_tokens"):
            self.reply_tokens = int(env.get_wrapper_attr("reply_tokens")) + len(self.form.render("").encode())
        example = f": {self.form.render(_EXAMPLE)}" if show_form else "."
        self.instructions = (
            f"{env.get_wrapper_attr('instructions')} In place of <code>Python</code>, call the tool {TOOL_NAME} with "
            f"the program as its argument {ARGUMENT}{example}"
        )
        self._complaint = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; the instructions in the info say how to call."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._complaint = ""
        return observation, {**info, "instructions": self.instructions}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn."""
        read = _passable(self.form.parse(action))
        self._complaint = f"{read.reason} {self._expected()}" if isinstance(read, ParseError) else ""
        observation, reward, terminated, truncated, info = self.env.step("" if isinstance(read, ParseError) else read)
        return self._complaint or observation, float(reward), terminated, truncated, info

    def oracle_action(self) -> str | None:
        """The environment's best reply, as a call or an answer."""
        action = self.env.get_wrapper_attr("oracle_action")()
        return None if action is None else self._written(str(action))

    def random_action(self, rng: np.random.Generator) -> str:
        """A call or an answer drawn uniformly from the valid ones."""
        return self._written(str(self.env.get_wrapper_attr("random_action")(rng)))

    def legal_actions(self) -> list[str] | None:
        """The environment's own, as calls and answers."""
        actions = self.env.get_wrapper_attr("legal_actions")()
        return None if actions is None else [self._written(action) for action in actions]

    def get_state(self) -> ToolCallState:
        """The episode as a value."""
        return ToolCallState(self.env.get_wrapper_attr("get_state")(), self._complaint)

    def set_state(self, state: ToolCallState) -> tuple[str, dict[str, Any]]:
        """Go on exactly from a state that `get_state` returned."""
        observation, info = self.env.get_wrapper_attr("set_state")(state.state)
        self._complaint = state.complaint
        return self._complaint or observation, info

    def _expected(self) -> str:
        return f"Call {TOOL_NAME} with {ARGUMENT}, or reply with <answer>your answer</answer>."

    def _written(self, action: str) -> str:
        """An action of the environment in the form of this wrapper."""
        code = _CODE.fullmatch(action)
        return self.form.render(code.group(1).strip("\n")) if code else action


def _passable(read: Call | Answer | ParseError) -> str | ParseError:
    """What was read as the environment's own action, or why that cannot be."""
    if isinstance(read, ParseError):
        return read
    content = read.code if isinstance(read, Call) else read.text
    if _TAG.search(content):
        return ParseError("The tags code and answer must not be spelled out inside.")
    if not content.strip():
        return ParseError("The program was empty.")
    return f"<code>\n{content}\n</code>" if isinstance(read, Call) else f"<answer>{content}</answer>"
