"""The messages of one episode, as a server that speaks OpenAI's chat protocol reads and writes them."""

import json
from collections.abc import Sequence
from typing import Any

from turngym.wrappers.tool_formats import tool_output

Message = dict[str, Any]


class Conversation:
    """The messages of one episode, as the server reads them.

    Args:
        instructions: The rules; "" for none.
        observation: The first observation.
        role: Who says the instructions, "user" or "system".
        stop: Texts that end a reply: what stands after the first is cut.
    """

    def __init__(self, instructions: str, observation: str, role: str, stop: Sequence[str]) -> None:
        self._stop = stop
        if role == "system" and instructions:
            self.messages: list[Message] = [{"role": "system", "content": instructions}, _user(observation)]
        else:
            self.messages = [_user(f"{instructions}\n\n{observation}" if instructions else observation)]

    def add_reply(self, message: Any, *, with_thought: bool) -> str:
        """Take in what the server sent; returns the reply as the environment reads it."""
        text, call = message.content or "", (message.tool_calls or [None])[0]
        if with_thought and (thought := _reasoning(message)):
            text = f"<think>{thought}</think>{text}"
        if call is None:
            self.messages.append({"role": "assistant", "content": self._cut(text)})
            return self._cut(text)
        name, arguments = call.function.name, call.function.arguments
        spelled = f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'
        if _is_object(arguments):
            function = {"name": name, "arguments": arguments}
            calls = [{"id": call.id, "type": "function", "function": function}]  # one call a turn
            self.messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        else:  # servers read the arguments of earlier calls again, and would fail
            self.messages.append({"role": "assistant", "content": text + spelled})
        return text + spelled

    def add_observation(self, text: str) -> None:
        """Take in what the environment said."""
        calls = self.messages[-1].get("tool_calls")
        if calls:
            output = tool_output(text)
            content = text if output is None else output
            self.messages.append({"role": "tool", "tool_call_id": calls[0]["id"], "content": content})
        else:
            self.messages.append(_user(text))

    def _cut(self, text: str) -> str:
        return text[: min((text.find(stop) + len(stop) for stop in self._stop if stop in text), default=len(text))]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _reasoning(message: Any) -> str:
    """What some servers keep apart from the content."""
    extra = message.model_extra or {}
    return str(extra.get("reasoning_content") or extra.get("reasoning") or "")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
