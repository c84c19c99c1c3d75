"""The tasks. Importing this package registers them with Gymnasium, once; nothing but numpy and gymnasium is loaded."""

from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register, registry

from turngym.lazy import lazy_exports

if TYPE_CHECKING:
    from turngym.envs.checker import check_text_env as check_text_env

ENV_IDS: list[str] = []
"""Every id that this package registers, in order."""


_EXPORTS = {"check_text_env": "turngym.envs.checker"}


def __getattr__(name: str) -> Any:
    return lazy_exports(__name__, _EXPORTS, name)


def _register(env_id: str, entry_point: str, **kwargs: object) -> None:
    """Register once: `import envs` from the repository root and `import turngym` give the same registrations."""
    ENV_IDS.append(env_id)
    if env_id not in registry:
        register(env_id, entry_point=entry_point, kwargs=kwargs)


_register("TextFrozenLake-v0", "turngym.envs.frozen_lake:TextFrozenLakeEnv")
_register("TextFrozenLakeSlippery-v0", "turngym.envs.frozen_lake:TextFrozenLakeEnv", success_rate=0.8, max_turns=20)
_register("TextFrozenLake8x8-v0", "turngym.envs.frozen_lake:TextFrozenLakeEnv", size=8, max_turns=24)
_register("RagenFrozenLake-v0", "turngym.envs.ragen_frozen_lake:RagenFrozenLakeEnv")
_register("Bandit-v0", "turngym.envs.bandit:BanditEnv")
_register("BanditReversed-v0", "turngym.envs.bandit:BanditEnv", risky="Phoenix")
_register("CodeInterpreter-v0", "turngym.envs.code_interpreter.env:CodeInterpreterEnv")
_register("Sokoban-v0", "turngym.envs.sokoban.env:SokobanEnv")
_register("Sokoban7x7x2-v0", "turngym.envs.sokoban.env:SokobanEnv", size=7, boxes=2, min_moves=8, max_moves=24)
_register("Sokoban8x8x3-v0", "turngym.envs.sokoban.env:SokobanEnv", size=8, boxes=3, min_moves=12, max_moves=40)
_register("SokobanBoxoban-v0", "turngym.envs.sokoban.env:SokobanEnv", level_pack="boxoban")
_register("RagenSokoban-v0", "turngym.envs.sokoban.ragen:RagenSokobanEnv")
_register("PathPlanning-v0", "turngym.envs.path_planning.env:PathPlanningEnv")
_register("RStar2-v0", "turngym.envs.path_planning.waypoints:RStar2Env")
_register("JointPathPlanning-v0", "turngym.envs.path_planning.joint:JointPathPlanningEnv")
