"""The asyncio front: a sandbox keeps warm processes, a session is one isolated interpreter forked from them."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import signal
import socket
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict
from types import TracebackType
from typing import Any, Literal, NamedTuple

from turngym.envs.errors import SandboxError
from turngym.envs.sandbox import branching, verdicts
from turngym.envs.sandbox.cgroups import Group
from turngym.envs.sandbox.process import Exchange, Process
from turngym.envs.sandbox.profiles import Profile, check_profile, profile_of
from turngym.envs.sandbox.protocol import pack
from turngym.envs.sandbox.results import ExecResult, Limits
from turngym.envs.sandbox.scratch import ScratchRoot, usage
from turngym.envs.sandbox.slot import Exit, Slot, SlotDied
from turngym.envs.sandbox.tiers import explore

Mode = Literal["cell", "script"]

_SCRATCH = "/tmp"
_READY_TIMEOUT_S = 30.0
_QUEUE_TIMEOUT_S = 600.0
_QUOTA_EVERY_S = 0.05
_SLOT_PROCESSES = 4096
_FIRST_UID, _UIDS_EACH, _SUPERVISORS = 1_000_000_000, 1 << 14, 1 << 16
_ATTEMPTS = 2


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
        self.scratch = _SCRATCH
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


class Run(NamedTuple):
    """One run of a session's past, enough to do it again."""

    code: str
    mode: Mode
    wall_s: float
    status: str


