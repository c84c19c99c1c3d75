"""What a caller sets and what a caller gets: limits and results, plain values without behaviour."""

from dataclasses import dataclass
from typing import Literal, get_args

Status = Literal["ok", "error", "exit", "timeout", "oom", "output_limit", "crashed", "killed", "sandbox_error"]
"""How a run ended.

`ok` the code ran to its end · `error` it raised · `exit` it left by itself (`sys.exit`, `os._exit`) · `timeout` a time
limit ended it · `oom` the kernel ended it for memory · `output_limit` it printed too much · `crashed` a signal of its
own making ended it · `killed` something else ended it (a quota, a broken protocol, a signal from outside) ·
`sandbox_error` our own part broke: nothing is known of the code, mask the sample.
"""

STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one session may use.

    Attributes:
        wall_s: Longest run where `timeout_s` is not given, in seconds of the supervisor's monotonic clock.
        grace_s: What code has between the interrupt at the limit and the kill.
        cpu_s: CPU time of a session's process over its whole life, threads together.
        memory_mb: Address space of one process on top of what its profile takes.
        slot_memory_mb: Memory of all processes of one slot together (tier A).
        processes: Processes and threads of one session (not in tiers B and C where sessions share the caller's user).
        open_files: Open files of one process.
        scratch_mb: Size of the scratch folder.
        scratch_files: Files in the scratch folder.
        output_bytes: A run that prints more, on both streams together, is killed.
        kept_bytes: What is kept of each stream: half of it from the head, half from the tail.
        code_bytes: Longest code.
    """

    wall_s: float = 5.0
    grace_s: float = 0.25
    cpu_s: int = 300
    memory_mb: int = 512
    slot_memory_mb: int = 2048
    processes: int = 32
    open_files: int = 128
    scratch_mb: int = 32
    scratch_files: int = 2048
    output_bytes: int = 4_000_000
    kept_bytes: int = 65_536
    code_bytes: int = 8_000_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name} must be above 0, got {value}")


@dataclass(frozen=True, slots=True)
class ExecResult:
    """One run of code, as the supervisor saw it.

    Status, output, exit code and times come from outside the code's process wherever it ended, and then cannot be
    forged. That a *live* session's cell ended well is the word of a process that the code shares: take it for display,
    never for reward.

    Attributes:
        status: How the run ended.
        stdout: What was printed, decoded with backslash escapes for bytes that are not UTF-8; in cell mode with the
            `repr` of a trailing expression.
        stderr: The other stream, with the traceback.
        detail: One line that says why, for every status but `ok`; "" there.
        stdout_truncated: Whether the middle of `stdout` was cut.
        stderr_truncated: Whether the middle of `stderr` was cut.
        error_type: Name of the exception's class where the code raised (by the process's own word), else "".
        exit_code: The code's own exit code, or minus the signal that ended the process; None while the session lives
            and nothing exited.
        wall_s: From the request to the end, queueing apart.
        cpu_s: CPU time of the run (by the process's own word while the session lives).
        peak_memory_mb: Largest resident memory of the process so far, its profile included.
        queue_s: Waiting and starting before the code could run.
        tier: The isolation it ran under: "A", "A-", "B" or "C".
        session_id: Which session ran it.
        seq: Number of the run within its session, from 1.
        session_alive: Whether the session can run more with its variables intact.
    """

    status: Status
    stdout: str = ""
    stderr: str = ""
    detail: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    error_type: str = ""
    exit_code: int | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0
    queue_s: float = 0.0
    tier: str = ""
    session_id: int = 0
    seq: int = 0
    session_alive: bool = False

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end."""
        return self.status == "ok"

    @property
    def valid(self) -> bool:
        """Whether this says anything about the code; False where our own part broke."""
        return self.status != "sandbox_error"

    @property
    def truncated(self) -> bool:
        """Whether the middle of either stream was cut."""
        return self.stdout_truncated or self.stderr_truncated
