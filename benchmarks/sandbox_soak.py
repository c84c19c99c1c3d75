"""Thousands of runs while processes are killed at random: what is left at the end?

    python benchmarks/sandbox_soak.py [--executions 20000] [--kill-every 40] [--tier A]

Runs of all kinds (good ones, errors, crashes, loops, floods, daemons, live sessions, branches, transactions) go on side
by side. Every so many of them some process under the supervisor gets SIGKILL: a session, a warm process, the process
that makes namespaces, the first process of one. At the end no process, descriptor, control group or folder may be left,
the supervisor's memory must not have grown, and no run may have come back `ok` without having printed its token.
Exits with 1 where something did.
"""

import argparse
import asyncio
import collections
import contextlib
import glob
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from processes import family

from turngym.envs.errors import SandboxError
from turngym.envs.sandbox import ExecResult, Limits, Sandbox, Session

LIMITS = Limits(memory_mb=256, scratch_mb=8, output_bytes=200_000)
WIDTH = 8
PATIENCE_S = 120.0
GROWTH_MB = 16.0
PROGRAMS = (
    *["print('{token}')"] * 6,
    "1/0",
    "import os; os._exit(3)",
    "import ctypes; ctypes.string_at(0)",
    "import os; os.closerange(0, 99)",
    "while True: print('x' * 10_000)",
    "x = bytearray(1 << 33)",
    "import os, time\ntry:\n    if os.fork() == 0: time.sleep(1000)\nexcept OSError: pass\nprint('{token}')",
    "open('f', 'w').write('x' * 1000); print('{token}')",
)
LOOP = "while True: pass"


class Soak:
    """Counts what happens, and what must not."""

    def __init__(self, sandbox: Sandbox, kill_every: int, rng: random.Random) -> None:
        self.sandbox, self.kill_every, self.rng = sandbox, kill_every, rng
        self.seen: collections.Counter[str] = collections.Counter()
        self.kills, self.lies = 0, 0

    def note(self, result: ExecResult, token: str) -> None:
        """One more run."""
        self.seen[result.status] += 1
        self.lies += result.ok and token not in result.stdout
        if self.seen.total() % self.kill_every == 0:
            self.kill()

    def kill(self) -> None:
        """Somebody below us dies."""
        below = sorted(family(os.getpid()))
        if below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rng.choice(below), signal.SIGKILL)
                self.kills += 1

    async def once(self) -> None:
        """A run of its own."""
        token = f"{self.rng.getrandbits(64):x}"
        if self.rng.random() < 0.02:
            self.note(await self.sandbox.run(LOOP, timeout_s=0.1), "")
            return
        code = self.rng.choice(PROGRAMS).replace("{token}", token)
        result = await self.sandbox.run(code, timeout_s=20.0)
        self.note(result, token)

    async def session(self) -> None:
        """A live session with branches and transactions; closed, or only dropped."""
        try:
            session = await self.sandbox.session()
            sessions = [session]
            for _ in range(self.rng.randrange(1, 6)):
                living = [each for each in sessions if each.alive]
                if not living:
                    break
                await self.cell(self.rng.choice(living))
                if self.rng.random() < 0.3 and session.alive:
                    sessions.append(await session.branch())
        except (SandboxError, ValueError):  # ours, or a branch of a session that was killed meanwhile
            self.seen["no session"] += 1
            return
        for each in sessions[: self.rng.randrange(len(sessions) + 1)]:
            await each.close()

    async def cell(self, session: Session) -> None:
        """One cell, a transaction now and then."""
        token = f"{self.rng.getrandbits(64):x}"
        code = self.rng.choice(PROGRAMS).replace("{token}", token)
        transaction = self.rng.random() < 0.3
        self.note(await session.run(code, timeout_s=20.0, transaction=transaction), token)

    async def worker(self, executions: int) -> None:
        """Go on until all have done enough."""
        while self.seen.total() < executions:
            work = self.session() if self.rng.random() < 0.15 else self.once()
            await asyncio.wait_for(work, PATIENCE_S)


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def leftovers(descriptors: int) -> list[str]:
    """What must not be there after the sandbox has closed."""
    found = []
    if family(os.getpid()):
        found.append(f"processes {family(os.getpid())}")
    if len(os.listdir("/proc/self/fd")) > descriptors:
        found.append(f"{len(os.listdir('/proc/self/fd')) - descriptors} descriptors")
    found += glob.glob(f"/sys/fs/cgroup/**/turngym-{os.getpid()}-*", recursive=True)
    return found + glob.glob(f"{tempfile.gettempdir()}/turngym-scratch-{os.getpid()}-*")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executions", type=int, default=20_000)
    parser.add_argument("--kill-every", type=int, default=40)
    parser.add_argument("--tier", default=None)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    async with Sandbox(tier=arguments.tier) as sandbox:  # what is made once, threads among it
        await sandbox.run("1")
    descriptors, start = len(os.listdir("/proc/self/fd")), time.perf_counter()
    early = 0.0
    async with Sandbox(tier=arguments.tier, limits=LIMITS) as sandbox:
        soak = Soak(sandbox, arguments.kill_every, random.Random(arguments.seed))
        for share in (0.1, 1.0):
            await asyncio.gather(*(soak.worker(int(arguments.executions * share)) for _ in range(WIDTH)))
            early = early or resident_mb()
    growth = resident_mb() - early
    took = time.perf_counter() - start
    print(f"tier {sandbox.tier}: {soak.seen.total()} executions, {soak.kills} kills, {took:.0f} s")
    print(dict(soak.seen.most_common()))
    problems = leftovers(descriptors)
    problems += [f"{soak.lies} runs were ok without their token"] * bool(soak.lies)
    problems += [f"the supervisor grew by {growth:.1f} MB"] * (growth > GROWTH_MB)
    print("left:", problems or "nothing", f"(memory {growth:+.1f} MB since a tenth of the way)")
    sys.exit(bool(problems))


if __name__ == "__main__":
    asyncio.run(main())
