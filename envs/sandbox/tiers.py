"""Which isolation this machine gives: tried out once, in a process that is thrown away."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

from turngym.envs.errors import SandboxError
from turngym.envs.sandbox import cgroups
from turngym.envs.sandbox.slot import Slot

TIERS = ("A", "A-", "B", "C")


@dataclass(frozen=True)
class Machine:
    """What was found.

    Attributes:
        obstacles: For each tier, why it cannot be had here; "" where it can.
    """

    obstacles: dict[str, str]

    def choose(self, asked: str | None, allow_unsafe: bool) -> str:
        """The best tier, or the one asked for.

        Raises:
            ValueError: If there is no such tier.
            SandboxError: If it cannot be had, or is tier C without `allow_unsafe`; the message says why.
        """
        if asked is not None and asked not in TIERS:
            raise ValueError(f"tier must be one of {', '.join(TIERS)} or None, got {asked!r}")
        tier = asked or next(tier for tier in TIERS if not self.obstacles[tier])
        if self.obstacles[tier]:
            raise SandboxError(f"tier {tier} cannot be had on this machine: {self.obstacles[tier]}")
        if tier == "C" and not allow_unsafe:
            better = "" if asked else f" Tier B is out of reach: {self.obstacles['B']}."
            raise SandboxError(
                "tier C holds a program by resource limits only: it can read your files, reach the network and signal "
                f"your processes.{better} Run inside a container or virtual machine, or pass allow_unsafe=True"
            )
        return tier


_found: Machine | None = None


async def explore() -> Machine:
    """What this machine allows; the answer is kept for the life of this process."""
    global _found
    if _found is None:
        _found = await _explore()
    return _found


async def _explore() -> Machine:
    if not sys.platform.startswith("linux"):
        raise SandboxError("the sandbox runs on Linux only so far; use a virtual machine or a container")
    slot = Slot({"profile": "probe"})
    try:
        found = await slot.first_words()
    finally:
        await slot.close()
    groups = await asyncio.to_thread(cgroups.available)
    return Machine(_obstacles(found, groups))


def _obstacles(found: dict[str, Any], groups: str) -> dict[str, str]:
    filters = f"no system-call filter: {found['seccomp']}" if found["seccomp"] else ""
    spaces = f"no namespaces: {found['namespaces']}" if found["namespaces"] else ""
    files = "" if found["landlock"] else "this kernel has no Landlock"
    return {"A": filters or spaces or groups, "A-": filters or spaces, "B": filters or files, "C": ""}
