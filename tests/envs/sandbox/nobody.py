"""Become an ordinary user and run a command: `python nobody.py COMMAND...`, as root.

Where the interpreter lies in a folder that only root may enter, the folder is replaced by one that shows nothing but
the interpreter, in a mount namespace of this process alone. Exits with 77 where that cannot be done.
"""

import os
import sys
import tempfile
from pathlib import Path

from turngym.envs.sandbox import cgroups, syscalls

NOBODY = 65534


def open_up(prefix: Path) -> None:
    """Make `prefix` reachable for everybody, as seen from here."""
    closed = [folder for folder in reversed(prefix.parents) if not folder.stat().st_mode & 0o001]
    if not closed:
        return
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    with tempfile.TemporaryDirectory() as aside:
        syscalls.mount(str(prefix), aside, flags=syscalls.MS_BIND)
        syscalls.mount("tmpfs", str(closed[0]), "tmpfs", 0, "mode=755")
        prefix.mkdir(parents=True)
        syscalls.mount(aside, str(prefix), flags=syscalls.MS_BIND)
        syscalls.detach(aside)


def delegate_groups() -> None:
    """Give the user control groups to divide, as a service manager would; without, tier A is out of its reach."""
    try:
        for base, _, _ in cgroups._hierarchies(1 << 33, 10_000):
            folder = base / f"turngym-{os.getpid()}-delegated"
            folder.mkdir()
            for file in (folder, folder / "cgroup.procs"):
                os.chown(file, NOBODY, NOBODY)
            (folder / "cgroup.procs").write_text("0")
    except OSError as error:
        print(f"no control groups for the user: {error}", file=sys.stderr)


def main() -> None:
    try:
        open_up(Path(sys.base_prefix))
        delegate_groups()
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(77)
    os.chdir("/")
    os.execve(sys.argv[1], sys.argv[1:], {**os.environ, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"})


if __name__ == "__main__":
    main()
