"""Growing token sequences side by side, with keys and values kept: no token is forwarded twice."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from turngym.agents.models import PolicyModel, repeat_rows, shared_prefix


class CachedRows:
    """A batch of token sequences that only ever grow.

    New tokens of all rows are forwarded in one block, shorter ones padded on the left and masked; a row keeps its own
    positions, so padding changes no number that matters.

    Args:
        model: The model that reads.
        rows: How many sequences.
    """

    def __init__(self, model: PolicyModel, rows: int) -> None:
        self._model = model
        self._cache = model.new_cache()
        self._cache.layers = [RoomyLayer() if type(each) is DynamicLayer else each for each in self._cache.layers]
        self._attended = torch.zeros(rows, 0, dtype=torch.long)
        self.hidden = torch.zeros(rows, model.value_head.in_features)
        """Hidden state at the last token of each row, `(rows, width)`."""

    def __len__(self) -> int:
        return len(self._attended)

    @torch.inference_mode()
    def extend(self, tokens: Sequence[Sequence[int]]) -> None:
        """Append tokens, any number a row, none included, and read them."""
        width = max(map(len, tokens))
        if width == 0:
            return
        if len(self._attended[0]) == 0:
            tokens = self._read_shared(tokens)
            width = max(map(len, tokens))
        ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in tokens])
        new = (torch.arange(width) >= width - torch.tensor([len(row) for row in tokens])[:, None]).long()
        positions = (self._attended.sum(1, keepdim=True) + new.cumsum(1) - 1).clamp(min=0)
        self._attended = torch.cat([self._attended, new], 1)
        last = self._model.hidden(ids, self._attended, positions, self._cache)[:, -1]
        self.hidden = torch.where(new[:, -1:].bool(), last, self.hidden)

    def _read_shared(self, tokens: Sequence[Sequence[int]]) -> list[list[int]]:
        """Read what all rows begin with once for all of them, and return what is left of each."""
        shared = shared_prefix(tokens)
        if shared == 0 or len(tokens) == 1:
            return [list(row) for row in tokens]
        ids = torch.tensor([list(tokens[0][:shared])])
        attended = torch.ones_like(ids)
        self._model.hidden(ids, attended, torch.arange(shared)[None], self._cache)
        repeat_rows(self._cache, len(tokens))
        self._attended = attended.repeat(len(tokens), 1)
        return [list(row[shared:]) for row in tokens]

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """Drop all rows but these, in this order."""
        index = torch.tensor(list(rows))
        self._cache.batch_select_indices(index)
        self._attended, self.hidden = self._attended[index], self.hidden[index]


class RoomyLayer(DynamicLayer):
    """Keys and values of one layer, in buffers with room to grow: appending copies what is new, not what is there.

    For inference alone: what is appended overwrites memory that earlier views share.
    """

    def __init__(self) -> None:
        super().__init__()
        self._rooms: dict[str, Tensor] = {}

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append new keys and values, `(rows, heads, new, size)`; returns all of them, `(rows, heads, all, size)`."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.keys = self._appended("keys", self.keys, key_states)
        self.values = self._appended("values", self.values, value_states)
        return self.keys, self.values

    def _appended(self, name: str, old: Tensor, new: Tensor) -> Tensor:
        length = old.shape[-2] if old.numel() else 0
        total, room = length + new.shape[-2], self._rooms.get(name)
        if room is None or room.shape[-2] < total or not _lies_in(old, room):
            room = self._rooms[name] = new.new_empty(*new.shape[:-2], total + total // 2 + 32, new.shape[-1])
            if length:
                room[..., :length, :] = old
        room[..., length:total, :] = new
        return room[..., :total, :]


def _lies_in(part: Tensor, room: Tensor) -> bool:
    """Whether `part` is still the beginning of `room`: others replace it to drop, repeat or reorder rows."""
    return part.data_ptr() == room.data_ptr() and part.stride() == room.stride() and part.shape[:-2] == room.shape[:-2]


def sample(logits: Tensor, uniforms: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Draw one token a row by inverting the distribution function.

    Args:
        logits: `(rows, vocabulary)`.
        uniforms: One number in [0, 1) a row, float64: a row's draw does not depend on the other rows.
        temperature: Divides the logits; 0 takes the likeliest token.

    Returns:
        Tokens `(rows,)`, and the log-probabilities `(rows,)` with which they were drawn (at temperature 0, those of
        temperature 1).
    """
    log_probs = (logits / temperature if temperature > 0 else logits).log_softmax(-1)
    if temperature > 0:
        mass = log_probs.double().exp().cumsum(-1)
        tokens = torch.searchsorted(mass, (uniforms * mass[:, -1])[:, None], right=True).squeeze(1)
        tokens = tokens.clamp(max=logits.shape[-1] - 1)
    else:
        tokens = log_probs.argmax(-1)
    return tokens, log_probs.gather(-1, tokens[:, None]).squeeze(-1)
