"""Chat templates read off a tokenizer, piece by piece."""

import copy
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AddedToken, PreTrainedTokenizerFast

from turngym.agents import tiny
from turngym.agents.templates import turn_format
from turngym.wrappers.tool_formats import DEEPSEEK, HERMES, LLAMA, TOOL, TOOL_FORMATS

CHATML = (
    "{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|user|>assistant\n{% endif %}"
)
TRIMMING = CHATML.replace("{{ m.content }}", "{{ m.content | trim }}")
WITHOUT_THOUGHTS = CHATML.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")  # as Qwen3
BEGUN_THOUGHT = WITHOUT_THOUGHTS.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")  # as DeepSeek R1
EMPTY_THOUGHT = BEGUN_THOUGHT.replace(
    "{{ m.role }}\n", "{{ m.role }}\n{% if m.role == 'assistant' %}<think></think>{% endif %}"
)
FORGETFUL = (
    "{% for m in messages %}<|user|>{% if m.role == 'user' or loop.last %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CHANNELS = CHATML.replace("{{ m.role }}\n", "{{ m.role }}\n{% if m.role == 'assistant' %}final: {% endif %}")
TOOLS = (
    "{% if tools %}<|user|>system\n{{ tools | tojson }}<|end|>\n{% endif %}"
    "{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content }}{% for call in m.tool_calls or [] %}"
    '<tool_call>\n{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n'
    "</tool_call>{% endfor %}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|user|>assistant\n{% endif %}"
)
REWRITING = {"without": WITHOUT_THOUGHTS, "begun": BEGUN_THOUGHT, "empty": EMPTY_THOUGHT}
TEXT = st.text(max_size=20) | st.sampled_from([" \n", "<|end|>", "<|user|>", "<think>", '"', "\\"])


@cache
def tokenizer_with(template: str | None, *control: str):
    tokenizer = tiny.build_tokenizer()
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    tokenizer.chat_template = template
    return tokenizer


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


def rendered(tokenizer, *messages: dict, **arguments) -> str:
    return tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True, **arguments)


def written(form, instructions: str, turns: list[str]) -> str:
    """A conversation in pieces: observations and replies in turn, beginning and ending with an observation."""
    ids = form.prompt(instructions)
    for place, text in enumerate(turns):
        ids += form.reply(text) if place % 2 else form.observation(text, first=place == 0)
    return form.tokenizer.decode(ids)


@pytest.mark.parametrize("template", [tiny.build_tokenizer().chat_template, CHATML, TRIMMING])
@given(texts=st.tuples(TEXT, TEXT, TEXT), reply=TEXT)
def test_pieces_concatenate_to_the_rendered_conversation(template, texts, reply) -> None:
    tokenizer = tokenizer_with(template)
    form = turn_format(tokenizer)
    reply = reply.strip()  # what a policy wrote is kept as it is, also where the template would trim it
    conversation = [user(f"Rules. {texts[0]}\n\nP {texts[1]}"), assistant(reply), user(texts[2])]
    pieces = written(form, f"Rules. {texts[0]}", [f"P {texts[1]}", reply, texts[2]])
    assert pieces == rendered(tokenizer, *conversation)
    assert not form.rewrites
    assert form.results is None


@pytest.mark.parametrize("template", REWRITING.values(), ids=REWRITING)
def test_a_template_that_drops_thoughts_is_followed_turn_by_turn_and_thoughts_stay(template) -> None:
    tokenizer = tokenizer_with(template)
    form = turn_format(tokenizer)
    assert form.rewrites
    thought = "<think>\nI go right</think>"
    reply = f"{thought}Right".removeprefix("" if template == WITHOUT_THOUGHTS else "<think>\n")  # others begin it
    text = written(form, "Rules.", ["P G", reply, "G √", reply, "√"])
    shown = rendered(tokenizer, user("Rules.\n\nP G"), assistant(reply), user("G √"), assistant(reply), user("√"))
    assert text.count(thought) == 2
    assert text.replace(thought, "<think></think>" if template == EMPTY_THOUGHT else "") == shown


@pytest.mark.parametrize("template", [FORGETFUL, CHANNELS], ids=["drops replies", "opens history otherwise"])
def test_a_template_that_cannot_be_followed_is_refused(template) -> None:
    with pytest.raises(ValueError, match="drops or rewrites earlier replies"):
        turn_format(tokenizer_with(template))


def test_a_template_that_fails_or_drops_observations_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot write a conversation: no users"):
        turn_format(tokenizer_with("{{ raise_exception('no users') }}"))
    with pytest.raises(ValueError, match="drops or rewrites messages of the user"):
        turn_format(tokenizer_with(CHATML.replace("{{ m.content }}", "{{ m.content | upper }}")))


