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
        batch: Episodes in an optimiser step; turns, where each has a context of its own (`Trajectory.parts`).
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
_LOGGED = 25
"""Updates of pretraining between two lines of metrics, each with a saved state."""


def train_sft(
    model: PolicyModel,
    demonstrations: Sequence[Trajectory],
    settings: SFTSettings,
    validate: Callable[[], float],
    workers: Workers,
    folder: RunFolder,
    order: Callable[[int], np.random.Generator],
) -> None:
    """Train until the stop rule; the model ends with the weights of its best epoch, which are saved as `sft`.

    Args:
        model: Where training starts.
        demonstrations: What to imitate: the tokens with `policy_mask` 1.
        settings: How.
        validate: Success on the validation levels.
        workers: Share the work.
        folder: Takes metrics, weights and state; an interrupted run goes on from its last epoch.
        order: The stream that shuffles the demonstrations of an epoch.
    """
    demonstrations = [part for each in demonstrations for part in each.parts()]
    optimizer = Optimizer(model, settings.optimizer, weight_decay=0.01)
    best, since, first = -1.0, 0, 0
    state = folder.state_of("sft")
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        best, since, first = state["best"], state["since"], state["step"]
    bar = tqdm(range(first, settings.epochs if since < settings.patience else first), desc="SFT", unit="epoch")
    for epoch in bar:
        loss = _epoch(model, optimizer, demonstrations, settings, workers, order(epoch), epoch)
        success = validate()
        folder.log("sft", epoch, {"loss": loss, "validation_success": success})
        since += 1
        if success > best:
            best, since = success, 0
            folder.save_model("sft", model)
        bar.set_postfix(loss=f"{loss:.3f}", success=f"{success:.3f}", best=f"{best:.3f}")
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": best, "since": since}
        folder.save_state("sft", epoch + 1, **saved)
        if since >= settings.patience:
            break
    bar.close()
    folder.load_model("sft", model)


def pretrain(
    model: PolicyModel,
    examples: Sequence[Trajectory],
    settings: SFTSettings,
    updates: int,
    workers: Workers,
    folder: RunFolder,
    order: Callable[[int], np.random.Generator],
) -> None:
    """Train for a fixed number of updates, without playing; the model ends with its last weights.

    Args:
        model: Where training starts.
        examples: What to imitate: the tokens with `policy_mask` 1.
        settings: How; `epochs` and `patience` are not looked at.
        updates: How many.
        workers: Share the work.
        folder: Takes metrics and state, as stage `pretraining`; an interrupted run goes on from its last state.
        order: The stream that shuffles the examples of a pass.
    """
    optimizer, first = Optimizer(model, settings.optimizer, weight_decay=0.01), 0
    state = folder.state_of("pretraining")
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    for step in tqdm(range(first, -(-updates // _LOGGED)), desc="pretraining", unit=f"{_LOGGED} updates"):
        losses = []
        for update in range(step * _LOGGED, min(updates, (step + 1) * _LOGGED)):
            batch = _batch(examples, settings.batch, order, update)
            losses.append(_set_gradients(model, batch, settings, workers))
            optimizer.step(settings.learning_rate * _schedule(update, updates))
        folder.log("pretraining", step, {"loss": float(np.mean(losses))})
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        folder.save_state("pretraining", step + 1, **saved)


def updates_a_pass(examples: int, batch: int) -> int:
    """How many optimiser steps a pass over so many examples takes."""
    return max(1, examples // batch)


def _batch(
    examples: Sequence[Trajectory], size: int, order: Callable[[int], np.random.Generator], update: int
) -> list[Trajectory]:
    """The examples of one update, counted over all passes."""
    epoch, place = divmod(update, updates_a_pass(len(examples), size))
    batches = np.array_split(order(epoch).permutation(len(examples)), updates_a_pass(len(examples), size))
    return [examples[index] for index in batches[place]]


def _schedule(step: int, steps: int) -> float:
    """Share of the peak learning rate: up over the first steps, and linearly down to nothing at the end."""
    return min(1.0, (step + 1) / _WARM_UP) * (1 - step / steps)


def _epoch(
    model: PolicyModel,
    optimizer: Optimizer,
    demonstrations: Sequence[Trajectory],
    settings: SFTSettings,
    workers: Workers,
    order: np.random.Generator,
    epoch: int,
) -> float:
    """One pass over the demonstrations; returns the mean loss."""
    count = updates_a_pass(len(demonstrations), settings.batch)
    batches = np.array_split(order.permutation(len(demonstrations)), count)
    losses = []
    for index, batch in enumerate(batches):
        step = epoch * len(batches) + index
        losses.append(_set_gradients(model, [demonstrations[each] for each in batch], settings, workers))
        optimizer.step(settings.learning_rate * _schedule(step, settings.epochs * len(batches)))
    return float(np.mean(losses))


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
