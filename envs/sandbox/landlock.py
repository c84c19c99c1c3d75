"""Landlock: what a process, and all it starts, may open; no TCP; no signal out of its own domain."""

import os
import struct

from turngym.envs.sandbox import syscalls

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_SOCK, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_ON_SCRATCH = ~(_EXECUTE | _MAKE_CHAR | _MAKE_SOCK | _MAKE_BLOCK | _IOCTL)
_TCP = 0b11
_SCOPES = 0b11  # abstract unix sockets, signals


def abi() -> int:
    """Landlock's version here, 0 where it is absent."""
    try:
        return syscalls.syscall(_CREATE, 0, 0, 1)
    except OSError:
        return 0


def _rights(version: int) -> int:
    return (
        (1 << 13) - 1
        | (_REFER if version >= 2 else 0)
        | (_TRUNCATE if version >= 3 else 0)
        | (_IOCTL if version >= 5 else 0)
    )


class Ruleset:
    """What shall stay possible; everything else is denied once `restrict` is called."""

    def __init__(self, version: int) -> None:
        self._handled = _rights(version)
        fields = [self._handled] + [_TCP] * (version >= 4) + [_SCOPES] * (version >= 6)
        attributes = struct.pack(f"={len(fields)}Q", *fields)
        self._descriptor = syscalls.syscall(_CREATE, attributes, len(attributes), 0)

    def allow(self, path: str, *, write: bool) -> None:
        """Let everything under `path` be read, or also written where it is scratch or a device."""
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rights = _ON_SCRATCH if write else _READ_FILE | _READ_DIR
            if not os.path.isdir(path):
                rights &= _ON_FILES
            rule = struct.pack("=Qi", rights & self._handled, descriptor)
            syscalls.syscall(_ADD, self._descriptor, 1, rule, 0)
        finally:
            os.close(descriptor)

    def restrict(self) -> None:
        """Hold this process to the rules, for good."""
        syscalls.syscall(_RESTRICT, self._descriptor, 0)
        os.close(self._descriptor)
