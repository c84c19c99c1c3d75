"""How a policy uses its interpreter, read off episodes: does it call where that pays, and recover where it failed?

Pure functions over trajectories of environments whose infos tell of an `interpreter` (`status` of each turn's program,
"none" where none was run) and, where known, of a question's `difficulty`. Success alone hides what these show: a policy
that calls for 2 + 2, one that never reads an error, one whose programs bring nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from turngym.agents.trajectory import Trajectory
from turngym.envs.code_interpreter.tasks import BY_HEART

_NO_CALL = ("none", "sandbox_error")
_Z95 = 1.96


@dataclass(frozen=True)
class ToolUse:
    """What some episodes say of the use of a tool; a share of nothing is None.

    Attributes:
        episodes: How many; those that a failure of ours has spoiled count nowhere.
        success: Share of them that were solved.
        call_rate: Share with at least one program.
        calls: Mean number of programs in an episode.
        error_rate: Share of programs that did not end well.
        fixed: P(fixed | error): of the programs that did not end well, the share after which another one of the same
            episode did.
        wasted: Share of programs that bought nothing: they did not end well, the question was one to know by heart, or
            its answer was wrong all the same.
        success_with, success_without: Success of the episodes with a program, and of those without. Their difference
            is no gain: programs are written for the harder questions.
        gain: Success with a program minus success without, on the same level: the mean over the levels that were played
            both ways.
        gain_interval: 95% interval of it over those levels; None for fewer than two.
        gain_levels: How many there were.
    """

    episodes: int
    success: float | None
    call_rate: float | None
    calls: float | None
    error_rate: float | None
    fixed: float | None
    wasted: float | None
    success_with: float | None
    success_without: float | None
    gain: float | None
    gain_interval: tuple[float, float] | None
    gain_levels: int

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers."""
        return asdict(self)


def tool_use(trajectories: Sequence[Trajectory]) -> ToolUse:
    """Sum up episodes, several of a level (the same `seed`) where the gain by a call is to be known."""
    played = [each for each in trajectories if each.valid]
    calls = [statuses(each) for each in played]
    ended_well = [status == "ok" for episode in calls for status in episode]
    solved, called = [each.success for each in played], [bool(episode) for episode in calls]
    differences = list(_differences(played, called).values())
    return ToolUse(
        episodes=len(played),
        success=_share(solved),
        call_rate=_share(called),
        calls=_share([len(episode) for episode in calls]),
        error_rate=_share([not well for well in ended_well]),
        fixed=_share([fix for episode in calls for fix in _fixes(episode)]),
        wasted=_share([waste for each in played for waste in _wastes(each)]),
        success_with=_share([success for success, call in zip(solved, called, strict=True) if call]),
        success_without=_share([success for success, call in zip(solved, called, strict=True) if not call]),
        gain=_share(differences),
        gain_interval=_interval(differences),
        gain_levels=len(differences),
    )


def by_difficulty(trajectories: Sequence[Trajectory]) -> dict[int, ToolUse]:
    """`tool_use` for each difficulty that was played, in order; episodes whose infos tell of none are left out."""
    levels: dict[int, list[Trajectory]] = {}
    for each in trajectories:
        if (level := difficulty(each)) is not None:
            levels.setdefault(level, []).append(each)
    return {level: tool_use(levels[level]) for level in sorted(levels)}


def has_tool(trajectories: Sequence[Trajectory]) -> bool:
    """Whether these episodes were played with an interpreter at hand."""
    return any("interpreter" in info for each in trajectories for info in each.infos)


def statuses(trajectory: Trajectory) -> list[str]:
    """How each program of an episode ended, in order (as in `turngym.envs.sandbox.Status`)."""
    ended = [str(info["interpreter"]["status"]) for info in trajectory.infos if "interpreter" in info]
    return [status for status in ended if status not in _NO_CALL]


def difficulty(trajectory: Trajectory) -> int | None:
    """The difficulty of the question, or None where the environment tells of none."""
    return next((info["difficulty"] for info in trajectory.infos if info.get("difficulty") is not None), None)


def _fixes(episode: Sequence[str]) -> list[bool]:
    """For each program that did not end well, whether a later one did."""
    return ["ok" in episode[place + 1 :] for place, status in enumerate(episode) if status != "ok"]


def _wastes(trajectory: Trajectory) -> list[bool]:
    """For each program, whether it bought nothing."""
    level = difficulty(trajectory)
    in_vain = not trajectory.success or (level is not None and level <= BY_HEART)
    return [in_vain or status != "ok" for status in statuses(trajectory)]


def _differences(played: Sequence[Trajectory], called: Sequence[bool]) -> dict[int | None, float]:
    """Success with a program minus success without, for each level that was played both ways."""
    levels: dict[int | None, tuple[list[bool], list[bool]]] = {}
    for each, call in zip(played, called, strict=True):
        levels.setdefault(each.seed, ([], []))[call].append(each.success)
    return {
        seed: float(np.mean(with_call) - np.mean(without))
        for seed, (without, with_call) in levels.items()
        if with_call and without
    }


def _share(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _interval(values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < 2:
        return None
    mean, half = float(np.mean(values)), _Z95 * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return mean - half, mean + half


def table(rows: dict[str, ToolUse]) -> str:
    """Rows as an aligned text table."""
    names = ("episodes", "success", "call_rate", "calls", "error_rate", "fixed", "wasted", "gain")
    lines = [("", *(name.replace("_", " ") for name in names))]
    for name, row in rows.items():
        lines.append((name, *(_cell(getattr(row, column)) for column in names)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _cell(value: float | None) -> str:
    return "-" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"
