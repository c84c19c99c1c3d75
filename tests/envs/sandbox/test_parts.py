"""The parts that need no process: frames, captures, the filter's program, users, wiping, profiles, verdicts."""

import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

from turngym.envs.sandbox import rootfs, scratch, seccomp, users  # noqa: E402
from turngym.envs.sandbox.process import Capture, Exchange  # noqa: E402
from turngym.envs.sandbox.profiles import profile_of  # noqa: E402
from turngym.envs.sandbox.protocol import ProtocolError, Reply, pack, read_reply  # noqa: E402
from turngym.envs.sandbox.results import Limits  # noqa: E402
from turngym.envs.sandbox.slot import Exit  # noqa: E402
from turngym.envs.sandbox.syscall_table import ALLOWED  # noqa: E402
from turngym.envs.sandbox.verdicts import judge  # noqa: E402

GOOD = [1, "ok", "", 0, 0.5, 1000]
ALLOW, EPERM, ENOSYS, KILL = 0x7FFF_0000, 0x0005_0001, 0x0005_0026, 0x8000_0000


def test_a_reply_is_read_once_it_is_whole() -> None:
    frame = pack(GOOD)
    assert [read_reply(frame[:i]) for i in range(len(frame))] == [None] * len(frame)
    assert read_reply(frame) == Reply(1, "ok", "", 0, 0.5, 1000)


@pytest.mark.parametrize(
    "data",
    [
        pack(GOOD) + b"x",
        pack(GOOD) * 2,
        b"\xff\xff\xff\xff",
        b"\0\0\0\4{nop",
        b"\0\0\xf0\0" + b"[" * 0xF000,
        pack([]),
        pack({}),
        pack(None),
        pack([*GOOD, 1]),
        pack([True, *GOOD[1:]]),
        pack([1, "fine", "", 0, 0.5, 1000]),
        pack([-1, *GOOD[1:]]),
        pack([1, "ok", "x" * 5000, 0, 0.5, 1000]),
        pack([1, "ok", "", 0, float("nan"), 1000]),
        pack([1, "ok", "", 0, -1.0, 1000]),
        pack([1, "ok", "", 1 << 40, 0.5, 1000]),
    ],
)
def test_no_other_reply_is_taken(data) -> None:
    with pytest.raises(ProtocolError):
        read_reply(data)


@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_a_capture_keeps_both_ends(pieces) -> None:
    data = bytes(range(97, 123)) * 40
    capture = Capture(100)
    for i in range(0, len(data), pieces):
        capture.feed(data[i : i + pieces])
    text, cut = capture.text()
    assert cut
    assert text == f"{data[:50].decode()}\n[... {len(data) - 100} bytes left out ...]\n{data[-50:].decode()}"
    short = Capture(100)
    short.feed(b"\xff" * 100)
    assert short.text() == ("\\xff" * 100, False)


def decide(program: list, number: int, arguments: tuple = (0, 0), arch: int | None = None) -> int:
    """Run a filter as the kernel would."""
    words = {0: number, 4: arch or seccomp._ARCHITECTURES["x86_64"], 16: arguments[0], 24: arguments[1]}
    words |= {20: arguments[0] >> 32, 28: arguments[1] >> 32}
    value, at = 0, 0
    while True:
        code, yes, no, operand = program[at]
        at += 1
        match code:
            case seccomp._LOAD:
                value = words[operand] & 0xFFFF_FFFF
            case seccomp._AND:
                value &= operand
            case seccomp._RETURN:
                return operand
            case seccomp._EQUAL:
                at += yes if value == operand else no
            case seccomp._GREATER:
                at += yes if value > operand else no
            case seccomp._ANY_BIT:
                at += yes if value & operand else no
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize("own_files", [True, False])
@pytest.mark.parametrize("may_fork", [True, False])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_decides_as_listed(machine, may_fork, own_files) -> None:
    program = seccomp._program(machine, 77, may_fork, own_files)
    arch, special = seccomp._ARCHITECTURES[machine], seccomp._CONDITIONAL[machine]
    column = 1 if machine == "x86_64" else 2
    table = {entry.split()[0]: entry.split()[column] for entry in ALLOWED.split(";")}
    allowed = {int(n) for name, n in table.items() if n != "-" and (own_files or name not in seccomp._MARKS)}

    def fate(number: int, *arguments: int) -> int:
        return decide(program, number, (*arguments, 0, 0)[:2], arch)

    for number in set(range(600)) - set(special.values()):
        assert fate(number) == (ALLOW if number in allowed else EPERM if number <= seccomp._NEWEST else ENOSYS), number
    assert fate(0x4000_0000) == ENOSYS
    assert decide(program, 0, arch=1) == KILL
    thread, fork = 0x003D_0F00, 17
    assert fate(special["clone"], thread) == ALLOW
    assert fate(special["clone"], fork) == (ALLOW if may_fork else EPERM)
    for flag in (1 << 17, 1 << 15, *(1 << bit for bit in range(25, 31))):
        assert fate(special["clone"], thread | flag) == EPERM
    assert fate(special["clone3"]) == ENOSYS
    for name in ("kill", "tgkill"):
        assert fate(special[name], 77) == ALLOW
        assert fate(special[name], 78) == (ALLOW if may_fork else EPERM)
    assert fate(special["socketpair"], 1, 1 | 0o2000000) == ALLOW
    assert fate(special["socketpair"], 1, 2) == EPERM
    assert fate(special["socketpair"], 2, 1) == EPERM
    assert [fate(special["fcntl"], 3, command) for command in (1, 2, 8, 1024)] == [ALLOW, ALLOW, EPERM, EPERM]
    assert fate(special["ioctl"], 0, 0x5412) == EPERM
    assert fate(special["ioctl"], 0, 0x5401) == ALLOW
    assert fate(special["prctl"], 1) == EPERM
    assert fate(special["prlimit64"], 0) == fate(special["prlimit64"], 77) == ALLOW
    assert fate(special["prlimit64"], 78) == EPERM
    for number in (special["utimensat"], int(table["fchmod"]), int(table["fchown"])):
        assert fate(number, 3, 0) == (ALLOW if own_files else EPERM)


def test_wiping_follows_no_link_and_minds_no_depth(tmp_path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    folder = tmp_path / "folder"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "link").symlink_to(kept)
    (folder / "a" / "link").symlink_to(kept / "file")
    os.mkfifo(folder / "pipe")
    (folder / "a" / "locked").mkdir(mode=0)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    scratch.wipe(str(folder))
    assert not folder.exists()
    assert (kept / "file").read_text() == "x"
    scratch.wipe(str(folder))


def test_usage_stops_counting(tmp_path) -> None:
    for i in range(20):
        (tmp_path / str(i)).write_bytes(bytes(5000))
    size, files = scratch.usage(str(tmp_path), 100)
    assert (size >= 100_000, files) == (True, 20)
    assert scratch.usage(str(tmp_path), 5)[1] == 6


def test_usage_takes_what_it_cannot_see_for_too_much(tmp_path) -> None:
    here = os.getcwd()
    os.chdir(tmp_path)
    for _ in range(30):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    os.chdir(here)
    assert scratch.usage(str(tmp_path), 100)[1] > 100
    scratch.wipe(str(tmp_path))


def test_our_package_is_left_out_of_what_is_readable(tmp_path) -> None:
    for name in ("one", "turngym/envs", "two"):
        (tmp_path / name).mkdir(parents=True)
    parts = rootfs._without(str(tmp_path), str(tmp_path / "turngym"))
    assert sorted(Path(part).name for part in parts) == ["one", "two"]
    assert rootfs._without(str(tmp_path), "/elsewhere") == [str(tmp_path)]
    assert rootfs._without(str(tmp_path), str(tmp_path)) == []


@pytest.mark.parametrize(
    ("code", "profile"),
    [
        ("print(1)", "stdlib"),
        ("import numpy as np", "math"),
        ("from sympy import *", "math"),
        ("import os, sympy", "math"),
        ("def f():\n    import scipy.stats", "science"),
        ("import numpy\nfrom scipy import linalg", "science"),
        ("x = 'numpy'  # import numpyro", "stdlib"),
        ("(" * 200_000, "stdlib"),
    ],
)
def test_the_profile_is_read_off_the_code(code, profile) -> None:
    assert profile_of(code) == profile


def test_every_session_has_a_user_of_its_own_or_ours() -> None:
    found = [users.user_of(number) for number in range(100)]
    assert len(set(found)) == (100 if users.pool() else 1)
    assert users.pool() or found[0] == os.geteuid()


@pytest.mark.parametrize(
    ("reply", "ended", "cause", "starved", "status"),
    [
        (GOOD, None, "", False, "ok"),
        ([1, "error", "E", 0, 0.0, 0], None, "", False, "error"),
        (GOOD, None, "timeout", False, "timeout"),
        (GOOD, Exit(-9, 0.0, 0), "output_limit", False, "output_limit"),
        (None, Exit(0, 0.0, 0), "", False, "exit"),
        (GOOD, Exit(0, 0.0, 0), "", False, "exit"),
        (None, Exit(-11, 0.0, 0), "", False, "crashed"),
        (None, Exit(-9, 0.0, 0), "", False, "killed"),
        (None, Exit(-9, 0.0, 0), "", True, "oom"),
        (None, Exit(-9, 300.0, 0), "", False, "timeout"),
        (None, Exit(None, 0.0, 0), "", False, "killed"),
        (None, None, "", False, "sandbox_error"),
    ],
)
def test_verdicts(reply, ended, cause, starved, status) -> None:
    exchange = Exchange(reply and Reply(*reply), ended, cause, Capture(10), Capture(10), lost=False)
    verdict = judge(exchange, Limits(), wall_s=1.0, starved=starved, until_exit=False)
    assert verdict.status == status
    assert verdict.alive == (ended is None and status in ("ok", "error", "timeout"))
    assert bool(verdict.detail) == (status != "ok")


def test_importing_the_sandbox_starts_nothing(run_python) -> None:
    code = "import threading; from turngym.envs.sandbox import SyncSandbox; assert threading.active_count() == 1"
    run_python("-c", code)
