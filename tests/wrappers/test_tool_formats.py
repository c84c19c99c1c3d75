"""Calls as models of each family write them: read back exactly, or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.actions import ParseError
from turngym.wrappers.tool_formats import ANTHROPIC, DEEPSEEK, HERMES, LLAMA, TOOL_FORMATS, Answer, Call, read_call

FORMS = pytest.mark.parametrize("form", TOOL_FORMATS.values(), ids=TOOL_FORMATS)

# What closes, opens or escapes something in any of the formats, so that programs are made of it.
PIECES = [
    "<",
    ">",
    "/",
    '"',
    "\\",
    "{",
    "}",
    "\n",
    " ",
    "`",
    "\x00",
    "é",
    "😀",
    "\\u003c",
    "<think>",
    "</think>",
    "<code>",
]
PIECES += ["</answer>", "<answer>", "<answer>5</answer>", "</code>", "<|python_tag|>", "print(1)"]
PIECES += [piece for form in TOOL_FORMATS.values() for piece in (form.before, form.after, *form.marks) if piece]
PROGRAMS = st.text() | st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@FORMS
@given(code=PROGRAMS)
def test_reads_back_what_it_renders(form, code: str) -> None:
    assert form.parse(form.render(code)) == Call(code)


@FORMS
@given(code=PROGRAMS)
def test_a_thought_and_words_before_a_call_are_skipped(form, code: str) -> None:
    call = form.render(code)
    assert form.parse(f"<think>\nIs it <answer>5</answer>? {form.render('no')}\n</think>\n\n{call}") == Call(code)
    if form is not LLAMA:  # whose reply is the call and nothing else
        assert form.parse(f"I compute it.\n{call}") == Call(code)
        assert form.parse(f"opened in the prompt: <answer>5</answer>?\n</think>\n\n{call}") == Call(code)


@pytest.mark.parametrize("form", [HERMES, LLAMA, DEEPSEEK], ids=lambda form: form.name)
@given(code=PROGRAMS)
def test_a_policy_that_stops_at_stop_strings_writes_all_of_it(form, code: str) -> None:
    written = form.render(code)
    ends = [written.find(stop) + len(stop) for stop in form.stop_strings if stop in written]
    assert form.parse(written[: min(ends, default=len(written))]) == Call(code)


@FORMS
@given(text=st.text() | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_reply_raises(form, text: str) -> None:
    assert isinstance(form.parse(text), Call | Answer | ParseError)


@FORMS
def test_the_first_of_call_and_answer_counts(form) -> None:
    call, answer = form.render("print(1)"), "<answer> 42\n</answer>"
    assert form.parse(f"I know: {answer}") == Answer("42")
    if form is not LLAMA:
        assert form.parse(f"{answer}{call}") == Answer("42")
    if form is HERMES or form is DEEPSEEK:
        assert form.parse(f"{call}{answer}") == Call("print(1)")


@FORMS
@pytest.mark.parametrize(
    "reply",
    [
        "",
        "42",
        "<code>print(1)</code>",
        "<answer>42",
        "<answer> </answer>",
        "<think>{call}",
        "<think>a</think>",
        "{call",
    ],
)
def test_guesses_nothing(form, reply: str) -> None:
    assert isinstance(form.parse(reply.replace("{call}", form.render("print(1)"))), ParseError)


@FORMS
def test_half_a_call_is_no_call(form) -> None:
    call = form.render("print(1)")
    assert all(isinstance(form.parse(call[:length]), ParseError) for length in range(len(call) - len(form.after)))


@pytest.mark.parametrize(
    "payload",
    [
        '{"name": "bash", "arguments": {"code": "1"}}',
        '{"name": "python"}',
        '{"name": "python", "arguments": {"code": 1}}',
        '{"name": "python", "arguments": {"code": "1", "timeout": 5}}',
        '{"name": "python", "arguments": {}}',
        '{"name": "python", "arguments": "{\\"code\\": 1}"}',
        '{"name": "python", "arguments": {"code": "1"}, "id": 3}',
        '{"name": "python", "parameters": {"code": "1"}}',
        '[{"name": "python", "arguments": {"code": "1"}}]',
        '{"name": "python", "arguments": {"code": "1"}',
        "python",
        "",
        '{"a":' * 100_000,
        "9" * 10_000,
    ],
)
def test_a_malformed_call_is_an_unreadable_reply(payload: str) -> None:
    assert isinstance(HERMES.parse(f"<tool_call>\n{payload}\n</tool_call>"), ParseError)


def test_forms_are_those_of_the_families() -> None:
    code = 'print("a")'
    assert HERMES.render(code) == (
        '<tool_call>\n{"name": "python", "arguments": {"code": "print(\\"a\\")"}}\n</tool_call>'
    )
    assert LLAMA.render(code) == '{"name": "python", "parameters": {"code": "print(\\"a\\")"}}'
    assert DEEPSEEK.render(code) == (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>python\n"
        '```json\n{"code": "print(\\"a\\")"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    )
    assert ANTHROPIC.render(code) == (
        '<function_calls>\n<invoke name="python">\n<parameter name="code">print("a")</parameter>\n</invoke>\n'
        "</function_calls>"
    )


@pytest.mark.parametrize(
    "reply",
    [
        '<tool_call>{"name":"python","arguments":{"code":"print(1)"}}</tool_call>',
        '<tool_call>\n{"arguments": {"code": "print(1)"}, "name": "python"}\n</tool_call> and so on',
        '<tool_call>\n{"name": "python", "arguments": "{\\"code\\": \\"print(1)\\"}"}\n</tool_call>',
        '<|python_tag|>{"name": "python", "parameters": {"code": "print(1)"}}',
    ],
)
def test_what_can_be_read_in_one_way_is_read(reply: str) -> None:
    assert (LLAMA if "python_tag" in reply else HERMES).parse(reply) == Call("print(1)")


def test_a_line_break_inside_a_string_is_read() -> None:
    reply = '<tool_call>\n{"name": "python", "arguments": {"code": "a = 1\nprint(a)"}}\n</tool_call>'
    assert HERMES.parse(reply) == Call("a = 1\nprint(a)")


@given(code=st.text())
def test_reads_calls_in_parts(code: str) -> None:
    assert read_call("python", {"code": code}) == read_call("python", json.dumps({"code": code})) == Call(code)


@pytest.mark.parametrize(
    ("name", "arguments"), [("bash", {"code": ""}), ("python", "{"), ("python", None), ("python", "[]"), (None, {})]
)
def test_bad_calls_in_parts_are_unreadable(name, arguments) -> None:
    assert isinstance(read_call(name, arguments), ParseError)
