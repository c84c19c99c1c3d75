"""The asyncio front: a sandbox keeps warm processes, and forks sessions from them."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import signal
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import asdict
from types import TracebackType
from typing import Any

from turngym.envs.errors import SandboxError
from turngym.envs.sandbox import branching, users
from turngym.envs.sandbox.cgroups import Group
from turngym.envs.sandbox.process import Process
from turngym.envs.sandbox.profiles import Profile, check_profile, profile_of
from turngym.envs.sandbox.results import ExecResult, Limits
from turngym.envs.sandbox.scratch import ScratchRoot, usage, wipe
from turngym.envs.sandbox.session import Mode, Session
from turngym.envs.sandbox.slot import Slot, SlotDied
from turngym.envs.sandbox.tiers import explore
from turngym.envs.sandbox.tree import Tree

_READY_TIMEOUT_S = 30.0
_QUEUE_TIMEOUT_S = 600.0
_QUOTA_EVERY_S = 0.05
_PATROL_EVERY_S = 1.0
_SLOT_PROCESSES = 4096
_ATTEMPTS = 2


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
        self._begun: Counter[str] = Counter()
        self._retired: list[Slot] = []
        self._trees: set[Tree] = set()
        self._scratch: ScratchRoot | None = None
        self._patrol: asyncio.Task[None] | None = None
        self._cleaning: set[asyncio.Task[None]] = set()
        self.numbers = itertools.count(1)
        self._tree_numbers = itertools.count(1)
        self._open = False

    async def __aenter__(self) -> Sandbox:
        machine = await explore()
        self.tier = machine.choose(self._asked, self._allow_unsafe)
        if self.tier in ("B", "C"):
            self._scratch = ScratchRoot()
            self._patrol = asyncio.ensure_future(self._look_around())
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
        try:
            session = await self.session(profile=profile, seed=seed, code=code)
        except SandboxError as error:
            return ExecResult("sandbox_error", detail=str(error), tier=self.tier)
        try:
            session._check(timeout_s, mode)
            return await session._run(code, timeout_s, mode, last=True)
        finally:
            await session.close()

    async def launch(self, profile: str, seed: int) -> tuple[Tree, Process, float]:
        """A fresh process, and how long it took to come; a warm process that fails is replaced once."""
        start = time.monotonic()
        if not self._open:
            raise SandboxError("the sandbox is closed")
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
                if slot is not None and isinstance(error, SlotDied):
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
        uid = users.user_of(number)
        scratch = None if self._scratch is None else self._scratch.make(number, uid)
        ours, theirs = branching.endpoints()
        tree = Tree(number, slot, self._forget)
        self._trees.add(tree)
        tree.scratch = scratch or tree.scratch
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

    def _forget(self, tree: Tree) -> None:
        self._admission.release()
        self._forget_failed(tree)

    def _forget_failed(self, tree: Tree) -> None:
        self._trees.discard(tree)
        if self._scratch is not None:
            self._clean_up(asyncio.to_thread(wipe, tree.scratch))
        self._bury(tree.slot)

    def _clean_up(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that nobody waits for before the end."""
        task = asyncio.ensure_future(work)
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    async def _slot(self, profile: str) -> Slot:
        """The warm process with the fewest sessions; where all are busy, one more is begun for those who come later."""
        async with self._starting.setdefault(profile, asyncio.Lock()):
            slots = self._slots.setdefault(profile, [])
            for slot in [slot for slot in slots if slot.dead]:
                self._retire(profile, slot)
            free = min(slots, key=lambda slot: slot.live, default=None)
            if free is None:
                slots.append(await self._start(profile))
                return slots[0]
            if free.live > 0 and len(slots) + self._begun[profile] < self._per_profile:
                self._begun[profile] += 1
                self._clean_up(self._start_another(profile))
            return free

    async def _start_another(self, profile: str) -> None:
        try:
            slot = await self._start(profile)
        except SandboxError:
            return  # there is one already; whoever finds none will hear why
        finally:
            self._begun[profile] -= 1
        self._slots[profile].append(slot)

    async def _start(self, profile: str) -> Slot:
        group = None
        if self.tier == "A":
            group = await asyncio.to_thread(Group, self.limits.slot_memory_mb << 20, _SLOT_PROCESSES)
        config = {"tier": self.tier, "profile": profile, "limits": asdict(self.limits)}
        slot = Slot({**config, "own_users": users.pool() is not None}, group)
        try:
            words = await slot.first_words()
            if not self._open:
                raise SandboxError("the sandbox was closed meanwhile")
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
        self._bury(slot)

    def _bury(self, slot: Slot) -> None:
        """End a retired warm process that no session needs any more."""
        if slot in self._retired and (slot.dead or slot.live == 0):
            self._retired.remove(slot)
            self._clean_up(slot.close())

    def watch(self, tree: Tree, process: Process) -> asyncio.Task[None] | None:
        """Where no file system bounds the scratch folder, look at it while the process runs."""
        return None if self._scratch is None else asyncio.ensure_future(self._watch(tree, process))

    async def _watch(self, tree: Tree, process: Process) -> None:
        while True:
            await asyncio.sleep(_QUOTA_EVERY_S)
            if await asyncio.to_thread(self._overfull, [tree]):
                process.stop("quota")
                return

    async def _look_around(self) -> None:
        """Threads may go on writing between runs, when nobody watches."""
        while True:
            await asyncio.sleep(_PATROL_EVERY_S)
            for tree in await asyncio.to_thread(self._overfull, list(self._trees)):
                for process in list(tree.members):
                    process.stop("quota")
                    process.kill(signal.SIGKILL)

    def _overfull(self, trees: list[Tree]) -> list[Tree]:
        """Those that have more in their scratch folder than they may."""
        most = self.limits.scratch_mb << 20, self.limits.scratch_files
        found = [(tree, *usage(tree.scratch, most[1])) for tree in trees]
        return [tree for tree, size, files in found if size > most[0] or files > most[1]]

    async def close(self) -> None:
        """End every session and every warm process; a second call does nothing."""
        self._open = False
        if self._patrol is not None:
            self._patrol.cancel()
        ends = [end for slot in self._all_slots() for end in slot.ends.values()]
        for tree in list(self._trees):
            for process in list(tree.members):
                tree.release(process)
        if ends:
            await asyncio.wait(ends, timeout=5.0)
        slots = self._all_slots()
        self._slots.clear()
        self._retired.clear()
        await asyncio.gather(*(slot.close() for slot in slots))
        while self._cleaning:
            await asyncio.wait(set(self._cleaning))
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.remove)
            self._scratch = None

    def _all_slots(self) -> list[Slot]:
        return [*itertools.chain.from_iterable(self._slots.values()), *self._retired]
