"""What ends together: a session, its branches, and everything that they started."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from turngym.envs.sandbox.process import Process
from turngym.envs.sandbox.rootfs import SCRATCH
from turngym.envs.sandbox.slot import Slot


class Tree:
    """What ends together: a session, its branches, and everything that they started.

    Args:
        number: Its number with the warm process.
        slot: The warm process.
        forget: Called once nothing of it is left.
    """

    def __init__(self, number: int, slot: Slot, forget: Callable[[Tree], None]) -> None:
        self.number, self.slot, self._forget = number, slot, forget
        self.members: set[Process] = set()
        self.scratch = SCRATCH
        self.ended = False
        slot.live += 1

    def end(self) -> None:
        """Kill everything of it."""
        if not self.ended:
            self.ended = True
            ends = self.slot.ends.get(self.number)
            self.slot.order("end", self.number)
            if ends is None:
                self._gone(None)
            else:
                ends.add_done_callback(self._gone)

    def _gone(self, future: asyncio.Future[None] | None) -> None:
        self.slot.live -= 1
        self._forget(self)

    def others(self, process: Process) -> bool:
        """Whether somebody else still lives in it."""
        return bool(self.members - {process})

    def killer(self) -> Callable[[Process, int], None]:
        """What signals the first process; with SIGKILL everything goes where no branch is left."""

        def kill(process: Process, signo: int) -> None:
            if signo == signal.SIGKILL and not self.others(process):
                self.end()
            else:
                self.slot.order("signal", self.number, signo=signo)

        return kill

    def release(self, process: Process) -> None:
        """A member is done with."""
        if process not in self.members:
            return
        self.members.discard(process)
        if not self.members:
            self.end()
        elif not process.exit.done():
            process.kill(signal.SIGKILL)
        process.close()
