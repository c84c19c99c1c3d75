"""A session: cells run one after the other, a past that can be done again, branches."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import weakref
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from turngym.envs.errors import SandboxError
from turngym.envs.sandbox import branching, verdicts
from turngym.envs.sandbox.process import Exchange, Process
from turngym.envs.sandbox.protocol import pack
from turngym.envs.sandbox.results import ExecResult
from turngym.envs.sandbox.tree import Tree

if TYPE_CHECKING:
    from turngym.envs.sandbox.supervisor import Sandbox

Mode = Literal["cell", "script"]


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
        self._release: weakref.finalize[..., Session] | None = None

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
        """Be done with the process, if there is one; any number of times."""
        if self._release is not None and self._release.detach():
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
        if not self.alive:
            return self._result("killed", detail=f"the session has ended: {self._why_ended or 'it was closed'}")
        if len(code) > limits.code_bytes or len(code.encode(errors="surrogatepass")) > limits.code_bytes:
            return self._result(
                "error", detail=f"the code is longer than {limits.code_bytes} bytes", error_type="Limit"
            )
        wall_s = limits.wall_s if timeout_s is None else timeout_s
        backup = await self._fork() if transaction and self.can_branch == "fork" else None
        try:
            result = await self._attempt(code, mode, wall_s, last)
            if result.status == "sandbox_error" and not self._closed and await self._recover():
                result = await self._attempt(code, mode, wall_s, last)
            if self.alive:
                self._history.append(Run(code, mode, wall_s, result.status))
            return await self._settle(result, backup, transaction)
        except BaseException:
            _drop(backup)  # cancelled: nobody else knows of it
            raise

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
        """Commit or roll back; a session that was closed meanwhile does not come back."""
        if not transaction or result.session_alive or self._closed:
            _drop(backup)
            return result
        if backup is not None and not backup[1].exit.done():
            self._adopt(*backup)
        elif not await self._recover():
            return result
        fields = {name: getattr(result, name) for name in result.__slots__}
        return ExecResult(**{**fields, "session_alive": True})

    async def _recover(self) -> bool:
        """Come back in a fresh process, by doing the history again; whether that worked."""
        self._let_go()
        try:
            tree, process, queue_s = await self._sandbox.launch(self.profile, self._seed)
        except SandboxError:
            return False
        if self._closed:
            tree.release(process)
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
        self._closed = True
        self._let_go()


def _drop(backup: tuple[Tree, Process] | None) -> None:
    if backup is not None:
        backup[0].release(backup[1])


def _release_soon(loop: asyncio.AbstractEventLoop, tree: Tree, process: Process) -> None:
    """From whatever thread the garbage collector runs in."""
    with contextlib.suppress(RuntimeError):  # the loop has ended, and the sandbox with it
        loop.call_soon_threadsafe(tree.release, process)
