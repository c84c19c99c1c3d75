"""One warm process as the supervisor sees it: started, asked for forks, told to end them, buried."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from turngym.envs.errors import SandboxError
from turngym.envs.sandbox.cgroups import Group

_BOOTSTRAP = str(Path(__file__).with_name("bootstrap.py"))
_PACKET = 4096
_START_TIMEOUT_S = 60.0
# Nothing of the trainer's own: its variables may hold secrets. One thread, or forks of the process could hang.
_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS")
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg"}
_ENVIRONMENT |= {"MALLOC_ARENA_MAX": "2", **{f"{name}_NUM_THREADS": "1" for name in _THREADS}}


class SlotDied(SandboxError):
    """A warm process is gone, or cannot fork any more."""


class Exit(NamedTuple):
    """How a session's process ended, as the kernel told its parent.

    Attributes:
        code: Exit code, or minus the signal; None where nobody could tell.
        cpu_s: CPU time of its whole life.
        rss_kb: Its largest resident memory.
    """

    code: int | None
    cpu_s: float
    rss_kb: int


class Slot:
    """A warm process and, in tier A, the control group that it and its sessions share.

    Args:
        config: What the process is to become, see `zygote`.
        group: Its control group, removed with it.
    """

    def __init__(self, config: dict[str, Any], group: Group | None = None) -> None:
        self.config = {**config, "groups": group.entrances if group else [], "parent": os.getpid()}
        self.group, self.live, self.dead = group, 0, False
        self.oom_kills = 0
        self.exits: dict[int, asyncio.Future[Exit]] = {}
        self.ends: dict[int, asyncio.Future[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        try:
            # On the loop's own thread: the process asks to die with the thread that started it.
            self.process = subprocess.Popen(
                [sys.executable, "-s", "-P", _BOOTSTRAP, json.dumps(self.config), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if "TURNGYM_SANDBOX_DEBUG" in os.environ else subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        finally:
            theirs.close()
        self._loop.add_reader(self._control, self._hear)

    async def first_words(self) -> dict[str, Any]:
        """What the process says once it is ready, or why it is not.

        Raises:
            SlotDied: If it says nothing.
        """
        try:
            return await asyncio.wait_for(asyncio.shield(self._first), _START_TIMEOUT_S)
        except TimeoutError:
            raise SlotDied(f"a warm process was not ready after {_START_TIMEOUT_S:g} s") from None

    def _hear(self) -> None:
        for _ in range(64):  # then others have their turn
            try:
                message = self._control.recv(_PACKET)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._die()
                return
            self._heed(json.loads(message))

    def _heed(self, event: dict[str, Any]) -> None:
        number = event.get("number", 0)
        match event["op"]:
            case "exit" if event.get("lost"):
                self._fail(number, "the first process of its namespace died", (self.exits,))
            case "exit":
                self._settle(self.exits, number, Exit(event["code"], event["cpu_s"], event["rss_kb"]))
            case "failed":
                self._fail(number, f"no session could be forked: {event['why']}")
            case "gone":
                self._settle(self.ends, number, None)
            case _ if not self._first.done():
                self._first.set_result(event)

    def _settle(self, waiting: dict[int, asyncio.Future[Any]], number: int, value: Any) -> None:
        future = waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result(value)

    def _fail(self, number: int, why: str, of: tuple[dict[int, asyncio.Future[Any]], ...] | None = None) -> None:
        for waiting in of or (self.exits, self.ends):
            future = waiting.pop(number, None)
            if future is not None and not future.done():
                future.set_exception(SlotDied(why))
                future.exception()  # seen, whether or not somebody waits

    def _die(self) -> None:
        self.dead = True
        self._loop.remove_reader(self._control)
        for number in [*self.exits, *self.ends]:
            self._fail(number, "a warm process died")
        if not self._first.done():
            self._first.set_exception(SlotDied("a warm process died before it was ready"))
            self._first.exception()

    async def _tell(self, order: dict[str, Any], descriptors: list[int]) -> None:
        message = json.dumps(order).encode()
        while not self.dead:
            try:
                socket.send_fds(self._control, [message], descriptors)
                return
            except BlockingIOError:
                await asyncio.sleep(0.001)  # hundreds of orders are waiting already
            except OSError:
                break
        raise SlotDied("a warm process died")

    async def fork(self, number: int, seed: int, uid: int, scratch: str, descriptors: list[int]) -> None:
        """Ask for session `number`; its exit and end are futures from here on.

        Raises:
            SlotDied: If the process is gone.
        """
        self.exits[number] = self._loop.create_future()
        self.ends[number] = self._loop.create_future()
        order = {"op": "fork", "number": number, "seed": seed, "uid": uid, "scratch": scratch}
        try:
            await self._tell(order, descriptors)
        except SlotDied as error:
            self._fail(number, str(error))
            raise

    def order(self, op: str, number: int, **arguments: Any) -> None:
        """`signal` a session's first process, or `end` everything of a session. Nothing happens where it is gone."""
        message = json.dumps({"op": op, "number": number, **arguments}).encode()
        try:
            self._control.send(message)
        except BlockingIOError:
            self._loop.call_later(0.001, lambda: self.order(op, number, **arguments))
        except OSError:
            pass  # dead, and its sessions with it

    def new_oom_kills(self) -> int:
        """Processes that the kernel has ended for memory since the last call."""
        if self.group is None:
            return 0
        before, self.oom_kills = self.oom_kills, self.group.oom_kills()
        return self.oom_kills - before

    async def close(self) -> None:
        """End the process and everything under it, and wait until nothing is left."""
        if not self.dead:
            self._die()
        with contextlib.suppress(OSError):  # gone already
            self._control.shutdown(socket.SHUT_RDWR)  # also where a forked child of ours holds a copy
        self._control.close()
        try:
            await asyncio.to_thread(self.process.wait, 2.0)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(self.process.wait)
        if self.group is not None:
            await asyncio.to_thread(self.group.remove)
