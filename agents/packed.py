"""Attention over sequences of any lengths side by side: only new tokens are forwarded, and none of them is padding.

New tokens of all sequences are forwarded as one row, one sequence after the other, so that linear layers see real
tokens alone. In between, each sequence attends to keys and values of its own. Sequences are attended to together where
what padding adds is cheaper than a call for each, as it is for small models, and one by one where it is not.

The same module still reads padded batches, for training: what is packed is told by the cache that comes with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "turngym"
_ROOM, _GROWTH = 32, 4
"""A memory that is full grows by a share of its length, 1 / `_GROWTH`, and `_ROOM` tokens."""

_CALL_COST = {"cpu": 2**19, "cuda": 2**26}
"""Multiplications that take as long as a call of attention takes at least, by kind of device."""


def accept_packed(lm: Any, name: str) -> None:
    """Let a language model read packed sequences, too; whatever else it reads it reads as before.

    Raises:
        ValueError: If its layers are of a kind that keeps more than keys and values.
    """
    config = lm.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"]) - {"full_attention", "sliding_attention"}
    if kinds or config._attn_implementation not in ("sdpa", _NAME):
        what = f"layers of {', '.join(sorted(kinds))}" if kinds else f"{config._attn_implementation} attention"
        raise ValueError(f"model {name!r} has {what}; its replies are generated with sdpa attention to all or a window")
    AttentionInterface.register(_NAME, _attend)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    lm.set_attn_implementation(_NAME)


class Slots:
    """Keys and values of sequences, a slot each; of each layer `(heads, slots, capacity, size)`.

    What a head reads of a sequence lies in one piece: small models spend most of their time reading it.
    """

    def __init__(self) -> None:
        self.count = self.capacity = 0
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def reserve(self, count: int, length: int) -> None:
        """Make room for so many sequences, and for so many tokens in each."""
        if count <= self.count and length <= self.capacity:
            return
        old = slice(None), slice(self.count), slice(self.capacity)
        self.count = max(count, self.count)
        if length > self.capacity:
            self.capacity = length + length // _GROWTH + _ROOM
        for layers in (self.keys, self.values):
            for layer, kept in enumerate(layers):
                layers[layer] = self._room(kept)
                layers[layer][old] = kept

    def copy(self, sources: Sequence[int], targets: Sequence[int], length: int) -> None:
        """Copy the first tokens of some slots to others."""
        for layer in (*self.keys, *self.values):
            layer[:, list(targets), :length] = layer[:, list(sources), :length]

    def put(self, layer: int, at: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store new keys and values of a layer, `(1, heads, tokens, size)`, at places of the flattened slots."""
        if layer == len(self.keys):
            self.keys.append(self._room(keys[0]))
            self.values.append(self._room(values[0]))
        self.keys[layer].flatten(1, 2).index_copy_(1, at, keys[0])
        self.values[layer].flatten(1, 2).index_copy_(1, at, values[0])

    def _room(self, like: Tensor) -> Tensor:
        """Zeros: what is masked out is multiplied by 0, and must be finite for that."""
        return like.new_zeros(len(like), self.count, self.capacity, like.shape[-1])

    @property
    def bytes(self) -> int:
        """Memory that is held."""
        return sum(layer.nbytes for layer in (*self.keys, *self.values))


class Span(NamedTuple):
    """New tokens of one sequence: its slot, how many tokens came before, and how many are new."""

    slot: int
    begin: int
    count: int

    @property
    def end(self) -> int:
        """How many tokens there are with the new ones."""
        return self.begin + self.count


