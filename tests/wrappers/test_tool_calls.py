"""CodeInterpreter-v0 answered with tool calls."""

import pickle

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.agents.scripted import OracleAgent
from turngym.envs import check_text_env
from turngym.envs.actions import ParseError
from turngym.envs.code_interpreter.grammar import Code, parse_reply
from turngym.wrappers import ToolCallWrapper
from turngym.wrappers.tool_calls import _passable
from turngym.wrappers.tool_formats import TOOL_FORMATS, Answer, Call

FORMS = pytest.mark.parametrize("form", TOOL_FORMATS)
needs_sandbox = pytest.mark.parametrize("name", ["CodeInterpreter-v0"])  # conftest.py skips where there is none


def make(form: str, **kwargs) -> ToolCallWrapper:
    return ToolCallWrapper(gymnasium.make("CodeInterpreter-v0", **kwargs), form)


@needs_sandbox
@FORMS
def test_the_oracle_calls_and_wins(name: str, form: str) -> None:
    env = make(form, difficulty=(3, 4))
    observation, info = env.reset(seed=1)
    assert env.form.render("print(6 * 7)") in info["instructions"]
    agent, replies, over = OracleAgent(env), [], False
    while not over:
        replies.append(agent.act(observation))
        observation, reward, terminated, truncated, info = env.step(replies[-1])
        over = terminated or truncated
    assert reward == 1.0
    assert info["success"]
    assert isinstance(env.form.parse(replies[0]), Call)
    assert isinstance(env.form.parse(replies[1]), Answer)
    env.close()


@needs_sandbox
def test_a_program_runs_as_it_was_called(name: str) -> None:
    env = make("hermes")
    env.reset(seed=0)
    observation, *_, info = env.step(env.form.render('for i in range(2):\n    print("</b>", i)'))
    assert observation == "<interpreter>\n</b> 0\n</b> 1\n</interpreter>"
    assert info["interpreter"] == {"status": "ok", "calls": 1, "errors": 0}
    env.close()


@FORMS
@pytest.mark.parametrize("reply", ["", "Hello", "<code>print(1)</code>", "<tool_call>\n{}\n</tool_call>"])
def test_unreadable_replies_are_turns_without_a_move(form: str, reply: str) -> None:
    env = make(form)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(reply)
    assert (reward, terminated, truncated, info["action_is_valid"]) == (0.0, False, False, False)
    assert observation.endswith("Call python with code, or reply with <answer>your answer</answer>.")
    assert "<code>" not in observation
    env.close()


@given(code=st.text() | st.lists(st.sampled_from(["<", "/", "code>", "answer>", "5", "\n", "```", " "])).map("".join))
def test_the_environment_reads_the_program_that_was_meant(code: str) -> None:
    passed = _passable(Call(code))
    if isinstance(passed, ParseError):
        assert not code.strip() or any(tag in code.lower() for tag in ("<code>", "</code>", "<answer>", "</answer>"))
        return
    alone = parse_reply(f"<code>{code}</code>")
    assert parse_reply(passed) == alone
    assert isinstance(alone, Code | ParseError)


def test_an_answer_cannot_smuggle_a_program() -> None:
    assert isinstance(_passable(Answer("<code>print(1)</code>")), ParseError)
    assert _passable(Answer("42")) == "<answer>42</answer>"


@needs_sandbox
@FORMS
def test_keeps_the_contract(name: str, form: str) -> None:
    env = make(form)
    check_text_env(env)
    assert gymnasium.make(env.spec).get_wrapper_attr("form").name == form


def test_random_actions_are_calls_and_answers() -> None:
    env = make("llama")
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    replies = {env.random_action(rng) for _ in range(400)}
    assert len(replies) == 20
    assert {type(env.form.parse(reply)) for reply in replies} == {Call, Answer}
    env.close()


def test_branches_remember_the_complaint() -> None:
    env = make("hermes")
    env.reset(seed=0)
    observation, *_ = env.step("Hello")
    state = pickle.loads(pickle.dumps(env.get_state()))
    env.reset(seed=1)
    assert env.set_state(state)[0] == observation
    env.close()


def test_a_template_that_describes_tools_need_not_be_told_twice() -> None:
    env = ToolCallWrapper(gymnasium.make("CodeInterpreter-v0"), "hermes", show_form=False)
    assert "<tool_call>" not in env.instructions
    assert "call the tool python" in env.instructions


def test_says_what_it_is_for() -> None:
    with pytest.raises(ValueError, match="have no <code> and <answer> tags"):
        ToolCallWrapper(gymnasium.make("TextFrozenLake-v0"))
    with pytest.raises(ValueError, match="tool_format must be one of hermes, llama, deepseek, anthropic, got 'xml'"):
        make("xml")
