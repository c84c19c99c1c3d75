"""Supervised fine-tuning on demonstrations: the start that PPO improves on.

Stop rule, fixed beforehand: after every epoch the policy plays the validation levels greedily; the weights of the best
epoch are kept, and training ends after `patience` epochs without a better one or after `epochs`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from turngym.agents.models import PolicyModel
from turngym.agents.trajectory import Trajectory
from turngym.baselines.optimizers import Optimizer
from turngym.baselines.parallel import Workers, micro_batches
from turngym.baselines.run_folder import RunFolder


@dataclass(frozen=True)
class SFTSettings:
    """How to imitate.

    Attributes:
        epochs: At most so many passes over the demonstrations.
        patience: Epochs without a better validation score before it stops.
        batch: Episodes in an optimiser step.
        optimizer: "muon" or "adamw".
        learning_rate: Peak; up over the first 30 steps, then linearly down to nothing at the end of the last epoch.
        max_tokens: Padded tokens in a micro-batch.
    """

    epochs: int
    patience: int
    batch: int
    optimizer: str
    learning_rate: float
    max_tokens: int


_WARM_UP = 30


def train_sft(
    model: PolicyModel,
    demonstrations: Sequence[Trajectory],
    settings: SFTSettings,
    validate: Callable[[], float],
    workers: Workers,
    folder: RunFolder,
    rng: np.random.Generator,
) -> float:
    """Train until the stop rule; the model ends with the weights of its best epoch.

    Returns:
        The best validation success.
    """
    optimizer = Optimizer(model, settings.optimizer, weight_decay=0.01)
    batches = max(1, len(demonstrations) // settings.batch)
    best, since, steps = -1.0, 0, 0
    bar = tqdm(range(settings.epochs), desc="SFT", unit="epoch")
    for epoch in bar:
        losses = []
        for batch in np.array_split(rng.permutation(len(demonstrations)), batches):
            losses.append(_set_gradients(model, [demonstrations[index] for index in batch], settings, workers))
            share = min(1.0, (steps + 1) / _WARM_UP) * (1 - steps / (settings.epochs * batches))
            optimizer.step(settings.learning_rate * share)
            steps += 1
        success = validate()
        folder.log("sft", epoch, {"loss": float(np.mean(losses)), "validation_success": success})
        if success > best:
            best, since = success, 0
            folder.save_model("sft", model)
        else:
            since += 1
        bar.set_postfix(loss=f"{np.mean(losses):.3f}", success=f"{success:.3f}", best=f"{best:.3f}")
        if since >= settings.patience:
            break
    bar.close()
    folder.load_model("sft", model)
    return best


def _set_gradients(model: PolicyModel, batch: list[Trajectory], settings: SFTSettings, workers: Workers) -> float:
    """Gradients of the mean negative log-likelihood of the replies' tokens; returns that loss."""
    tokens = sum(sum(each.policy_mask) for each in batch)
    parts: list[float] = []

    def loss(group: list[int]) -> Tensor:
        part = -model.score([batch[index] for index in group]).log_probs.sum() / tokens
        parts.append(part.item())
        return part

    workers.set_gradients(model, micro_batches(batch, settings.max_tokens), loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return sum(parts)
