"""What every policy-gradient recipe is made of, but for its objective: settings, rollouts, passes over them, the loop.

A recipe is a file of its own: it takes its settings from here, says in `iterate` what becomes of a rollout, and gives
`Learner.update` the objective that it descends.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from turngym.agents.models import PolicyModel, TokenScores
from turngym.agents.trajectory import Trajectory
from turngym.baselines import losses
from turngym.baselines.diagnostics import collapse_signals
from turngym.baselines.environments import TRAIN_SEEDS
from turngym.baselines.evaluation import score_trajectories
from turngym.baselines.filtering import group_stds
from turngym.baselines.importance import correct, importance_metrics
from turngym.baselines.masks import check_masks
from turngym.baselines.optimizers import Optimizer
from turngym.baselines.parallel import micro_batches
from turngym.baselines.run import Run, begin
from turngym.baselines.samples import Sample, concatenated, group_reward_std

Objective = Callable[[Any, TokenScores, Sequence[Sample]], tuple[Tensor, dict[str, Tensor]]]
"""`(settings, scores, samples)` to a loss and the terms to be logged, all of them sums over the sampled tokens."""


@dataclass(frozen=True)
class PolicyGradientArgs:
    """Settings that every policy-gradient recipe shares."""

    iterations: int = 300
    """Rollout and update, so many times."""
    episodes: int = 256
    """Episodes in a rollout."""
    group_size: int = 1
    """Episodes on each level; they differ in luck and sampling. With 2 or more, group_reward_std is logged."""
    retry_share: float = 0.5
    """At most this share of a rollout's levels are levels that the policy failed on and has not solved since."""
    epochs: int = 1
    """Passes over each rollout."""
    minibatches: int = 2
    """Optimiser steps in a pass."""
    learning_rate: float = 4e-4
    """Peak learning rate of RL: up over 5 iterations, then linearly down to a tenth. Pretrained: 1e-6 to 1e-5."""
    clip_low: float = 0.2
    """The probability ratio may fall to 1 minus this."""
    clip_high: float = 0.28
    """The probability ratio may rise to 1 plus this."""
    entropy_coefficient: float = 0.005
    """Weight of the entropy bonus."""
    kl_coefficient: float = 0.0
    """Weight of the divergence from the policy that RL started from; 0 keeps no reference."""
    max_gradient_norm: float = 1.0
    """Longer gradients are scaled down to this."""
    importance_cap: float = 2.0
    """Largest weight of a token that a server sampled, for how much likelier it is here."""


_LEVELS, _LUCK, _ORDER = range(10, 13)  # purposes of random streams; those below belong to run.py
_MOST_FAILED = 1024
_DIAGNOSED = 32
"""Levels whose thoughts are compared: each is scored under the prompt of every other one."""


def policy_terms(args: PolicyGradientArgs, now: TokenScores, samples: Sequence[Sample]) -> dict[str, Tensor]:
    """The terms that do without a critic, summed over the sampled tokens."""
    old_log_probs = concatenated(samples, "old_log_probs")
    policy, clipped = losses.policy_loss(
        now.log_probs,
        old_log_probs,
        concatenated(samples, "advantages"),
        concatenated(samples, "importance"),
        clip_low=args.clip_low,
        clip_high=args.clip_high,
    )
    terms = {"policy_loss": policy, "entropy": now.entropy.sum()}
    terms["approximate_kl"] = losses.approximate_kl(now.log_probs, old_log_probs)
    terms["clip_fraction"] = clipped.sum()
    if args.kl_coefficient:
        terms["reference_kl"] = losses.kl_to_reference(now.log_probs, concatenated(samples, "reference_log_probs"))
    return terms


def policy_objective(args: PolicyGradientArgs, terms: dict[str, Tensor]) -> Tensor:
    """Clipped surrogate, less the entropy bonus, plus the divergence from the reference."""
    total = terms["policy_loss"] - args.entropy_coefficient * terms["entropy"]
    return total + args.kl_coefficient * terms["reference_kl"] if args.kl_coefficient else total


