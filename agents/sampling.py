"""How a token is drawn from logits."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """What is done to the model's distribution before a token is drawn, in this order.

    Attributes:
        temperature: Divides the logits; 0 takes the likeliest token.
        top_k: So many of the likeliest tokens are kept; None keeps all.
        top_p: Of those, the fewest likeliest that have this share of the mass.
        min_p: Of those, the tokens that have at least this share of the likeliest one's probability.

    Raises:
        ValueError: If one of them is out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"temperature must be at least 0, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1 or None, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must lie in 0 .. 1, got {self.min_p}")

    @property
    def is_plain(self) -> bool:
        """Whether tokens are drawn from the model's own distribution, as training needs it."""
        return self == Sampling()

    def log_probs(self, logits: Tensor) -> Tensor:
        """The distribution that is drawn from, `(rows, vocabulary)`; that of temperature 1 where temperature is 0."""
        if self.temperature > 0:
            logits = logits / self.temperature
        log_probs = logits.log_softmax(-1)
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            log_probs = _kept(log_probs, _ranks(log_probs) < self.top_k)
        if self.top_p < 1:
            log_probs = _kept(log_probs, _mass_before(log_probs) < self.top_p)
        if self.min_p > 0:
            floor = log_probs.max(-1, keepdim=True).values.exp() * self.min_p
            log_probs = _kept(log_probs, log_probs.exp() >= floor)
        return log_probs


def _kept(log_probs: Tensor, keep: Tensor) -> Tensor:
    return log_probs.masked_fill(~keep, -torch.inf).log_softmax(-1)


def _ranks(log_probs: Tensor) -> Tensor:
    """The place of each token among the likeliest, from 0; of equals the first in the vocabulary comes first."""
    order = log_probs.sort(dim=-1, descending=True, stable=True).indices
    return torch.empty_like(order).scatter_(-1, order, torch.arange(order.shape[-1]).to(order).expand_as(order))


def _mass_before(log_probs: Tensor) -> Tensor:
    """The mass of all tokens that are likelier than each."""
    ordered, order = log_probs.exp().sort(dim=-1, descending=True, stable=True)
    return torch.empty_like(ordered).scatter_(-1, order, ordered.cumsum(-1) - ordered)


def sample(logits: Tensor, uniforms: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draw one token a row by inverting the distribution function.

    Args:
        logits: `(rows, vocabulary)`.
        uniforms: One number in [0, 1) a row, float64: a row's draw does not depend on the other rows.
        sampling: What is done to the distribution before.

    Returns:
        Tokens `(rows,)`, and the log-probabilities `(rows,)` with which they were drawn (at temperature 0, those of
        temperature 1).
    """
    log_probs = sampling.log_probs(logits)
    if sampling.temperature > 0:
        mass = log_probs.double().exp().cumsum(-1)
        tokens = torch.searchsorted(mass, (uniforms * mass[:, -1])[:, None], right=True).squeeze(1)
        tokens = tokens.clamp(max=logits.shape[-1] - 1)
    else:
        tokens = log_probs.argmax(-1)
    return tokens, log_probs.gather(-1, tokens[:, None]).squeeze(-1)
