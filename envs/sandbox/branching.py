"""The two ends of a session's descriptors, and how a live process is asked to fork."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from turngym.envs.sandbox.process import Process
from turngym.envs.sandbox.protocol import pack
from turngym.envs.sandbox.results import Limits
from turngym.envs.sandbox.slot import Exit

if TYPE_CHECKING:
    from turngym.envs.sandbox.tree import Tree

_FORK_TIMEOUT_S = 10.0
_CREDENTIALS = struct.Struct("=3i")


class Ends(NamedTuple):
    """One side of a process's channel and streams."""

    channel: socket.socket
    streams: tuple[int, int]

    def descriptors(self) -> list[int]:
        """In the order in which they are passed on."""
        return [self.channel.fileno(), *self.streams]

    def close(self) -> None:
        """Let go of all."""
        self.channel.close()
        for stream in self.streams:
            os.close(stream)


def endpoints() -> tuple[Ends, Ends]:
    """Ours and theirs, for a new process."""
    ours, theirs = socket.socketpair()
    (out, out_writer), (err, err_writer) = os.pipe(), os.pipe()
    return Ends(ours, (out, err)), Ends(theirs, (out_writer, err_writer))


async def fork(process: Process, tree: Tree, seq: int, limits: Limits) -> Process | None:
    """A copy of a live process, as a member of its tree; None where it does not come about."""
    loop = asyncio.get_running_loop()
    ours, theirs = endpoints()
    ours.channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    try:
        ours.channel.setblocking(False)
        socket.send_fds(process.channel, [pack({"op": "branch", "seq": seq})], theirs.descriptors())
    except OSError:
        ours.close()
        return None
    finally:
        theirs.close()
    exchange = await process.exchange(b"", seq=seq, wall_s=_FORK_TIMEOUT_S, limits=limits)
    if exchange.reply is None or exchange.reply.outcome != "branched":
        ours.close()
        return None
    pid = await _sender(ours.channel)
    if pid is None:
        ours.close()
        return None
    return _member(loop, ours, pid, tree)


async def _sender(channel: socket.socket) -> int | None:
    """Who speaks on a new channel, by the kernel's word; its greeting is taken in."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(channel, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), _FORK_TIMEOUT_S)
        greeting, extra, _, _ = channel.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
    except (TimeoutError, OSError):
        return None
    finally:
        loop.remove_reader(channel)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    for level, kind, data in extra:
        if greeting and level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            pid: int = _CREDENTIALS.unpack(data)[0]
            return pid
    return None


def _member(loop: asyncio.AbstractEventLoop, ours: Ends, pid: int, tree: Tree) -> Process | None:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        ours.close()
        return None
    ended: asyncio.Future[Exit] = loop.create_future()

    def note_end() -> None:
        loop.remove_reader(handle)
        os.close(handle)
        if not ended.done():
            ended.set_result(_how_it_ended(pid))

    def kill(process: Process, signo: int) -> None:
        if signo == signal.SIGKILL and not tree.others(process):
            tree.end()
        elif not ended.done():
            signal.pidfd_send_signal(handle, signo)

    loop.add_reader(handle, note_end)
    process = Process(ours.channel, ours.streams, ended, kill)
    tree.members.add(process)
    return process


def _how_it_ended(pid: int) -> Exit:
    """A branch is not our child: its exit code is read off the zombie, which its parent leaves us the time for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(") ")[2].split()
    except OSError:
        return Exit(None, 0.0, 0)
    if fields[0] != "Z":
        return Exit(None, 0.0, 0)
    ticks = os.sysconf("SC_CLK_TCK")
    cpu_s = (int(fields[11]) + int(fields[12])) / ticks
    return Exit(os.waitstatus_to_exitcode(int(fields[49])), cpu_s, 0)
