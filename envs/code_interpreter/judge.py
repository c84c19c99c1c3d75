"""A process that compares what cannot be compared in a line, and is stopped when it takes too long.

SymPy can be sent into computations without end by a few characters (`9^{9^{9}}`), and math-verify's own time limits
use a signal that works in the main thread alone. So they run in a process of their own, one for each process of ours,
which any thread may ask. It is no sandbox and runs no code of the model: what it is given is data.
"""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from turngym.envs.errors import TurngymError

TIMEOUT_S = 3.0
"""What one question may take; also the limit on the judge's own CPU time for it."""
_START_S = 120.0
_BEGUN = {"begun": True}
_PATIENCE = 6  # wall time for a question as a multiple of its CPU time: the machine may be busy
_WORKER = Path(__file__).with_name("judge_worker.py")
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH", "HOME", "SYSTEMROOT")


class JudgeError(TurngymError):
    """The judge's process could not be started, or could not work: the answer is neither right nor wrong."""


class Judge:
    """A worker process, started with the first question and again after one that took too long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    def ask(self, request: dict[str, Any]) -> Any:
        """The worker's answer, or None where it found none within its limits.

        Raises:
            JudgeError: If there is no worker to ask, or it was given no time to think.
        """
        with self._lock:
            if self._worker is not None and self._worker.process.poll() is not None:
                self._worker.stop()
                self._worker = None
            if self._worker is None:
                self._worker = _Worker()
            worker = self._worker
            try:
                reply = worker.exchange(request, _START_S)  # libraries are imported: that time is nobody's
                if reply == _BEGUN:
                    reply = worker.exchange(None, _PATIENCE * TIMEOUT_S) or {"result": None, "unanswered": True}
            except BrokenPipeError:
                reply = None
            if reply is None or "unanswered" in reply:
                starved = worker.stop()
                self._worker = None
                if reply is None or starved:
                    raise JudgeError("the judge's process did not start, or got no processor time")
        if "broken" in reply:
            raise JudgeError(f"the judge cannot answer: {reply['broken']}")
        return reply["result"]

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._worker is not None:
                self._worker.stop()
            self._worker = None


class _Worker:
    """A running `judge_worker`."""

    def __init__(self) -> None:
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER), str(int(TIMEOUT_S))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, "PYTHONHASHSEED": "0"},
            cwd="/",
            start_new_session=True,
        )
        assert self.process.stdin is not None, "started with a pipe"
        assert self.process.stdout is not None, "started with a pipe"
        self._to, self._from, self._read = self.process.stdin, self.process.stdout, b""
        self._readable = select.poll()
        self._readable.register(self._from, select.POLLIN)

    def exchange(self, request: dict[str, Any] | None, limit_s: float) -> dict[str, Any] | None:
        """Send a request, if there is one, and read a line; None where the process ended or the time is over."""
        if request is not None:
            self._to.write(json.dumps(request).encode() + b"\n")
            self._to.flush()
        deadline = monotonic() + limit_s
        while b"\n" not in self._read:
            left = deadline - monotonic()
            if left <= 0 or not self._readable.poll(left * 1000):
                return None
            part = os.read(self._from.fileno(), 65_536)
            if not part:
                return None
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def stop(self) -> bool:
        """End the process, and say whether it was still alive, and so had not used up the time that it may use."""
        alive = self.process.poll() is None and not self._closed()
        self.process.kill()
        self.process.wait()
        for stream in (self._to, self._from):
            with suppress(BrokenPipeError):
                stream.close()
        return alive

    def _closed(self) -> bool:
        """Whether the worker is on its way out: its pipe is closed before it can be waited for."""
        return any(event & select.POLLHUP for _, event in self._readable.poll(0))


_judge: tuple[int, Judge] | None = None
_judge_lock = threading.Lock()


def ask_judge(task: str, **details: Any) -> Any:
    """Ask this process's judge; a forked child gets its own.

    Args:
        task: "verify" (math-verify: `given`, `expected`), "score" (reasoning-gym: `name`, `seed`, `given`), "pose"
            (the item of a reasoning-gym dataset: `name`, `seed`), or "names" (of its datasets).
        details: What the task needs.

    Returns:
        A bool, the item, or the names; None where it took too long.
    """
    global _judge
    with _judge_lock:
        if _judge is None or _judge[0] != os.getpid():
            _judge = os.getpid(), Judge()
            atexit.register(_judge[1].close)
        judge = _judge[1]
    return judge.ask({"task": task, **details})