class PackedCache(DynamicCache):
    """Where a language model puts keys and values while it reads packed tokens, and finds them again.

    Args:
        slots: Keys and values of all sequences.
        spans: The new tokens, in ascending order of their slots.
        device: Where the model is.
    """

    def __init__(self, slots: Slots, spans: Sequence[Span], device: torch.device) -> None:
        super().__init__()
        self._slots, self._spans = slots, spans
        slots.reserve(1 + spans[-1].slot, max(span.end for span in spans))
        places = [span.slot * slots.capacity + at for span in spans for at in range(span.begin, span.end)]
        self._places = torch.tensor(places, device=device)
        self._groups: list[_Group] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add the new keys and values of a layer, `(1, heads, tokens, size)`; they are returned as they came."""
        self._layer = layer_idx
        self._slots.put(layer_idx, self._places, key_states, value_states)
        return key_states, value_states

    def attend(self, query: Tensor, scale: float | None, window: int | None) -> Tensor:
        """What each new token reads off its own sequence in the present layer, `(1, heads, tokens, size)`."""
        if self._groups is None:
            cost = _CALL_COST.get(query.device.type, 0) // (query.shape[1] * query.shape[3])
            self._groups = [_Group(spans, query) for spans in _grouped(self._spans, cost)]
        keys, values = self._slots.keys[self._layer], self._slots.values[self._layer]
        grouped = len(keys) != query.shape[1]
        parts = query.split([group.tokens for group in self._groups], 2)
        read = [
            group.unpadded(
                scaled_dot_product_attention(
                    group.padded(part),
                    keys[:, group.slots, : group.length].transpose(0, 1),
                    values[:, group.slots, : group.length].transpose(0, 1),
                    attn_mask=group.mask(window),
                    is_causal=group.is_causal(window),
                    scale=scale,
                    enable_gqa=grouped,
                )
            )
            for group, part in zip(self._groups, parts, strict=True)
        ]
        return torch.cat(read, 2) if len(read) > 1 else read[0]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """0: positions are told, and each sequence has its own."""
        return 0


def _grouped(spans: Sequence[Span], call: int) -> list[list[Span]]:
    """Cut spans into groups that are attended to together: padding in them costs less than the calls it spares.

    Args:
        spans: In ascending order of their slots.
        call: How many scores take as long to compute as a call takes at least.
    """
    groups: list[list[Span]] = []
    cost = width = length = 0
    for span in spans:
        wider, longer = max(width, span.count), max(length, span.end)
        together = (1 + span.slot - groups[-1][0].slot) * wider * longer if groups else 0
        if groups and together - cost <= call + span.count * span.end:
            groups[-1].append(span)
            cost, width, length = together, wider, longer
        else:
            groups.append([span])
            width, length = span.count, span.end
            cost = width * length
    return groups


@dataclass
class _Group:
    """Sequences that are attended to together, padded to the longest, with all slots from the first to the last."""

    spans: list[Span]
    like: Tensor

    def __post_init__(self) -> None:
        first = self.spans[0].slot
        self.slots = slice(first, 1 + self.spans[-1].slot)
        self.rows = self.slots.stop - first
        self.width = max(span.count for span in self.spans)
        self.length = max(span.end for span in self.spans)
        self.tokens = sum(span.count for span in self.spans)
        self._is_full = self.tokens == self.rows * self.width
        self._masks: dict[int | None, Tensor | None] = {}

    def padded(self, packed: Tensor) -> Tensor:
        """From `(1, heads, tokens, size)` to `(rows, heads, width, size)`."""
        rows = packed[0] if self._is_full else packed[0].index_select(1, self._sources)
        return rows.unflatten(1, (self.rows, self.width)).transpose(0, 1)

    def unpadded(self, padded: Tensor) -> Tensor:
        """From `(rows, heads, width, size)` to `(1, heads, tokens, size)`."""
        packed = padded.transpose(0, 1).flatten(1, 2)
        return (packed if self._is_full else packed.index_select(1, self._targets))[None]

    def is_causal(self, window: int | None) -> bool:
        """Whether the upper triangle is all that is hidden, so that no mask need say it."""
        return self.width > 1 and self.mask(window) is None

    def mask(self, window: int | None) -> Tensor | None:
        """What is added to the scores, `(rows, 1, width, length)`: 0, or -inf for what a token must not see."""
        if window not in self._masks:
            self._masks[window] = self._mask(window)
        return self._masks[window]

    def _mask(self, window: int | None) -> Tensor | None:
        alike = len({(span.begin, span.count) for span in self.spans}) == 1 and self._is_full
        if (window is None or self.length <= window) and alike and (self.width == 1 or self.spans[0].begin == 0):
            return None
        device = self.like.device
        begins = torch.zeros(self.rows, dtype=torch.long)
        begins[[span.slot - self.slots.start for span in self.spans]] = torch.tensor([s.begin for s in self.spans])
        asking = begins.to(device)[:, None, None] + torch.arange(self.width, device=device)[:, None]
        distance = asking - torch.arange(self.length, device=device)
        hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
        mask = torch.zeros(hidden.shape, dtype=self.like.dtype, device=device)
        return mask.masked_fill_(hidden, -torch.inf)[:, None]

    @cached_property
    def _targets(self) -> Tensor:
        """Where each token stands among the padded ones."""
        first = self.slots.start
        return self._index([(s.slot - first) * self.width + at for s in self.spans for at in range(s.count)])

    @cached_property
    def _sources(self) -> Tensor:
        """Which token stands at each padded place; where none does, the first, which nobody reads there."""
        sources = torch.zeros(self.rows * self.width, dtype=torch.long, device=self.like.device)
        return sources.scatter_(0, self._targets, torch.arange(self.tokens, device=self.like.device))

    def _index(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, device=self.like.device)


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *args: Any,
    packed: PackedCache | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of a layer, as transformers calls it."""
    if packed is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, *args, **kwargs)
    read = packed.attend(query, kwargs.get("scaling"), kwargs.get("sliding_window"))
    return read.transpose(1, 2), None
