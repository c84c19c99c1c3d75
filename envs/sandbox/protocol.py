"""Frames between the supervisor and a session: four bytes of length, then JSON. Never pickle.

What comes back was written by a process that the model's code shares, so it is read with suspicion: short, of one
exact shape, one at a time.
"""

import json
import struct
from typing import Any, NamedTuple

MAX_REPLY_BYTES = 65_536
_HEADER = struct.Struct(">I")
HEADER_BYTES = _HEADER.size
_OUTCOMES = ("ready", "branched", "ok", "error", "exit", "failed")


class ProtocolError(Exception):
    """A frame that no honest session sends."""


class Reply(NamedTuple):
    """What a session says of itself: a hint.

    Attributes:
        seq: The request it answers.
        outcome: "ready", "branched" or "failed" (to start, to fork); else how the code ended.
        error: Name of the exception's class, or why it failed.
        code: Exit code asked for, where the outcome is "exit".
        cpu_s: CPU time of this run.
        rss_kb: Largest resident memory so far.
    """

    seq: int
    outcome: str
    error: str = ""
    code: int = 0
    cpu_s: float = 0.0
    rss_kb: int = 0


def pack(value: Any) -> bytes:
    """A frame of any JSON value."""
    body = json.dumps(value).encode()
    return _HEADER.pack(len(body)) + body


def frame_length(data: bytes | bytearray) -> int | None:
    """How long the frame that `data` begins with is, header included; None while that cannot be told."""
    return None if len(data) < HEADER_BYTES else HEADER_BYTES + int(_HEADER.unpack_from(data)[0])


def read_reply(data: bytes | bytearray) -> Reply | None:
    """The one reply that `data` holds, or None while it is incomplete.

    Raises:
        ProtocolError: If it is too long, of another shape, or followed by anything.
    """
    length = frame_length(data)
    if length is not None and length > MAX_REPLY_BYTES:
        raise ProtocolError(f"a reply of {length} bytes")
    if length is None or len(data) < length:
        return None
    if len(data) > length:
        raise ProtocolError("more than one reply")
    try:
        value = json.loads(bytes(data[HEADER_BYTES:]))
    except (ValueError, RecursionError):
        raise ProtocolError("a reply that is not JSON") from None
    return _checked(value)


def _checked(value: Any) -> Reply:
    kinds = (int, str, str, int, float, int)
    if type(value) is not list or len(value) != len(kinds):
        raise ProtocolError("a reply of another shape")
    for item, kind in zip(value, kinds, strict=True):
        if type(item) is not kind:
            raise ProtocolError("a reply of other types")
    reply = Reply(*value)
    honest = reply.outcome in _OUTCOMES and len(reply.error) <= 4096 and 0 <= reply.seq < 1 << 53
    if not honest or not 0 <= reply.cpu_s < 1e9 or not 0 <= reply.rss_kb < 1 << 40 or abs(reply.code) > 1 << 31:
        raise ProtocolError("a reply out of range")
    return reply
