"""What becomes of samples whose log-probabilities are another engine's: truncated importance weights.

A server samples with kernels and precision of its own, so that its policy is a neighbour of the trainer's. An update
then weighs each token by how much likelier the trainer's policy made it, at most `cap` times.

Source: Ionides 2008, "Truncated importance sampling"; verl caps the weights at 2, TRL at 3.
"""

from collections.abc import Sequence

import numpy as np
import torch

from turngym.agents.models import PolicyModel, pad
from turngym.agents.trajectory import Trajectory
from turngym.baselines.parallel import micro_batches


@torch.no_grad()
def correct(model: PolicyModel, trajectories: Sequence[Trajectory], *, cap: float, max_tokens: int) -> None:
    """Put the trainer's log-probabilities and values in place of the sampler's, and note what that changes.

    Args:
        model: The trainer's policy, with the weights that the sampler had.
        trajectories: Get `log_probs`, `values` and `bootstrap_value` of the model, and `importance`.
        cap: The largest weight, at least 1.
        max_tokens: Padded tokens in a forward pass.
    """
    for group in micro_batches(trajectories, max_tokens):
        mine = [trajectories[index] for index in group]
        scores = model.score(mine)
        lengths = [sum(each.policy_mask) for each in mine]
        log_probs, values = scores.log_probs.split(lengths), scores.values.split(lengths)
        for each, own, estimates in zip(mine, log_probs, values, strict=True):
            places = each.policy_positions()
            sampled = torch.tensor([each.log_probs[at] for at in places])
            each.importance = (own - sampled.to(own)).exp().clamp(max=cap).tolist()
            for at, log_prob, value in zip(places, own.tolist(), estimates.tolist(), strict=True):
                each.log_probs[at], each.values[at] = log_prob, value
        cut = [each for each in mine if each.truncated and not each.terminated]
        if cut:
            ids, attended = (each.to(model.device) for each in pad([each.ids for each in cut]))
            positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
            hidden = model.hidden(ids, attended, positions)
            ends = hidden[torch.arange(len(cut)), [len(each.ids) - 1 for each in cut]]
            for each, value in zip(cut, model.values(ends).tolist(), strict=True):
                each.bootstrap_value = value


def importance_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Mean weight, and mean absolute logarithm of it; nothing where the trainer sampled itself."""
    weights = np.concatenate([each.importance for each in trajectories]) if trajectories else np.zeros(0)
    if not len(weights):
        return {}
    return {"importance": float(weights.mean()), "importance_error": float(abs(np.log(weights)).mean())}
