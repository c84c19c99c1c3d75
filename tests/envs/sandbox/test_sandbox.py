"""What a caller may rely on: sessions, branches, transactions, limits, concurrency, and that nothing is left."""

import asyncio
import gc
import json
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from turngym.envs.errors import SandboxError
from turngym.envs.sandbox import Limits, Sandbox, SyncSandbox, branching, default_sandbox
from turngym.envs.sandbox.protocol import pack
from turngym.envs.sandbox.tiers import explore

from .driver import family, until

TIERS = ("A", "A-", "B")
LIMITS = Limits(memory_mb=256, scratch_mb=8, kept_bytes=1000, output_bytes=200_000)
LONG_S = 60.0
"""A limit that no test is to reach."""


def obstacle(tier: str) -> str:
    try:
        return asyncio.run(explore()).obstacles[tier]
    except SandboxError as error:
        return str(error)


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    if why := obstacle(request.param):
        pytest.skip(f"tier {request.param}: {why}")
    return request.param


@pytest.fixture
def best() -> str:
    """The best isolated tier of this machine."""
    for name in TIERS:
        if not obstacle(name):
            return name
    pytest.skip(f"no isolated tier here: {obstacle('B')}")


def using(tier: str, work: Callable[[Sandbox], Awaitable[None]], **arguments) -> None:
    """Run `work` in a sandbox of its own, and see that it leaves nothing."""
    processes, descriptors = family(os.getpid()), set(os.listdir("/proc/self/fd"))

    async def main() -> None:
        async with Sandbox(tier=tier, **{"slots": 1, "limits": LIMITS, **arguments}) as sandbox:
            await asyncio.wait_for(work(sandbox), LONG_S)

    asyncio.run(main())
    gc.collect()
    assert family(os.getpid()) <= processes
    assert len(os.listdir("/proc/self/fd")) <= len(descriptors)


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    return dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())


async def kill(slot) -> None:
    """A warm process dies, and its sessions with it."""
    below = family(slot.process.pid)
    slot.process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(slot.process.wait)
    assert await until(lambda: not below & family(os.getpid()))


def test_variables_last_and_the_last_value_is_shown(tier) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session(seed=0)
        assert (session.tier, sandbox.tier, session.alive) == (tier, tier, True)
        first = await session.run("x = 20\nx + 1")
        assert (first.status, first.stdout, first.stderr, first.session_alive) == ("ok", "21\n", "", True)
        assert (first.tier, first.exit_code, first.detail, first.valid) == (tier, None, "", True)
        assert (await session.run("print(x); x;")).stdout == "20\n"
        assert (await session.run("None")).stdout == ""
        assert (await session.run("x = 3")).stdout == ""
        assert (await session.run("_ + x")).stdout == "24\n"
        assert (await session.run("x + 1", mode="script")).stdout == ""

    using(tier, work)


def test_tracebacks_quote_the_code_and_nothing_of_ours(tier) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        await session.run("def half(x):\n    return x / 0")
        result = await session.run("print('before')\nhalf(1)")
        assert (result.status, result.error_type, result.stdout) == ("error", "ZeroDivisionError", "before\n")
        assert "return x / 0" in result.stderr
        assert "<cell 1>" in result.stderr
        assert "runner.py" not in result.stderr
        assert result.stderr.startswith("Traceback (most recent call last):\n")
        magic = await session.run("%matplotlib inline\n1")
        assert "Notebook commands" in magic.stderr
        assert (await session.run("1")).ok

    using(tier, work)


@pytest.mark.parametrize(
    ("code", "exit_code"), [("import sys; sys.exit()", 0), ("exit(3)", 3), ("raise SystemExit('no')", 1)]
)
def test_exit_keeps_a_session_and_ends_a_script(best, code, exit_code) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        result = await session.run(f"x = 1\nprint('kept')\n{code}")
        assert (result.status, result.exit_code, result.stdout, result.session_alive) == (
            "exit",
            exit_code,
            "kept\n",
            True,
        )
        assert (await session.run("x")).stdout == "1\n"
        once = await sandbox.run(code)
        assert (once.status, once.exit_code, once.session_alive) == ("exit", exit_code, False)

    using(best, work)


