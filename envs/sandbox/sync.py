"""The sandbox without `await`: one event loop on a thread of its own, used by any number of threads."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from turngym.envs.sandbox.profiles import Profile
from turngym.envs.sandbox.results import ExecResult, Limits
from turngym.envs.sandbox.session import Mode, Session
from turngym.envs.sandbox.supervisor import Sandbox

T = TypeVar("T")


class SyncSession:
    """A `Session` whose methods wait. A session that nobody holds any more is closed by itself."""

    def __init__(self, session: Session, sandbox: SyncSandbox) -> None:
        self._session, self._sandbox = session, sandbox

    @property
    def id(self) -> int:
        """Number of the session within its sandbox."""
        return self._session.id

    @property
    def tier(self) -> str:
        """The isolation that it runs under."""
        return self._session.tier

    @property
    def can_branch(self) -> str:
        """`fork` or `replay`, as in `Session`."""
        return self._session.can_branch

    def run(
        self, code: str, timeout_s: float | None = None, *, mode: Mode = "cell", transaction: bool = False
    ) -> ExecResult:
        """As `Session.run`."""
        return self._sandbox.wait(self._session.run(code, timeout_s=timeout_s, mode=mode, transaction=transaction))

    def branch(self) -> SyncSession:
        """As `Session.branch`."""
        return SyncSession(self._sandbox.wait(self._session.branch()), self._sandbox)

    def close(self) -> None:
        """As `Session.close`."""
        self._sandbox.wait(self._session.close())


class SyncSandbox:
    """A `Sandbox` whose methods wait, also where an event loop is already running. Threads may share it.

    Args:
        tier: As in `Sandbox`.
        limits: As in `Sandbox`.
        slots: As in `Sandbox`.
        max_sessions: As in `Sandbox`.
        allow_unsafe: As in `Sandbox`.
    """

    def __init__(
        self,
        *,
        tier: str | None = None,
        limits: Limits | None = None,
        slots: int = 2,
        max_sessions: int = 1024,
        allow_unsafe: bool = False,
    ) -> None:
        self._sandbox = Sandbox(
            tier=tier, limits=limits, slots=slots, max_sessions=max_sessions, allow_unsafe=allow_unsafe
        )
        self._loop, self._owner = asyncio.new_event_loop(), os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="turngym-sandbox", daemon=True)
        self._thread.start()
        self._closed, self._door = False, threading.Lock()
        try:
            self.wait(self._sandbox.__aenter__())
        except BaseException:
            self.close()
            raise

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, run on the sandbox's own loop."""
        assert threading.current_thread() is not self._thread, "the sandbox's loop would wait for itself"
        if self._owner != os.getpid():
            work.close()
            raise ValueError("the sandbox was made by another process")
        with self._door:  # nothing is handed over after the last work, or it would be waited for for ever
            if self._closed:
                work.close()
                raise ValueError("the sandbox is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return self._result(future)

    def _result(self, future: Future[T]) -> T:
        try:
            return future.result()
        except BaseException:  # an interrupt of this thread, too, ends what it waited for
            future.cancel()
            raise

    def __enter__(self) -> SyncSandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def tier(self) -> str:
        """The isolation in force."""
        return self._sandbox.tier

    def session(self, profile: Profile = "stdlib", seed: int | None = None, *, code: str = "") -> SyncSession:
        """As `Sandbox.session`."""
        return SyncSession(self.wait(self._sandbox.session(profile=profile, seed=seed, code=code)), self)

    def run(
        self,
        code: str,
        timeout_s: float | None = None,
        *,
        profile: Profile = "auto",
        seed: int | None = None,
        mode: Mode = "script",
    ) -> ExecResult:
        """As `Sandbox.run`."""
        return self.wait(self._sandbox.run(code, profile=profile, seed=seed, timeout_s=timeout_s, mode=mode))

    def close(self) -> None:
        """End every session and every warm process; a second call does nothing, nor does one in a forked child."""
        if self._owner != os.getpid():
            return
        with self._door:
            if self._closed:
                return
            self._closed = True
            future = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        try:
            self._result(future)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self) -> None:
        """Close, and send home the threads that still wait for something."""
        await self._sandbox.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


_default: tuple[int, SyncSandbox] | None = None
_default_lock = threading.Lock()


def _forget_default() -> None:
    """In a forked child: the sandbox is its parent's, and the lock may be held by a thread that is not there."""
    global _default, _default_lock
    _default, _default_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_default)


def default_sandbox() -> SyncSandbox:
    """The sandbox that this process shares, made when first asked for and closed when the process ends.

    A forked child has no thread to serve it, so it gets its own.
    """
    global _default
    with _default_lock:
        if _default is None or _default[0] != os.getpid() or _default[1]._closed:
            sandbox = SyncSandbox()
            # atexit's own turn comes after that of the thread pools, which closing needs.
            getattr(threading, "_register_atexit", atexit.register)(sandbox.close)
            _default = os.getpid(), sandbox
        return _default[1]
