"""What changes how an environment is read or answered; nothing is loaded before it is asked for."""

from typing import TYPE_CHECKING, Any

from turngym.lazy import lazy_exports

if TYPE_CHECKING:
    from turngym.wrappers.chat import ChatWrapper as ChatWrapper
    from turngym.wrappers.pettingzoo import TextParallelEnv as TextParallelEnv
    from turngym.wrappers.reasoning import ReasoningWrapper as ReasoningWrapper
    from turngym.wrappers.sb3 import make_sb3_env as make_sb3_env
    from turngym.wrappers.tabular import TabularWrapper as TabularWrapper
    from turngym.wrappers.tool_calls import ToolCallWrapper as ToolCallWrapper
    from turngym.wrappers.trl import TRLSpec as TRLSpec
    from turngym.wrappers.turns import TurnBudgetWrapper as TurnBudgetWrapper

_EXPORTS = {
    "ChatWrapper": "turngym.wrappers.chat",
    "ReasoningWrapper": "turngym.wrappers.reasoning",
    "TRLSpec": "turngym.wrappers.trl",
    "TabularWrapper": "turngym.wrappers.tabular",
    "TextParallelEnv": "turngym.wrappers.pettingzoo",
    "ToolCallWrapper": "turngym.wrappers.tool_calls",
    "TurnBudgetWrapper": "turngym.wrappers.turns",
    "make_sb3_env": "turngym.wrappers.sb3",
}

__all__ = [
    "ChatWrapper",
    "ReasoningWrapper",
    "TRLSpec",
    "TabularWrapper",
    "TextParallelEnv",
    "ToolCallWrapper",
    "TurnBudgetWrapper",
    "make_sb3_env",
]


def __getattr__(name: str) -> Any:
    return lazy_exports(__name__, _EXPORTS, name)
