"""The two ends of a session's descriptors, and how a live process is asked to fork."""

from __future__ import annotations

import asyncio
import os
import secrets
import select
import signal
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from turngym.envs.sandbox.process import Process
from turngym.envs.sandbox.protocol import ProtocolError, Reply, pack, read_reply
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
    ours, theirs = endpoints()
    member = None
    try:
        if await _ask(process, theirs, ours, seq, limits):
            member = await _meet(ours, tree)
        return member
    finally:
        if member is None:
            ours.close()


async def _ask(process: Process, theirs: Ends, ours: Ends, seq: int, limits: Limits) -> bool:
    """Have the process fork, by its own word."""
    try:
        ours.channel.setblocking(False)
        ours.channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        socket.send_fds(process.channel, [pack({"op": "branch", "seq": seq})], theirs.descriptors())
    except OSError:
        return False
    finally:
        theirs.close()
    exchange = await process.exchange(b"", seq=seq, wall_s=_FORK_TIMEOUT_S, limits=limits)
    return exchange.reply is not None and exchange.reply.outcome == "branched"


async def _meet(ours: Ends, tree: Tree) -> Process | None:
    """Whoever speaks on a new channel, as a member."""
    pid, _ = await _hear(ours.channel)
    if pid is None:
        return None
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return None
    known = False
    try:
        known = await _is_still(pid, handle, ours.channel)
    finally:
        if not known:
            os.close(handle)
    return _member(ours, pid, handle, tree) if known else None


async def _is_still(pid: int, handle: int, channel: socket.socket) -> bool:
    """Whether `handle` stands for the process that speaks.

    That one may have ended, and its pid have become somebody else's, before the handle was taken; we would signal
    them. Who gives a word back that was not known before has the pid now, and while the other one lives nobody can.
    """
    word = secrets.randbits(48)
    try:
        channel.send(pack({"op": "hello", "seq": word}))
    except OSError:
        return False
    speaker, reply = await _hear(channel)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    end = select.poll()
    end.register(handle, select.POLLIN)
    return speaker == pid and reply is not None and reply.seq == word and not end.poll(0)


async def _hear(channel: socket.socket) -> tuple[int | None, Reply | None]:
    """A reply on a new channel, and by the kernel's word who sent it."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(channel, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), _FORK_TIMEOUT_S)
        data, extra, _, _ = channel.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
        reply = read_reply(data)
    except (TimeoutError, OSError, ProtocolError):
        return None, None
    finally:
        loop.remove_reader(channel)
    for level, kind, sender in extra:
        if data and level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            return int(_CREDENTIALS.unpack(sender)[0]), reply
    return None, None


def _member(ours: Ends, pid: int, handle: int, tree: Tree) -> Process:
    loop = asyncio.get_running_loop()
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