def test_a_tokenizer_that_adds_spaces_is_refused() -> None:
    vocabulary = {"<s>": 0, "</s>": 1, **{chr(code): code for code in range(10, 127)}, "▁": 127}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    with pytest.raises(ValueError, match="changes texts that are encoded in pieces"):
        turn_format(PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>"))


def test_a_tokenizer_without_an_end_is_refused() -> None:
    tokenizer = copy.deepcopy(tokenizer_with(CHATML))
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match=r"set tokenizer\.eos_token"):
        turn_format(tokenizer)


def test_the_end_of_a_turn_is_the_templates_own() -> None:
    tokenizer = tokenizer_with(CHATML.replace("<|end|>", "<turn|>"), "<turn|>")
    form = turn_format(tokenizer)
    assert tokenizer.decode([form.end]) == "<turn|>"
    assert tokenizer.decode(form.turn_change) == "\n<|user|>user\n"


def test_arguments_reach_the_template_and_the_date_stands_still() -> None:
    template = "{{ date_string }}, {{ 'thinking' if enable_thinking else 'not thinking' }}\n" + CHATML
    form = turn_format(tokenizer_with(template), arguments={"enable_thinking": True})
    assert form.tokenizer.decode(form.opening) == "26 Jul 2024, thinking\n<|user|>user\n"


# Tools ---------------------------------------------------------------------------------------------------------------


def call_and_result(code: str, output: str, arguments: object) -> tuple[dict, dict]:
    call = {"id": "0", "type": "function", "function": {"name": "python", "arguments": arguments}}
    return {**assistant(""), "tool_calls": [call]}, {"role": "tool", "content": output}


@given(code=TEXT, output=TEXT)
def test_calls_and_results_are_written_as_the_template_writes_them(code, output) -> None:
    tokenizer = tokenizer_with(TOOLS)
    form = turn_format(tokenizer, tools=HERMES)
    text = written(form, "", ["Sum?", HERMES.render(code), f"<interpreter>\n{output}\n</interpreter>"])
    shown = rendered(tokenizer, user("Sum?"), *call_and_result(code, output, {"code": code}), tools=[TOOL])
    assert text.replace("\\u003c", "<") == shown
    assert "Run a Python program" in text


def test_other_observations_stay_the_users() -> None:
    form = turn_format(tokenizer_with(TOOLS), tools=HERMES)
    assert written(form, "", ["Sum?", "5", "I could not read it."]).endswith(
        "<|user|>user\nI could not read it.<|end|>\n<|user|>assistant\n"
    )


def test_a_template_that_knows_no_tools_leaves_results_to_the_user() -> None:
    form = turn_format(tokenizer_with(CHATML), tools=HERMES)
    assert form.results is None
    output = "<interpreter>\n5\n</interpreter>"
    assert output in written(form, "", ["Sum?", HERMES.render("5"), output])


def test_a_template_of_another_family_is_refused() -> None:
    with pytest.raises(ValueError, match="writes calls in another form than 'llama'"):
        turn_format(tokenizer_with(TOOLS), tools=LLAMA)


@pytest.mark.parametrize("form", TOOL_FORMATS.values(), ids=TOOL_FORMATS)
def test_marks_of_a_reply_are_tokens_and_those_of_an_observation_are_not(form) -> None:
    tokenizer = tokenizer_with(CHATML, *form.marks)
    turns = turn_format(tokenizer, tools=form)
    marks = tokenizer.convert_tokens_to_ids(list(form.marks))
    assert [token for token in turns.reply(form.render("1 < 2")) if token in marks] == marks
    assert not set(marks) & set(turns.observation(form.render("1 < 2"), first=False))


# Templates that a package brings along -------------------------------------------------------------------------------


