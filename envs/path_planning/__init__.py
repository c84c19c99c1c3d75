"""Planning on grid maps: maps and their formats, generators, text forms, search, and the environments."""

from typing import TYPE_CHECKING, Any

from turngym.lazy import lazy_exports

if TYPE_CHECKING:
    from turngym.envs.path_planning.cbs import JointPlan as JointPlan
    from turngym.envs.path_planning.fleet import Fleet as Fleet
    from turngym.envs.path_planning.fleet_levels import load_fleet as load_fleet
    from turngym.envs.path_planning.generators import generate_map as generate_map
    from turngym.envs.path_planning.generators import generate_problem as generate_problem
    from turngym.envs.path_planning.maps import GridMap as GridMap
    from turngym.envs.path_planning.maps import Problem as Problem
    from turngym.envs.path_planning.movingai import Scenario as Scenario
    from turngym.envs.path_planning.movingai import load_map as load_map
    from turngym.envs.path_planning.movingai import load_scenarios as load_scenarios
    from turngym.envs.path_planning.movingai import scenario_tolerance as scenario_tolerance
    from turngym.envs.path_planning.multi_agent import MultiAgentPathPlanning as MultiAgentPathPlanning
    from turngym.envs.path_planning.obstacles import MovingObstacle as MovingObstacle
    from turngym.envs.path_planning.pictures import Overlay as Overlay
    from turngym.envs.path_planning.pictures import draw_ansi as draw_ansi
    from turngym.envs.path_planning.pictures import draw_image as draw_image
    from turngym.envs.path_planning.search.astar import PlanResult as PlanResult
    from turngym.envs.path_planning.search.astar import astar as astar
    from turngym.envs.path_planning.search.astar import distance_field as distance_field
    from turngym.envs.path_planning.search.rstar import rstar as rstar
    from turngym.envs.path_planning.search.rstar2 import RStar2Planner as RStar2Planner
    from turngym.envs.path_planning.search.rstar2 import rstar2 as rstar2
    from turngym.envs.path_planning.sensor import Sensor as Sensor
    from turngym.envs.path_planning.symmetry import canonical as canonical
    from turngym.envs.path_planning.text_forms import choose_form as choose_form
    from turngym.envs.path_planning.text_forms import parse as parse
    from turngym.envs.path_planning.text_forms import render as render
    from turngym.envs.path_planning.view import View as View

_MODULES = {
    "cbs": ("JointPlan",),
    "fleet": ("Fleet",),
    "fleet_levels": ("load_fleet",),
    "generators": ("generate_map", "generate_problem"),
    "maps": ("GridMap", "Problem"),
    "movingai": ("Scenario", "load_map", "load_scenarios", "scenario_tolerance"),
    "multi_agent": ("MultiAgentPathPlanning",),
    "obstacles": ("MovingObstacle",),
    "pictures": ("Overlay", "draw_ansi", "draw_image"),
    "search.astar": ("PlanResult", "astar", "distance_field"),
    "search.rstar": ("rstar",),
    "search.rstar2": ("RStar2Planner", "rstar2"),
    "sensor": ("Sensor",),
    "symmetry": ("canonical",),
    "text_forms": ("choose_form", "parse", "render"),
    "view": ("View",),
}
_EXPORTS = {name: f"turngym.envs.path_planning.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    return lazy_exports(__name__, _EXPORTS, name)
