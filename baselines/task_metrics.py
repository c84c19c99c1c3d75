"""What a task measures of episodes beside success. Add a row to `TASK_METRICS` for a measure of yours."""

from collections.abc import Callable, Sequence
from math import isnan
from typing import Any, NamedTuple

from turngym.agents.trajectory import Trajectory
from turngym.baselines import tool_use
from turngym.envs.path_planning.metrics import Spread, measure


class Metric(NamedTuple):
    """A measure of some episodes.

    Attributes:
        values: As it stands in `evaluation.json`.
        text: The same for people.
    """

    values: dict[str, Any]
    text: str


def tool_use_metric(trajectories: Sequence[Trajectory]) -> Metric | None:
    """The use of an interpreter, over all episodes and by difficulty; None where there is no such tool."""
    if not tool_use.has_tool(trajectories):
        return None
    whole, levels = tool_use.tool_use(trajectories), tool_use.by_difficulty(trajectories)
    values = {"all": whole.to_dict(), "by_difficulty": {level: use.to_dict() for level, use in levels.items()}}
    rows = {f"difficulty {level}": use for level, use in levels.items()}
    return Metric(values, tool_use.table({**rows, "all": whole}))


def planning_metric(trajectories: Sequence[Trajectory]) -> Metric | None:
    """Paths and searches, over all episodes; None where the turns do not tell of a path and the optimum."""
    played = [each.infos for each in trajectories if each.valid]
    if not played or not all(infos and {"path", "cost", "optimum"} <= infos[-1].keys() for infos in played):
        return None
    values = {
        name: {key: _number(part) for key, part in value._asdict().items()}
        if isinstance(value, Spread)
        else _number(value)
        for name, value in vars(measure(played)).items()
    }
    return Metric(values, "\n".join([f"{name.replace('_', ' ')}: {_text(value)}" for name, value in values.items()]))


def _number(value: float) -> float | None:
    """A figure as JSON knows it, which has no nan."""
    return None if isnan(value) else value


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join([f"{key} {_text(part)}" for key, part in value.items()])
    return "-" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


TASK_METRICS: dict[str, Callable[[Sequence[Trajectory]], Metric | None]] = {
    "tool use": tool_use_metric,
    "planning": planning_metric,
}
"""Measures by name; each gives None for episodes that it says nothing of."""


def task_metrics(trajectories: Sequence[Trajectory]) -> dict[str, Metric]:
    """All measures that say something of these episodes."""
    measured = {name: measure(trajectories) for name, measure in TASK_METRICS.items()}
    return {name: metric for name, metric in measured.items() if metric is not None}


def told(measured: dict[str, dict[str, Metric]]) -> str:
    """The measures of several policies for people, a section for each; "" where there are none."""
    return "".join(
        f"\n{policy}, {name}\n{metric.text}\n" for policy, own in measured.items() for name, metric in own.items()
    )
