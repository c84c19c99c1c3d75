"""The warm process: imports its profile once, then forks a session for each request.

It stays single-threaded, never runs a model's code, and reaps everything that it forks. Talks to the supervisor over
a packet socket; a message is JSON, with descriptors where one is needed.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from turngym.envs.sandbox import head, isolation, rootfs, syscalls
from turngym.envs.sandbox.nursery import Nursery
from turngym.envs.sandbox.profiles import MODULES

# Each session needs these; imported here, they cost it nothing.
_ALWAYS: tuple[str, ...] = ("ast", "collections", "fractions", "functools", "itertools", "json", "linecache", "math")
_ALWAYS += ("random", "re", "statistics", "string", "traceback", "decimal", "datetime", "heapq", "encodings.idna")
_PACKET = 4096
_DOUBT_MS = 50


class Tree:
    """One session's process, and the pid namespace around it."""

    def __init__(self, pid: int, init: int | None) -> None:
        self.pid, self.init = pid, init
        self.reaped = self.condemned = False


def main(config: dict[str, Any], descriptor: int) -> NoReturn:
    """Become what `config` says, then serve until the supervisor is gone."""
    syscalls.die_with_parent()
    if os.getppid() != config["parent"]:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    try:
        if config["profile"] == "probe":
            _send(control, {"op": "probed", **isolation.probe()})
            os._exit(0)
        zygote = Zygote(config, control)
    except BaseException as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        _send(control, {"op": "broken", "why": f"{type(error).__name__}: {error}"[:1000], "missing": missing})
        os._exit(1)
    _send(control, {"op": "up"})
    zygote.serve()


