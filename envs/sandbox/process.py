"""A session's process as the supervisor sees it: one channel, two streams, one end. Nothing it says is believed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from typing import Literal, NamedTuple

from turngym.envs.sandbox.protocol import HEADER_BYTES, MAX_REPLY_BYTES, ProtocolError, Reply, read_reply
from turngym.envs.sandbox.results import Limits
from turngym.envs.sandbox.slot import Exit

_CHUNK = 1 << 16
_AFTER_KILL_S = 5.0
_AFTER_EOF_S = 0.1
_WATCH_AFTER_S = 0.002
"""Most cells have ended by then, and what they printed is read at the end: no need to be woken for it."""

Cause = Literal["", "timeout", "output_limit", "protocol", "quota", "cancelled"]


class Capture:
    """What is kept of one stream: its head and its tail.

    Args:
        kept_bytes: Of both together.
    """

    def __init__(self, kept_bytes: int) -> None:
        self._half, self._head, self._tail, self.total = kept_bytes // 2, bytearray(), bytearray(), 0

    def feed(self, data: bytes) -> None:
        """Take in more of the stream."""
        self.total += len(data)
        space = self._half - len(self._head)
        if space > 0:
            self._head += data[:space]
            data = data[space:]
        self._tail += data
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> tuple[str, bool]:
        """The stream as text, and whether its middle is missing."""
        cut = self.total - len(self._head) - self._half
        if cut <= 0:
            return (self._head + self._tail).decode("utf-8", "backslashreplace"), False
        head, tail = (
            bytes(part).decode("utf-8", "backslashreplace") for part in (self._head, self._tail[-self._half :])
        )
        return f"{head}\n[... {cut} bytes left out ...]\n{tail}", True


class Exchange(NamedTuple):
    """One request and what came of it.

    Attributes:
        reply: The process's own word, if it gave one.
        exit: How the process ended, if it did.
        cause: Why we ended it, if we did.
        stdout: What it printed.
        stderr: What it printed there.
        lost: Whether the end of the process could not be learnt because our own part broke.
    """

    reply: Reply | None
    exit: Exit | None
    cause: Cause
    stdout: Capture
    stderr: Capture
    lost: bool


class Process:
    """One process of a session.

    Args:
        channel: Our end of its channel.
        streams: Our ends of its stdout and stderr.
        exit: Becomes how it ended.
        kill: Sends it a signal; SIGKILL may take everything around it along.
    """

    def __init__(
        self,
        channel: socket.socket,
        streams: tuple[int, int],
        exit: asyncio.Future[Exit],
        kill: Callable[[Process, int], None],
    ) -> None:
        self.channel, self.streams, self.exit, self._kill = channel, streams, exit, kill
        self._running: _Exchange | None = None
        self._closing = False
        channel.setblocking(False)
        for stream in streams:
            os.set_blocking(stream, False)

    def kill(self, signo: int) -> None:
        """Send it a signal."""
        self._kill(self, signo)

    def close(self) -> None:
        """Let go of its descriptors, after what it is doing: the loop still watches them."""
        if self._running is not None:
            self._closing = True
            return
        self.channel.close()
        for stream in self.streams:
            os.close(stream)
        self.streams = ()  # type: ignore[assignment]  # closing twice would close somebody else's

    async def greeting(self, wall_s: float) -> Reply | None:
        """The first thing that it says, before any code is there to say it; None where it ends or is silent.

        Raises:
            SlotDied: If its warm process died.
        """
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[None] = loop.create_future()

        def wake(_: object = None) -> None:
            if not heard.done():
                heard.set_result(None)

        loop.add_reader(self.channel, wake)
        self.exit.add_done_callback(wake)
        timer = loop.call_later(wall_s, wake)
        try:
            await heard
            data = self.channel.recv(_CHUNK)
            return read_reply(data)
        except (OSError, ProtocolError):
            if self.exit.done():
                self.exit.result()
            return None
        finally:
            timer.cancel()
            loop.remove_reader(self.channel)
            self.exit.remove_done_callback(wake)

    async def exchange(
        self, frame: bytes, *, seq: int, wall_s: float, limits: Limits, until_exit: bool = False
    ) -> Exchange:
        """Send one request and see it through: to the reply, or to the end of the process.

        Args:
            frame: The request, "" to wait only.
            seq: What the reply must answer.
            wall_s: When to interrupt.
            limits: Grace and output limits.
            until_exit: Whether the process is to end by itself after the reply.
        """
        self._running = _Exchange(self, seq, limits, until_exit)
        try:
            return await self._running.run(frame, wall_s)
        finally:
            self._running = None
            if self._closing:
                self.close()

    def stop(self, cause: Cause) -> None:
        """Kill it in the middle of what it does."""
        if self._running is not None:
            self._running.stop(cause)


class _Exchange:
    """The state of one exchange; every method is a callback of the loop, and none blocks."""

    def __init__(self, process: Process, seq: int, limits: Limits, until_exit: bool) -> None:
        self._process, self._seq, self._limits, self._until_exit = process, seq, limits, until_exit
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._timers: list[asyncio.TimerHandle] = []
        self._pauses: dict[int, asyncio.TimerHandle] = {}
        self._received = bytearray()
        self._replied: Reply | None = None
        self._eof = self._lost = self._watching = False
        self._channel = process.channel.fileno()
        self.cause: Cause = ""
        self._out, self._err = Capture(limits.kept_bytes), Capture(limits.kept_bytes)
        self._captures = tuple(zip(process.streams, (self._out, self._err), strict=True))

    async def run(self, frame: bytes, wall_s: float) -> Exchange:
        sending = None
        self._open()
        try:
            self._later(wall_s, self._on_limit)
            rest = self._send(frame)
            if rest:
                sending = asyncio.ensure_future(self._send_rest(rest))
            await self._done
        except asyncio.CancelledError:
            self.stop("cancelled")
            raise
        finally:
            self._close()
            if sending is not None:
                sending.cancel()
        ended = self._process.exit
        known = ended.result() if ended.done() and not ended.cancelled() and ended.exception() is None else None
        return Exchange(self._replied, known, self.cause, self._out, self._err, self._lost)

    def _open(self) -> None:
        for stream, _ in self._captures:
            _discard(stream)
        self._later(_WATCH_AFTER_S, self._watch_streams)
        self._loop.add_reader(self._channel, self._on_channel)
        self._process.exit.add_done_callback(self._on_exit)

    def _watch_streams(self) -> None:
        """Drain what is printed, so that nobody waits for room in a pipe."""
        self._watching = True
        for stream, capture in self._captures:
            self._watch(stream, capture)

    def _watch(self, stream: int, capture: Capture) -> None:
        self._loop.add_reader(stream, self._on_output, stream, capture)

    def _pause(self, stream: int, capture: Capture) -> None:
        """Leave a pipe that has room alone for a while: who prints byte by byte shall not wake us for each."""
        self._loop.remove_reader(stream)
        self._pauses[stream] = self._loop.call_later(_WATCH_AFTER_S, self._watch, stream, capture)

    def _close(self) -> None:
        for timer in (*self._timers, *self._pauses.values()):
            timer.cancel()
        if self._watching:
            for stream, _ in self._captures:
                self._loop.remove_reader(stream)
        self._loop.remove_reader(self._channel)
        self._process.exit.remove_done_callback(self._on_exit)

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(delay_s, act))

    def _send(self, frame: bytes) -> bytes:
        try:
            return frame[self._process.channel.send(frame) :] if frame else b""
        except BlockingIOError:
            return frame
        except OSError:
            return b""  # it is dying; its end says how

    async def _send_rest(self, rest: bytes) -> None:
        with contextlib.suppress(OSError):  # it is dying; its end says how
            await self._loop.sock_sendall(self._process.channel, rest)

    def stop(self, cause: Cause) -> None:
        """Kill the process, for the first cause given."""
        self.cause = self.cause or cause
        self._process.kill(signal.SIGKILL)
        self._later(_AFTER_KILL_S, self._give_up)

    def _on_limit(self) -> None:
        self.cause = self.cause or "timeout"
        self._process.kill(signal.SIGINT)
        self._later(self._limits.grace_s, lambda: self.stop("timeout"))

    def _give_up(self) -> None:
        self._lost = True
        self._finish()

    def _on_output(self, stream: int, capture: Capture) -> None:
        try:
            data = os.read(stream, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(stream)
            return
        capture.feed(data)
        over = self._out.total + self._err.total > self._limits.output_bytes
        if over and not self.cause:
            self.stop("output_limit")
        if len(data) < _CHUNK:
            self._pause(stream, capture)

    def _on_channel(self) -> None:
        self._receive()
        if self._eof and not self._process.exit.done():
            self._loop.remove_reader(self._channel)
            self._later(_AFTER_EOF_S, lambda: self.stop(self.cause))

    def _receive(self) -> None:
        """Take in what the channel holds and look for the reply in it."""
        try:
            while len(self._received) <= MAX_REPLY_BYTES + HEADER_BYTES:
                data = self._process.channel.recv(_CHUNK)
                if not data:
                    self._eof = True
                    break
                self._received += data
        except BlockingIOError:
            pass
        except OSError:
            self._eof = True
        self._parse()

    def _parse(self) -> None:
        try:
            reply = read_reply(self._received)
            if reply is not None and reply.seq != self._seq:
                raise ProtocolError("a reply to another request")
        except ProtocolError:
            if not self.cause:
                self.stop("protocol")
            return
        if reply is not None:
            self._replied = reply
            if not self._until_exit and not self._eof and self.cause in ("", "timeout"):
                self._finish()

    def _on_exit(self, ended: asyncio.Future[Exit]) -> None:
        if not self._eof:
            self._receive()
        self._lost = ended.cancelled() or ended.exception() is not None
        self._finish()

    def _finish(self) -> None:
        """Take what is still in the pipes, and wake the caller."""
        if self._done.done():
            return
        for stream, capture in self._captures:
            while capture.total <= self._limits.output_bytes:
                try:
                    data = os.read(stream, _CHUNK)
                except BlockingIOError:
                    break
                if not data:
                    break
                capture.feed(data)
        if not self.cause and self._out.total + self._err.total > self._limits.output_bytes:
            self.cause = "output_limit"
            if not self._process.exit.done():
                self.stop("output_limit")
                return
        self._done.set_result(None)


def _discard(stream: int) -> None:
    """Throw away what was printed after an earlier run had ended; at most what a pipe holds."""
    try:
        for _ in range(32):
            if not os.read(stream, _CHUNK):
                return
    except BlockingIOError:
        pass
