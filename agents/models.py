"""A causal language model that also estimates values, loaded by name."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.modeling_layers import GradientCheckpointingLayer

from turngym.agents import smollm2, tiny
from turngym.agents.packed import PackedCache, accept_packed
from turngym.agents.templates import TurnFormat, turn_format
from turngym.agents.trajectory import Trajectory
from turngym.lazy import require
from turngym.wrappers.tool_formats import tool_format as named_tool_format

MODEL_NAMES = ("tiny", "smollm2-135m")
_MOST_LOGITS = 2**24
"""Most logits that exist at a time while sampled tokens are scored: 64 MiB of them."""

_RECOMPUTE = {"use_reentrant": False, "preserve_rng_state": False}  # nothing drops out


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
        form: How it writes conversations; by default what its chat template says.
    """

    def __init__(self, lm: Any, tokenizer: Any, name: str, form: TurnFormat | None = None) -> None:
        super().__init__()
        self.lm, self.tokenizer, self.name = lm, tokenizer, name
        self.format: TurnFormat = form or turn_format(tokenizer)
        parameters = inspect.signature(lm.base_model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"  # renamed within transformers 5
        self.value_head = nn.Linear(lm.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)
        self._forgetful: list[nn.Module] = []  # layers that are computed again for their gradients
        accept_packed(lm, name)
        self.eval()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.value_head.weight.device

    @property
    def max_tokens(self) -> int:
        """How many positions the model has."""
        return int(getattr(self.lm.config.get_text_config(), "max_position_embeddings", None) or 2**31)

    def checkpoint_gradients(self) -> None:
        """From now on keep no activations inside layers for the gradients of `score`, but compute them again.

        Raises:
            ValueError: If the architecture cannot do that.
        """
        self._forgetful = [each for each in self.lm.modules() if isinstance(each, GradientCheckpointingLayer)]
        if not self._forgetful:
            raise ValueError(f"model {self.name!r}: this architecture has no gradient checkpointing")
        for layer in self._forgetful:
            layer.gradient_checkpointing, layer._gradient_checkpointing_func = True, partial(checkpoint, **_RECOMPUTE)

    def hidden(self, ids: Tensor, attended: Tensor, positions: Tensor, cache: DynamicCache | None = None) -> Tensor:
        """Last hidden states `(rows, new, width)` of new tokens.

        Args:
            ids: New token ids, `(rows, new)`.
            attended: 1 for real tokens, 0 for padding, over cached and new ones, `(rows, cached + new)`.
            positions: Position of each new token in its own row, `(rows, new)`.
            cache: Keys and values of earlier tokens; grows by the new ones.
        """
        for layer in self._forgetful:  # the layers alone, so that nothing inside them drops out
            layer.training = cache is None
        output = self.lm.base_model(
            input_ids=ids,
            attention_mask=attended,
            position_ids=positions,
            use_cache=cache is not None,
            **{self._cache_argument: cache},
        )
        return output.last_hidden_state

    def hidden_packed(self, ids: Tensor, positions: Tensor, cache: PackedCache) -> Tensor:
        """Last hidden states `(new, width)` of new tokens of several sequences, one sequence after the other.

        Args:
            ids: New token ids, `(new,)`.
            positions: Position of each in its own sequence, `(new,)`.
            cache: The sequences, and how many tokens of each are new; keys and values are added to them.
        """
        for layer in self._forgetful:
            layer.training = False
        output = self.lm.base_model(
            input_ids=ids[None],
            attention_mask=ids.new_ones(1, 1, 1, 1),  # of four dimensions, so that no mask is made
            position_ids=positions[None],
            use_cache=True,
            packed=cache,
            **{self._cache_argument: cache},
        )
        return output.last_hidden_state[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits, from `(..., width)` to `(..., vocabulary)`; float32, or float64 of a float64 model."""
        head = self.lm.get_output_embeddings()
        return _at_least_float32(head(hidden.to(head.weight.dtype)))

    def values(self, hidden: Tensor) -> Tensor:
        """The critic's estimates in float32, from hidden states `(..., width)` to `(...)`."""
        return _at_least_float32(self.value_head(hidden.to(self.value_head.weight.dtype)).squeeze(-1))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, without a reply's end token at their end."""
        ids = ids[:-1] if ids and ids[-1] == self.format.end else ids
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def new_cache(self) -> DynamicCache:
        """An empty store of keys and values."""
        return DynamicCache(config=self.lm.config)

    def score(self, trajectories: Sequence[Trajectory]) -> TokenScores:
        """Score every sampled token of some trajectories; differentiable.

        What all of them begin with, the instructions, is read once for all; with gradient checkpointing, which cannot
        go through a cache, once for each.
        """
        rows = [trajectory.ids for trajectory in trajectories]
        first = min(trajectory.policy_mask.index(1) for trajectory in trajectories)
        shared = min(shared_prefix(rows), first - 1) if len(rows) > 1 and not self._forgetful else 0
        ids, attended = (each.to(self.device) for each in pad([row[shared:] for row in rows]))
        cache = self.new_cache() if shared else None
        if cache is not None:
            prefix = ids.new_tensor([rows[0][:shared]])
            self.hidden(prefix, torch.ones_like(prefix), torch.arange(shared, device=self.device)[None], cache)
            repeat_rows(cache, len(rows))
            attended = torch.cat([attended.new_ones(len(rows), shared), attended], 1)
        positions = torch.arange(shared, shared + ids.shape[1], device=self.device).expand_as(ids)
        hidden = self.hidden(ids, attended, positions, cache)
        sampled = [(row, at - shared) for row, each in enumerate(trajectories) for at in each.policy_positions()]
        row, at = ids.new_tensor(sampled).unbind(1)
        before = hidden[row, at - 1]
        log_probs, entropy = self._read_off(before, ids[row, at])
        return TokenScores(log_probs, entropy, self.values(before))

    def _read_off(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of tokens and entropies, piece by piece: the logits of all would be the largest tensor."""
        rows = max(1, _MOST_LOGITS // self.lm.get_output_embeddings().weight.shape[0])
        pieces = list(zip(hidden.split(rows), tokens.split(rows), strict=True))
        if len(pieces) == 1:
            return self._piece(hidden, tokens)
        scores = [checkpoint(self._piece, *piece, **_RECOMPUTE) for piece in pieces]
        return torch.cat([log_probs for log_probs, _ in scores]), torch.cat([entropy for _, entropy in scores])

    def _piece(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = self.logits(hidden).log_softmax(-1)
        return log_probs.gather(-1, tokens[:, None]).squeeze(-1), -(log_probs.exp() * log_probs).sum(-1)


def _at_least_float32(numbers: Tensor) -> Tensor:
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


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


def load_policy_model(
    name: str,
    *,
    seed: int = 0,
    dtype: Literal["float32", "bfloat16"] = "float32",
    device: str = "cpu",
    lora: int | None = None,
    gradient_checkpointing: bool = False,
    tool_format: str | None = None,
    template_arguments: Mapping[str, Any] | None = None,
) -> PolicyModel:
    """Load a model by name.

    Args:
        name: `tiny` (from scratch), `smollm2-135m` (extra `smollm2`), a folder with a saved model, or a hub id.
        seed: Seed of the initial weights of `tiny` and of adapters.
        dtype: Of the language model's weights; the value head and what is computed from logits stay in float32.
        device: Where the weights go, as in PyTorch.
        lora: Rank of low-rank adapters on all linear layers (extra `peft`), which alone are trained then, with the
            value head; None trains all weights.
        gradient_checkpointing: Whether `score` computes layers again for their gradients rather than keep all of it.
        tool_format: How the model calls the tool of `turngym.wrappers.ToolCallWrapper`: its chat template then
            describes the tool and writes what it gave, as far as it knows how.
        template_arguments: Further arguments of the chat template, such as `{"enable_thinking": False}`.

    Raises:
        ValueError: If there is no such model, or its chat template cannot be followed; the message says what is
            allowed.
        ImportError: If an extra is missing; the message is the line that installs it.
    """
    if dtype not in ("float32", "bfloat16"):
        raise ValueError(f"dtype must be float32 or bfloat16, got {dtype!r}")
    if lora is not None and lora < 1:
        raise ValueError(f"lora must be at least 1 or None, got {lora}")
    lm, tokenizer = _load(name, seed, getattr(torch, dtype))
    tools = named_tool_format(tool_format) if tool_format else None
    form = turn_format(tokenizer, tools=tools, arguments=template_arguments)
    if form.rewrites:
        warnings.warn(
            f"model {name!r}: its chat template would show earlier turns otherwise, as a rule without their thoughts; "
            "here a transcript only grows, so they stay as they were written (docs/models.md)",
            stacklevel=2,
        )
    model = PolicyModel(lm, tokenizer, name, form)
    _check_head(model)
    if lora is not None:
        _add_adapters(lm, lora, seed)
    if gradient_checkpointing:
        model.checkpoint_gradients()
    return model.to(device)


def _load(name: str, seed: int, dtype: torch.dtype) -> tuple[Any, Any]:
    """A language model and its tokenizer."""
    if name == "tiny":
        return tiny.build_model(seed).to(dtype), tiny.build_tokenizer()
    place = str(smollm2.converted()) if name == "smollm2-135m" else name
    try:
        return AutoModelForCausalLM.from_pretrained(place, dtype=dtype), AutoTokenizer.from_pretrained(place)
    except (OSError, ValueError) as error:
        kind = "folder" if Path(name).exists() else "name"
        raise ValueError(
            f"model {name!r}: this {kind} cannot be loaded. Allowed are {', '.join(MODEL_NAMES)}, "
            f"a folder with a saved transformers model, or a hub id that this machine can reach"
        ) from error


def _add_adapters(lm: Any, rank: int, seed: int) -> None:
    """Put low-rank adapters beside all linear layers; they begin as no change, and everything else is frozen."""
    peft = require("peft", "peft")
    config = peft.LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        peft.inject_adapter_in_model(config, lm)


@torch.inference_mode()
def _check_head(model: PolicyModel) -> None:
    """Some architectures scale or cap their logits after the head: scoring hidden states would then be wrong."""
    ids = torch.tensor([[model.format.end] * 2])
    hidden = model.hidden(ids, torch.ones_like(ids), torch.arange(2)[None])
    if not torch.allclose(model.logits(hidden), model.lm(input_ids=ids).logits.float(), atol=1e-4):
        raise ValueError(f"model {model.name!r} reshapes its logits after the output layer, which is not supported yet")
