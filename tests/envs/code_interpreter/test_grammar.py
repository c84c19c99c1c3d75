"""What a reply says: the first closed tag, and nothing after it."""

import re
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.actions import ParseError
from turngym.envs.code_interpreter.grammar import MAX_CODE, STOP_STRINGS, Answer, Code, parse_reply

NEITHER = ParseError("I found neither code nor an answer.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<answer>42</answer>", Answer("42")),
        ("Thus <ANSWER>\n 4 2 \n</Answer> and more", Answer("4 2")),
        ("<code>print(1)</code>", Code("print(1)")),
        ("First I compute.\n<code>\nx = 1\nprint(x)\n</code>\n<answer>1</answer>", Code("x = 1\nprint(x)")),
        ("<code>\n```python\nprint(1)\n```\n</code>", Code("print(1)")),
        ("<code>```\nprint(1)\n```</code>", Code("print(1)")),
        ("<code>  ```py\n    x = 1\n    print(x)\n```  </code>", Code("x = 1\nprint(x)")),
        ("<code>```python\nprint(1)</code>", Code("```python\nprint(1)")),  # left open: the error will say so
        ("<code>```bash\nls\n```</code>", Code("```bash\nls\n```")),
        ("<code>    x = 1\n    if x:\n        print(x)\n</code>", Code("x = 1\nif x:\n    print(x)")),
        ("<code> print(1)</code>", Code("print(1)")),
        ("I put it in <answer> tags. <answer>5</answer>", Answer("5")),
        ("<code>print('<answer>4</answer>')</code>", Answer("4")),  # where a policy would have stopped
        ("<answer>print <code>1</code></answer>", Code("1")),
        ("</code></answer> <answer>3</answer>", Answer("3")),
        ("<answer>3</code></answer>", Answer("3</code>")),
        ("<code>x < 3 and x > 1</code>", Code("x < 3 and x > 1")),
        ("<interpreter>7</interpreter><answer>7</answer>", Answer("7")),
        ("<answer>7", NEITHER),
        ("<code>print(1)", NEITHER),
        ("< answer>7</answer>", NEITHER),
        ("<answer >7</answer >", NEITHER),
        ("7", NEITHER),
        ("", NEITHER),
        ("```python\nprint(1)\n```", NEITHER),
        (r"\boxed{7}", NEITHER),
        ("<answer> \n</answer><answer>7</answer>", ParseError("The answer was empty.")),
        ("<code>\n</code>", ParseError("The code was empty.")),
        ("<code>```python\n```</code>", ParseError("The code was empty.")),
        (f"<code>{'#' * (MAX_CODE + 1)}</code>", ParseError(f"The code was longer than {MAX_CODE} characters.")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_read(text: str, expected: object) -> None:
    assert parse_reply(text) == expected


pieces = st.lists(
    st.sampled_from(["<code>", "</code>", "<answer>", "</answer>", "<CODE>", "</Answer>", "```python\n", "```", "\n"])
    | st.text(max_size=8),
    max_size=12,
).map("".join)


@given(pieces)
def test_a_policy_that_stops_says_the_same_as_one_that_writes_on(text: str) -> None:
    read = parse_reply(text)
    if isinstance(read, ParseError):
        return
    ends = [match.end() for match in re.finditer("|".join(STOP_STRINGS), text, re.IGNORECASE)]
    at = next(end for end in ends if not isinstance(parse_reply(text[:end]), ParseError))
    assert parse_reply(text[:at]) == read
    assert parse_reply(text[:at] + "<answer>1</answer><code>x</code>") == read


@given(st.text(max_size=300) | pieces)
def test_any_text_is_read_or_refused(text: str) -> None:
    read = parse_reply(text)
    assert isinstance(read, Code | Answer | ParseError)
    assert not isinstance(read, Code) or (read.source.strip() and len(read.source) <= MAX_CODE)
    assert not isinstance(read, Answer) or read.text == read.text.strip() != ""


@given(st.text(st.characters(exclude_characters="<`\r"), min_size=1).filter(str.strip))
def test_a_fence_changes_nothing(source: str) -> None:
    bare, fenced = (parse_reply(f"<code>\n{body}\n</code>") for body in (source, f"```python\n{source}\n```"))
    assert bare == fenced


@pytest.mark.parametrize(
    "piece", ["<", "<code>", "</code>", "<code></code", "<answer>", "```\n", " ", "<code>```", "\n"]
)
def test_reading_takes_linear_time(piece: str) -> None:
    start = perf_counter()
    parse_reply(piece * (1_000_000 // len(piece)))
    parse_reply(f"<code>{piece * (1_000_000 // len(piece))}</code>")
    assert perf_counter() - start < 2
