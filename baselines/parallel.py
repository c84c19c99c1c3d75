"""Threads that share the work of a step. The result does not depend on which of them ends first."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import torch
from torch import Tensor, nn

from turngym.agents.llm_policy import LLMPolicy
from turngym.agents.models import PolicyModel
from turngym.agents.rollout import collect_rollout
from turngym.agents.trajectory import Trajectory

Env = gymnasium.Env[str, str]


class Workers:
    """A fixed number of threads with one PyTorch thread each.

    The operations of a small model gain little from several threads; two halves of a batch side by side gain nearly a
    factor of two on two cores (`docs/results/throughput.md`).

    Args:
        count: How many; at least 1. With 1, PyTorch keeps the number of threads it has.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"workers must be at least 1, got {count}")
        self.count = count
        if count > 1:
            torch.set_num_threads(1)
        self._threads = ThreadPoolExecutor(count)

    def rollout(
        self,
        model: PolicyModel,
        envs: Sequence[Env],
        seeds: Sequence[int],
        groups: Sequence[int] | None = None,
        noise_seeds: Sequence[int] | None = None,
        **policy: Any,
    ) -> list[Trajectory]:
        """One episode for each seed, as `collect_rollout`, a share of the episodes and environments to each thread.

        Args:
            model: Plays all of them.
            envs: At least one for each worker.
            seeds: The seed of each episode.
            groups: The group of each episode.
            noise_seeds: The luck of each episode.
            policy: Further arguments of `LLMPolicy`.
        """
        size = -(-len(seeds) // self.count)

        def share(worker: int) -> list[Trajectory]:
            mine = slice(worker * size, (worker + 1) * size)
            return collect_rollout(
                LLMPolicy(model, **policy),
                envs[worker :: self.count],
                seeds[mine],
                groups=groups and groups[mine],
                noise_seeds=noise_seeds and noise_seeds[mine],
                first_index=worker * size,
            )

        return [trajectory for part in self._threads.map(share, range(self.count)) for trajectory in part]

    def set_gradients(self, model: nn.Module, groups: Sequence[list[int]], loss: Callable[[list[int]], Tensor]) -> None:
        """Set every parameter's gradient to that of the sum of the groups' losses, added up in their order."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

        def gradients(group: list[int]) -> Sequence[Tensor | None]:
            return torch.autograd.grad(loss(group), parameters, allow_unused=True)

        for parameter in parameters:
            parameter.grad = None
        for result in self._threads.map(gradients, groups):
            for parameter, gradient in zip(parameters, result, strict=True):
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


def micro_batches(trajectories: Sequence[Trajectory], max_tokens: int) -> list[list[int]]:
    """Indices grouped by length: little padding, and no padded group above `max_tokens` unless a single row is."""
    groups: list[list[int]] = []
    for index in sorted(range(len(trajectories)), key=lambda index: len(trajectories[index].ids)):
        length = len(trajectories[index].ids)
        if groups and (len(groups[-1]) + 1) * length <= max_tokens:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
