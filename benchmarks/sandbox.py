"""What the sandbox costs, beside a cold interpreter, a Jupyter kernel and pydantic-monty, in one run.

    python benchmarks/sandbox.py [--repeats 40] [--sessions 64 1000] [--tier A]

Peers that are not installed are left out. Every repeat runs both sides one after the other, so that a busy machine
slows both; the table shows medians, the 99th percentile, and the ratio of the medians. Memory is what the live
sessions take on top of their warm process, proportional set size, so that shared pages count once.
"""

import argparse
import asyncio
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import gymnasium
from processes import family

from turngym.envs.sandbox import Limits, Sandbox, SyncSandbox

IMPORTS = {"stdlib": "", "math": "import numpy, sympy\n"}
CELL = "1 + 1"
BATCH = 200


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


def row(name: str, times: list[float], against: list[float] | None = None) -> None:
    times = sorted(times)
    median, tail = statistics.median(times), times[min(len(times) - 1, int(len(times) * 0.99))]
    ratio = f"{statistics.median(against) / median:9.0f}x" if against else ""
    print(f"{name:46}{median * 1e3:10.3f}{tail * 1e3:10.3f}{ratio}")


async def cold(code: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0


async def fresh(sandbox: Sandbox, profile: str, code: str) -> None:
    session = await sandbox.session(profile=profile)
    result = await session.run(code)
    assert result.ok, result
    await session.close()


async def compare_fresh(sandbox: Sandbox, repeats: int, profile: str) -> None:
    code = f"{IMPORTS[profile]}{CELL}"
    await fresh(sandbox, profile, code)
    ours, once, theirs = [], [], []
    for i in range(repeats):
        ours.append(await timed(lambda: fresh(sandbox, profile, code)))
        once.append(await timed(lambda: sandbox.run(code, profile=profile)))
        if i % 4 == 0:
            theirs.append(await timed(lambda: cold(code)))
    row(f"cold interpreter, {profile}", theirs)
    row(f"fresh session and cell, {profile}", ours, theirs)
    row(f"one-shot run, {profile}", once, theirs)


async def live(sandbox: Sandbox, repeats: int) -> list[float]:
    session = await sandbox.session(profile="math")
    await session.run(IMPORTS["math"])
    cells = [await timed(lambda: session.run(CELL)) for _ in range(repeats * 10)]
    row("cell in a live session", cells)
    branches = []
    for _ in range(repeats):
        start = time.perf_counter()
        branch = await session.branch()
        branches.append(time.perf_counter() - start)
        await branch.close()
    row(f"branch of a live session ({session.can_branch})", branches)
    row("transactional cell", [await timed(lambda: session.run(CELL, transaction=True)) for _ in range(repeats)])
    await session.close()
    return cells


def jupyter(repeats: int, ours: list[float]) -> None:
    if not importlib.util.find_spec("jupyter_client") or not importlib.util.find_spec("ipykernel"):
        print("(no jupyter_client and ipykernel installed)")
        return
    from jupyter_client.manager import start_new_kernel

    start = time.perf_counter()
    manager, client = start_new_kernel()
    begun = time.perf_counter() - start
    cells = []
    for _ in range(repeats):
        start = time.perf_counter()
        client.execute_interactive(CELL, output_hook=lambda message: None, timeout=30)
        cells.append(time.perf_counter() - start)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    row("start of a Jupyter kernel", [begun])
    row("cell in a Jupyter kernel", cells)
    print(f"{'  our live cell is cheaper by':46}{statistics.median(cells) / statistics.median(ours):20.0f}x")


def monty(repeats: int, ours: list[float]) -> None:
    if not importlib.util.find_spec("pydantic_monty"):
        print("(no pydantic-monty installed)")
        return
    import pydantic_monty

    with pydantic_monty.Monty() as pool, pool.checkout() as session:
        session.feed_run(CELL)
        cells = []
        for _ in range(repeats * 10):
            start = time.perf_counter()
            session.feed_run(CELL)
            cells.append(time.perf_counter() - start)
    row("cell in a live monty session (no CPython)", cells)
    print(f"{'  our live cell costs':46}{statistics.median(ours) / statistics.median(cells):20.1f}x")


class Stopwatch:
    """Stands before a `SyncSandbox`, or a session of it, and adds up the time that is spent behind it."""

    def __init__(self, inner: Any, spent: list[float]) -> None:
        self._inner, self._spent = inner, spent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def session(self, **settings: Any) -> "Stopwatch":
        """A session behind a stopwatch."""
        return Stopwatch(self._measured(self._inner.session, **settings), self._spent)

    def run(self, *arguments: Any, **settings: Any) -> Any:
        """What the session's `run` returns."""
        return self._measured(self._inner.run, *arguments, **settings)

    def _measured(self, work: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
        start = time.perf_counter()
        try:
            return work(*arguments, **settings)
        finally:
            self._spent[0] += time.perf_counter() - start


def environment(tier: str | None, repeats: int) -> None:
    """What `env.step` adds to the sandbox's own time, on first programs and on later ones."""
    spent = [0.0]
    first, later = [], []
    with SyncSandbox(tier=tier) as sandbox:
        env = gymnasium.make("turngym:CodeInterpreter-v0", sandbox=Stopwatch(sandbox, spent), max_turns=12)
        for seed in range(repeats):
            env.reset(seed=seed)
            for turn in range(11):
                spent[0], start = 0.0, time.perf_counter()
                env.step(f"<code>{CELL}</code>")
                took = time.perf_counter() - start
                (later if turn else first).append((took - spent[0], took))
        env.close()
    for name, pairs in (("fresh executions", first), ("live cells", later)):
        own, took = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{f'env.step alone, {name} (share)':46}{own * 1e3:10.3f}{'':10}{own / took:10.0%}")


async def throughput(sandbox: Sandbox, seconds: float) -> None:
    for profile in IMPORTS:
        gate, done, start = asyncio.Semaphore(4 * (os.cpu_count() or 1)), 0, time.perf_counter()

        async def one(profile: str = profile, gate: asyncio.Semaphore = gate) -> None:
            async with gate:
                assert (await sandbox.run(CELL, profile=profile)).ok

        while time.perf_counter() - start < seconds:
            await asyncio.gather(*(one() for _ in range(BATCH)))
            done += BATCH
        print(f"{f'fresh runs a second, {profile}':46}{done / (time.perf_counter() - start):10.0f}")


def proportional_kb(roots: list[int]) -> int:
    """Proportional set size of processes and all their descendants."""
    found = {pid for root in roots for pid in (root, *family(root))}
    total = 0
    for pid in found:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


async def many(tier: str | None, count: int) -> None:
    limits = Limits(slot_memory_mb=8192)
    async with Sandbox(tier=tier, slots=2, limits=limits, max_sessions=count) as sandbox:
        first = [await sandbox.session(profile="math") for _ in range(2)]
        roots = [slot.process.pid for slot in sandbox._all_slots()]
        before = proportional_kb(roots)
        sessions = first + list(await asyncio.gather(*(sandbox.session(profile="math") for _ in range(count - 2))))
        await asyncio.gather(*(session.run("x = 1") for session in sessions))
        each = (proportional_kb(roots) - before) / (count - 2)
        times = [await timed(lambda session=session: session.run(CELL)) for session in sessions]
        row(f"cell, {count} live sessions", times)
        print(f"{f'memory a session, {count} live (MB)':46}{each / 1024:10.1f}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each throughput")
    parser.add_argument("--sessions", type=int, nargs="*", default=[64, 1000])
    parser.add_argument("--tier", default=None)
    arguments = parser.parse_args()
    async with Sandbox(tier=arguments.tier) as sandbox:
        load, kernel = os.getloadavg()[0], os.uname().release
        print(f"tier {sandbox.tier}, {os.cpu_count()} cores, load {load:.1f}, Linux {kernel}")
        print(f"{'milliseconds':46}{'median':>10}{'p99':>10}{'ratio':>10}")
        for profile in IMPORTS:
            await compare_fresh(sandbox, arguments.repeats, profile)
        cells = await live(sandbox, arguments.repeats)
        await throughput(sandbox, arguments.seconds)
    jupyter(arguments.repeats, cells)
    monty(arguments.repeats, cells)
    await asyncio.to_thread(environment, arguments.tier, arguments.repeats)
    for count in arguments.sessions:
        await many(arguments.tier, count)


if __name__ == "__main__":
    asyncio.run(main())