class Zygote:
    """Set apart on construction; then `serve`."""

    def __init__(self, config: dict[str, Any], control: socket.socket) -> None:
        self._control, self._trees, self._numbers = control, dict[int, Tree](), dict[int, int]()
        for path in config["groups"]:
            with open(path, "w") as file:
                file.write("0")
        self._processes = os.open("/proc", os.O_PATH | os.O_CLOEXEC) if config["groups"] else None
        tier, apart = config["tier"], isolation.namespaced(config["tier"])
        self._nursery = None
        own_users = config["own_users"]
        if apart:
            own_users &= not isolation.become_namespace_owner()
            self._nursery = Nursery()
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        rootfs.use_installed_code_only()
        for name in (*_ALWAYS, *MODULES[config["profile"]]):
            importlib.import_module(name)
        if len(os.listdir("/proc/self/task")) > 1:
            raise RuntimeError(f"importing the profile {config['profile']} started threads: forks of it would hang")
        self._confinement = isolation.Confinement(tier, config["limits"], own_users)
        if apart:
            isolation.enter_namespaces()
        self._watch()
        self._head = head.Head()
        for name in [name for name in sys.modules if name.split(".")[0] == "turngym"]:
            del sys.modules[name]  # code shall find no trace of us; we hold what we need
        gc.disable()
        gc.collect()
        gc.freeze()

    def _watch(self) -> None:
        self._dead, signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(signalled, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._dead, select.POLLIN)
        self._inits = dict[int, int]()
        self._doubts = dict[int, tuple[float, dict[str, Any]]]()

    def serve(self) -> NoReturn:
        """Fork, signal and reap until the control socket closes; then everything dies with us."""
        while True:
            for descriptor, _ in self._poll.poll(_DOUBT_MS if self._doubts else None):
                if descriptor == self._control.fileno():
                    self._obey()
                elif descriptor == self._dead:
                    os.read(self._dead, _PACKET)
                    self._reap()
                else:
                    self._namespace_gone(descriptor)
            self._settle_old_doubts()

    def _obey(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._control, _PACKET, 3)
        if not message:
            os._exit(0)
        order = json.loads(message)
        try:
            getattr(self, f"_{order.pop('op')}")(**order, descriptors=descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _fork(self, number: int, seed: int, uid: int, scratch: str, descriptors: list[int]) -> None:
        init = None
        try:
            if self._nursery is not None:
                init = self._nursery.take()
                syscalls.setns(init, syscalls.CLONE_NEWPID)
            pid = os.fork()
        except OSError as error:
            if init is not None:
                signal.pidfd_send_signal(init, signal.SIGKILL)
                os.close(init)
            _send(self._control, {"op": "failed", "number": number, "why": str(error)})
            return
        if pid == 0:
            self._become_session(descriptors, seed, isolation.Session(uid, scratch))
        self._trees[number], self._numbers[pid] = Tree(pid, init), number
        self._make_expendable(pid)

    def _become_session(self, descriptors: list[int], seed: int, session: isolation.Session) -> NoReturn:
        try:
            gc.enable()
            head.become(*descriptors)
            os.environ["HOME"] = os.environ["TMPDIR"] = os.environ["MPLCONFIGDIR"] = session.scratch
            self._confinement.apply(session)
            self._head.serve(seed, session.scratch)
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"[:1000]
            body = json.dumps([0, "failed", why, 0, 0.0, 0]).encode()
            os.write(3, len(body).to_bytes(4, "big") + body)
        finally:
            os._exit(70)

    def _make_expendable(self, pid: int) -> None:
        """Where memory is short, the kernel shall end sessions and spare us."""
        if self._processes is None:
            return
        try:
            file = os.open(f"{pid}/oom_score_adj", os.O_WRONLY, dir_fd=self._processes)
            os.write(file, b"1000")
            os.close(file)
        except OSError:
            pass  # it has ended already, or has another user by now: only the order of victims is lost

    def _signal(self, number: int, signo: int, descriptors: list[int]) -> None:
        tree = self._trees.get(number)
        if tree is not None and not tree.reaped:
            os.kill(tree.pid, signo)

    def _end(self, number: int, descriptors: list[int]) -> None:
        tree = self._trees.get(number)
        if tree is None or tree.condemned:
            return
        tree.condemned = True
        if tree.init is not None:
            with contextlib.suppress(ProcessLookupError):  # it is gone already, and we have not looked yet
                signal.pidfd_send_signal(tree.init, signal.SIGKILL)
            if number in self._doubts:
                _send(self._control, self._doubts.pop(number)[1])
            if tree.init not in self._inits:
                self._await_end(tree.init, number)
        elif not tree.reaped:
            # Without a namespace: the process, and as far as it goes its group.
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(OSError):  # not a group yet, or of a user that we may not signal
                    kill(tree.pid, signal.SIGKILL)
        self._bury(number)

    def _await_end(self, init: int, number: int) -> None:
        self._inits[init] = number
        self._poll.register(init, select.POLLIN)

    def _settle_old_doubts(self) -> None:
        """Report those whose namespace has outlived them: they were killed for themselves."""
        now = time.monotonic()
        for number in [number for number, (deadline, _) in self._doubts.items() if deadline < now]:
            _send(self._control, self._doubts.pop(number)[1])

    def _namespace_gone(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        os.close(descriptor)
        number = self._inits.pop(descriptor)
        self._trees[number].init = None
        if number in self._doubts:
            _send(self._control, {**self._doubts.pop(number)[1], "lost": True})
        self._bury(number)

    def _bury(self, number: int) -> None:
        """Forget a tree of which nothing is left."""
        tree = self._trees[number]
        if tree.condemned and tree.reaped and tree.init is None:
            del self._trees[number]
            _send(self._control, {"op": "gone", "number": number})

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid not in self._numbers:
                os._exit(1)  # the nursery, and with it every session: the supervisor starts another of us
            number = self._numbers.pop(pid)
            tree, code = self._trees[number], os.waitstatus_to_exitcode(status)
            tree.reaped = True
            times = {"cpu_s": used.ru_utime + used.ru_stime, "rss_kb": used.ru_maxrss}
            event = {"op": "exit", "number": number, "code": code, **times}
            if code == -signal.SIGKILL and tree.init is not None and not tree.condemned:
                # It, or its namespace's first process, which is ours and takes it along? The end of that comes after.
                self._doubts[number] = time.monotonic() + _DOUBT_MS / 1000, event
                self._await_end(tree.init, number)
                continue
            _send(self._control, event)
            self._bury(number)


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    try:
        control.send(json.dumps(message).encode())
    except OSError:
        os._exit(0)  # the supervisor is gone
