"""A session's process: reads requests, runs cells, forks branches. Shares its memory with the code that it runs."""

import json
import os
import signal
import socket
import struct
from typing import Any, NoReturn

from turngym.envs.sandbox.runner import Runner, usage

_CHANNEL = 3
_READ = 1 << 16


class Head:
    """The loop and its state. Made in the warm process, begun in the session's."""

    def __init__(self) -> None:
        self._runner, self._branches = Runner(), set[int]()
        self._runner.rehearse()
        self._channel: socket.socket

    def serve(self, seed: int, scratch: str) -> NoReturn:
        """Answer requests until there are no more; the channel is descriptor 3."""
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=_CHANNEL)
        self._runner.begin(seed, scratch)
        self.say(0, "ready")
        while True:
            try:
                self.answer()
            except KeyboardInterrupt:
                continue

    def say(self, seq: int, outcome: str, error: str = "", code: int = 0, cpu_s: float = 0.0, rss_kb: int = 0) -> None:
        """Send one reply."""
        body = json.dumps([seq, outcome, error, code, cpu_s, rss_kb]).encode()
        data = memoryview(struct.pack(">I", len(body)) + body)
        try:
            while data:
                data = data[os.write(_CHANNEL, data) :]
        except BrokenPipeError:
            os._exit(0)
        except OSError:
            os.abort()  # the code closed what we speak through: no reply can be given, and none is right

    def _read(self) -> tuple[dict[str, Any], list[int]]:
        data, descriptors = bytearray(), list[int]()
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">I", data)[0]:
            try:
                chunk, passed, _, _ = socket.recv_fds(self._channel, _READ, 3)
            except OSError:
                os.abort()
            if not chunk:
                os._exit(0)
            data += chunk
            descriptors += passed
        return json.loads(bytes(data[4:])), descriptors

    def answer(self) -> None:
        """Serve one request."""
        request, descriptors = self._read()
        self._reap()
        if request["op"] == "branch":
            self._branch(request["seq"], descriptors)
            return
        if request["op"] == "hello":
            self.say(request["seq"], "ready")
            return
        before, _ = usage()
        outcome = self._runner.run(request["code"], request["mode"])
        after, rss_kb = usage()
        self.say(request["seq"], outcome.status, outcome.error, outcome.code, after - before, rss_kb)
        if request["last"]:
            os._exit(0)

    def _branch(self, seq: int, descriptors: list[int]) -> None:
        """Fork; the child goes on with a channel and streams of its own."""
        luck = self._runner.luck()
        try:
            pid = os.fork()
        except OSError as error:
            self.say(seq, "failed", str(error)[:500])
            pid = -1
        if pid == 0:
            for descriptor, place in zip(descriptors, (_CHANNEL, 1, 2), strict=True):
                os.dup2(descriptor, place)
            self._branches.clear()
            self._runner.forked(luck)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            self._branches.add(pid)
            self.say(seq, "branched")
        elif pid == 0:
            self.say(0, "ready")

    def _reap(self) -> None:
        """Our own dead branches alone: the code may wait for its children itself."""
        for pid in list(self._branches):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self._branches.discard(pid)
            except ChildProcessError:
                self._branches.discard(pid)


def become(channel: int, stdout: int, stderr: int) -> None:
    """Turn a fresh fork of the warm process into a session's: its three descriptors, and no other."""
    null = os.open("/dev/null", os.O_RDONLY)
    descriptors = [os.dup(descriptor) for descriptor in (null, stdout, stderr, channel)]
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
    os.closerange(len(descriptors), os.sysconf("SC_OPEN_MAX"))
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
