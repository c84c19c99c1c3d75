"""What a program did, as text for the model: cleaned, cut, harmless, and inside `<interpreter>` tags.

A program can print anything, also the tags that our grammar is made of and the control tokens of a chat template. None
of it may look to the model as if somebody else than the program had said it.
"""

import re

from turngym.envs.sandbox.results import ExecResult

OPENING, CLOSING = "<interpreter>", "</interpreter>"

# The whole of a terminal's escape sequences: those with parameters, those with a text to an end mark, and short ones.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_LESS = "<\uff1c\ufe64"  # also the forms of it that a tokenizer's normalisation may turn into it
_TAGS = re.compile(
    rf"[{_LESS}](?=\s{{0,4}}/?\s{{0,4}}(?:interpreter|code|answer|think|tool_call|tool_response|start_of_turn|end_of_turn|bos|eos|pad|unk|s)"
    rf"\s{{0,4}}[>\uff1e\ufe65]|\s{{0,4}}[|\uff5c])|\[(?=/?INST\])",
    re.IGNORECASE,
)

_NOTES = {
    "exit": "the program left by itself",
    "timeout": "the time limit was reached; what the program printed until then stands above",
    "oom": "the program ran out of memory",
    "output_limit": "the program printed too much and was stopped",
    "crashed": "the program crashed",
    "killed": "the program was stopped",
}
_KEPT = "variables are as they were before this program"
_FORGOT = "earlier programs ended differently when they had to be run again, so their variables are lost"
_SILENT = "no output; print what you want to see"


def interpreter_text(result: ExecResult, *, kept: bool, limit: int, forgot: bool = False) -> str:
    """What the model reads of a run.

    Args:
        result: The run; not one that our own part broke.
        kept: Whether what the program did to the variables lasts.
        forgot: Whether what the programs before it did to the variables is lost.
        limit: Most characters of output to show, half of them from its head and half from its tail.
    """
    assert result.valid, "a failure of ours is not told as the program's"
    # Where a program happened to stand when its time was over is chance, and the traceback of it no news.
    streams = (result.stdout, "" if result.status == "timeout" else result.stderr)
    printed = "\n".join(filter(None, (clean(stream).rstrip("\n") for stream in streams)))
    lines = [shorten(printed, limit)] if printed else []
    notes = (_NOTES.get(result.status, ""), "" if kept else _KEPT, _FORGOT if forgot else "")
    note = "; ".join(filter(None, notes))
    if note or not printed:
        lines.append(f"[{note or _SILENT}]")
    return "\n".join((OPENING, neutralise("\n".join(lines)), CLOSING))


def clean(text: str) -> str:
    """The text without terminal escapes, control and invisible characters; half surrogates as backslash escapes."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _CONTROLS.sub("", encodable(text))


def encodable(text: str) -> str:
    """The text with half surrogates, which no encoding takes, as backslash escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def shorten(text: str, limit: int) -> str:
    """Head and tail of a text, with a line between them that says how much was left out."""
    if len(text) <= limit:
        return text
    head, tail = limit - limit // 2, limit // 2
    return f"{text[:head]}\n[{len(text) - head - tail} characters left out]\n{text[len(text) - tail :]}"


def neutralise(text: str) -> str:
    """The text with the first character of every tag and control token escaped, so that none is left.

    This must come last: whatever is taken out of a text may bring the two halves of a tag together.
    """
    return _TAGS.sub(lambda match: "&#91;" if match.group() == "[" else "&lt;", text)
