"""What decides: scripted agents (numpy alone) and the language-model policy (extra `llm`), loaded when first used."""

from typing import TYPE_CHECKING, Any

from turngym.lazy import lazy_exports

if TYPE_CHECKING:
    from turngym.agents.llm_policy import LLMPolicy as LLMPolicy
    from turngym.agents.rollout import collect_rollout as collect_rollout
    from turngym.agents.scripted import OracleAgent as OracleAgent
    from turngym.agents.scripted import RandomAgent as RandomAgent
    from turngym.agents.trajectory import Trajectory as Trajectory

_EXPORTS = {
    "LLMPolicy": "turngym.agents.llm_policy",
    "collect_rollout": "turngym.agents.rollout",
    "OracleAgent": "turngym.agents.scripted",
    "RandomAgent": "turngym.agents.scripted",
    "Trajectory": "turngym.agents.trajectory",
}

__all__ = ["LLMPolicy", "OracleAgent", "RandomAgent", "Trajectory", "collect_rollout"]


def __getattr__(name: str) -> Any:
    return lazy_exports(__name__, _EXPORTS, name)
