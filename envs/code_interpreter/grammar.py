"""What a reply says: run this code, or this is my answer.

Everything up to the first closing tag that has its opening tag before it is read, and what follows is ignored: a policy
stops there, and one that does not gains nothing by writing on.
"""

import re
import textwrap
from dataclasses import dataclass

from turngym.envs.actions import ParseError

STOP_STRINGS = ("</code>", "</answer>")
EXPECTED = "Reply with <code>Python to run</code> or with <answer>your answer</answer>."
MAX_CODE = 20_000
"""Longest code, in characters: no program that a question needs is as long."""

_TAG = re.compile(r"<(/?)(code|answer)>", re.IGNORECASE)
_FENCE = "```"
_LANGUAGES = ("", "python", "py", "python3")


@dataclass(frozen=True)
class Code:
    """A program to run, without the fence that may have stood around it."""

    source: str


@dataclass(frozen=True)
class Answer:
    """A final answer, as it was written, white space around it aside."""

    text: str


def parse_reply(text: str) -> Code | Answer | ParseError:
    """Read a reply.

    Args:
        text: Any text. Tags are read in any case, and between a closing tag and the nearest opening tag before it
            stands what it is about. A fenced block as the whole content of `<code>` counts as its content.

    Returns:
        What was found first, or a `ParseError` where no tag is closed or nothing stands inside.
    """
    opened: dict[str, int] = {}
    for tag in _TAG.finditer(text):
        name = tag.group(2).lower()
        if not tag.group(1):
            opened[name] = tag.end()
        elif name in opened:
            content = text[opened[name] : tag.start()]
            return _code(content) if name == "code" else _answer(content)
    return ParseError("I found neither code nor an answer.")


def _code(content: str) -> Code | ParseError:
    if len(content) > MAX_CODE:
        return ParseError(f"The code was longer than {MAX_CODE} characters.")
    source = textwrap.dedent(_unfenced(content).strip("\n")).rstrip()
    return Code(source) if source else ParseError("The code was empty.")


def _unfenced(content: str) -> str:
    """The inside of a fenced Python block, where that is all there is."""
    block = content.strip()
    if not (block.startswith(_FENCE) and block.endswith(_FENCE)):
        return content
    language, _, source = block[len(_FENCE) : -len(_FENCE)].partition("\n")
    return source if language.strip().lower() in _LANGUAGES else content


def _answer(content: str) -> Answer | ParseError:
    return Answer(content.strip()) if content.strip() else ParseError("The answer was empty.")
