"""An interpreter without a sandbox: programs run in this process, and failures are made to order."""

import contextlib
import copy
import io
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from turngym.envs.code_interpreter.env import CodeInterpreterEnv
from turngym.envs.errors import SandboxError
from turngym.envs.sandbox.results import ExecResult


class FakeSession:
    """Variables in a dict. A program that is the name of a status ends that way; `os` is nowhere near."""

    def __init__(self, sandbox: "FakeSandbox", seed: int, variables: dict[str, Any]) -> None:
        self._sandbox, self.seed, self.variables, self.closed, self.runs = sandbox, seed, variables, False, 0
        sandbox.sessions.append(self)

    def run(self, code: str, timeout_s: float | None = None) -> ExecResult:
        assert not self.closed, "a closed session is not used"
        self.runs += 1
        self._sandbox.ran.append(code)
        planned = self._sandbox.next_statuses.pop(0) if self._sandbox.next_statuses else None
        if planned is not None or code in ("timeout", "oom", "crashed", "killed", "output_limit", "sandbox_error"):
            return ExecResult(planned or code, stdout="so far\n", session_alive=code == "timeout")
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, self.variables)
        except SystemExit:
            return ExecResult("exit", stdout=printed.getvalue(), session_alive=True)
        except Exception:
            last = traceback.format_exc().splitlines()[-1]
            return ExecResult("error", stdout=printed.getvalue(), stderr=f"{last}\n", session_alive=True)
        return ExecResult("ok", stdout=printed.getvalue(), session_alive=True)

    def branch(self) -> "FakeSession":
        assert not self.closed, "a closed session is not used"
        if not self._sandbox.can_branch:
            raise SandboxError("no branch here")
        kept = {name: copy.deepcopy(value) for name, value in self.variables.items() if name != "__builtins__"}
        return FakeSession(self._sandbox, self.seed, kept)

    def close(self) -> None:
        self.closed = True


class FakeSandbox:
    """Opens fake sessions and remembers them.

    Attributes:
        sessions: All that were opened.
        ran: All programs, in order.
        next_statuses: How the next programs end, whatever they are; None for one that runs.
        refusals: How many of the next sessions cannot be opened.
        can_branch: Whether sessions can branch.
    """

    def __init__(self) -> None:
        self.sessions: list[FakeSession] = []
        self.ran: list[str] = []
        self.next_statuses: list[Any] = []
        self.refusals, self.can_branch = 0, True

    def session(self, profile: str, seed: int) -> FakeSession:
        if self.refusals:
            self.refusals -= 1
            raise SandboxError("no session today")
        return FakeSession(self, seed, {})

    @property
    def alive(self) -> int:
        return sum(not session.closed for session in self.sessions)


@pytest.fixture
def fake() -> FakeSandbox:
    return FakeSandbox()


@pytest.fixture
def env(fake: FakeSandbox) -> Iterator[CodeInterpreterEnv]:
    """An environment on the fake, at the start of an episode."""
    env = CodeInterpreterEnv(sandbox=fake, max_turns=20)
    env.reset(seed=29)
    yield env
    env.close()


@pytest.fixture(scope="session")
def needs_sandbox() -> None:
    """Skip where this machine cannot isolate a program."""
    from turngym.envs.sandbox import default_sandbox

    try:
        default_sandbox()
    except SandboxError as error:
        pytest.skip(f"no sandbox here: {error}")
