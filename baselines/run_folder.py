"""A run's folder: settings, metrics, curves, checkpoints and the closing summary. Files are written whole or not at all."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from turngym.agents.trajectory import Trajectory


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader and a crash see the old one or the new one."""
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(text, encoding="utf-8")
    os.replace(scratch, path)


class RunFolder:
    """Where one training run leaves what it did.

    Args:
        path: The folder; made with its parents. It must not hold anything yet.
        config: The settings, written to `config.json`.

    Raises:
        ValueError: If the folder is in use.
    """

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ValueError(f"--output-dir {path}: this is in use; name a folder that is empty or does not exist yet")
        self.path = path
        (path / "checkpoints").mkdir(parents=True, exist_ok=True)
        write_whole(path / "config.json", json.dumps(config, indent=2, default=str) + "\n")
        self._board = SummaryWriter(str(path / "tensorboard"))
        self._began = time.time()

    @property
    def wall_s(self) -> float:
        """Seconds since the run began."""
        return time.time() - self._began

    def log(self, stage: str, step: int, metrics: dict[str, float]) -> None:
        """Append one line to `metrics.jsonl`, and the same numbers to TensorBoard."""
        line = {"stage": stage, "step": step, "wall_s": round(self.wall_s, 2), **metrics}
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        for name, value in metrics.items():
            self._board.add_scalar(f"{stage}/{name}", value, step)

    def save_trajectories(self, stage: str, trajectories: Sequence[Trajectory], decode: Any) -> None:
        """Append episodes with their transcripts to `trajectories.jsonl`."""
        with (self.path / "trajectories.jsonl").open("a", encoding="utf-8") as file:
            for each in trajectories:
                file.write(each.to_json(stage=stage, text=decode(each.ids)) + "\n")

    def save_model(self, name: str, model: nn.Module) -> None:
        """Write the weights to `checkpoints/<name>.safetensors`."""
        path = self.path / "checkpoints" / f"{name}.safetensors"
        scratch = path.with_name(path.name + ".part")
        state = {key: value.clone().contiguous() for key, value in model.state_dict().items()}
        save_file(state, scratch)
        os.replace(scratch, path)

    def load_model(self, name: str, model: nn.Module) -> None:
        """Read the weights back."""
        model.load_state_dict(load_file(self.path / "checkpoints" / f"{name}.safetensors"))

    def read_metrics(self) -> list[dict[str, Any]]:
        """All lines logged so far."""
        path = self.path / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def finish(self, summary: dict[str, Any]) -> None:
        """Write `summary.json` and close the event file."""
        write_whole(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")
        self._board.close()


def default_folder(env_id: str, seed: int) -> Path:
    """`runs/<id>-<seed>-<time>`."""
    return Path("runs") / f"{env_id.replace('/', '_').replace(':', '_')}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"


