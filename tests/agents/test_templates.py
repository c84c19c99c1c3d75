"""Chat templates read off a tokenizer, piece by piece."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.agents import tiny
from turngym.agents.templates import turn_format

CHATML = (
    "{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|user|>assistant\n{% endif %}"
)
FORGETFUL = (
    "{% for m in messages %}<|user|>{% if m.role == 'user' or loop.last %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def tokenizer_with(template: str | None):
    tokenizer = tiny.build_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.parametrize("template", [tiny.build_tokenizer().chat_template, CHATML])
def test_pieces_concatenate_to_the_rendered_conversation(template) -> None:
    tokenizer = tokenizer_with(template)
    form = turn_format(tokenizer)
    ids = [*form.prompt("Rules."), *form.observation("P G", first=True), *form.reply("Right")]
    ids += form.observation("G √", first=False)
    messages = [
        {"role": "user", "content": "Rules.\n\nP G"},
        {"role": "assistant", "content": "Right"},
        {"role": "user", "content": "G √"},
    ]
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(ids) == rendered


def test_a_template_that_rewrites_history_is_refused() -> None:
    with pytest.raises(ValueError, match="rewrites earlier messages"):
        turn_format(tokenizer_with(FORGETFUL))


def test_without_a_template_lines_are_used() -> None:
    tokenizer = tokenizer_with(None)
    form = turn_format(tokenizer)
    ids = [*form.prompt("Rules."), *form.observation("P G", first=True), *form.reply("Right")]
    assert tokenizer.decode(ids) == "Rules.\n\nP G\nRight<|end|>"


@given(st.text(max_size=40))
def test_any_text_survives_the_tiny_tokenizer(text) -> None:
    text = text.encode("utf-8", "ignore").decode()
    form = turn_format(TOKENIZER)
    ids = form.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert not set(ids) & set(TOKENIZER.all_special_ids)


TOKENIZER = tiny.build_tokenizer()


def test_one_cell_and_one_move_are_one_token() -> None:
    form = turn_format(TOKENIZER)
    assert len(form.encode("P _ O G\n_ _ √ X")) == 9
    assert [len(form.encode(move)) for move in ("Left", "Down", "Right", "Up")] == [1] * 4


def test_the_vocabulary_is_frozen() -> None:
    """Checkpoints depend on it: a change here is a new model."""
    assert len(TOKENIZER) == 1024
    assert TOKENIZER.convert_tokens_to_ids(["<|pad|>", "<|end|>", "Left", " Up"]) == [256, 259, 291, 298]