class Session:
    """One isolated interpreter with variables that last. Made by `Sandbox.session`.

    A session that nobody holds any more is ended by itself.

    Attributes:
        id: Number of the session within its sandbox.
        tier: The isolation that it runs under.
        profile: What was imported before it was forked.
        can_branch: "fork" where `branch` copies the live process, "replay" where it runs the history again.
    """

    def __init__(self, sandbox: Sandbox, profile: str, seed: int) -> None:
        self.id = next(sandbox.numbers)
        self.tier, self.profile, self._sandbox, self._seed = sandbox.tier, profile, sandbox, seed
        self.can_branch: Literal["fork", "replay"] = "fork" if sandbox.tier == "A" else "replay"
        self._history: list[Run] = []
        self._runs, self._closed, self._why_ended = 0, False, ""
        self._queue_s = 0.0
        self._busy = asyncio.Lock()
        self._tree: Tree
        self._process: Process

    @property
    def alive(self) -> bool:
        """Whether it can run more."""
        return not self._closed and not self._why_ended

    def _adopt(self, tree: Tree, process: Process) -> None:
        """Live on in this process."""
        self._tree, self._process, self._why_ended = tree, process, ""
        loop = asyncio.get_running_loop()
        self._release = weakref.finalize(self, _release_soon, loop, tree, process)
        self._release.atexit = False

    def _let_go(self) -> None:
        self._release.detach()
        self._tree.release(self._process)

    async def run(
        self, code: str, *, timeout_s: float | None = None, mode: Mode = "cell", transaction: bool = False
    ) -> ExecResult:
        """Run code in the session; never raises for anything that the code does.

        Args:
            code: Python source. In cell mode the value of a trailing expression is shown, and `await` is allowed.
            timeout_s: Wall limit, `Limits.wall_s` unless given.
            mode: "cell" as a notebook does, "script" as `python file.py` does.
            transaction: Whether a death of the process (not an exception) brings the variables back to where they
                stood before the run, instead of ending the session.

        Raises:
            ValueError: If the session was closed, or an argument is out of range.
        """
        self._check(timeout_s, mode)
        async with self._busy:
            return await self._run(code, timeout_s, mode, transaction=transaction)

    def _check(self, timeout_s: float | None, mode: str) -> None:
        if self._closed:
            raise ValueError("the session is closed")
        if timeout_s is not None and not timeout_s > 0:
            raise ValueError(f"timeout_s must be above 0, got {timeout_s}")
        if mode not in ("cell", "script"):
            raise ValueError(f'mode must be "cell" or "script", got {mode!r}')

    async def _run(
        self, code: str, timeout_s: float | None, mode: Mode, *, transaction: bool = False, last: bool = False
    ) -> ExecResult:
        self._runs += 1
        limits = self._sandbox.limits
        if self._why_ended:
            return self._result("killed", detail=f"the session has ended: {self._why_ended}")
        if len(code) > limits.code_bytes or len(code.encode(errors="surrogatepass")) > limits.code_bytes:
            return self._result(
                "error", detail=f"the code is longer than {limits.code_bytes} bytes", error_type="Limit"
            )
        wall_s = limits.wall_s if timeout_s is None else timeout_s
        backup = await self._fork() if transaction and self.can_branch == "fork" else None
        result = await self._attempt(code, mode, wall_s, last)
        if result.status == "sandbox_error" and await self._recover():
            result = await self._attempt(code, mode, wall_s, last)
        if self.alive:
            self._history.append(Run(code, mode, wall_s, result.status))
        result = await self._settle(result, backup, transaction)
        return result

    async def _attempt(self, code: str, mode: Mode, wall_s: float, last: bool) -> ExecResult:
        """One try, and the session's state after it."""
        frame = pack({"op": "run", "seq": self._runs, "code": code, "mode": mode, "last": last})
        watch = self._sandbox.watch(self._tree, self._process)
        start = time.monotonic()
        try:
            exchange = await self._process.exchange(
                frame, seq=self._runs, wall_s=wall_s, limits=self._sandbox.limits, until_exit=last
            )
        finally:
            if watch is not None:
                watch.cancel()
            if self._process.exit.done() and not last:
                self._why_ended = "its process is gone"
        return self._judge(exchange, time.monotonic() - start, wall_s, last)

    def _judge(self, exchange: Exchange, took_s: float, wall_s: float, last: bool) -> ExecResult:
        limits, slot = self._sandbox.limits, self._tree.slot
        # Counted at every end, so that a kill is not laid at the door of somebody who dies later.
        starved = exchange.exit is not None and slot.new_oom_kills() > 0 and exchange.exit.code == -signal.SIGKILL
        verdict = verdicts.judge(exchange, limits, wall_s=wall_s, starved=starved, until_exit=last)
        (stdout, out_cut), (stderr, err_cut) = exchange.stdout.text(), exchange.stderr.text()
        if not verdict.alive and not last:
            self._why_ended = verdict.detail or verdict.status
            self._let_go()
        reply, ended = exchange.reply, exchange.exit
        return self._result(
            verdict.status,
            detail=verdict.detail,
            stdout=stdout,
            stderr=stderr,
            stdout_truncated=out_cut,
            stderr_truncated=err_cut,
            error_type=reply.error if reply is not None and verdict.status == "error" else "",
            exit_code=verdict.exit_code,
            wall_s=took_s,
            cpu_s=reply.cpu_s if reply is not None and ended is None else ended.cpu_s if ended is not None else 0.0,
            peak_memory_mb=(ended.rss_kb if ended is not None else reply.rss_kb if reply is not None else 0) / 1024,
            session_alive=verdict.alive,
        )

    def _result(self, status: Any, **fields: Any) -> ExecResult:
        queue_s, self._queue_s = self._queue_s, 0.0
        common = {"session_alive": self.alive, "queue_s": queue_s, "tier": self.tier}
        return ExecResult(status, session_id=self.id, seq=self._runs, **{**common, **fields})

    async def _settle(self, result: ExecResult, backup: tuple[Tree, Process] | None, transaction: bool) -> ExecResult:
        """Commit or roll back."""
        if not transaction or result.session_alive:
            if backup is not None:
                backup[0].release(backup[1])
            return result
        if backup is not None and not backup[1].exit.done():
            self._adopt(*backup)
        elif not await self._recover():
            return result
        fields = {name: getattr(result, name) for name in result.__slots__}
        return ExecResult(**{**fields, "session_alive": True})

    async def _recover(self) -> bool:
        """Come back in a fresh process, by doing the history again; whether that worked."""
        try:
            tree, process, queue_s = await self._sandbox.launch(self.profile, self._seed)
        except SandboxError:
            return False
        self._queue_s += queue_s
        self._adopt(tree, process)
        past, self._history = self._history, []
        for run in past:
            result = await self._attempt(run.code, run.mode, run.wall_s, last=False)
            if not result.session_alive or result.status != run.status:
                if result.session_alive:
                    self._why_ended = "its history came out differently when run again"
                    self._let_go()
                return False
            self._history.append(run)
        return True

    async def _fork(self) -> tuple[Tree, Process] | None:
        """A live copy of the process, or None where it could not be made."""
        self._runs += 1
        process = await branching.fork(self._process, self._tree, self._runs, self._sandbox.limits)
        return None if process is None else (self._tree, process)

    async def branch(self) -> Session:
        """A second session that goes on from here by itself: a fork of the live process, or a replay of its runs.

        A fork shares the scratch folder and the offsets of open files with its origin, and has none of its threads.

        Raises:
            ValueError: If the session was closed or has ended.
            SandboxError: If no branch could be made.
        """
        async with self._busy:
            if not self.alive:
                raise ValueError(f"the session has ended: {self._why_ended or 'it was closed'}")
            twin = Session(self._sandbox, self.profile, self._seed)
            twin._history = list(self._history)
            forked = await self._fork() if self.can_branch == "fork" else None
            if forked is not None:
                twin._adopt(*forked)
            elif not await twin._recover():
                raise SandboxError(f"no branch could be made: {twin._why_ended or 'no process could be forked'}")
            twin._runs = self._runs
            return twin

    async def close(self) -> None:
        """End the session and everything that it started; a second call does nothing."""
        if self._closed:
            return
        ended, self._closed = bool(self._why_ended), True
        if not ended:
            self._let_go()


