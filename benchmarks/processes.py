"""Who descends from whom."""

import contextlib
from pathlib import Path


def family(root: int) -> set[int]:
    """All living descendants of a process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(") ")[2].split()
            if fields[0] not in "ZX":
                parents[int(stat.parent.name)] = int(fields[1])
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | {root}} - found:
        found |= more
    return found
