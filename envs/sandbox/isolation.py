"""What a warm process does once to set itself apart, and a session again, for itself, before it runs anything.

| tier | namespaces, own file tree | Landlock | system-call filter | memory group | code may fork |
|---|---|---|---|---|---|
| A | yes | where the kernel has it | yes | yes | yes |
| A- | yes | where the kernel has it | yes | no | no |
| B | no | yes | yes | no | no |
| C | no | no | no | no | yes |
"""

import os
import resource
from typing import Any, NamedTuple

from turngym.envs.sandbox import landlock, rootfs, seccomp, syscalls

TIERS = ("A", "A-", "B", "C")
_NAMESPACES = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS


def namespaced(tier: str) -> bool:
    """Whether sessions of this tier live in namespaces."""
    return tier in ("A", "A-")


def may_fork(tier: str) -> bool:
    """Whether code may make processes: only where something bounds their memory together, or nothing is promised."""
    return tier in ("A", "C")


def become_namespace_owner() -> bool:
    """Gain the right to make namespaces: root has it, others get it in a user namespace. Whether that was made.

    Raises:
        OSError: Where the machine does not let us.
    """
    if os.geteuid() == 0 and _may_mount():
        return False
    uid, gid = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    for name, content in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(content)
    return True


def _may_mount() -> bool:
    """Whether this process has CAP_SYS_ADMIN, tried in a child."""
    pid = os.fork()
    if pid == 0:
        try:
            syscalls.unshare(syscalls.CLONE_NEWNS)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def enter_namespaces() -> None:
    """Move into namespaces and a file tree of our own; pid namespaces come later, one a session."""
    syscalls.unshare(_NAMESPACES)
    rootfs.enter()


class Session(NamedTuple):
    """What sets one session apart from others.

    Attributes:
        uid: Its own user, where we may choose one; else ours.
        scratch: Its folder.
    """

    uid: int
    scratch: str


class Confinement:
    """Everything that a session's process takes upon itself, prepared once in the warm process.

    Args:
        tier: The isolation.
        limits: `Limits` as a dict.
        own_users: Whether each session gets a user of its own.
    """

    def __init__(self, tier: str, limits: dict[str, Any], own_users: bool) -> None:
        self.tier, self._limits = tier, limits
        self._changes_user = own_users
        # The kernel counts processes by user and user namespace: a session has a count of its own by one or the other.
        self._counts_apart = namespaced(tier) and not self._changes_user
        self._filter = None if tier == "C" else seccomp.Filter(may_fork=may_fork(tier), own_files=namespaced(tier))
        self._landlock = 0 if tier == "C" else landlock.abi()
        self._readable = ["/"] if namespaced(tier) else rootfs.readable_paths()
        # Our own /dev holds nothing but these, and one rule costs less than five.
        self._devices = ("/dev",) if namespaced(tier) else rootfs.DEVICES
        self._zygote = os.getpid()
        # Where Python lies in a private folder, a user of its own could not even import: Landlock then bounds what
        # this capability opens.
        blind = self._changes_user and not namespaced(tier) and not all(map(_open_to_all, rootfs.code_paths()))
        if blind and tier == "C":
            raise RuntimeError(
                "tier C as root needs a Python that every user may read; this one lies in a private folder"
            )
        self._capabilities = 1 << syscalls.CAP_DAC_READ_SEARCH if blind else 0
        self._baseline = _address_space()

    def apply(self, session: Session) -> None:
        """Give up everything that the code shall not have. There is no way back."""
        if namespaced(self.tier):
            syscalls.unshare(syscalls.CLONE_NEWNS)
            rootfs.mount_scratch(session.uid, self._limits["scratch_mb"], self._limits["scratch_files"])
            if self._counts_apart:
                syscalls.unshare(syscalls.CLONE_NEWUSER)
        os.setsid()
        os.chdir(session.scratch)
        self._limit_resources()
        self._become(session.uid)
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        syscalls.die_with_parent()
        if not namespaced(self.tier) and os.getppid() != self._zygote:
            os._exit(1)
        if self._landlock:
            self._restrict_files(session.scratch)
        if self._filter is not None:
            self._filter.install(os.getpid())

    def _limit_resources(self) -> None:
        mebibyte = 1 << 20
        values = {
            resource.RLIMIT_AS: self._baseline + self._limits["memory_mb"] * mebibyte,
            resource.RLIMIT_CPU: self._limits["cpu_s"],
            resource.RLIMIT_FSIZE: self._limits["scratch_mb"] * mebibyte,
            resource.RLIMIT_NOFILE: self._limits["open_files"],
            resource.RLIMIT_CORE: 0,
        }
        if self._changes_user or self._counts_apart:
            values[resource.RLIMIT_NPROC] = self._limits["processes"]
        elif self.tier != "C":
            values[resource.RLIMIT_NPROC] = _share_of_processes()
        for kind, value in values.items():
            _, hard = resource.getrlimit(kind)
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)
            resource.setrlimit(kind, (value, value))

    def _become(self, uid: int) -> None:
        if self._changes_user:
            if self._capabilities:
                syscalls.prctl(syscalls.PR_SET_KEEPCAPS, 1)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        if self.tier != "C" or self._changes_user:
            syscalls.keep_capabilities(self._capabilities)

    def _restrict_files(self, scratch: str) -> None:
        rules = landlock.Ruleset(self._landlock)
        for path in self._readable:
            rules.allow(path, write=False)
        for path in (scratch, *self._devices):
            rules.allow(path, write=True)
        rules.restrict()


def _open_to_all(path: str) -> bool:
    """Whether any user may walk to `path`."""
    while path != "/":
        mode = os.stat(path).st_mode
        if not mode & (0o001 if os.path.isdir(path) else 0o004):
            return False
        path = os.path.dirname(path)
    return True


def _share_of_processes() -> int:
    """Half of what there may be: the trainer, whose user it is too, can always start more."""
    most = [resource.getrlimit(resource.RLIMIT_NPROC)[1]]
    for name in ("pid_max", "threads-max"):
        with open(f"/proc/sys/kernel/{name}") as file:
            most.append(int(file.read()))
    return min(each for each in most if each != resource.RLIM_INFINITY) // 2


def _address_space() -> int:
    """Bytes of address space that this process has mapped."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 1 << 30


def probe() -> dict[str, Any]:
    """What this machine allows, tried out; leaves this process unfit for anything else."""
    found: dict[str, Any] = {"landlock": 0, "seccomp": "", "namespaces": ""}
    try:
        found["landlock"] = landlock.abi()
        _in_child(_try_filter, found, "seccomp")
        _in_child(_try_namespaces, found, "namespaces")
    except (OSError, AttributeError) as error:
        found["seccomp"] = found["namespaces"] = str(error)
    return found


def _in_child(attempt: Any, found: dict[str, Any], name: str) -> None:
    """Run `attempt` in a child and note its complaint, "" where it has none."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
        except BaseException as error:
            os.write(writer, (str(error) or type(error).__name__).encode()[:500])
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        found[name] = file.read().decode()
    status = os.waitpid(pid, 0)[1]
    if status and not found[name]:
        found[name] = f"the attempt died with status {status}"


def _try_filter() -> None:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.Filter(may_fork=False, own_files=False).install(os.getpid())
    os.getpid()


def _try_namespaces() -> None:
    become_namespace_owner()
    pid = syscalls.fork_init()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    enter_namespaces()
    syscalls.unshare(syscalls.CLONE_NEWNS)
    rootfs.mount_scratch(os.getuid(), 1, 10)
