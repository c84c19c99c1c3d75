"""Users that nobody else has, one for each session, where we may become them."""

import functools
import os
from pathlib import Path

_MAY_CHANGE = 0b11 << 6  # CAP_SETGID, CAP_SETUID
_FAR = range(1_000_000_000, 2_000_000_000)
_NEAR = range(20_000, 60_000)  # in a container that is given 65,536 users of its own
_EACH = 1 << 14


@functools.cache
def pool() -> range | None:
    """Users that we may become and that no account has; None where there are none."""
    if os.geteuid() != 0 or not _may_change():
        return None
    return next((users for users in (_FAR, _NEAR) if all(_exists(users, kind) for kind in ("uid", "gid"))), None)


def user_of(number: int) -> int:
    """The user of session `number`; ours where we cannot become another."""
    users = pool()
    if users is None:
        return os.geteuid()
    block = os.getpid() * _EACH % len(users)  # two supervisors rarely meet
    return users[(block + number % _EACH) % len(users)]


def _may_change() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return effective & _MAY_CHANGE == _MAY_CHANGE


def _exists(users: range, kind: str) -> bool:
    """Whether all of them are users, or groups, in our user namespace."""
    rows = [list(map(int, line.split())) for line in Path(f"/proc/self/{kind}_map").read_text().splitlines()]
    return any(start <= users[0] and users[-1] < start + count for start, _, count in rows)
