"""A causal language model that also estimates values, loaded by name."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from turngym.agents import tiny
from turngym.agents.templates import TurnFormat, turn_format
from turngym.agents.trajectory import Trajectory

MODEL_NAMES = ("tiny",)


@dataclass(frozen=True)
class TokenScores:
    """What the model says of sampled tokens, concatenated over trajectories, each `(tokens,)`.

    Attributes:
        log_probs: Natural logarithm of the probability of each token.
        entropy: Entropy of the distribution that it was drawn from, in nats.
        values: The critic's estimate just before it.
    """

    log_probs: Tensor
    entropy: Tensor
    values: Tensor


class PolicyModel(nn.Module):
    """Any `transformers` causal language model with a value head on its last hidden state.

    The log-probability and the value of token j are read at position j - 1, whatever stands there.

    Args:
        lm: The language model.
        tokenizer: Its tokenizer.
        name: What to call it in messages and files.
    """

    def __init__(self, lm: Any, tokenizer: Any, name: str) -> None:
        super().__init__()
        self.lm, self.tokenizer, self.name = lm, tokenizer, name
        self.format: TurnFormat = turn_format(tokenizer)
        parameters = inspect.signature(lm.base_model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"  # renamed within transformers 5
        self.value_head = nn.Linear(lm.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)
        self.eval()

    def hidden(self, ids: Tensor, attended: Tensor, positions: Tensor, cache: DynamicCache | None = None) -> Tensor:
        """Last hidden states `(rows, new, width)` of new tokens.

        Args:
            ids: New token ids, `(rows, new)`.
            attended: 1 for real tokens, 0 for padding, over cached and new ones, `(rows, cached + new)`.
            positions: Position of each new token in its own row, `(rows, new)`.
            cache: Keys and values of earlier tokens; grows by the new ones.
        """
        output = self.lm.base_model(
            input_ids=ids,
            attention_mask=attended,
            position_ids=positions,
            use_cache=cache is not None,
            **{self._cache_argument: cache},
        )
        return output.last_hidden_state

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits in float32, from hidden states `(..., width)` to `(..., vocabulary)`."""
        return self.lm.get_output_embeddings()(hidden).float()

    def values(self, hidden: Tensor) -> Tensor:
        """The critic's estimates in float32, from hidden states `(..., width)` to `(...)`."""
        return self.value_head(hidden.to(self.value_head.weight.dtype)).squeeze(-1).float()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, without a reply's end token at their end."""
        ids = ids[:-1] if ids and ids[-1] == self.format.end else ids
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def new_cache(self) -> DynamicCache:
        """An empty store of keys and values."""
        return DynamicCache(config=self.lm.config)

    def score(self, trajectories: Sequence[Trajectory]) -> TokenScores:
        """Score every sampled token of some trajectories; differentiable.

        What all of them begin with, the instructions, is read once for all.
        """
        rows = [trajectory.ids for trajectory in trajectories]
        first = min(trajectory.policy_mask.index(1) for trajectory in trajectories)
        shared = min(shared_prefix(rows), first - 1) if len(rows) > 1 else 0
        ids, attended = pad([row[shared:] for row in rows])
        cache = self.new_cache() if shared else None
        if cache is not None:
            prefix = torch.tensor([rows[0][:shared]])
            self.hidden(prefix, torch.ones_like(prefix), torch.arange(shared)[None], cache)
            repeat_rows(cache, len(rows))
            attended = torch.cat([attended.new_ones(len(rows), shared), attended], 1)
        positions = torch.arange(shared, shared + ids.shape[1]).expand_as(ids)
        hidden = self.hidden(ids, attended, positions, cache)
        sampled = [(row, at - shared) for row, each in enumerate(trajectories) for at in each.policy_positions()]
        row, at = torch.tensor(sampled).unbind(1)
        before = hidden[row, at - 1]
        log_probs = self.logits(before).log_softmax(-1)
        return TokenScores(
            log_probs=log_probs.gather(-1, ids[row, at, None]).squeeze(-1),
            entropy=-(log_probs.exp() * log_probs).sum(-1),
            values=self.values(before),
        )


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor padded on the right with 0, and a mask, 1 on real tokens; both `(rows, longest)`."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(longest) < lengths[:, None]).long()


def shared_prefix(rows: Sequence[Sequence[int]]) -> int:
    """How many leading tokens all rows share, leaving every row at least one token of its own."""
    limit = min(map(len, rows)) - 1
    low, high = min(rows), max(rows)
    return next((at for at in range(limit) if low[at] != high[at]), max(limit, 0))


def repeat_rows(cache: DynamicCache, rows: int) -> None:
    """Turn a cache of one row into one of `rows` equal rows, without a copy where the next append makes one anyway."""
    for layer in cache.layers:
        layer.keys = layer.keys.expand(rows, -1, -1, -1)
        layer.values = layer.values.expand(rows, -1, -1, -1)


def load_policy_model(name: str, *, seed: int = 0) -> PolicyModel:
    """Load a model by name.

    Args:
        name: `tiny` (from scratch), a folder with a saved model, or a hub id.
        seed: Seed of the initial weights of `tiny` and of the value head.

    Raises:
        ValueError: If there is no such model; the message says what is allowed.
    """
    if name == "tiny":
        return PolicyModel(tiny.build_model(seed), tiny.build_tokenizer(), name)
    try:
        lm = AutoModelForCausalLM.from_pretrained(name)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        kind = "folder" if Path(name).exists() else "name"
        raise ValueError(
            f"model {name!r}: this {kind} cannot be loaded. Allowed are {', '.join(MODEL_NAMES)}, "
            f"a folder with a saved transformers model, or a hub id that this machine can reach"
        ) from error
    model = PolicyModel(lm.float(), tokenizer, name)
    _check_head(model)
    return model


@torch.inference_mode()
def _check_head(model: PolicyModel) -> None:
    """Some architectures scale or cap their logits after the head: scoring hidden states would then be wrong."""
    ids = torch.tensor([[model.format.end] * 2])
    hidden = model.hidden(ids, torch.ones_like(ids), torch.arange(2)[None])
    if not torch.allclose(model.logits(hidden), model.lm(input_ids=ids).logits.float(), atol=1e-4):
        raise ValueError(f"model {model.name!r} reshapes its logits after the output layer, which is not supported yet")
