"""What a run against a server leaves: its settings, every episode, and what they say of the model."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turngym.envs import scores
from turngym.envs.errors import TurngymError

Job = tuple[int, int]
"""Seed of a level, and which of its samples."""


class ApiFolder:
    """The folder of a run: `config.json`, `trajectories.jsonl` in whole lines, and `summary.json`.

    Args:
        path: Where it is, or will be.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._episodes = path, path / "trajectories.jsonl"

    def create(self, settings: dict[str, Any]) -> None:
        """Begin a run.

        Raises:
            ValueError: If the folder is in use.
        """
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise ValueError(
                f"--output-dir {self.path}: this is in use; name a folder that is empty or does not exist yet, "
                f"or go on with --resume {self.path}"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self.write("config.json", settings)

    def settings(self) -> dict[str, Any]:
        """What the run was begun with.

        Raises:
            ValueError: If there is no run.
        """
        try:
            return dict(json.loads((self.path / "config.json").read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ValueError(f"--resume {self.path}: there is no run to go on with") from error

    def append(self, line: dict[str, Any]) -> None:
        """Write an episode down; all that a crash can leave is a last line without its end."""
        with self._episodes.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")

    def episodes(self) -> dict[Job, dict[str, Any]]:
        """The episodes so far, the last word on each; a last line without its end is taken away."""
        if not self._episodes.exists():
            return {}
        content = self._episodes.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(self._episodes, len(whole))
        lines = map(json.loads, whole.decode("utf-8").split("\n")[:-1])
        return {(line["seed"], line["sample"]): line for line in lines}

    def write(self, name: str, content: Any) -> None:
        """Write a file whole, or not at all."""
        scratch = self.path / f"{name}.part"
        scratch.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
        os.replace(scratch, self.path / name)


def summarise(lines: Sequence[dict[str, Any]], scale: str | None) -> dict[str, Any]:
    """What episodes say of a model: success and pass@k with 95% intervals over levels, and what replies were like.

    Args:
        lines: As in `trajectories.jsonl`, equally many of each level.
        scale: The id whose reference scores the success is set against; None for none.

    Raises:
        TurngymError: If the server has failed every episode.
    """
    played = [line for line in lines if line["valid"]]
    if not played:
        raise TurngymError(f"all {len(lines)} episodes are void; the last: {lines[-1]['failure']}")
    levels: dict[int, list[bool]] = {}
    for line in played:
        levels.setdefault(line["seed"], []).append(line["success"])
    rates = [sum(each) / len(each) for each in levels.values()]
    infos = [info for line in played for info in line["infos"]]
    summary = {
        **_success(rates, [any(each) for each in levels.values()], max(map(len, levels.values()))),
        "normalized": _normalized(scale, sum(rates) / len(rates)),
        "episodes": len(played),
        "void": len(lines) - len(played),
        "turns": len(infos) / len(played),
        "invalid_rate": sum(not info.get("action_is_valid", True) for info in infos) / len(infos),
    }
    return summary | {name: sum(line[name] for line in played) for name in ("prompt_tokens", "completion_tokens")}


def _success(rates: list[float], solved: list[bool], samples: int) -> dict[str, Any]:
    """The success of a sample and, where there are several of a level, of `samples` together."""
    share, interval = sum(solved) / len(solved), scores.wilson_interval(sum(solved), len(solved))
    if samples == 1:
        return {"success": share, "success_interval": interval}
    mean = {"success": sum(rates) / len(rates), "success_interval": scores.mean_interval(rates)}
    return {**mean, f"pass@{samples}": share, f"pass@{samples}_interval": interval}


def _normalized(env_id: str | None, success: float) -> float | None:
    try:
        return scores.normalized(env_id, success) if env_id else None
    except ValueError:
        return None  # not one of ours, or there is no scale


def closing_words(summary: dict[str, Any]) -> str:
    """A summary for people."""
    lines = []
    for name in [key for key in summary if f"{key}_interval" in summary]:
        low, high = summary[f"{name}_interval"]
        scale = summary["normalized"] if name == "success" else None
        told = "" if scale is None else f", normalised {scale:.3f}"
        lines.append(f"{name:<8} {summary[name]:.3f} [{low:.3f}, {high:.3f}]{told}")
    lines.append(
        f"{summary['episodes']} episodes, {summary['turns']:.1f} turns each, {summary['invalid_rate']:.1%} of them "
        f"unreadable; {summary['prompt_tokens']} tokens read, {summary['completion_tokens']} written"
    )
    if summary["void"]:
        lines.append(
            f"{summary['void']} further episodes are void, as the server failed them: --resume plays them again"
        )
    return "\n".join(lines)