def _release_soon(loop: asyncio.AbstractEventLoop, tree: Tree, process: Process) -> None:
    """From whatever thread the garbage collector runs in."""
    try:
        loop.call_soon_threadsafe(tree.release, process)
    except RuntimeError:
        pass  # the loop has ended, and the sandbox with it


class Sandbox:
    """Warm interpreters, and sessions forked from them.

    Args:
        tier: "A", "A-", "B" or "C" to ask for that isolation and no more; None for the best that the machine gives.
        limits: What each session may use.
        slots: Warm processes for each profile; sessions of one slot share its memory limit in tier A.
        max_sessions: Live sessions; further ones wait.
        allow_unsafe: Whether tier C (resource limits only) will do.

    Attributes:
        tier: The isolation in force, once entered.
        limits: What each session may use.
    """

    tier: str

    def __init__(
        self,
        *,
        tier: str | None = None,
        limits: Limits | None = None,
        slots: int = 2,
        max_sessions: int = 1024,
        allow_unsafe: bool = False,
    ) -> None:
        for name, value in (("slots", slots), ("max_sessions", max_sessions)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.limits = limits or Limits()
        self._asked, self._allow_unsafe, self._per_profile = tier, allow_unsafe, slots
        self._admission = asyncio.Semaphore(max_sessions)
        self._slots: dict[str, list[Slot]] = {}
        self._starting: dict[str, asyncio.Lock] = {}
        self._retired: list[Slot] = []
        self._trees: set[Tree] = set()
        self._scratch: ScratchRoot | None = None
        self._wiping: set[asyncio.Future[None]] = set()
        self.numbers = itertools.count(1)
        self._tree_numbers = itertools.count(1)
        self._open = False

    async def __aenter__(self) -> Sandbox:
        machine = await explore()
        self.tier = machine.choose(self._asked, self._allow_unsafe)
        if self.tier in ("B", "C"):
            self._scratch = ScratchRoot()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def session(self, *, profile: Profile = "stdlib", seed: int | None = None, code: str = "") -> Session:
        """A fresh session.

        Args:
            profile: What is imported already: "stdlib", "math" (numpy, sympy), "science" (scipy too); "auto" reads it
                off the imports of `code`.
            seed: Of `random` and `numpy.random`; None draws one.
            code: What "auto" looks at; nothing of it runs.

        Raises:
            ImportError: If the profile's libraries are not installed; the message is the line that installs them.
            SandboxError: If no session could be made, tried twice.
            ValueError: If an argument is out of range, or the sandbox is not open.
        """
        check_profile(profile)
        if not self._open:
            raise ValueError("the sandbox is not open: use `async with Sandbox(...)`")
        if seed is not None and not 0 <= seed < 1 << 63:
            raise ValueError(f"seed must be at least 0 and below 2**63, got {seed}")
        chosen = profile_of(code) if profile == "auto" else profile
        session = Session(self, chosen, secrets.randbits(32) if seed is None else seed)
        tree, process, session._queue_s = await self.launch(chosen, session._seed)
        session._adopt(tree, process)
        return session

    async def run(
        self,
        code: str,
        *,
        profile: Profile = "auto",
        seed: int | None = None,
        timeout_s: float | None = None,
        mode: Mode = "script",
    ) -> ExecResult:
        """Run code once in a session of its own, and end it. `ok` then also means that the process left cleanly."""
        for attempt in range(_ATTEMPTS):
            try:
                session = await self.session(profile=profile, seed=seed, code=code)
            except SandboxError as error:
                return ExecResult("sandbox_error", detail=str(error), tier=self.tier)
            session._check(timeout_s, mode)
            try:
                result = await session._run(code, timeout_s, mode, last=True)
            finally:
                await session.close()
            if result.valid or attempt:
                return result
        raise AssertionError("unreachable")

    async def launch(self, profile: str, seed: int) -> tuple[Tree, Process, float]:
        """A fresh process, and how long it took to come; a warm process that fails is replaced once."""
        start = time.monotonic()
        try:
            await asyncio.wait_for(self._admission.acquire(), _QUEUE_TIMEOUT_S)
        except TimeoutError:
            raise SandboxError(f"no session became free in {_QUEUE_TIMEOUT_S:g} s") from None
        for attempt in range(_ATTEMPTS):
            slot = None
            try:
                slot = await self._slot(profile)
                tree, process = await self._launch_in(slot, seed)
                return tree, process, time.monotonic() - start
            except (SlotDied, OSError) as error:
                if slot is not None:
                    self._retire(profile, slot)
                if attempt + 1 == _ATTEMPTS:
                    self._admission.release()
                    raise SandboxError(f"no session could be made: {error}") from error
            except BaseException:
                self._admission.release()
                raise
        raise AssertionError("unreachable")

    async def _launch_in(self, slot: Slot, seed: int) -> tuple[Tree, Process]:
        number = next(self._tree_numbers)
        uid = self._uid(number)
        tree = Tree(number, slot, self._forget)
        self._trees.add(tree)
        if self._scratch is not None:
            tree.scratch = self._scratch.make(number, uid)
        ours, theirs = branching.endpoints()
        try:
            await slot.fork(number, seed, uid, tree.scratch, theirs.descriptors())
        except BaseException:
            ours.close()
            self._trees.discard(tree)
            slot.live -= 1
            raise
        finally:
            theirs.close()
        process = Process(ours.channel, ours.streams, slot.exits[number], tree.killer())
        tree.members.add(process)
        try:
            await self._await_ready(process)
        except BaseException:
            self._keep_admission(tree)
            tree.release(process)
            raise
        return tree, process

    def _keep_admission(self, tree: Tree) -> None:
        """A failed start gives back no place: its caller still holds it."""
        tree._forget = self._forget_failed

    async def _await_ready(self, process: Process) -> None:
        reply = await process.greeting(_READY_TIMEOUT_S)
        if reply is None or reply.outcome != "ready":
            raise SlotDied(f"a session could not set itself apart: {reply.error if reply else 'it said nothing'}")

    def _uid(self, number: int) -> int:
        """A user that nobody else has, where we may choose."""
        if os.geteuid() != 0:
            return os.geteuid()
        return _FIRST_UID + (os.getpid() % _SUPERVISORS) * _UIDS_EACH + number % _UIDS_EACH

    def _forget(self, tree: Tree) -> None:
        self._admission.release()
        self._forget_failed(tree)

    def _forget_failed(self, tree: Tree) -> None:
        self._trees.discard(tree)
        if self._scratch is not None:
            from turngym.envs.sandbox.scratch import wipe

            future = asyncio.ensure_future(asyncio.to_thread(wipe, tree.scratch))
            self._wiping.add(future)
            future.add_done_callback(self._wiping.discard)

    async def _slot(self, profile: str) -> Slot:
        """The warm process with the fewest sessions; a further one while there are not enough and all are busy."""
        async with self._starting.setdefault(profile, asyncio.Lock()):
            slots = self._slots.setdefault(profile, [])
            for slot in [slot for slot in slots if slot.dead]:
                self._retire(profile, slot)
            free = min(slots, key=lambda slot: slot.live, default=None)
            if free is not None and (free.live == 0 or len(slots) >= self._per_profile):
                return free
            slot = await self._start(profile)
            slots.append(slot)
            return slot

    async def _start(self, profile: str) -> Slot:
        group = None
        if self.tier == "A":
            group = await asyncio.to_thread(Group, self.limits.slot_memory_mb << 20, _SLOT_PROCESSES)
        slot = Slot({"tier": self.tier, "profile": profile, "limits": asdict(self.limits)}, group)
        try:
            words = await slot.first_words()
            if words["op"] == "up":
                return slot
            if words.get("missing"):
                raise ImportError(f'{words["missing"]} is not installed: run  pip install "turngym[sandbox]"')
            raise SlotDied(words["why"])
        except BaseException:
            await slot.close()
            raise

    def _retire(self, profile: str, slot: Slot) -> None:
        """No more sessions from this one; those that live go on."""
        if slot in self._slots.get(profile, []):
            self._slots[profile].remove(slot)
            self._retired.append(slot)

    def watch(self, tree: Tree, process: Process) -> asyncio.Task[None] | None:
        """Where no file system bounds the scratch folder, look at it while the process runs."""
        return None if self._scratch is None else asyncio.ensure_future(self._watch(tree, process))

    async def _watch(self, tree: Tree, process: Process) -> None:
        while True:
            await asyncio.sleep(_QUOTA_EVERY_S)
            size, files = await asyncio.to_thread(usage, tree.scratch, self.limits.scratch_files)
            if size > self.limits.scratch_mb << 20 or files > self.limits.scratch_files:
                process.stop("quota")
                return

    async def close(self) -> None:
        """End every session and every warm process; a second call does nothing."""
        self._open = False
        ends = [end for slot in self._all_slots() for end in slot.ends.values()]
        for tree in list(self._trees):
            for process in list(tree.members):
                tree.release(process)
        if ends:
            await asyncio.wait(ends, timeout=5.0)
        await asyncio.gather(*(slot.close() for slot in self._all_slots()))
        self._slots.clear()
        self._retired.clear()
        if self._wiping:
            await asyncio.wait(set(self._wiping))
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.remove)
            self._scratch = None

    def _all_slots(self) -> list[Slot]:
        return [*itertools.chain.from_iterable(self._slots.values()), *self._retired]
