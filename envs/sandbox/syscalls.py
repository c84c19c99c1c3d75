"""The system calls that Python has no name for, as functions that raise OSError."""

import ctypes
import os
import struct

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME = 32, 1024, 2048
MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME = 4096, 16_384, 1 << 18, 1 << 21
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 8, 22, 38
SECCOMP_MODE_FILTER = 2
CAP_DAC_READ_SEARCH = 2

_X86 = os.uname().machine == "x86_64"
_SYS_CLONE, _SYS_PIVOT_ROOT, _SYS_CAPSET = (56, 155, 126) if _X86 else (220, 41, 91)
_CAPABILITY_VERSION_3 = 0x2008_0522
_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> int:
    result = int(getattr(_libc, name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: object) -> int:
    """A raw system call; integers travel as longs."""
    return _call("syscall", ctypes.c_long(number), *(ctypes.c_long(a) if type(a) is int else a for a in arguments))


def unshare(flags: int) -> None:
    """Leave the namespaces in `flags` for new ones."""
    _call("unshare", flags)


def setns(descriptor: int, flags: int) -> None:
    """Join namespaces of the process or file that `descriptor` stands for."""
    _call("setns", descriptor, flags)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount, bind or remount."""
    fields = (source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    _call("mount", *fields)


def detach(target: str) -> None:
    """Unmount now, clean up when nobody uses it any more."""
    _call("umount2", target.encode(), MNT_DETACH)


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root."""
    syscall(_SYS_PIVOT_ROOT, new.encode(), old.encode())


def prctl(operation: int, first: int = 0, second: bytes | None = None) -> None:
    """One process control."""
    _call("prctl", operation, ctypes.c_ulong(first), second, ctypes.c_ulong(0), ctypes.c_ulong(0))


def keep_capabilities(mask: int) -> None:
    """Give up every capability that is not in `mask`, for good."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    syscall(_SYS_CAPSET, header, struct.pack("=6I", mask, mask, 0, 0, 0, 0))


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends."""
    prctl(PR_SET_PDEATHSIG, 9)


def fork_init() -> int:
    """Fork into a new pid namespace, as its first process; the pid in the parent, 0 in the child.

    The C library does not hear of this fork: the child may do little more than wait.
    """
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    flags = CLONE_NEWPID | 17  # SIGCHLD
    pid = int(_libc_with_gil.syscall(*(ctypes.c_long(value) for value in (_SYS_CLONE, flags, 0, 0, 0, 0))))
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid
