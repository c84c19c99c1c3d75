"""The asyncio front: a sandbox keeps warm processes, a session is one isolated interpreter forked from them."""

from __future__ import annotations

from types import TracebackType
from typing import Literal

from turngym.envs.sandbox.results import ExecResult, Limits

Mode = Literal["cell", "script"]
Profile = Literal["auto", "stdlib", "math", "science"]


class Session:
    """One isolated interpreter with variables that last. Made by `Sandbox.session`.

    Attributes:
        id: Number of the session within its sandbox.
        tier: The isolation that it runs under.
        profile: What was imported before it was forked.
        can_branch: "fork" where `branch` copies the live process, "replay" where it runs the history again.
    """

    id: int
    tier: str
    profile: str
    can_branch: Literal["fork", "replay"]

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
        """
        raise NotImplementedError

    async def branch(self) -> Session:
        """A second session that goes on from here by itself: a fork of the live process, or a replay of its runs."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the session and everything that it started."""
        raise NotImplementedError


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
        raise NotImplementedError

    async def __aenter__(self) -> Sandbox:
        raise NotImplementedError

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
        """
        raise NotImplementedError

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
        raise NotImplementedError

    async def close(self) -> None:
        """End every session and every warm process."""
        raise NotImplementedError
