"""A memory and process limit for each slot, where the machine lets us make control groups (version 1 or 2).

A warm process joins its group once, and its sessions are born into it: moving a process costs milliseconds.
"""

import itertools
import os
import time
from pathlib import Path

_PREFIX = "turngym"
_count = itertools.count()


class Group:
    """One slot's group.

    Args:
        memory_bytes: Of all its processes together.
        processes: How many there may be.

    Raises:
        OSError: Where no group can be made.
    """

    def __init__(self, memory_bytes: int, processes: int) -> None:
        name = f"{_PREFIX}-{os.getpid()}-{next(_count)}"
        self._folders: list[Path] = []
        self._events = Path()
        try:
            for base, limits, events in _hierarchies(memory_bytes, processes):
                _sweep(base)
                folder = base / name
                folder.mkdir()
                self._folders.append(folder)
                for file, value in limits.items():
                    (folder / file).write_text(str(value))
                if events:
                    self._events = folder / events
        except OSError:
            self.remove()
            raise

    @property
    def entrances(self) -> list[str]:
        """Files that a process writes "0" into to join."""
        return [str(folder / "cgroup.procs") for folder in self._folders]

    def oom_kills(self) -> int:
        """How many processes the kernel has ended here for memory."""
        try:
            lines = self._events.read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)

    def remove(self, patience_s: float = 2.0) -> None:
        """Delete the group; the last of its processes may still be dying."""
        deadline = time.monotonic() + patience_s
        for folder in self._folders:
            while True:
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        break
                    time.sleep(0.005)


def _hierarchies(memory_bytes: int, processes: int) -> list[tuple[Path, dict[str, int], str]]:
    """Where to make the group, what to write there, and the file that counts kills."""
    mine = dict(_memberships())
    if "memory" in mine and "pids" in mine:
        memory, pids = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/pids")
        return [
            (_within(memory, mine["memory"]), {"memory.limit_in_bytes": memory_bytes}, "memory.oom_control"),
            (_within(pids, mine["pids"]), {"pids.max": processes}, ""),
        ]
    base = _within(Path("/sys/fs/cgroup"), mine.get("", "/"))
    limits = {"memory.max": memory_bytes, "memory.swap.max": 0, "pids.max": processes}
    return [(base, limits, "memory.events")]


def _within(root: Path, membership: str) -> Path:
    """Our own group's folder; in a container the path may be the host's, and the root is all that is seen."""
    folder = root / membership.lstrip("/")
    return folder if folder.is_dir() else root


def _memberships() -> list[tuple[str, str]]:
    pairs = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        pairs += [(controller, path) for controller in controllers.split(",")]
    return pairs


def _sweep(base: Path) -> None:
    """Delete what supervisors that were killed left behind; a group with processes in it cannot be deleted."""
    for folder in base.glob(f"{_PREFIX}-*-*"):
        if not os.path.exists(f"/proc/{folder.name.split('-')[1]}"):
            _sweep(folder)
            try:
                folder.rmdir()
            except OSError:
                continue


def available() -> str:
    """Why no group can be made here, "" where one can."""
    try:
        group = Group(1 << 28, 64)
    except OSError as error:
        return f"no control group can be made: {error}"
    group.remove()
    return ""
