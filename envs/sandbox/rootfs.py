"""A file tree of its own: Python and its libraries read-only where they always are, five devices, nothing else."""

import os
import sys
import sysconfig
from pathlib import Path

from turngym.envs.sandbox import syscalls

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SCRATCH = "/scratch"
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_OURS = str(Path(__file__).resolve().parents[2])  # the package's root: a repository, or a folder among the libraries
_SOLVERS = ("reasoning_gym",)  # poses questions of ours, and computes the answers to them
_SEED = "/proc"  # a mount point that every machine has, and that nothing below is taken from
_KEPT = ((os.ST_NOSUID, syscalls.MS_NOSUID), (os.ST_NODEV, 4), (os.ST_NOEXEC, 8)) if sys.platform == "linux" else ()


def use_installed_code_only() -> None:
    """Forget folders that somebody works in: an editable install may have put graders and answers on the path."""
    homes = (f"{sys.prefix}/", f"{sys.base_prefix}/", "/usr/lib/", "/usr/local/lib/")
    sys.path[:] = [path for path in sys.path if path.startswith(homes)]


def code_paths() -> list[str]:
    """What Python and its libraries are read from, without what lies under another of them."""
    wanted = [*sys.path, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *_LIBRARIES]
    if sys.base_prefix not in ("/", "/usr"):
        wanted.append(f"{sys.base_prefix}/lib")
    kept: list[str] = []
    for path in sorted({os.path.abspath(path) for path in wanted if path and os.path.exists(path)}):
        if path != "/" and not any(path.startswith(f"{other}/") for other in kept if not os.path.islink(other)):
            kept.append(path)
    return kept


def readable_paths() -> list[str]:
    """The same without what is hidden."""
    paths = code_paths()
    for hidden in _hidden():
        paths = [part for path in paths for part in _without(path, hidden)]
    return paths


def _hidden() -> list[str]:
    """What knows how questions are answered: our own package, and a library."""
    return [_OURS, *filter(os.path.isdir, (os.path.join(path, name) for path in sys.path for name in _SOLVERS))]


def _without(path: str, hidden: str) -> list[str]:
    """What covers `path` but not `hidden`, which may lie under it."""
    if path == hidden:
        return []
    if os.path.islink(path) or not hidden.startswith(f"{path}/"):
        return [path]
    entries = (os.path.join(path, name) for name in os.listdir(path))
    return [part for entry in entries for part in _without(entry, hidden)]


def enter() -> None:
    """Make the tree and move into it. The caller is alone in its mount namespace and may mount.

    Raises:
        OSError: Where the machine does not let us.
    """
    paths, hidden_paths = code_paths(), _hidden()
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("tmpfs", _SEED, "tmpfs", flags, "mode=755,size=1m")
    for path in paths:
        _show(path, f"{_SEED}{path}", syscalls.MS_NODEV)
    for hidden in hidden_paths:
        if os.path.isdir(f"{_SEED}{hidden}"):
            syscalls.mount("tmpfs", f"{_SEED}{hidden}", "tmpfs", flags | syscalls.MS_RDONLY, "mode=755,size=4k")
    for device in DEVICES:
        _show(device, f"{_SEED}{device}", syscalls.MS_NOEXEC)
    os.mkdir(f"{_SEED}{SCRATCH}")
    if not os.path.lexists(f"{_SEED}/tmp"):  # Python itself may live there
        os.symlink(SCRATCH, f"{_SEED}/tmp")
    os.chdir(_SEED)
    syscalls.pivot_root(".", ".")
    syscalls.detach(".")
    os.chdir("/")
    syscalls.mount("none", "/", flags=syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | flags)


def _show(source: str, target: str, flags: int) -> None:
    """Bind `source` at `target`, read-only; a link stays a link."""
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    if os.path.islink(source) and os.path.isdir(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.makedirs(target, mode=0o755, exist_ok=True)
    else:
        open(target, "x").close()
    syscalls.mount(source, target, flags=syscalls.MS_BIND | syscalls.MS_REC)
    # In a user namespace the flags that the mount has already are locked: they must be named again.
    present = os.statvfs(target).f_flag
    locked = sum(mount for shown, mount in _KEPT if present & shown)
    writable = 0 if source in DEVICES else syscalls.MS_RDONLY
    flags |= locked | writable | syscalls.MS_NOSUID | syscalls.MS_REMOUNT | syscalls.MS_BIND
    syscalls.mount("none", target, flags=flags)


def mount_scratch(uid: int, size_mb: int, files: int) -> None:
    """A small file system of the session's own at `SCRATCH`."""
    data = f"mode=700,uid={uid},gid={uid},size={size_mb}m,nr_inodes={files}"
    syscalls.mount("tmpfs", SCRATCH, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC, data)