def shipped(name: str):
    """A tokenizer of bytes with a template out of TRL."""
    trl = pytest.importorskip("trl")
    template = (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")
    control = ["<|im_start|>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<｜end▁of▁sentence｜>", "<bos>"]
    tokenizer = copy.deepcopy(tokenizer_with(template, *control))
    tokenizer.bos_token = "<bos>"
    return tokenizer


@pytest.mark.parametrize(
    "name", ["qwen2_5", "qwen3_instruct_2507", "llama3", "llama3_1", "llama3_2", "gemma", "gemma3", "phi3", "lfm2"]
)
def test_shipped_templates_that_only_grow(name: str) -> None:
    tokenizer = shipped(name)
    form = turn_format(tokenizer)
    assert not form.rewrites
    turns = ["P G\n", "<think>\nright\n</think>\n\nRight", "\nG √", "Left", "√ G"]
    messages = [(assistant if place % 2 else user)(text) for place, text in enumerate(turns)]
    messages[0] = user(f"Rules.\n\n{turns[0]}")
    assert written(form, "Rules.", turns) == rendered(tokenizer, *messages, date_string="26 Jul 2024")


@pytest.mark.parametrize("name", ["qwen3", "qwen3_6", "deepseek_r1_distill", "deepseekv3", "glm4moe"])
def test_shipped_templates_that_drop_thoughts(name: str) -> None:
    tokenizer = shipped(name)
    form = turn_format(tokenizer)
    assert form.rewrites
    begun = tokenizer.decode(form.reply_opening).endswith("<think>\n")
    replies = [f"{'' if begun else '<think>'}{word}</think>{word.title()}" for word in ("right", "left")]
    turns = ["P G", replies[0], "G √", replies[1], "√ G"]
    messages = [(assistant if place % 2 else user)(text) for place, text in enumerate(turns)]
    messages[0] = user(f"Rules.\n\n{turns[0]}")
    text = written(form, "Rules.", turns)
    bare, dropped = re.subn(r"<think>\n?(right|left)</think>", "", text)
    assert dropped == 2
    assert bare == rendered(tokenizer, *messages).replace("\n<think></think>\n", "")  # which GLM puts instead


@pytest.mark.parametrize("name", ["gptoss", "muse_glimmer", "smolvlm"])
def test_shipped_templates_that_cannot_be_followed(name: str) -> None:
    with pytest.raises(ValueError, match="drops or rewrites"):
        turn_format(shipped(name))


@pytest.mark.parametrize(
    ("name", "tools"),
    [("qwen2_5", HERMES), ("qwen3", HERMES), ("llama3_1", LLAMA), ("llama3_2", LLAMA), ("deepseekv3", DEEPSEEK)],
)
def test_shipped_templates_write_calls_as_we_do(name: str, tools) -> None:
    tokenizer = shipped(name)
    form = turn_format(tokenizer, tools=tools)
    code, output = 'print("é", 6 * 7)\n', 'é 42\n"'
    arguments = '{"code": "print(\\"é\\", 6 * 7)\\n"}' if tools is DEEPSEEK else {"code": code}
    text = written(form, "Rules.", ["Product?", tools.render(code), f"<interpreter>\n{output}\n</interpreter>"])
    messages = [user("Rules.\n\nProduct?"), *call_and_result(code, output, arguments)]
    shown = rendered(tokenizer, *messages, tools=[TOOL], date_string="26 Jul 2024")
    assert (
        text.replace("<｜Assistant｜><think>\n", "<｜Assistant｜>") == shown
    )  # what DeepSeek's begins, and then drops


@pytest.mark.parametrize(
    ("name", "template"), [("hermes", "qwen3"), ("llama", "llama3_1"), ("deepseek", "deepseekv3"), ("anthropic", None)]
)
def test_the_page_shows_what_each_family_sees(root, name: str, template: str | None) -> None:
    page = (root / "docs/tool_formats.md").read_text(encoding="utf-8")
    shown = page.partition(f"````text {name}\n")[2].partition("\n````")[0]
    tools = TOOL_FORMATS[name]
    form = turn_format(shipped(template), tools=tools) if template else turn_format(tokenizer_with(None))
    question, code = "What is 96 ** 117 % 1000?", "x = 96 ** 117\nprint(x % 1000)"
    turns = [question, tools.render(code), "<interpreter>\n16\n</interpreter>", "<answer>16</answer>"]
    text = written(form, "Rules.", turns)
    assert question + text.partition(question)[2] == shown


# The tokenizer of tiny -----------------------------------------------------------------------------------------------


def test_without_a_template_lines_are_used() -> None:
    form = turn_format(tokenizer_with(None), tools=HERMES)
    assert written(form, "Rules.", ["P G", "Right"]) == "Rules.\n\nP G\nRight<|end|>"


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


def test_words_of_questions_and_programs_are_one_token() -> None:
    form = turn_format(TOKENIZER)
    asked = [TOKENIZER.decode([each]) for each in form.encode("What is the remainder when 7 is divided")]
    assert asked == ["What", " is", " the", " remainder", " when", " 7", " is", " divided"]
    program = [TOKENIZER.decode([each]) for each in form.encode("for circle in range(2):\n    total += 3")]
    assert program == ["for", " circle", " in", " range", "(", "2", "):", "\n   ", " total", " +=", " 3"]
    digits = form.encode("a, b = 96, 23")
    assert [TOKENIZER.decode([each]) for each in digits] == ["a", ",", " ", "b", " =", " 9", "6", ",", " 2", "3"]
