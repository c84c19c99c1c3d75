"""Scratch folders where sessions have no file system of their own (tiers B and C): made, measured and wiped."""

import itertools
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "turngym-scratch-"


class ScratchRoot:
    """The folder that holds those of all sessions of one sandbox."""

    def __init__(self) -> None:
        _sweep()
        self._path = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
        os.chmod(self._path, 0o711)

    def make(self, number: int, uid: int) -> str:
        """A folder for one session and its user alone."""
        path = os.path.join(self._path, str(number))
        os.mkdir(path, 0o700)
        if uid != os.geteuid():
            os.chown(path, uid, uid)
        return path

    def remove(self) -> None:
        """Delete everything."""
        wipe(self._path)


def usage(path: str, most_files: int) -> tuple[int, int]:
    """Bytes and files under a folder; stops counting above `most_files`.

    A folder that cannot be looked into, unreadable or too deep, counts as more than that: it may hide anything.
    """
    size = files = 0
    folders = [path]
    while folders and files <= most_files:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    files += 1
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # deleted while we looked
                    size += status.st_blocks * 512
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(entry.path)
                    if files > most_files:
                        break
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted while we looked
        except OSError:
            return size, most_files + 1
    return size, files


def wipe(path: str) -> None:
    """Delete a folder that hostile code has filled: unreadable, linked elsewhere, or thousands of levels deep.

    Never follows a link; folders are lifted to the top before they are opened, so no path grows long.
    """
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        fresh = (f"{secrets.token_hex(8)}-{count}" for count in itertools.count())
        while names := os.listdir(top):
            for name in names:
                _dissolve(top, name, fresh)
    finally:
        os.close(top)
    os.rmdir(path)


def _dissolve(top: int, name: str, fresh: Iterator[str]) -> None:
    """Delete one entry; the folders in it come up beside it under fresh names."""
    try:
        os.unlink(name, dir_fd=top)
        return
    except (IsADirectoryError, PermissionError):
        pass
    os.chmod(name, 0o700, dir_fd=top)  # it is a folder, and its owner is dead: nobody swaps it for a link
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for inner in os.listdir(folder):
            _lift(folder, inner, top, next(fresh))
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def _lift(folder: int, name: str, top: int, new: str) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        os.chmod(name, 0o700, dir_fd=folder)  # a folder that we may not write cannot be moved
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
    else:
        os.unlink(name, dir_fd=folder)


def _sweep() -> None:
    """Delete what supervisors of ours that were killed left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX).split("-")[0]
        if folder.stat().st_uid == os.geteuid() and not os.path.exists(f"/proc/{pid}"):
            try:
                wipe(str(folder))
            except OSError:
                continue  # another of us was faster
