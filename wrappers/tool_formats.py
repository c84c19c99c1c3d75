"""One tool, `python`, called in the words of each family of language models: rendered, and read back exactly.

A chat template that knows tools writes the same text for `tool_calls`; `docs/tool_formats.md` shows what each family
sees. A final answer stands in `<answer>` tags for all of them, since no family has a form for it.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from turngym.envs.actions import ParseError

TOOL_NAME, ARGUMENT = "python", "code"
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Run a Python program and return what it prints. Variables last from one call to the next.",
        "parameters": {
            "type": "object",
            "properties": {ARGUMENT: {"type": "string", "description": "The program."}},
            "required": [ARGUMENT],
        },
    },
}
"""The tool as JSON schema, for the argument `tools` of chat templates and servers."""

_THOUGHT, _THOUGHT_END = "<think>", "</think>"
_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL | re.IGNORECASE)
_OUTPUT = re.compile(r"<interpreter>\n(.*)\n</interpreter>", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)  # models break lines inside strings, which can be read in one way only


@dataclass(frozen=True)
class Call:
    """A program to run."""

    code: str


@dataclass(frozen=True)
class Answer:
    """A final answer, white space around it aside."""

    text: str


@dataclass(frozen=True)
class ToolFormat:
    """How one family of models writes a call.

    Attributes:
        name: What the format is called here.
        before: What a call begins with, up to the payload, as a chat template renders it.
        after: What follows the payload.
        payload: What stands between: a JSON object with the tool's `name` and its arguments ("call"), the arguments
            alone as a JSON object ("arguments"), or the program as it is ("raw").
        key: The key of the arguments in a payload that is a call.
        begins: Finds a call in a reply.
        head: What must stand there, up to the payload.
        tail: What must follow the payload.
        marks: The parts of a call that may be tokens of their own.
    """

    name: str
    before: str
    after: str
    payload: Literal["call", "arguments", "raw"]
    key: str
    begins: re.Pattern[str]
    head: re.Pattern[str]
    tail: re.Pattern[str]
    marks: tuple[str, ...]

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Texts that end a reply."""
        return (*self.marks[-1:], "</answer>")

    def render(self, code: str) -> str:
        """The call that runs a program."""
        return self.before + (code if self.payload == "raw" else self._json(code)) + self.after

    def parse(self, reply: str) -> Call | Answer | ParseError:
        """Read a reply: a thought, which is skipped, and then a call or an answer, whichever comes first.

        What stands before the call or the answer is not read. A thought is what ends with `</think>`, before any call.
        """
        said = self._after_thought(reply)
        if said is None:
            return ParseError("I found no end of the thought.")
        call, answer = self.begins.search(said), _ANSWER.search(said)
        if call and (answer is None or call.start() < answer.start()):
            return self._read(said, call.start())
        if answer is None:
            return ParseError(f"I found neither a call of {TOOL_NAME} nor an answer.")
        text = answer.group(1).strip()
        return Answer(text) if text else ParseError("The answer was empty.")

    def _json(self, code: str) -> str:
        arguments = {ARGUMENT: code}
        text = _dumps(arguments if self.payload == "arguments" else {"name": TOOL_NAME, self.key: arguments})
        hides = any(stop in text for stop in self.stop_strings)
        return text.replace("<", "\\u003c") if hides else text  # or a policy would stop in the middle of the program

    def _after_thought(self, reply: str) -> str | None:
        thought, ended, rest = reply.partition(_THOUGHT_END)
        if thought.lstrip().startswith(_THOUGHT):
            return rest if ended else None
        return reply if not ended or self.begins.search(thought) else rest

    def _read(self, said: str, start: int) -> Call | ParseError:
        malformed = ParseError("I could not read the call.")
        head = self.head.match(said, start)
        if head is None:
            return malformed
        if self.payload == "raw":
            tail = self.tail.search(said, head.end())
            return Call(said[head.end() : tail.start()]) if tail else malformed
        try:
            payload, end = _DECODER.raw_decode(said, head.end())
        except (ValueError, RecursionError):
            return ParseError("I could not read the JSON of the call.")
        return self._checked(payload) if self.tail.match(said, end) else malformed

    def _checked(self, payload: Any) -> Call | ParseError:
        if self.payload == "call":
            if not (isinstance(payload, dict) and payload.keys() == {"name", self.key}):
                return ParseError(f"A call is a JSON object with name and {self.key}.")
            return read_call(payload["name"], payload[self.key])
        return read_call(TOOL_NAME, payload)


