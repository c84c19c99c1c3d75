"""A small process that makes the first process of each session's pid namespace, a few ahead of need.

When a namespace's first process dies, the kernel kills all others in it: that is how a session and everything that it
started end together. It is forked here and not from the zygote because a fork costs what the image weighs. And the
session itself is not that first process because signals, and so crashes, mean something else to it.
"""

import os
import select
import signal
import socket
import time

from turngym.envs.sandbox import syscalls

_SPARES = 2
_REAP_AFTER_S = 0.2


class Nursery:
    """The zygote's end. Made while the zygote is small and may already make pid namespaces."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        zygote = os.getpid()
        if os.fork() == 0:
            self._socket.close()
            _serve(other, zygote)
        other.close()
        self._socket.sendall(b"." * _SPARES)

    def take(self) -> int:
        """A pidfd of the first process of a new pid namespace."""
        message, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        if message != b"." or not descriptors:
            raise OSError("no pid namespace could be made")
        self._socket.sendall(b".")
        return descriptors[0]


def _serve(orders: socket.socket, zygote: int) -> None:
    syscalls.die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    lifeline, held = os.pipe()
    while os.getppid() == zygote and orders.recv(1):
        try:
            pid = syscalls.fork_init()
        except OSError:
            orders.sendall(b"!")
            continue
        if pid == 0:
            _first_process(lifeline, held)
        descriptor = os.pidfd_open(pid)
        socket.send_fds(orders, [b"."], [descriptor])
        os.close(descriptor)
    os._exit(0)


def _first_process(lifeline: int, held: int) -> None:
    """Live until killed; reap orphans, late enough for the supervisor to have read how they ended."""
    try:
        os.close(held)
        syscalls.die_with_parent()
        watch = select.poll()
        watch.register(lifeline, select.POLLIN)
        if watch.poll(0):
            os._exit(0)  # the nursery had died before we asked to die with it
        os.closerange(0, 1024)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            signal.sigwait({signal.SIGCHLD})
            time.sleep(_REAP_AFTER_S)
            _reap()
    finally:
        os._exit(1)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