def test_seeds_repeat_and_differ(tier) -> None:
    code = "import random\n(random.random(), hash('word'), list({'a', 'b', 'c', 'd'}))"

    async def work(sandbox: Sandbox) -> None:
        shown = []
        for seed in (1, 1, 2, None, None):
            session = await sandbox.session(seed=seed)
            shown.append((await session.run(code)).stdout)
        assert shown[0] == shown[1]
        assert len(set(shown)) == 4

    using(tier, work)


def test_numpy_is_seeded_and_preloaded(best) -> None:
    pytest.importorskip("sympy")

    async def work(sandbox: Sandbox) -> None:
        code = "import numpy; print(numpy.random.random())"
        runs = [await sandbox.run(code, seed=seed) for seed in (5, 5, 6)]
        assert runs[0].stdout == runs[1].stdout != runs[2].stdout
        session = await sandbox.session(profile="auto", code="from sympy import *")
        assert session.profile == "math"

    using(best, work)


def test_a_branch_goes_its_own_way(tier) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session(seed=3)
        assert session.can_branch == ("fork" if tier == "A" else "replay")
        await session.run("import random\nx = [random.random()]")
        twins = [await session.branch() for _ in range(3)]
        for i, twin in enumerate(twins):
            await twin.run(f"x.append({i})")
        assert [(await twin.run("x[1:]")).stdout for twin in twins] == ["[0]\n", "[1]\n", "[2]\n"]
        assert (await session.run("len(x)")).stdout == "1\n"
        assert (await twins[0].run("x[0]")).stdout == (await session.run("x[0]")).stdout
        grandchild = await twins[1].branch()
        await session.close()
        await twins[1].close()
        assert (await grandchild.run("x[1]")).stdout == "1\n"
        assert (await twins[0].run("import os; os._exit(7)")).exit_code == 7
        assert (await twins[2].run("x[1]")).stdout == "2\n"

    using(tier, work)


def test_a_branch_past_its_limit_dies_alone(tier) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        twin = await session.branch()
        deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
        result = await twin.run(deaf, timeout_s=0.2)
        assert (result.status, result.session_alive) == ("timeout", False)
        assert (await session.run("1")).ok

    using(tier, work)


DEATHS = {
    "import os; x = 2; os._exit(0)": "exit",
    "import os; x = 2; os.abort()": "crashed",
    "import signal; x = 2; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass": "timeout",
    "x = 2\nwhile True: print('x' * 1000)": "output_limit",
}


@pytest.mark.parametrize("code", DEATHS)
def test_a_transaction_rolls_back_what_kills_the_process(tier, code) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        await session.run("x = 1")
        result = await session.run(code, timeout_s=0.3, transaction=True)
        assert (result.status, result.session_alive) == (DEATHS[code], True)
        assert (await session.run("x")).stdout == "1\n"
        kept = await session.run("x = 5\n1/0", transaction=True)
        assert (kept.status, (await session.run("x")).stdout) == ("error", "5\n")

    using(tier, work)


@pytest.mark.parametrize("code", DEATHS)
def test_without_one_the_session_ends(best, code) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        result = await session.run(code, timeout_s=0.3)
        assert (result.status, result.session_alive, session.alive) == (DEATHS[code], False, False)
        after = await session.run("x")
        assert (after.status, after.session_alive) == ("killed", False)
        assert "the session has ended" in after.detail
        with pytest.raises(ValueError, match="has ended"):
            await session.branch()

    using(best, work)


def test_an_interrupt_in_time_keeps_the_session(tier) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        await session.run("x = 1")
        result = await session.run("print('so far')\nwhile True: x += 1", timeout_s=0.2)
        assert (result.status, result.stdout, result.session_alive) == ("timeout", "so far\n", True)
        assert "KeyboardInterrupt" in result.stderr
        assert (await session.run("x > 1")).stdout == "True\n"

    using(tier, work)