def set_gradients(
    run: Run, samples: Sequence[Sample], objective: Objective, module: nn.Module | None = None
) -> dict[str, float]:
    """Set the gradients of an objective over some samples, and return its terms, means over sampled tokens.

    Args:
        run: Whose model learns.
        samples: At least one.
        objective: What to descend.
        module: The part of the model that learns; by default all of it.
    """
    tokens = sum(len(sample.advantages) for sample in samples)
    parts: list[dict[str, float]] = []

    def loss(group: list[int]) -> Tensor:
        mine = [samples[index] for index in group]
        now = run.model.score([each.trajectory for each in mine])
        total, terms = objective(run.args, now, mine)
        ratio_error = (now.log_probs - concatenated(mine, "old_log_probs")).exp().sub(1).abs().max().item()
        parts.append({"ratio_error": ratio_error, **{name: term.item() / tokens for name, term in terms.items()}})
        return total / tokens

    groups = micro_batches([sample.trajectory for sample in samples], run.args.max_tokens)
    run.workers.set_gradients(module or run.model, groups, loss)
    sums = {name: sum(part[name] for part in parts) for name in parts[0]}
    return {**sums, "ratio_error": max(part["ratio_error"] for part in parts)}


def schedule(iteration: int, iterations: int) -> float:
    """Share of the peak learning rate: up over 5 iterations, then linearly down to a tenth."""
    return min(1.0, (iteration + 1) / 5) * (1 - 0.9 * iteration / max(1, iterations))


