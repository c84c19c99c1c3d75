"""How a conversation becomes tokens, piece by piece: what was written once is never encoded again."""

from dataclasses import dataclass
from typing import Any

_USER, _ASSISTANT = "\x02{}user\x03", "\x02{}assistant\x03"


@dataclass(frozen=True)
class TurnFormat:
    """The token ids that a chat template puts around messages, for conversations of user and assistant in turn.

    Attributes:
        opening: Before the first user message.
        reply_opening: Between a user message and the assistant's reply.
        turn_change: Between the assistant's reply and the next user message, after the end token.
        end: The token that ends a reply.
        tokenizer: Encodes message text.
    """

    opening: list[int]
    reply_opening: list[int]
    turn_change: list[int]
    end: int
    tokenizer: Any

    def encode(self, text: str) -> list[int]:
        """Ids of message text. Control tokens spelled out in it are encoded as plain characters."""
        return list(self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    def prompt(self, instructions: str) -> list[int]:
        """What stands before the first observation."""
        return [*self.opening, *self.encode(f"{instructions}\n\n" if instructions else "")]

    def observation(self, text: str, *, first: bool) -> list[int]:
        """An observation, from the end token of the reply before it to the opening of the reply after it."""
        return [*([] if first else self.turn_change), *self.encode(text), *self.reply_opening]

    def reply(self, text: str) -> list[int]:
        """A reply as somebody else would write it, with its end token."""
        return [*self.encode(text), self.end]


def turn_format(tokenizer: Any) -> TurnFormat:
    """Read the pieces off a tokenizer's chat template; plain lines where it has none.

    Raises:
        ValueError: If the template rewrites earlier messages, or the tokenizer has no end token.
    """
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no eos_token, so a reply would never end: set tokenizer.eos_token")
    opening, reply_opening, turn_change = _pieces(tokenizer)
    end = tokenizer.eos_token_id
    after = _encode_template(tokenizer, turn_change)
    if after and after[0] != end and after[0] in tokenizer.all_special_ids:
        end = after[0]  # instruct models end a turn with a token of their own, not with eos
    return TurnFormat(
        opening=_encode_template(tokenizer, opening),
        reply_opening=_encode_template(tokenizer, reply_opening),
        turn_change=after[1:] if after[:1] == [end] else after,
        end=end,
        tokenizer=tokenizer,
    )


def _pieces(tokenizer: Any) -> tuple[str, str, str]:
    if tokenizer.chat_template is None:
        return "", "\n", "\n"
    marks = [mark.format(index) for index in range(2) for mark in (_USER, _ASSISTANT)]
    roles = ("user", "assistant", "user", "assistant")
    messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]

    def render(count: int, *, reply: bool) -> str:
        return str(tokenizer.apply_chat_template(messages[:count], tokenize=False, add_generation_prompt=reply))

    first, second = render(1, reply=True), render(3, reply=True)
    opening, _, reply_opening = first.partition(marks[0])
    rest = second.removeprefix(first + marks[1])
    turn_change, _, tail = rest.partition(marks[2])
    if not second.startswith(first + marks[1]) or tail != reply_opening:
        raise ValueError(
            "this chat template rewrites earlier messages; a history that only grows cannot be built from it"
        )
    return opening, reply_opening, turn_change


def _encode_template(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
