"""Planners on grid maps, each with its expansions counted: A*, weighted A*, R* and RStar2.

The functions `astar`, `rstar` and `rstar2` are exported one level up: here their names are those of the modules.
"""

from typing import TYPE_CHECKING, Any

from turngym.lazy import lazy_exports

if TYPE_CHECKING:
    from turngym.envs.path_planning.search.astar import PlanResult as PlanResult
    from turngym.envs.path_planning.search.astar import distance_field as distance_field
    from turngym.envs.path_planning.search.astar import local_search as local_search
    from turngym.envs.path_planning.search.graph import Edge as Edge
    from turngym.envs.path_planning.search.graph import Graph as Graph
    from turngym.envs.path_planning.search.proposals import PROPOSALS as PROPOSALS
    from turngym.envs.path_planning.search.proposals import Proposal as Proposal
    from turngym.envs.path_planning.search.proposals import corners_and_doors as corners_and_doors
    from turngym.envs.path_planning.search.proposals import goal_biased as goal_biased
    from turngym.envs.path_planning.search.proposals import oracle as oracle
    from turngym.envs.path_planning.search.proposals import uniform_ring as uniform_ring
    from turngym.envs.path_planning.search.rstar2 import RStar2Planner as RStar2Planner
    from turngym.envs.path_planning.search.smoothing import smooth as smooth

_MODULES = {
    "astar": ("PlanResult", "distance_field", "local_search"),
    "graph": ("Edge", "Graph"),
    "proposals": ("PROPOSALS", "Proposal", "corners_and_doors", "goal_biased", "oracle", "uniform_ring"),
    "rstar2": ("RStar2Planner",),
    "smoothing": ("smooth",),
}
_EXPORTS = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    return lazy_exports(__name__, _EXPORTS, name)
