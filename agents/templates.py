"""How a conversation becomes tokens, piece by piece: what was written once is never encoded again.

The pieces are read off the tokenizer's own chat template, so that their ids concatenate to the conversation that it
renders. A template that would show earlier replies without their thoughts (Qwen3, DeepSeek R1) is taken at its word for
each turn as that turn comes, and earlier turns stay as they were: the thoughts are kept. `docs/models.md` says more.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from turngym.wrappers.tool_formats import ARGUMENT, TOOL, TOOL_NAME, ToolFormat, tool_output

_USER, _REPLY, _NEXT = (f'{space}turngym"{name}{space}' for name, space in (("u", "\n"), ("a", ""), ("n", "\n")))
_THOUGHT = "<think>\nturngym-t\n</think>\n\n"
_EMPTY_THOUGHT = re.compile(r"\s*<think>\s*(?:</think>\s*)?\Z")
_DEFAULTS = {"date_string": "26 Jul 2024"}
"""Llama's templates write the date of the day, so that the same run would differ from one day to the next."""


Messages = list[dict[str, Any]]
Render = Callable[..., str]


def _as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_SPELLINGS: tuple[Callable[[str], str], ...] = (str, str.strip, _as_json)
"""How templates write a message's text: as it is, without white space around it, or as a JSON string."""


@dataclass(frozen=True)
class ToolResults:
    """What a chat template puts around the output of a tool.

    Attributes:
        before: Between the call and the output, after the end token.
        after: Between the output and the next reply.
        spell: How the output itself is written.
    """

    before: list[int]
    after: list[int]
    spell: Callable[[str], str]


