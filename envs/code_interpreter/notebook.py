"""The interpreter of an episode: nothing before the first program, a live session then, and the way back to it.

A session is known by what it was seeded with and which programs it has run. Where the one at hand is not the one that
is wanted (after a program that died, after `set_state`, in a copy that came through pickle), a fresh one runs the same
programs again. Notebooks may share a session; whoever wants to run something in a shared one first branches off.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

from turngym.envs.errors import SandboxError
from turngym.envs.sandbox.results import ExecResult, Status

_LASTING = ("ok", "error", "exit")
_REPLAY_PATIENCE = 4.0
"""What a program may take when it runs again, as a multiple of its limit: it did end once, on a machine less busy."""


class Session(Protocol):
    """What a notebook needs of a sandbox's session."""

    def run(self, code: str, timeout_s: float | None = None) -> ExecResult:
        """Run code in it."""

    def branch(self) -> Session:
        """A second session that goes on from here."""

    def close(self) -> None:
        """End it."""


class Past(NamedTuple):
    """What a session has behind it.

    Attributes:
        seed: What its random generators began with.
        cells: The programs that it ran, each with how it ended; those alone whose effects last.
    """

    seed: int
    cells: tuple[tuple[str, Status], ...]


class Ran(NamedTuple):
    """What came of a program.

    Attributes:
        result: How it ended.
        lasts: Whether its effects last. Those of a program whose end the sandbox had to bring about do not: where it
            stood at that moment is nobody's to repeat.
        forgot: Whether the past had to be run again and came out differently, so that none of its effects are left.
            That is the programs' doing (a clock, true randomness) and no failure of ours, or whoever wants an episode
            not to count could make it so.
    """

    result: ExecResult
    lasts: bool
    forgot: bool


class _Live:
    """A session and its past, held by one notebook or several, all of this process."""

    def __init__(self, session: Session, past: Past) -> None:
        self.session, self.past = session, past
        self.lock, self.process, self.holders = threading.Lock(), os.getpid(), WeakSet[Notebook]()


class Notebook:
    """Runs programs for one episode at a time.

    Args:
        timeout_s: What a program may take.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._live: _Live | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Notebook, (self._timeout_s,)  # a session cannot travel: the copy runs the past again

    def run(self, past: Past, code: str, open_session: Callable[[int], Session]) -> Ran:
        """Run a program after others.

        Args:
            past: What the session must have behind it.
            code: The program.
            open_session: Makes a fresh session from a seed.

        Returns:
            What came of it; `sandbox_error` where a failure of ours ended it twice.
        """
        forgot = False
        for _ in range(2):
            try:
                live = self._session(past, open_session)
                forgot = live.past != past
                result = live.session.run(code, self._timeout_s)
            except SandboxError as error:
                result = ExecResult("sandbox_error", detail=str(error))
            if result.valid:
                break
            self.close()
        lasts = result.status in _LASTING and result.session_alive
        if lasts:
            live.past = Past(past.seed, (*live.past.cells, (code, result.status)))
        else:
            self.close()
        return Ran(result, lasts, forgot)

    def share(self) -> Notebook:
        """A second notebook on the same session, to go back to later."""
        other = Notebook(self._timeout_s)
        other.adopt(self)
        return other

    def adopt(self, other: Notebook) -> None:
        """Go on from the session of another notebook, if it has one."""
        if other is not self:
            self.close()
            self._live = other._live
            if self._live is not None:
                self._live.holders.add(self)

    def close(self) -> None:
        """Let go of the session, and end it if nobody else holds it."""
        live, self._live = self._live, None
        if live is None or live.process != os.getpid():
            return
        live.holders.discard(self)
        if not live.holders:
            live.session.close()

    def _session(self, past: Past, open_session: Callable[[int], Session]) -> _Live:
        """A live session that nobody else holds, with this past or, where that cannot be repeated, with none."""
        live = self._live
        if live is None or live.past != past or live.process != os.getpid():
            self.close()
            self._hold(_replayed(past, open_session, self._timeout_s))
        elif len(live.holders) > 1:
            branched = _branch(live)
            self.close()
            self._hold(_Live(branched, past) if branched else _replayed(past, open_session, self._timeout_s))
        assert self._live is not None, "one was just made"
        return self._live

    def _hold(self, live: _Live) -> None:
        self._live = live
        live.holders.add(self)


def _replayed(past: Past, open_session: Callable[[int], Session], timeout_s: float) -> _Live:
    """A fresh session that has run the past again; one without a past where that came out differently."""
    session = open_session(past.seed)
    for code, status in past.cells:
        again = session.run(code, _REPLAY_PATIENCE * timeout_s).status
        if again != status:
            session.close()
            if again == "sandbox_error":
                raise SandboxError("the sandbox broke while a session was made again")
            return _Live(open_session(past.seed), Past(past.seed, ()))
    return _Live(session, past)


def _branch(live: _Live) -> Session | None:
    """A branch of a session; None where it has died in the meantime and has to be made again from its past."""
    try:
        with live.lock:
            return live.session.branch()
    except (SandboxError, ValueError):
        return None
