import pickle

import gymnasium
import pytest

from turngym.envs import check_text_env
from turngym.wrappers import ChatWrapper, ReasoningWrapper, TurnBudgetWrapper


def test_the_conversation_is_the_episode() -> None:
    env = ChatWrapper(gymnasium.make("TextFrozenLake-v0"))
    first, info = env.reset(seed=2)
    assert info["messages"] == [{"role": "user", "content": f"{info['instructions']}\n\n{first}"}]
    second, *_, step_info = env.step("nonsense")
    assert step_info["messages"] == [
        *info["messages"],
        {"role": "assistant", "content": "nonsense"},
        {"role": "user", "content": second},
    ]
    assert len(env.reset(seed=3)[1]["messages"]) == 1


def test_instructions_as_a_system_message() -> None:
    env = ChatWrapper(gymnasium.make("TextFrozenLake-v0"), instructions_role="system")
    observation, info = env.reset(seed=2)
    assert info["messages"] == [
        {"role": "system", "content": info["instructions"]},
        {"role": "user", "content": observation},
    ]


def test_messages_are_copies() -> None:
    env = ChatWrapper(gymnasium.make("TextFrozenLake-v0"))
    _, info = env.reset(seed=2)
    info["messages"][0]["content"] = "changed"
    info["messages"].append({})
    *_, step_info = env.step("Up")
    assert step_info["messages"][0]["content"] != "changed"
    assert [message["role"] for message in step_info["messages"]] == ["user", "assistant", "user"]


def test_branches_have_conversations_of_their_own() -> None:
    env = ChatWrapper(gymnasium.make("TextFrozenLake-v0"))
    env.reset(seed=2)
    state = pickle.loads(pickle.dumps(env.get_state()))
    env.step("one")
    _, info = env.set_state(state)
    assert len(info["messages"]) == 1
    *_, info = env.step("two")
    assert [message["content"] for message in info["messages"]][1] == "two"


def test_tells_what_inner_wrappers_say_and_keeps_the_contract() -> None:
    env = ChatWrapper(TurnBudgetWrapper(ReasoningWrapper(gymnasium.make("TextFrozenLake-v0"))))
    observation, info = env.reset(seed=2)
    assert observation.startswith("12 turns left.")
    assert info["messages"][0]["content"].endswith(observation)
    assert "<think>" in info["messages"][0]["content"]
    check_text_env(env)
    assert gymnasium.make(env.spec).reset(seed=1)[1]["messages"] == env.reset(seed=1)[1]["messages"]


def test_knows_its_roles() -> None:
    with pytest.raises(ValueError, match="instructions_role must be user or system, got 'tool'"):
        ChatWrapper(gymnasium.make("TextFrozenLake-v0"), instructions_role="tool")