@dataclass(frozen=True)
class TurnFormat:
    """The token ids that a chat template puts around messages, for conversations of user and assistant in turn.

    Attributes:
        opening: Before the first user message.
        reply_opening: Between a user message and the assistant's reply.
        turn_change: Between the assistant's reply and the next user message, after the end token.
        end: The token that ends a reply.
        tokenizer: Encodes message text.
        spell: How a user message is written: as it is, or without white space around it.
        rewrites: Whether the template itself would show earlier replies otherwise than they were written, as a rule
            without their thoughts. Here they stay as they were.
        results: Around the output of a tool; None where it is a user message like any other.
        marks: Parts of a reply that may be tokens of their own.
    """

    opening: list[int]
    reply_opening: list[int]
    turn_change: list[int]
    end: int
    tokenizer: Any
    spell: Callable[[str], str] = str
    rewrites: bool = False
    results: ToolResults | None = None
    marks: tuple[str, ...] = field(default=(), repr=False)

    def encode(self, text: str) -> list[int]:
        """Ids of message text. Control tokens spelled out in it are encoded as plain characters."""
        return list(self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    def prompt(self, instructions: str) -> list[int]:
        """What stands before the first observation."""
        text = f"{instructions}\n\n" if instructions else ""
        return [*self.opening, *self.encode(text.lstrip() if self.spell is str.strip else text)]

    def observation(self, text: str, *, first: bool) -> list[int]:
        """An observation, from the end token of the reply before it to the opening of the reply after it."""
        if first:
            text = text.rstrip() if self.spell is str.strip else text  # the instructions are before it
            return [*self.encode(text), *self.reply_opening]
        output = tool_output(text) if self.results else None
        if self.results and output is not None:
            return [*self.results.before, *self.encode(self.results.spell(output)), *self.results.after]
        return [*self.turn_change, *self.encode(self.spell(text)), *self.reply_opening]

    def reply(self, text: str) -> list[int]:
        """A reply as somebody else would write it, with its end token."""
        parts = re.split(f"({'|'.join(map(re.escape, self.marks))})", text) if self.marks else [text]
        ids = [_encode_template(self.tokenizer, each) if each in self.marks else self.encode(each) for each in parts]
        return [*chain.from_iterable(ids), self.end]


def turn_format(
    tokenizer: Any, *, tools: ToolFormat | None = None, arguments: Mapping[str, Any] | None = None
) -> TurnFormat:
    """Read the pieces off a tokenizer's chat template; plain lines where it has none.

    Args:
        tokenizer: The tokenizer.
        tools: How the model calls the tool of `turngym.wrappers.tool_formats`; the template then describes it, and
            writes what it gave, as far as it knows how.
        arguments: Further arguments of the template, such as `enable_thinking`.

    Raises:
        ValueError: If the tokenizer has no end token, or its template writes conversations in a way that a history
            which only grows cannot follow, or calls otherwise than `tools`.
    """
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no eos_token, so a reply would never end: set tokenizer.eos_token")
    if tokenizer.chat_template is None:
        pieces = _Pieces("", "\n", "\n", str, rewrites=False)
    else:
        render = _renderer(tokenizer, tools, {**_DEFAULTS, **(arguments or {})})
        pieces = _pieces(render)
    after = _encode_template(tokenizer, pieces.turn_change)
    end = _end_token(tokenizer, after)
    form = TurnFormat(
        opening=_encode_template(tokenizer, pieces.opening),
        reply_opening=_encode_template(tokenizer, pieces.reply_opening),
        turn_change=after[1:] if after[:1] == [end] else after,
        end=end,
        tokenizer=tokenizer,
        spell=pieces.spell,
        rewrites=pieces.rewrites,
        results=_tool_results(render, tools, pieces, tokenizer, end) if tools and tokenizer.chat_template else None,
        marks=tools.marks if tools else (),
    )
    _check_round_trip(form, pieces)
    return form


@dataclass(frozen=True)
class _Pieces:
    """A template's own text around messages, the end token included."""

    opening: str
    reply_opening: str
    turn_change: str
    spell: Callable[[str], str]
    rewrites: bool


def _renderer(tokenizer: Any, tools: ToolFormat | None, arguments: dict[str, Any]) -> Render:
    settings = {"tools": [TOOL] if tools else None, "add_generation_prompt": True, "tokenize": False, **arguments}

    def render(*messages: dict[str, Any]) -> str:
        try:
            return str(tokenizer.apply_chat_template(list(messages), **settings))
        except Exception as error:  # a template is somebody else's program, and may fail in any way
            raise ValueError(f"this chat template cannot write a conversation: {error}") from error

    return render


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _pieces(render: Render) -> _Pieces:
    first = render(_user(_USER))
    spell = _spelling(first, _USER)
    opening, _, reply_opening = first.partition(spell(_USER))
    plain, thinking = (
        render(_user(_USER), {"role": "assistant", "content": text}, _user(_NEXT))
        for text in (_REPLY, _THOUGHT + _REPLY)
    )
    said, _, turn_change = plain.removesuffix(spell(_NEXT) + reply_opening).partition(_REPLY)
    if plain == said + _REPLY + turn_change or not _same_but_for_a_thought(said, first):
        raise ValueError(
            "this chat template drops or rewrites earlier replies: a history that only grows cannot follow"
        )
    kept = first + _THOUGHT + _REPLY + turn_change + spell(_NEXT) + reply_opening
    return _Pieces(opening, reply_opening, turn_change, spell, rewrites=said != first or thinking != kept)


def _same_but_for_a_thought(one: str, other: str) -> bool:
    """Whether two texts are equal but for a thought at their ends, which is empty or has only begun."""
    if one == other:
        return True
    bare = [_EMPTY_THOUGHT.sub("", text).rstrip() for text in (one, other)]
    return bare[0] == bare[1] and any(_EMPTY_THOUGHT.search(text) for text in (one, other))


def _spelling(rendered: str, text: str) -> Callable[[str], str]:
    for spell in _SPELLINGS:
        if spell(text) in rendered:
            return spell
    raise ValueError("this chat template drops or rewrites messages of the user: a transcript cannot be built from it")


def _tool_results(render: Render, tools: ToolFormat, pieces: _Pieces, tokenizer: Any, end: int) -> ToolResults | None:
    """What stands around a tool's output; None where the template knows no calls.

    Raises:
        ValueError: If it writes calls in another form.
    """
    code, output = "turngym_c", '\nturngym"r\n'
    rendered = _render_call(render, code, output, tools)
    if rendered is None:
        return None
    said, _, rest = rendered.partition(tools.render(code))
    if not _same_but_for_a_thought(said, pieces.opening + pieces.spell(_USER) + pieces.reply_opening):
        raise ValueError("this chat template begins a reply that calls a tool in another way than other replies")
    spell = _spelling(rest, output)
    before, _, after = rest.partition(spell(output))
    ids = _encode_template(tokenizer, before)
    if ids[:1] != [end]:
        raise ValueError("this chat template ends a reply that calls a tool in another way than other replies")
    return ToolResults(ids[1:], _encode_template(tokenizer, after), spell)


def _render_call(render: Render, code: str, output: str, tools: ToolFormat) -> str | None:
    """A conversation with a call and its output; None where the template shows no calls.

    Some templates take the arguments as a mapping, and some as a text.
    """
    shown = False
    for arguments in ({ARGUMENT: code}, _as_json({ARGUMENT: code})):
        call = {"id": "turngym01", "type": "function", "function": {"name": TOOL_NAME, "arguments": arguments}}
        reply = {"role": "assistant", "content": "", "tool_calls": [call]}
        result = {"role": "tool", "name": TOOL_NAME, "tool_call_id": "turngym01", "content": output}
        try:
            rendered = render(_user(_USER), reply, result)
        except ValueError:
            continue
        shown = shown or code in rendered
        if tools.render(code) in rendered:
            return rendered
    if shown:
        raise ValueError(
            f"this chat template writes calls in another form than {tools.name!r}: without tool_format, tell in words"
        )
    return None


def _end_token(tokenizer: Any, after: list[int]) -> int:
    """Instruct models end a turn with a control token of their own, not always with eos."""
    control = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    return after[0] if after and after[0] in control else int(tokenizer.eos_token_id)


def _check_round_trip(form: TurnFormat, pieces: _Pieces) -> None:
    """Some tokenizers put a space before every text: pieces would then not concatenate to the conversation."""
    ids = [*form.prompt(_USER), *form.observation(_NEXT, first=True), *form.reply(_REPLY)]
    ids = [*ids[:-1], *_encode_template(form.tokenizer, pieces.turn_change)]
    ids += [*form.encode(form.spell(_NEXT)), *form.reply_opening]
    first = form.spell(f"{_USER}\n\n{_NEXT}") + pieces.reply_opening
    text = pieces.opening + first + _REPLY + pieces.turn_change + form.spell(_NEXT) + pieces.reply_opening
    if form.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) != text:
        raise ValueError("this tokenizer changes texts that are encoded in pieces: transcripts cannot be built with it")


def _encode_template(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
