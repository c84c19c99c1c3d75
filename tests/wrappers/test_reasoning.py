from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.agents.scripted import OracleAgent, RandomAgent
from turngym.envs import check_text_env
from turngym.envs.actions import ParseError
from turngym.wrappers import ReasoningWrapper
from turngym.wrappers.reasoning import Reply, parse_reply


def make(**kwargs):
    return ReasoningWrapper(gymnasium.make("TextFrozenLake-v0", **kwargs))


@pytest.mark.parametrize(
    ("text", "thought", "action"),
    [
        ("<think>go up</think><answer>Up</answer>", "go up", "Up"),
        ("<think></think><answer></answer>", "", ""),
        (" <think>a\nb < c</think>\n\n<answer>Up || Left</answer>\n", "a\nb < c", "Up || Left"),
        ("<think><code>1<2</code></think><answer><b></answer>", "<code>1<2</code>", "<b>"),
    ],
)
def test_reads_what_keeps_the_grammar(text: str, thought: str, action: str) -> None:
    assert parse_reply(text) == Reply(thought, action)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Up",
        "<answer>Up</answer>",
        "<think>go up</think>",
        "<think>go up</think>Up",
        "<think>a</think> so <answer>Up</answer>",
        "<think>a</think><answer>Up</answer>.",
        "ok <think>a</think><answer>Up</answer>",
        "<think>a</think><answer>Up</answer><answer>Left</answer>",
        "<think>a</think><think>b</think><answer>Up</answer>",
        "<think>a<think>b</think><answer>Up</answer>",
        "<think>a</think><answer><answer>Up</answer>",
        "<think>a</think><answer>Up",
        "<answer>Up</answer><think>a</think>",
        "<THINK>a</THINK><ANSWER>Up</ANSWER>",
    ],
)
def test_guesses_nothing(text: str) -> None:
    assert isinstance(parse_reply(text), ParseError)


@given(st.text(), st.text())
def test_reads_back_what_was_written(thought: str, action: str) -> None:
    tags = ("<think>", "</think>", "<answer>", "</answer>")
    expected = not any(tag in part for tag in tags for part in (thought, action))
    assert (parse_reply(str(Reply(thought, action))) == Reply(thought, action)) == expected


def test_a_long_reply_is_read_in_linear_time() -> None:
    assert isinstance(parse_reply("<think>" + "</think><answer>" * 50_000), ParseError)


def test_penalty_feedback_and_info_of_a_broken_form() -> None:
    env, plain = make(invalid_penalty=-0.2), gymnasium.make("TextFrozenLake-v0", invalid_penalty=-0.2)
    env.reset(seed=1)
    plain.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step("Up")
    expected, *_, plain_info = plain.step("")
    assert reward == pytest.approx(-0.2 - 0.1)
    assert (terminated, truncated) == (False, False)
    assert info == {**plain_info, "format_is_valid": False}
    assert not info["action_is_valid"]
    note, _, rest = observation.partition("\n")
    assert "<think>your thought</think><answer>your action</answer>" in note
    assert rest == expected


def test_a_kept_form_changes_nothing_but_the_info() -> None:
    env, plain = make(), gymnasium.make("TextFrozenLake-v0")
    assert env.reset(seed=1)[0] == plain.reset(seed=1)[0]
    env.step("garbage")
    plain.step("garbage")
    for action in ("Left", "no move"):
        observation, reward, terminated, truncated, info = env.step(f"<think>hm</think><answer>{action}</answer>")
        *expected, plain_info = plain.step(action)
        assert [observation, reward, terminated, truncated] == expected
        assert info == {**plain_info, "format_is_valid": True}


def test_instructions_say_how_to_reply() -> None:
    env = make()
    _, info = env.reset(seed=1)
    assert info["instructions"] == env.get_wrapper_attr("instructions")
    assert info["instructions"].startswith(env.unwrapped.instructions)
    assert "<think>your thought</think><answer>your action</answer>" in info["instructions"]
    assert env.get_wrapper_attr("stop_strings") == ("</answer>",)


@pytest.mark.parametrize("kwargs", [{}, {"success_rate": 0.8, "moves_per_turn": 2}])
def test_keeps_the_contract(kwargs: dict[str, Any]) -> None:
    check_text_env(make(**kwargs))


def test_a_state_holds_the_feedback_on_the_form() -> None:
    env = make()
    env.reset(seed=1)
    observation, *_ = env.step("Up")
    state = env.get_state()
    env.step("<think></think><answer>Up</answer>")
    assert env.set_state(state)[0] == observation
    assert "<think>" in observation


def test_oracle_thinks_and_succeeds() -> None:
    env = make()
    for seed in range(20):
        env.reset(seed=seed)
        over = False
        while not over:
            reply = OracleAgent(env).act("")
            thought = parse_reply(reply).thought
            before = env.unwrapped.get_state().board
            assert thought.startswith(f"I am at {before // 4} {before % 4}, goal at ")
            _, _, terminated, truncated, info = env.step(reply)
            after = env.unwrapped.get_state().board
            assert thought.endswith(f"next {after // 4} {after % 4}")
            over = terminated or truncated
        assert info["success"]


def test_the_thought_holds_the_whole_plan() -> None:
    env = gymnasium.make("TextFrozenLake-v0", desc=["S__", "OO_", "G__"])
    env.reset(seed=0)
    env = env.unwrapped
    assert env.oracle_thought() == "I am at 0 0, goal at 2 0, plan Right Right Down Down Left Left, next 0 1"
    for _ in range(6):
        env.step(env.oracle_action())
    assert env.oracle_thought() == ""


def test_an_env_without_thoughts_gets_an_empty_one() -> None:
    class Silent(gymnasium.Env):
        instructions, oracle_action = "Say hi.", staticmethod(lambda: "hi")

    assert ReasoningWrapper(Silent()).oracle_action() == "<think></think><answer>hi</answer>"


def test_random_actions_are_valid_and_rebuilt_from_the_spec() -> None:
    env = gymnasium.make(make(success_rate=0.8).spec)
    env.reset(seed=3)
    agent = RandomAgent(env, seed=1)
    assert {parse_reply(agent.act("")).action for _ in range(50)} == {"Left", "Down", "Right", "Up"}
    assert ReasoningWrapper(env).random_action(np.random.default_rng(0)) is not None
    assert env.get_wrapper_attr("format_penalty") == -0.1


def test_rejects_a_reward_for_broken_form() -> None:
    with pytest.raises(ValueError, match=r"format_penalty must be at most 0, got 0\.5"):
        ReasoningWrapper(gymnasium.make("TextFrozenLake-v0"), format_penalty=0.5)


def test_rejects_an_environment_that_uses_its_tags() -> None:
    with pytest.raises(ValueError, match="have <answer> tags of their own"):
        ReasoningWrapper(gymnasium.make("CodeInterpreter-v0"))
