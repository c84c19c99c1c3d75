"""The system-call filter: an allow-list, as a classic BPF program.

What is not on the list fails with EPERM, which Python shows as a readable PermissionError. Calls newer than the list
fail with ENOSYS, so that the C library falls back to older ones.
"""

import ctypes
import errno
import os
import struct

from turngym.envs.sandbox import syscalls
from turngym.envs.sandbox.syscall_table import ALLOWED

_KILL, _ERRNO, _ALLOW = 0x8000_0000, 0x0005_0000, 0x7FFF_0000
_LOAD, _RETURN = 0x20, 0x06
_EQUAL, _GREATER, _ANY_BIT, _AND = 0x15, 0x25, 0x45, 0x54
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data, low words

_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_CONDITIONAL = {
    "x86_64": {"clone": 56, "clone3": 435, "fork": 57, "vfork": 58, "kill": 62, "tgkill": 234, "ioctl": 16}
    | {"prctl": 157, "prlimit64": 302, "socketpair": 53, "fcntl": 72, "utimensat": 280},
    "aarch64": {"clone": 220, "clone3": 435, "kill": 129, "tgkill": 131, "ioctl": 29}
    | {"prctl": 167, "prlimit64": 261, "socketpair": 199, "fcntl": 25, "utimensat": 88},
}
_NEWEST = 462
_CLONE_THREAD = 0x0001_0000
_CLONE_FORBIDDEN = 0x7E02_8000  # every CLONE_NEW* flag, and CLONE_PARENT: nobody may give the zygote children
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS TIOCGWINSZ FIONREAD FIONBIO FIONCLEX FIOCLEX
_PRCTLS = (3, 15, 16, 0x5356_4D41)  # GET_DUMPABLE SET_NAME GET_NAME SET_VMA
# SETOWN SETSIG SETOWN_EX NOTIFY: the kernel would send the signal, past `kill`. SETLEASE: whoever opens a file of
# Python's own next, the trainer, would wait for 45 seconds.
_FCNTLS = (8, 10, 15, 1024, 1026)
# What Landlock does not see: whoever shares our user could hide or publish the user's files. Also by descriptor:
# Python's own files may be opened for reading, and are often the user's.
_MARKS: tuple[str, ...] = (
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "lchown",
    "fchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "truncate",
)
_MARKS += ("getxattr", "lgetxattr", "listxattr", "llistxattr")
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET = 1, 1, 5

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""


def _give(action: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, action)]


_DENY, _UNKNOWN = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS


