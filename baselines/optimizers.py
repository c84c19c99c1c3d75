"""Optimisers of the baselines: AdamW, and Muon for models that are trained from scratch."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

OPTIMIZERS = ("muon", "adamw")

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5
MUON_SCALE = 10.0
"""Muon's steps are orthogonal matrices: its learning rate is a multiple of AdamW's for the other parameters."""

HEAD_SCALE = 10.0
"""The value head starts from nothing on a trunk that is already trained, and must keep up with the policy."""


class Muon(torch.optim.Optimizer):
    """Momentum whose update is brought close to an orthogonal matrix, for weight matrices alone.

    `torch.optim.Muon` does the same in bfloat16, which most processors without an accelerator only emulate: there the
    optimiser costs as much as the gradient of a small model. Here the arithmetic is the parameters' own, and matrices
    of one shape are worked on together. A test holds the two to each other.

    Args:
        parameters: Matrices.
        lr: Learning rate.
        momentum: Decay of the running gradient, in [0, 1).

    Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks".
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Move every matrix that has a gradient."""
        assert closure is None, "Muon takes no closure"
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike[matrix.shape].append(matrix)
            for shape, matrices in alike.items():
                updates = orthogonalized(torch.stack([self._smoothed(each, group["momentum"]) for each in matrices]))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for matrix, change in zip(matrices, updates, strict=True):
                    matrix.add_(change, alpha=-scale)

    def _smoothed(self, matrix: Tensor, momentum: float) -> Tensor:
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        running = state["momentum"].lerp_(matrix.grad, 1 - momentum)
        return matrix.grad.lerp(running, momentum)


def orthogonalized(matrices: Tensor) -> Tensor:
    """Near-orthogonal matrices with the singular vectors of the given ones, `(count, rows, columns)`.

    Five rounds of a quintic Newton-Schulz iteration take singular values to about 1 (0.7 to 1.2).
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(_ROUNDS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Optimizer:
    """One learning rate for all parameters of a model, whatever moves them.

    Args:
        model: Its weight matrices inside blocks go to Muon where that is asked for, all else to AdamW.
        name: "muon" (from scratch) or "adamw" (pretrained models).
        weight_decay: Of AdamW.

    Raises:
        ValueError: If there is no such optimiser.
    """

    def __init__(self, model: nn.Module, name: str, *, weight_decay: float = 0.0) -> None:
        if name not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {name!r}")
        matrices = [weight for weight in _block_matrices(model) if name == "muon"]
        taken = {id(weight) for weight in matrices}
        named = [(n, w) for n, w in model.named_parameters() if w.requires_grad and id(w) not in taken]
        groups = [
            {"params": [weight for name, weight in named if not name.startswith("value_head")], "scale": 1.0},
            {"params": [weight for name, weight in named if name.startswith("value_head")], "scale": HEAD_SCALE},
        ]
        self._adamw = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), weight_decay=weight_decay)
        self._muon = Muon(matrices, lr=0.0) if matrices else None

    def zero_grad(self) -> None:
        """Forget all gradients."""
        self._adamw.zero_grad()
        if self._muon:
            self._muon.zero_grad()

    def step(self, learning_rate: float) -> None:
        """Move along the present gradients."""
        for group in self._adamw.param_groups:
            group["lr"] = group["scale"] * learning_rate
        self._adamw.step()
        if self._muon:
            self._muon.param_groups[0]["lr"] = MUON_SCALE * learning_rate
            self._muon.step()

    def state_dict(self) -> dict[str, Any]:
        """All state, for a checkpoint."""
        return {"adamw": self._adamw.state_dict(), "muon": self._muon.state_dict() if self._muon else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._adamw.load_state_dict(state["adamw"])
        if self._muon:
            self._muon.load_state_dict(state["muon"])


def _block_matrices(model: nn.Module) -> list[Tensor]:
    """Weights of linear layers that feed other layers: not embeddings, and not heads."""
    return [
        module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module.weight.requires_grad and "layers." in name
    ]
