"""Growing token sequences side by side, with keys and values kept: no token is forwarded twice."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turngym.agents.models import PolicyModel
from turngym.agents.packed import PackedCache, Slots, Span

_WORTH_WAITING = 32
"""A sequence waits for another that begins alike where that spares it so many tokens: a forward pass costs as much."""


@dataclass
class Tally:
    """What was read so far.

    Attributes:
        tokens: Forwarded tokens. None of them is padding.
        passes: Forward passes.
        shared: Tokens whose keys and values were taken over from a sequence that begins alike.
    """

    tokens: int = 0
    passes: int = 0
    shared: int = 0


class _Sequence:
    """Ids, of which the first `length` have been read, and the hidden state at the end of those."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.length = 0
        self.slot = -1
        self.hidden: Tensor | None = None


class CachedSequences:
    """Token sequences that only ever grow, are read side by side, and come and go.

    All that is new of some sequences is forwarded at once, without padding. A sequence that begins like one that has
    been read, be it gone or not, takes its keys and values over; of several new ones that begin alike one reads for
    all.

    Args:
        model: The model that reads.
    """

    def __init__(self, model: PolicyModel) -> None:
        self._model = model
        self._sequences: dict[int, _Sequence] = {}
        self._left: list[_Sequence] = []  # their slots are free, and what is in them still good
        self._slots, self._used = Slots(), 0
        self.tally = Tally()

    def append(self, name: int, ids: Sequence[int]) -> None:
        """Add tokens to a sequence, which begins with its first ones. They are read later."""
        if name not in self._sequences:
            self._sequences[name] = _Sequence()
        self._sequences[name].ids += ids

    def ids(self, name: int) -> list[int]:
        """The tokens of a sequence, read or not."""
        return list(self._sequences[name].ids)

    def release(self, name: int) -> None:
        """Say that a sequence has ended, so that others may have its memory."""
        sequence = self._sequences.pop(name)
        del sequence.ids[sequence.length :]
        if sequence.length:
            self._left.append(sequence)

    @torch.inference_mode()
    def read(self, names: Sequence[int]) -> Tensor:
        """Forward what is new of some sequences.

        Returns:
            The hidden state at the end of each, `(names, width)`.
        """
        wanted = [self._sequences[name] for name in names]
        unread = [each for each in wanted if each.length < len(each.ids)]
        while unread:
            fresh = [each for each in unread if each.length == 0]
            waiting = self._begin(fresh) if fresh else []
            self._forward([each for each in unread if each not in waiting])
            unread = waiting
        return torch.stack([each.hidden for each in wanted])  # type: ignore[misc]

    def memory(self) -> int:
        """Bytes that hold keys and values, room to grow included."""
        return self._slots.bytes

    def _begin(self, fresh: list[_Sequence]) -> list[_Sequence]:
        """Let new sequences take over what others have read; returns those that wait for another one of them.

        Among sorted sequences, the one that shares most with another stands next to it.
        """
        known = [each for each in (*self._sequences.values(), *self._left) if each.length]
        known.sort(key=lambda each: each.ids)
        begun: dict[_Sequence, tuple[_Sequence | None, int]] = {}
        waiting, before = list[_Sequence](), list[int]()
        for each in sorted(fresh, key=lambda each: each.ids):
            source, shared = _closest(each.ids, known)
            if before and _common(each.ids, before) >= shared + _WORTH_WAITING:
                waiting.append(each)
            else:
                begun[each] = source, shared
            before = each.ids
        self._take_over(begun)
        return waiting

    def _take_over(self, begun: dict[_Sequence, tuple[_Sequence | None, int]]) -> None:
        """Copy what is shared; the slot of a source that has ended goes to the first that wants it, as it is."""
        left, heirs = set(self._left), dict[_Sequence, _Sequence]()
        for each, (source, _) in begun.items():
            if source in left:
                heirs.setdefault(source, each)
        spare = [each for each in self._left if each not in heirs]
        copies: dict[int, list[tuple[int, int]]] = {}
        for each, (source, each.length) in begun.items():
            if source is not None and heirs.get(source) is each:
                each.slot = source.slot
                continue
            each.slot = spare.pop().slot if spare else self._new_slot()
            if source is not None:
                copies.setdefault(each.length, []).append((source.slot, each.slot))
        self._slots.reserve(self._used, max(copies, default=0))
        for length, pairs in copies.items():
            self._slots.copy(*zip(*pairs, strict=True), length)
        self._left = spare
        self.tally.shared += sum(shared for _, shared in begun.values())

    def _new_slot(self) -> int:
        self._used += 1
        return self._used - 1

    def _forward(self, sequences: list[_Sequence]) -> None:
        sequences = sorted(sequences, key=lambda each: each.slot)
        spans = [Span(each.slot, each.length, len(each.ids) - each.length) for each in sequences]
        ids = [token for each in sequences for token in each.ids[each.length :]]
        positions = [at for span in spans for at in range(span.begin, span.end)]
        device = self._model.device
        cache = PackedCache(self._slots, spans, device)
        hidden = self._model.hidden_packed(
            torch.tensor(ids, device=device), torch.tensor(positions, device=device), cache
        )
        ends = torch.tensor([span.count for span in spans], device=device).cumsum(0) - 1
        for each, last in zip(sequences, hidden[ends].unbind(0), strict=True):
            each.hidden, each.length = last, len(each.ids)
        self.tally.tokens += len(ids)
        self.tally.passes += 1


def _closest(ids: list[int], known: list[_Sequence]) -> tuple[_Sequence | None, int]:
    """Of sorted sequences, the one that shares most with `ids`, and how much; at least one token is left to be read."""
    at = bisect_left(known, ids, key=lambda each: each.ids)
    best: tuple[_Sequence | None, int] = (None, 0)
    for each in known[max(at - 1, 0) : at + 1]:
        shared = min(_common(ids, each.ids), each.length, len(ids) - 1)
        if shared > best[1]:
            best = each, shared
    return best


def _common(one: list[int], other: list[int]) -> int:
    """How many leading tokens are the same."""
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    return bisect_left(range(limit), True, key=lambda count: one[: count + 1] != other[: count + 1])