def _one_of(offset: int, values: tuple[int, ...], mask: int = 0xFFFF_FFFF) -> list[Instruction]:
    """Allow where the argument at `offset` is one of `values`, deny elsewhere."""
    tests = [(_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [(_LOAD, 0, 0, offset), (_AND, 0, 0, mask), *tests, *_give(_DENY), *_give(_ALLOW)]


def _none_of(offset: int, values: tuple[int, ...]) -> list[Instruction]:
    """Deny where the argument at `offset` is one of `values`, allow elsewhere."""
    tests = [(_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [(_LOAD, 0, 0, offset), *tests, *_give(_ALLOW), *_give(_DENY)]


def _conditions(pid: int, may_fork: bool, own_files: bool) -> dict[str, list[Instruction]]:
    """What becomes of each call that is allowed for some arguments only."""
    load_flags = (_LOAD, 0, 0, _FIRST)
    refuse_flags = (_ANY_BIT, 0, 1, _CLONE_FORBIDDEN)
    need_thread: list[Instruction] = [] if may_fork else [(_ANY_BIT, 1, 0, _CLONE_THREAD), *_give(_DENY)]
    clone = [load_flags, refuse_flags, *_give(_DENY), *need_thread, *_give(_ALLOW)]
    # A datagram socket could be sent to any name; a connected stream cannot.
    stream = _one_of(_SECOND, (_SOCK_STREAM, _SOCK_SEQPACKET), mask=0xF)
    socketpair = [load_flags, (_EQUAL, 1, 0, _AF_UNIX), *_give(_DENY), *stream]
    # Where code may fork it lives in a pid namespace of its own, and sees nobody else to signal.
    signals = _give(_ALLOW) if may_fork else _one_of(_FIRST, (pid,))
    fork = _give(_ALLOW if may_fork else _DENY)
    return {
        "clone": clone,
        "clone3": _give(_UNKNOWN),  # its flags are behind a pointer, out of a filter's sight
        "fork": fork,
        "vfork": fork,
        "kill": signals,
        "tgkill": signals,
        "ioctl": _one_of(_SECOND, _IOCTLS),
        "prctl": _one_of(_FIRST, _PRCTLS),
        "prlimit64": _one_of(_FIRST, (0, pid)),
        "socketpair": socketpair,
        "fcntl": _none_of(_SECOND, _FCNTLS),
        "utimensat": _give(_ALLOW if own_files else _DENY),
    }


def _allowed(machine: str, own_files: bool) -> set[int]:
    column = 1 if machine == "x86_64" else 2
    entries = [entry.split() for entry in ALLOWED.split(";")]
    denied = () if own_files else _MARKS
    return {int(entry[column]) for entry in entries if entry[column] != "-" and entry[0] not in denied}


def _program(machine: str, pid: int, may_fork: bool, own_files: bool) -> list[Instruction]:
    fates: dict[int, list[Instruction]] = {number: _give(_ALLOW) for number in _allowed(machine, own_files)}
    conditions = _conditions(pid, may_fork, own_files)
    fates |= {number: conditions[name] for name, number in _CONDITIONAL[machine].items()}
    deny = _give(_DENY)
    intervals = [  # neighbours of one fate, each with its last number
        (number, fates.get(number, deny))
        for number in range(_NEWEST + 1)
        if number == _NEWEST or fates.get(number + 1, deny) != fates.get(number, deny)
    ]
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        *_give(_KILL),
        (_LOAD, 0, 0, _NUMBER),
        *_search([*intervals, (0xFFFF_FFFF, _give(_UNKNOWN))]),
    ]


def _search(intervals: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Look a number up by halves: the kernel walks the program once for each call that exists when it is installed."""
    if len(intervals) == 1:
        return intervals[0][1]
    middle = len(intervals) // 2
    lower, upper = _search(intervals[:middle]), _search(intervals[middle:])
    assert len(lower) < 256, "a jump reaches no further"
    return [(_GREATER, len(lower), 0, intervals[middle - 1][0]), *lower, *upper]


class Filter:
    """A program, made once and given the pid of each session that installs it.

    Args:
        may_fork: Whether the code may make processes; threads it may always make.
        own_files: Whether it lives in a file tree of its own; else it may not change the marks of files.

    Raises:
        OSError: On a machine whose system calls are not known here.
    """

    _PIDS = (0x7AC0_FFEE, 0x7AC0_FFEF)  # stand for the session's pid; where two programs differ, it belongs

    def __init__(self, *, may_fork: bool, own_files: bool) -> None:
        machine = os.uname().machine
        if machine not in _ARCHITECTURES:
            raise OSError(errno.ENOSYS, f"no system-call table for {machine}")
        program, other = (_program(machine, pid, may_fork, own_files) for pid in self._PIDS)
        self._program = _encode(program)
        self._places = [8 * i + 4 for i in range(len(program)) if program[i] != other[i]]

    def install(self, pid: int) -> None:
        """Hold this process, whose pid (in its own namespace) is `pid`, to the filter for good."""
        program = bytearray(self._program)
        for place in self._places:
            struct.pack_into("=I", program, place, pid)
        code = (ctypes.c_char * len(program)).from_buffer(program)
        header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
        syscalls.prctl(syscalls.PR_SET_SECCOMP, syscalls.SECCOMP_MODE_FILTER, header)


def _encode(program: list[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
