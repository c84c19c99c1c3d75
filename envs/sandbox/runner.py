"""Runs cells as a notebook does, inside the session. Nothing here is trusted by anybody."""

import ast
import builtins
import contextlib
import io
import linecache
import os
import random
import resource
import signal
import sys
import traceback
import types
from typing import Any, NamedTuple

_SHOWN = 100_000  # characters of one value or traceback
_HERE = __file__


class Outcome(NamedTuple):
    """How a cell ended: "ok", "error" or "exit"; the exception's name; the exit code."""

    status: str
    error: str = ""
    code: int = 0


class Runner:
    """One interpreter's worth of variables. Made in the warm process, begun in the session's."""

    def __init__(self) -> None:
        self._main = types.ModuleType("__main__")
        self._main.__dict__["__builtins__"] = builtins
        self._scratch, self._cells, self._running, self._pid = "", 0, False, os.getpid()

    def rehearse(self) -> None:
        """Go once through everything that sessions do first, so that each finds it done.

        The interpreter writes into code that it runs for the first times: done here, no fork has to copy those pages.
        """
        for code in ("x = 1", "[x]", "None", "1 +"):
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                self.run(code, "cell")
        self.__init__()  # type: ignore[misc]
        linecache.cache.clear()
        self.open_streams()

    def begin(self, seed: int, scratch: str) -> None:
        """Become one session's.

        Args:
            seed: Of `random` and `numpy.random`.
            scratch: The folder that cells start in.
        """
        sys.modules["__main__"] = self._main
        sys.argv = ["cell"]
        self._scratch, self._pid = scratch, os.getpid()
        random.seed(seed)
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            numpy.seed(seed % (1 << 32))
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: Any) -> None:
        """The supervisor's interrupt; one that comes too late means nothing."""
        if self._running:
            raise KeyboardInterrupt

    def open_streams(self) -> None:
        """Text streams that hold nothing back, so that a kill loses nothing that was printed."""
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            raw = io.FileIO(descriptor, "w", closefd=False)
            stream = io.TextIOWrapper(raw, "utf-8", "backslashreplace", newline="\n", write_through=True)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # open as long as we live

    def luck(self) -> Any:
        """Where `random` stands; None where the code has taken it apart."""
        try:
            return random.getstate()
        except Exception:
            return None

    def forked(self, luck: Any) -> None:
        """A branch begins: this process is another one now, and draws what its origin would draw next.

        Python gives `random` a new seed in every forked child.
        """
        self._pid = os.getpid()
        with contextlib.suppress(Exception):
            random.setstate(luck)

    def run(self, code: str, mode: str) -> Outcome:
        """Run one cell or script; whatever it does, only a dying process keeps this from returning."""
        self._cells += 1
        name = f"<cell {self._cells}>" if mode == "cell" else "<script>"
        self._prepare(name, code)
        try:
            outcome = self._attempt(code, name, mode)
            if os.getpid() != self._pid:
                os._exit(0)  # the code forked, and its child came to the end of the cell
            return outcome
        finally:
            self._running = False

    def _prepare(self, name: str, code: str) -> None:
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        if getattr(sys.stdout, "closed", True) or getattr(sys.stderr, "closed", True):
            self.open_streams()
        try:
            os.getcwd()
        except OSError:
            os.chdir(self._scratch)

    def _attempt(self, code: str, name: str, mode: str) -> Outcome:
        try:
            self._running = True
            self._execute(code, name, mode)
            sys.stdout.flush()
            return Outcome("ok")
        except SystemExit as error:
            self._running = False
            return Outcome("exit", code=_exit_code(error))
        except BaseException as error:
            self._running = False
            kind = type(error).__name__[:200]
            _complain(error, _hint(error, code) if isinstance(error, SyntaxError) else "")
            return Outcome("error", kind)

    def _execute(self, code: str, name: str, mode: str) -> None:
        names = self._main.__dict__
        if mode == "script":
            exec(compile(code, name, "exec"), names)
            return
        tree = ast.parse(code, name)
        last = tree.body[-1] if tree.body else None
        shown = isinstance(last, ast.Expr) and not code.rstrip().endswith(";")
        if shown:
            tree.body.pop()
        if tree.body:
            _wait_for(eval(compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names))
        if shown:
            assert isinstance(last, ast.Expr)
            expression = compile(ast.Expression(last.value), name, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            value = _wait_for(eval(expression, names))
            if value is not None:
                names["_"] = value
                sys.stdout.write(_shorten(repr(value)) + "\n")


def _wait_for(value: Any) -> Any:
    """What a cell with a top-level `await` comes to."""
    if not isinstance(value, types.CoroutineType) or not value.cr_code.co_filename.startswith("<cell "):
        return value
    import asyncio

    return asyncio.run(value)


def _exit_code(error: SystemExit) -> int:
    """As the interpreter does it: None is 0, a number is itself, anything else is printed and 1."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(_shorten(str(error.code)), file=sys.stderr)
    return 1


def _shorten(text: str) -> str:
    if len(text) <= _SHOWN:
        return text
    half = _SHOWN // 2
    return f"{text[:half]} … {len(text) - _SHOWN} characters … {text[-half:]}"


def _hint(error: SyntaxError, code: str) -> str:
    lines = code.splitlines()
    line = lines[error.lineno - 1].lstrip() if error.lineno and error.lineno <= len(lines) else ""
    if line.startswith(("%", "!")):
        return "Notebook commands (%magic, !shell) do not exist here: write plain Python.\n"
    return ""


def _complain(error: BaseException, hint: str) -> None:
    """Print the traceback from the code's own first line on."""
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(max(limit, 1000))
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == _HERE:
            trace = trace.tb_next
        lines = traceback.format_exception(type(error), error, trace)
        sys.stderr.write(_shorten("".join(lines)) + hint)
    except BaseException as another:
        # No memory for it, or its own __str__ raises, or the stream is gone: a name is better than nothing.
        _write_raw(f"{type(error).__name__} (its traceback raised {type(another).__name__})\n")
    finally:
        sys.setrecursionlimit(limit)


def _write_raw(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="replace"))


def usage() -> tuple[float, int]:
    """CPU seconds and largest resident kilobytes of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss
