"""Runs the hostile programs under one tier, as whoever it is started as: `python driver.py TIER`.

Prints one JSON object: the user, the tier, or why the tier cannot be had, and the outcome of every row.
"""

import asyncio
import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turngym.envs.errors import SandboxError
from turngym.envs.sandbox import ExecResult, Limits, Sandbox, cgroups, scratch

LIMITS = Limits(memory_mb=256, slot_memory_mb=512, scratch_mb=8, scratch_files=1000, output_bytes=2_000_000)
PATIENCE_S = 10.0
SUPERVISOR = """
import asyncio, os, sys
from turngym.envs.sandbox import Sandbox
async def main():
    async with Sandbox(tier=sys.argv[1], slots=1, allow_unsafe=True) as sandbox:
        session = await sandbox.session()
        print("up", flush=True)
        await session.run("while True: pass", timeout_s=1000)
asyncio.run(main())
"""


def _hostile():
    """The table; this file also runs outside any package."""
    spec = importlib.util.spec_from_file_location("hostile", Path(__file__).with_name("hostile.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def family(root: int) -> set[int]:
    """All living descendants of a process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            parents[int(stat.parent.name)] = int(fields[1])
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | {root}} - found:
        found |= more
    return found


async def until(condition) -> bool:
    """Wait for the host to settle; whether it did."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


class Bait:
    """What a program would like to get at."""

    def __init__(self) -> None:
        self.secret = secrets.token_hex(16)
        os.environ["TURNGYM_BAIT"] = self.secret
        self.folder = tempfile.mkdtemp(prefix="bait-")
        os.chmod(self.folder, 0o777)
        self.file = Path(self.folder, "public")
        self.file.write_text(self.secret)
        self.file.chmod(0o666)
        self.victim = subprocess.Popen(["sleep", "1000"])
        self.tcp = socket.create_server(("127.0.0.1", 0))
        port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", port))
        self.udp.setblocking(False)
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(b"\0" + self.secret.encode())
        self.abstract.listen()
        self.path = f"{self.folder}/socket"
        self.unix = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.unix.bind(self.path)
        os.chmod(self.path, 0o777)
        self.words = {
            "SECRET": self.secret,
            "FOLDER": self.folder,
            "FILE": str(self.file),
            "VICTIM": str(self.victim.pid),
            "PORT": str(port),
            "ABSTRACT": self.secret,
            "SOCKET": self.path,
            "JUDGE": __file__,
        }

    def fill(self, code: str) -> str:
        """The program with the bait's whereabouts in it."""
        for name, value in self.words.items():
            code = code.replace(f"@{name}@", value)
        return code

    def touched(self) -> bool:
        """Whether something got at it."""
        try:
            self.udp.recv(1)
            return True
        except BlockingIOError:
            pass
        left = {path.name for path in Path(self.folder).iterdir()} != {"public", "socket"}
        return left or self.file.read_text() != self.secret or self.file.stat().st_mode & 0o777 != 0o666

    def remove(self) -> None:
        self.victim.kill()
        self.victim.wait()
        for each in (self.tcp, self.udp, self.abstract, self.unix):
            each.close()
        for path in Path(self.folder).iterdir():
            path.unlink()
        os.rmdir(self.folder)


def outcome(result: ExecResult) -> str:
    """Status, exception, and what the program said of it."""
    words = [result.status]
    if result.status == "error":
        words.append(result.error_type)
    words += [mark.lower() for mark in ("HELD", "BREACH") if mark in result.stdout.split()]
    return " ".join(words)


class Driver:
    """One sandbox, one bait, all rows."""

    def __init__(self, sandbox: Sandbox, bait: Bait, prelude: str) -> None:
        self.sandbox, self.bait, self.prelude = sandbox, bait, prelude

    async def run(self, program) -> tuple[str, str]:
        """The outcome of a row, and what else there is to say."""
        before, warm = family(os.getpid()), self._warm()
        how = getattr(self, f"_{program.how}")
        codes = (program.code,) if isinstance(program.code, str) else program.code
        try:
            found, detail = await how(program, [self.bait.fill(code) for code in codes])
        except Exception as error:
            return f"driver {type(error).__name__}", str(error)
        return found + await self._afterwards(program.after, len(before), warm), detail

    def _warm(self) -> set[int]:
        return {slot.process.pid for slot in self.sandbox._all_slots() if slot.config["profile"] == "stdlib"}

    async def _afterwards(self, after: str, before: int, warm: set[int]) -> str:
        if after == "victim" and self.bait.victim.poll() is not None:
            return " victim dead"
        if after == "bait" and self.bait.touched():
            return " bait touched"
        if after == "clean" and not await until(lambda: len(family(os.getpid())) <= before and self._wiped()):
            return f" left behind {len(family(os.getpid())) - before}"
        if after == "zygote" and self._warm() != warm:
            return " warm process dead"
        return ""

    def _wiped(self) -> bool:
        scratch = self.sandbox._scratch
        return scratch is None or not os.listdir(scratch._path)

    async def _script(self, program, codes) -> tuple[str, str]:
        result = await self._once(self.prelude + codes[0], program)
        return outcome(result), result.detail or result.stdout[:300]

    async def _once(self, code: str, program) -> ExecResult:
        return await self.sandbox.run(code, profile=program.profile, timeout_s=program.timeout_s)

    async def _cells(self, program, codes) -> tuple[str, str]:
        session = await self.sandbox.session(profile=program.profile)
        for code in (self.prelude, *codes):
            result = await session.run(code, timeout_s=program.timeout_s)
        await session.close()
        return outcome(result), result.detail or result.stdout[:300]

    async def _idle(self, program, codes) -> tuple[str, str]:
        session = await self.sandbox.session(profile=program.profile)
        for code in (self.prelude, codes[0]):
            await session.run(code)
        await asyncio.sleep(2)
        result = await session.run(codes[1])
        await session.close()
        return outcome(result), result.detail or result.stdout[:300]

    async def _runs(self, program, codes) -> tuple[str, str]:
        for code in codes:
            result = await self._once(self.prelude + code, program)
        return outcome(result), result.detail or result.stdout[:300]

    async def _pair(self, program, codes) -> tuple[str, str]:
        sessions = [await self.sandbox.session(profile=program.profile) for _ in codes]
        for session, code in zip(sessions, codes, strict=True):
            await session.run(self.prelude)
            result = await session.run(code, timeout_s=program.timeout_s)
        for session in sessions:
            await session.close()
        return outcome(result), result.detail or result.stdout[:300]

    async def _differ(self, program, codes) -> tuple[str, str]:
        one, other = [await self._once(codes[0], program) for _ in range(2)]
        return ("ok" if one.ok and other.ok and one.stdout != other.stdout else "same"), one.detail or one.stdout

    async def _orphans(self, program, codes) -> tuple[str, str]:
        command = [sys.executable, "-c", SUPERVISOR, self.sandbox.tier]
        supervisor = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        await supervisor.stdout.readline()
        below = family(supervisor.pid)
        supervisor.send_signal(signal.SIGKILL)
        await supervisor.wait()
        gone = await until(lambda: not {pid for pid in below if _lives(pid)})
        # What is no process waits for the next sandbox.
        scratch.ScratchRoot().remove()
        cgroups.available()
        left = [*Path(tempfile.gettempdir()).glob(f"turngym-scratch-{supervisor.pid}-*")]
        left += Path("/sys/fs/cgroup").glob(f"**/turngym-{supervisor.pid}-*")
        held = below and gone and not left
        return ("ok held" if held else "ok breach"), f"{len(below)} processes, {left} left"

    async def _soak(self, program, codes) -> tuple[str, str]:
        kinds = (
            "1",
            "1/0",
            "import os; os._exit(1)",
            "import ctypes; ctypes.string_at(0)",
            "import os; os.closerange(0, 99)",
        )
        runs = await asyncio.gather(*(self.sandbox.run(kinds[i % len(kinds)]) for i in range(100)))
        seen = {(run.status) for run in runs}
        good = seen == {"ok", "error", "exit", "crashed"}
        return ("ok held" if good else "ok breach"), str(seen)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


async def main(tier: str) -> dict:
    table = _hostile()
    programs = [p for p in table.PROGRAMS if tier != "C" or p.row in table.HARMLESS]
    bait = Bait()
    try:
        async with Sandbox(tier=tier, limits=LIMITS, slots=1, allow_unsafe=True) as sandbox:
            driver = Driver(sandbox, bait, table.PRELUDE)
            await sandbox.run("1", profile="math")
            await sandbox.run("1", profile="stdlib")
            turn = asyncio.Semaphore(3)

            async def one(program):
                async with turn:
                    return program.row, await driver.run(program)

            alone = [(p.row, await driver.run(p)) for p in programs if p.after]
            rest = await asyncio.gather(*(one(p) for p in programs if not p.after))
            found = dict([*alone, *rest])
        left = family(os.getpid()) - {bait.victim.pid}
        return {"tier": sandbox.tier, "uid": os.geteuid(), "left": sorted(left), "rows": found}
    except (SandboxError, ImportError) as error:
        return {"missing": str(error)}
    finally:
        bait.remove()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