def play(run: Run, iteration: int, failed: Sequence[int], *, max_new_tokens: int | None = None) -> list[Trajectory]:
    """The rollout of one iteration: fresh training levels and some of the failed ones, each played by a group."""
    args, rng = run.args, run.rng(_LEVELS, iteration)
    levels = rng.integers(TRAIN_SEEDS, size=-(-args.episodes // args.group_size))
    retried = rng.permutation(failed)[: int(args.retry_share * len(levels))]
    levels[: len(retried)] = retried
    groups = np.arange(args.episodes) // args.group_size
    luck = run.rng(_LUCK, iteration).integers(TRAIN_SEEDS, size=args.episodes).tolist() if args.group_size > 1 else None
    return run.rollout(
        "train",
        levels[groups].tolist(),
        temperature=1.0,
        seed=[args.seed, iteration],
        groups=groups.tolist(),
        noise_seeds=luck,
        max_new_tokens=max_new_tokens,
    )


def still_failed(failed: Sequence[int], trajectories: Sequence[Trajectory]) -> list[int]:
    """The levels that the policy failed on and has not solved since, those that failed last at the end."""
    solved = {each.seed for each in trajectories if each.success}
    lost = dict.fromkeys(each.seed for each in trajectories if each.seed not in solved)
    return [*(level for level in failed if level not in solved and level not in lost), *lost][-_MOST_FAILED:]


def rollout_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """How a rollout went; `group_reward_std` only where episodes share a level."""
    score = score_trajectories(trajectories, (0.0, 1.0))
    metrics = {
        "success": score.success,
        "episode_return": score.episode_return,
        "turns": score.turns,
        "invalid_rate": score.invalid_rate,
        **importance_metrics(trajectories),
    }
    if len({each.group for each in trajectories}) < len(trajectories):
        metrics["group_reward_std"] = group_reward_std(trajectories)
    return metrics


class Learner:
    """What a recipe carries from one iteration to the next, and the loop over them.

    Args:
        run: The run; its settings are `CommonArgs` and `PolicyGradientArgs`.
        name: Of the recipe: its stage in metrics and state, its weights, its row in the closing table.

    Attributes:
        args: The run's settings.
        optimizer: Moves the model.
        reference: The policy that RL started from; None where nothing holds on to it.
        failed: Levels to be tried again.
    """

    def __init__(self, run: Run, name: str) -> None:
        begin(run, name)
        self.run, self.name, self.args = run, name, run.args
        self.optimizer = Optimizer(run.model, run.args.optimizer)
        self.reference: PolicyModel | None = copy.deepcopy(run.model) if run.args.kl_coefficient else None
        self.failed: list[int] = []

    def rollout(self, iteration: int, *, max_new_tokens: int | None = None) -> list[Trajectory]:
        """The episodes of an iteration; two of them are written down where it is validated."""
        trajectories = play(self.run, iteration, self.failed, max_new_tokens=max_new_tokens)
        check_masks(trajectories)
        if self.run.server:
            limits = {"cap": self.args.importance_cap, "max_tokens": self.args.max_tokens}
            correct(self.run.model, trajectories, **limits)
        self.failed = still_failed(self.failed, trajectories)
        if (iteration + 1) % self.args.validate_every == 0:
            self.run.folder.save_trajectories(self.name, iteration, trajectories[:2], self.run.model)
        return trajectories

    def signals(self, trajectories: Sequence[Trajectory], iteration: int) -> dict[str, float]:
        """Signs of collapse in a rollout: how many groups agree, and, where it is validated, what thoughts tell."""
        flat = float(np.mean([deviation == 0 for deviation in group_stds(trajectories).values()]))
        if (iteration + 1) % self.args.validate_every:
            return {"flat_groups": flat}
        one_each = list({each.group: each for each in trajectories}.values())[:_DIAGNOSED]
        return {"flat_groups": flat, **collapse_signals(self.run.model, one_each)}

    def update(
        self, samples: Sequence[Sample], iteration: int, objective: Objective, module: nn.Module | None = None
    ) -> dict[str, float]:
        """Several passes over the samples; returns the objective's terms, means over the steps, `{}` without samples.

        Args:
            samples: Of this iteration's rollout.
            iteration: Decides the learning rate and the order.
            objective: What to descend.
            module: The part of the model that learns; by default all of it.
        """
        if not samples:
            return {}
        if self.reference is not None:
            self._add_reference(self.reference, samples)
        args, rng, steps = self.args, self.run.rng(_ORDER, iteration), []
        learning_rate = args.learning_rate * schedule(iteration, args.iterations)
        for _ in range(args.epochs):
            for part in np.array_split(rng.permutation(len(samples)), min(args.minibatches, len(samples))):
                self.optimizer.zero_grad()
                metrics = set_gradients(self.run, [samples[index] for index in part], objective, module)
                norm = torch.nn.utils.clip_grad_norm_(self.run.model.parameters(), args.max_gradient_norm)
                steps.append({**metrics, "gradient_norm": norm.item()})
                assert len(steps) > 1 or metrics["ratio_error"] < 1e-3, f"sampling and training disagree: {metrics}"
                self.optimizer.step(learning_rate)
        mean = {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}
        return {**mean, "ratio_error": steps[0]["ratio_error"]}

    @torch.no_grad()
    def _add_reference(self, reference: PolicyModel, samples: Sequence[Sample]) -> None:
        """Fill in what the reference policy says of the sampled tokens."""
        for group in micro_batches([sample.trajectory for sample in samples], self.args.max_tokens):
            scores = reference.score([samples[index].trajectory for index in group]).log_probs
            lengths = [len(samples[index].advantages) for index in group]
            for index, own in zip(group, scores.split(lengths), strict=True):
                samples[index].reference_log_probs = own

    def learn(self, iterate: Callable[["Learner", int], dict[str, float]]) -> None:
        """Iterate from the present weights; those that validate best, the start included, are saved by the name.

        Args:
            iterate: One rollout and its update; returns the metrics to be logged.
        """
        args, run, folder = self.args, self.run, self.run.folder
        state = folder.state_of(self.name)
        if state:
            run.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            best, self.failed = state["best"], state["failed"]
        else:
            best = run.validate()
            folder.save_model(self.name, run.model)
        first = state["step"] if state else 0
        bar = tqdm(range(first, args.iterations), desc=self.name.upper().replace("_", "-"), unit="iteration")
        for iteration in bar:
            metrics = iterate(self, iteration)
            if (iteration + 1) % args.validate_every == 0 or iteration + 1 == args.iterations:
                metrics["validation_success"] = run.validate()
                if metrics["validation_success"] > best:
                    best = metrics["validation_success"]
                    folder.save_model(self.name, run.model)
            folder.log(self.name, iteration, metrics)
            shown = {name: metrics[name] for name in ("success", "entropy") if name in metrics}
            bar.set_postfix({name: f"{value:.3f}" for name, value in {**shown, "validation": best}.items()})
            if (iteration + 1) % args.checkpoint_every == 0:
                saved = {"model": run.model.state_dict(), "optimizer": self.optimizer.state_dict(), "best": best}
                folder.save_state(self.name, iteration + 1, **saved, failed=self.failed)
