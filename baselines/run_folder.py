"""A run's folder: settings, metrics, curves, checkpoints and summary. Files are written whole or not at all."""

import json
import os
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from turngym.agents.models import PolicyModel
from turngym.agents.trajectory import Trajectory

_GROWING = ("metrics.jsonl", "trajectories.jsonl")


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file beside its place and move it there: a reader, and a crash, see the old one or the new."""
    scratch = path.with_name(path.name + ".part")
    write(scratch)
    os.replace(scratch, path)


class RunFolder:
    """Where one training run leaves what it did, and finds it again after an interruption.

    A run saves its whole state from time to time (`save_state`). What it logged after that is cut off when the folder
    is opened again, since it will be done again, the same way.

    Args:
        path: An existing folder; see `create` and `reopen`.
        state: The last saved state, or None.
    """

    def __init__(self, path: Path, state: dict[str, Any] | None) -> None:
        self.path, self.state = path, state
        self._checkpoints = path / "checkpoints"
        self._began = time.time() - (state["wall_s"] if state else 0.0)
        self._cpu_before = state["cpu_s"] if state else 0.0

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> "RunFolder":
        """Begin a run in a new or empty folder, with its settings in `config.json`.

        Raises:
            ValueError: If the folder is in use.
        """
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ValueError(
                f"--output-dir {path}: this is in use; name a folder that is empty or does not exist yet, "
                f"or go on with --resume {path}"
            )
        (path / "checkpoints").mkdir(parents=True, exist_ok=True)
        text = json.dumps(config, indent=2, default=str) + "\n"
        write_whole(path / "config.json", lambda scratch: scratch.write_text(text, encoding="utf-8"))
        return cls(path, None)

    @classmethod
    def reopen(cls, path: Path) -> "RunFolder":
        """Go on with an interrupted run.

        Raises:
            ValueError: If there is no run in the folder, or it is complete.
        """
        read_config(path)
        saved = path / "checkpoints" / "state.pt"
        state = torch.load(saved, weights_only=True) if saved.exists() else None
        for name in _GROWING:
            if (path / name).exists():
                os.truncate(path / name, state["sizes"].get(name, 0) if state else 0)
        return cls(path, state)

    @cached_property
    def _board(self) -> SummaryWriter:
        return SummaryWriter(str(self.path / "tensorboard"))

    @property
    def wall_s(self) -> float:
        """Seconds that the run has worked, interruptions apart."""
        return time.time() - self._began

    @property
    def cpu_s(self) -> float:
        """Seconds of processor time that the run has taken, all its threads together."""
        return float(self._cpu_before + time.process_time())

    def log(self, stage: str, step: int, metrics: dict[str, float]) -> None:
        """Append one line to `metrics.jsonl`, and the same numbers to TensorBoard."""
        self._append("metrics.jsonl", {"stage": stage, "step": step, "wall_s": round(self.wall_s, 2), **metrics})
        for name, value in metrics.items():
            self._board.add_scalar(f"{stage}/{name}", value, step)

    def save_trajectories(self, stage: str, step: int, trajectories: Sequence[Trajectory], model: PolicyModel) -> None:
        """Append episodes with their texts to `trajectories.jsonl`."""
        for each in trajectories:
            texts = {"text": model.decode(each.ids), "replies": [model.decode(ids) for ids in each.replies()]}
            self._append("trajectories.jsonl", each.to_dict() | {"stage": stage, "step": step, **texts})

    def _append(self, name: str, line: dict[str, Any]) -> None:
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")

    def save_state(self, stage: str, step: int, **state: Any) -> None:
        """Replace the state from which `reopen` goes on: `step` steps of `stage` are done."""
        sizes = {name: (self.path / name).stat().st_size for name in _GROWING if (self.path / name).exists()}
        state |= {"stage": stage, "step": step, "wall_s": self.wall_s, "cpu_s": self.cpu_s, "sizes": sizes}
        write_whole(self._checkpoints / "state.pt", lambda scratch: torch.save(state, scratch))

    def state_of(self, stage: str) -> dict[str, Any] | None:
        """The saved state, if the run was interrupted in `stage`."""
        return self.state if self.state and self.state["stage"] == stage else None

    def save_model(self, name: str, model: nn.Module) -> None:
        """Write the weights to `checkpoints/<name>.safetensors`."""
        weights = {key: value.clone().contiguous() for key, value in model.state_dict().items()}
        write_whole(self._checkpoints / f"{name}.safetensors", lambda scratch: save_file(weights, scratch))

    def load_model(self, name: str, model: nn.Module) -> None:
        """Read the weights back."""
        model.load_state_dict(load_file(self._checkpoints / f"{name}.safetensors"))

    def models(self) -> list[str]:
        """The names under which weights were saved, what was imitated first."""
        names = [path.stem for path in self._checkpoints.glob("*.safetensors")]
        return sorted(names, key=lambda name: (name != "sft", name))

    def read_metrics(self) -> list[dict[str, Any]]:
        """All lines logged so far."""
        path = self.path / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def finish(self, summary: dict[str, Any]) -> None:
        """Write `summary.json`, and drop what only an interrupted run needs."""
        text = json.dumps(summary, indent=2) + "\n"
        write_whole(self.path / "summary.json", lambda scratch: scratch.write_text(text, encoding="utf-8"))
        (self._checkpoints / "state.pt").unlink(missing_ok=True)
        self._board.close()


def read_config(path: Path) -> dict[str, Any]:
    """The settings that an interrupted run was begun with.

    Raises:
        ValueError: If there is no run in the folder, or it is complete.
    """
    if not (path / "config.json").is_file():
        raise ValueError(f"--resume {path}: no run was begun here (there is no config.json)")
    if (path / "summary.json").exists():
        raise ValueError(f"--resume {path}: this run is complete; its summary.json says how it went")
    return dict(json.loads((path / "config.json").read_text(encoding="utf-8")))


def default_folder(env_id: str, seed: int) -> Path:
    """`runs/<id>-<seed>-<time>`."""
    return Path("runs") / f"{env_id.replace('/', '_').replace(':', '_')}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"