def test_streams_apart_with_head_and_tail(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        code = "import sys\nprint('first'); print('.' * 5000); print('last'); print('other', file=sys.stderr)"
        result = await sandbox.run(code)
        assert result.ok
        assert result.stdout.startswith("first\n...")
        assert result.stdout.endswith("..\nlast\n")
        assert "bytes left out" in result.stdout
        assert len(result.stdout) < 1100
        assert (result.stdout_truncated, result.stderr_truncated, result.truncated) == (True, False, True)
        assert result.stderr == "other\n"
        flood = await sandbox.run("while True: print('x' * 1000)")
        assert (flood.status, len(flood.stdout) < 1100) == ("output_limit", True)

    using(best, work)


def test_the_kernel_ends_the_greedy_alone() -> None:
    if why := obstacle("A"):
        pytest.skip(f"tier A: {why}")

    async def work(sandbox: Sandbox) -> None:
        neighbour, greedy = await sandbox.session(), await sandbox.session()
        await neighbour.run("x = 1")
        result = await greedy.run("x = bytearray(300 << 20)\nx[::4096] = b'x' * len(x[::4096])", timeout_s=LONG_S)
        assert (result.status, result.exit_code, result.session_alive) == ("oom", -9, False)
        assert (await neighbour.run("x")).stdout == "1\n"
        assert (await sandbox.run("import os; os.kill(os.getpid(), 9)")).status == "killed"

    using("A", work, limits=Limits(memory_mb=512, slot_memory_mb=128))


def test_what_is_printed_between_runs_is_nobodys(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        await session.run("import threading, time\ngo = threading.Event()")
        await session.run("t = threading.Thread(target=lambda: (go.wait(), print('late'))); t.start()")
        assert (await session.run("go.set(); t.join()")).stdout == "late\n"
        await session.run("t = threading.Timer(0.01, print, ['between']); t.start()")
        await asyncio.sleep(0.2)
        assert (await session.run("print('mine')")).stdout == "mine\n"

    using(best, work)


def test_a_slow_cell_slows_nobody(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        sessions = [await sandbox.session() for _ in range(16)]
        order = []

        async def run(i: int) -> None:
            code = "import time\ntime.sleep(1)" if i == 0 else "sum(range(1000))"
            assert (await sessions[i].run(code, timeout_s=LONG_S)).ok
            order.append(i)

        await asyncio.gather(*(run(i) for i in range(16)))
        assert order[-1] == 0

    using(best, work)


def test_runs_of_one_session_take_turns(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        await session.run("x = []")
        await asyncio.gather(*(session.run(f"x.append({i})") for i in range(20)))
        assert (await session.run("x == list(range(20))")).stdout == "True\n"

    using(best, work)


def test_places_are_limited_and_given_back(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        first, second = await sandbox.session(), await sandbox.session()
        waiting = asyncio.ensure_future(sandbox.session())
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done
        await first.close()
        third = await waiting
        assert (await third.run("1")).queue_s > 0.09
        assert all(run.ok for run in await asyncio.gather(*(second.run("1"), third.run("1"))))
        await second.close()
        assert all(run.ok for run in await asyncio.gather(*(sandbox.run("1") for _ in range(10))))

    using(best, work, max_sessions=2)


def test_a_dropped_session_is_ended(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        before = len(sandbox._trees)
        session = await sandbox.session()
        assert len(sandbox._trees) == before + 1
        del session
        gc.collect()
        async with asyncio.timeout(LONG_S):
            while len(sandbox._trees) > before:
                await asyncio.sleep(0.005)

    using(best, work)


def test_closing_ends_what_runs(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        one, other = await sandbox.session(), await sandbox.session()
        runs = [asyncio.ensure_future(each.run("while True: pass", timeout_s=LONG_S)) for each in (one, other)]
        await asyncio.wait(runs, timeout=0.1)
        await one.close()
        assert (await runs[0]).status == "killed"
        await sandbox.close()
        assert (await runs[1]).status in ("killed", "sandbox_error")
        with pytest.raises(ValueError, match="not open"):
            await sandbox.session()

    using(best, work)


def test_a_second_warm_process_is_nobodys_delay(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        first = await sandbox.session()
        second = await sandbox.session()
        assert first._tree.slot is second._tree.slot
        assert await until(lambda: len(sandbox._slots["stdlib"]) == 2)
        third = await sandbox.session()
        assert third._tree.slot is not first._tree.slot

    using(best, work, slots=2)


def test_a_cancelled_run_is_stopped(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.run("while True: pass", timeout_s=LONG_S), 0.1)
        assert (await session.run("1")).status == "killed"

    using(best, work)


def test_an_abandoned_transaction_leaves_nothing(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        for close_early in (False, True):
            session = await sandbox.session()
            running = asyncio.ensure_future(session.run("while True: pass", timeout_s=LONG_S, transaction=True))
            await asyncio.wait([running], timeout=0.2)
            if close_early:
                await session.close()
                assert (await running).session_alive is False
            else:
                running.cancel()
                await asyncio.wait([running])
                await session.close()
            assert await until(lambda: not sandbox._trees)

    using(best, work)


def test_a_cancelled_branch_leaves_nothing() -> None:
    if why := obstacle("A"):
        pytest.skip(f"tier A: {why}")

    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        stop = "import os, threading\nthreading.Timer(0.1, os.kill, (os.getpid(), 19)).start()"  # SIGSTOP
        await session.run(stop)
        await asyncio.sleep(0.3)
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.branch(), 0.2)
        assert len(os.listdir("/proc/self/fd")) <= before

    using("A", work)


def test_a_branch_is_nobody_elses_process() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may claim another pid, as if it had been given away again")

    async def work() -> None:
        ours, theirs = branching.endpoints()
        ours.channel.setblocking(False)
        ours.channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        claim = [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", os.getppid(), 0, 0))]
        theirs.channel.sendmsg([pack([0, "ready", "", 0, 0.0, 0])], claim)
        theirs.channel.setblocking(False)
        meeting = asyncio.ensure_future(branching._meet(ours, None))
        hello = await asyncio.get_running_loop().sock_recv(theirs.channel, 4096)
        word = json.loads(hello[4:])["seq"]
        theirs.channel.send(pack([word, "ready", "", 0, 0.0, 0]))  # from this process, not from the one claimed
        assert await meeting is None
        ours.close()
        theirs.close()

    asyncio.run(work())


def test_printing_byte_by_byte_costs_the_caller_little(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        before = time.process_time()
        result = await sandbox.run("import os\nwhile True: os.write(1, b'x')", timeout_s=1)
        assert result.status in ("timeout", "output_limit")
        assert time.process_time() - before < 0.25

    using(best, work, limits=Limits(output_bytes=100_000_000))


def test_a_dead_warm_process_is_replaced(tier) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session(seed=0)
        await session.run("import random; x = random.random()")
        before = (await session.run("x")).stdout
        (slot,) = sandbox._all_slots()
        await kill(slot)
        again = await session.run("x")  # its history, in a fresh process
        assert (again.status, again.stdout) == ("ok", before)
        assert (await sandbox.run("1")).ok

    using(tier, work)


def test_a_namespace_that_dies_is_our_failure(tier) -> None:
    if tier == "B":
        pytest.skip("tier B has no namespaces")

    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session(seed=0)
        await session.run("x = 1")
        running = asyncio.ensure_future(session.run("import time; time.sleep(1); x", timeout_s=LONG_S))
        await asyncio.wait([running], timeout=0.2)
        (slot,) = sandbox._all_slots()
        firsts = [pid for pid in family(slot.process.pid) if status(pid)["NSpid"].endswith("\t1")]
        for pid in firsts:
            os.kill(pid, signal.SIGKILL)
        result = await running
        assert (result.status, result.stdout) == ("ok", "1\n")  # done again, from the history
        assert (await session.run("import os; os.kill(os.getpid(), 9)")).status == "killed"

    using(tier, work)


def test_our_own_failure_is_ours(best, monkeypatch) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        monkeypatch.setattr("turngym.envs.sandbox.slot._BOOTSTRAP", "/nonexistent")
        for slot in sandbox._all_slots():
            await kill(slot)
        result = await session.run("1")
        assert (result.status, result.valid, result.ok) == ("sandbox_error", False, False)
        assert (await sandbox.run("1")).status == "sandbox_error"
        with pytest.raises(SandboxError):
            await sandbox.session()

    using(best, work)


def test_a_missing_library_names_its_extra(best, monkeypatch) -> None:
    async def words(slot) -> dict:
        return {"op": "broken", "why": "", "missing": "scipy"}

    async def work(sandbox: Sandbox) -> None:
        monkeypatch.setattr("turngym.envs.sandbox.slot.Slot.first_words", words)
        with pytest.raises(ImportError, match=r'scipy is not installed: run  pip install "turngym\[sandbox\]"'):
            await sandbox.session(profile="science")

    using(best, work)


def test_misuse_is_refused(best) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        for arguments, match in (({"timeout_s": 0}, "timeout_s"), ({"mode": "shell"}, "mode")):
            with pytest.raises(ValueError, match=match):
                await session.run("1", **arguments)
        await session.close()
        await session.close()
        with pytest.raises(ValueError, match="closed"):
            await session.run("1")
        with pytest.raises(ValueError, match="profile must be one of"):
            await sandbox.session(profile="torch")
        with pytest.raises(ValueError, match="seed"):
            await sandbox.session(seed=-1)

    using(best, work)
    with pytest.raises(ValueError, match="slots must be at least 1"):
        Sandbox(slots=0)
    with pytest.raises(ValueError, match="memory_mb must be above 0"):
        Limits(memory_mb=0)
    with pytest.raises(ValueError, match="tier must be one of"):
        using("D", work)


def test_tier_c_is_asked_for_by_name() -> None:
    async def work(sandbox: Sandbox) -> None:
        raise AssertionError("it was let in")

    with pytest.raises(SandboxError, match="allow_unsafe=True"):
        using("C", work)


def test_scratch_is_emptied(tier) -> None:
    async def work(sandbox: Sandbox) -> None:
        session = await sandbox.session()
        shown = await session.run("import os\nopen('f', 'w').write('x'); os.getcwd()")
        assert shown.ok
        await session.close()
        await sandbox.close()
        folder = shown.stdout.strip().strip("'")
        assert folder == "/scratch" or not Path(folder).exists()

    using(tier, work)


@pytest.fixture
def shared(best) -> Iterator[SyncSandbox]:
    with SyncSandbox(tier=best, limits=LIMITS, slots=1) as sandbox:
        yield sandbox


def test_the_facade_serves_threads(shared) -> None:
    failures = []

    def work(i: int) -> None:
        session = shared.session(seed=i)
        session.run(f"x = {i}")
        twin = session.branch()
        if (session.run("x").stdout, twin.run("x").stdout) != (f"{i}\n", f"{i}\n"):
            failures.append(i)
        twin.close()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_facade_works_inside_a_running_loop(shared) -> None:
    async def notebook() -> str:
        return shared.run("print(6 * 7)", 10).stdout

    assert asyncio.run(notebook()) == "42\n"


def test_the_facade_closes_once() -> None:
    try:
        sandbox = SyncSandbox()
    except SandboxError:
        pytest.skip(f"no isolated tier here: {obstacle('B')}")
    sandbox.close()
    sandbox.close()
    with pytest.raises(ValueError, match="closed"):
        sandbox.session()


def test_whoever_comes_while_the_facade_closes_is_sent_home(best, monkeypatch) -> None:
    shared, refused = SyncSandbox(tier=best, slots=1), []
    end = shared._end

    def come() -> None:
        with pytest.raises(ValueError, match="the sandbox is closed"):
            shared.run("1")
        refused.append(True)

    async def slowly() -> None:
        await end()
        late = threading.Thread(target=come)
        late.start()
        await asyncio.to_thread(late.join, 5)

    monkeypatch.setattr(shared, "_end", slowly)
    shared.close()
    assert refused == [True]


def test_a_forked_child_has_a_sandbox_of_its_own(best, run_python) -> None:
    code = """
import os, sys
from turngym.envs.sandbox import default_sandbox
first = default_sandbox()
session = first.session()
pid = os.fork()
if pid == 0:
    try:
        session.run("1")
    except ValueError as error:
        assert "another process" in str(error)
    first.close()
    assert default_sandbox() is not first and default_sandbox().run("print(2)").stdout == "2\\n"
    default_sandbox().close()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print(session.run("1").status)
"""
    assert run_python("-c", code) == "ok\n"


def test_one_sandbox_for_the_process(best) -> None:
    sandbox = default_sandbox()
    try:
        assert default_sandbox() is sandbox
        assert sandbox.run("print(1)").ok
    finally:
        sandbox.close()
    assert default_sandbox() is not sandbox
    default_sandbox().close()