def read_call(name: Any, arguments: Any) -> Call | ParseError:
    """Read a call that is there in parts, as servers give it.

    Args:
        name: The tool's name.
        arguments: The arguments, a mapping or its JSON text.
    """
    if name != TOOL_NAME:
        return ParseError(f"There is no tool but {TOOL_NAME}.")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            return ParseError("I could not read the JSON of the arguments.")
    if not (isinstance(arguments, dict) and arguments.keys() == {ARGUMENT} and isinstance(arguments[ARGUMENT], str)):
        return ParseError(f"{TOOL_NAME} takes one argument, {ARGUMENT}, which is a text.")
    return Call(arguments[ARGUMENT])


def tool_output(observation: str) -> str | None:
    """What a program printed, from an observation that is nothing else; None from any other observation."""
    match = _OUTPUT.fullmatch(observation)
    return match.group(1) if match else None


def _dumps(value: Any) -> str:
    """JSON as chat templates write it."""
    return json.dumps(value, ensure_ascii=False)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.DOTALL)


HERMES = ToolFormat(
    name="hermes",
    before="<tool_call>\n",
    after="\n</tool_call>",
    payload="call",
    key="arguments",
    begins=_pattern("<tool_call>"),
    head=_pattern(r"<tool_call>\s*"),
    tail=_pattern(r"\s*</tool_call>"),
    marks=("<tool_call>", "</tool_call>"),
)
"""Hermes, and Qwen2.5 and Qwen3 after it."""

LLAMA = ToolFormat(
    name="llama",
    before="",
    after="",
    payload="call",
    key="parameters",
    begins=_pattern(r"\A\s*(?:<\|python_tag\|>\s*)?\{"),
    head=_pattern(r"\s*(?:<\|python_tag\|>\s*)?"),
    tail=_pattern(r"\s*\Z"),
    marks=(),
)
"""Llama 3.1 and later, for tools that are described in the prompt: the reply is the call and nothing else."""

DEEPSEEK = ToolFormat(
    name="deepseek",
    before=f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{TOOL_NAME}\n```json\n",
    after="\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    payload="arguments",
    key="",
    begins=_pattern("<｜tool▁calls▁begin｜>"),
    head=_pattern(rf"<｜tool▁calls▁begin｜>\s*<｜tool▁call▁begin｜>function<｜tool▁sep｜>{TOOL_NAME}\s*```json\s*"),
    tail=_pattern(r"\s*```\s*<｜tool▁call▁end｜>"),
    marks=(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
    ),
)
"""DeepSeek V3 and R1."""

ANTHROPIC = ToolFormat(
    name="anthropic",
    before=f'<function_calls>\n<invoke name="{TOOL_NAME}">\n<parameter name="{ARGUMENT}">',
    after="</parameter>\n</invoke>\n</function_calls>",
    payload="raw",
    key="",
    begins=_pattern("<function_calls>"),
    head=_pattern(rf'<function_calls>\s*<invoke name="{TOOL_NAME}">\s*<parameter name="{ARGUMENT}">'),
    tail=_pattern(r"</parameter>\s*</invoke>\s*</function_calls>\s*\Z"),
    marks=("<function_calls>", "</function_calls>"),
)
"""Anthropic's form in text. The program stands in it as it is, so what closes a call must not occur in it."""

TOOL_FORMATS: dict[str, ToolFormat] = {each.name: each for each in (HERMES, LLAMA, DEEPSEEK, ANTHROPIC)}


def tool_format(name: str) -> ToolFormat:
    """A format by its name.

    Raises:
        ValueError: If there is none.
    """
    if name not in TOOL_FORMATS:
        raise ValueError(f"tool_format must be one of {', '.join(TOOL_FORMATS)}, got {name!r}")
    return TOOL_FORMATS[name]
