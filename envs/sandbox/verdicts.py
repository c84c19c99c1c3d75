"""What an exchange means: pure, from what the supervisor saw to a status."""

import signal
from typing import NamedTuple

from turngym.envs.sandbox.process import Exchange
from turngym.envs.sandbox.results import Limits, Status
from turngym.envs.sandbox.slot import Exit

_CAUSES: dict[str, tuple[Status, str]] = {
    "output_limit": ("output_limit", "it printed more than {limits.output_bytes} bytes"),
    "protocol": ("killed", "it broke the protocol"),
    "quota": ("killed", "it filled its scratch folder"),
    "cancelled": ("killed", "the run was cancelled"),
}


class Verdict(NamedTuple):
    """Status, one line that says why, the exit code, and whether the session can go on."""

    status: Status
    detail: str = ""
    exit_code: int | None = None
    alive: bool = False


def judge(exchange: Exchange, limits: Limits, *, wall_s: float, starved: bool, until_exit: bool) -> Verdict:
    """How the run ended; limits and the end of the process count before anything that the process said.

    Args:
        exchange: What was seen.
        limits: In force.
        wall_s: The run's own limit.
        starved: Whether the kernel has just ended a process of this slot for memory.
        until_exit: Whether the process was to end by itself after its reply.
    """
    reply, ended = exchange.reply, exchange.exit
    alive = reply is not None and ended is None and not until_exit and exchange.cause in ("", "timeout")
    code = ended.code if ended is not None else None
    if exchange.cause == "timeout":
        return Verdict("timeout", f"still running after {wall_s:g} s", code, alive)
    if exchange.cause:
        status, detail = _CAUSES[exchange.cause]
        return Verdict(status, detail.format(limits=limits), code)
    if exchange.lost:
        return Verdict("sandbox_error", "the sandbox lost the process; this says nothing of the code")
    if ended is not None and (reply is None or not until_exit or ended.code != 0):
        return _judge_end(ended, limits, starved, reply is not None)
    if reply is None:
        return Verdict("sandbox_error", "the sandbox heard nothing")
    if reply.outcome == "exit":
        return Verdict("exit", f"it left with exit code {reply.code}", reply.code, alive)
    if reply.outcome == "ok":
        return Verdict("ok", "", code, alive)
    if reply.outcome == "error":
        return Verdict("error", f"it raised {reply.error}", 1 if until_exit else None, alive)
    return Verdict("killed", "it broke the protocol", code)


def _judge_end(ended: Exit, limits: Limits, starved: bool, replied: bool) -> Verdict:
    code = ended.code
    if code is None:
        return Verdict("killed", "its process ended", None)
    if code >= 0:
        detail = "its process left after it had replied" if replied else "its process left before the code had ended"
        return Verdict("exit", f"{detail}, with exit code {code}", code)
    if starved:
        return Verdict("oom", "the kernel ended its process for memory", code)
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and ended.cpu_s >= 0.95 * limits.cpu_s):
        return Verdict("timeout", f"it used {limits.cpu_s} s of CPU", code)
    if code == -signal.SIGKILL:
        return Verdict("killed", "something killed its process", code)
    return Verdict("crashed", f"its process died: {signal.strsignal(-code)}", code)
