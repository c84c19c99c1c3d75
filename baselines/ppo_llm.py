"""PPO for a language policy on any environment with text in and text out.

    python baselines/ppo_llm.py                                    # tiny on TextFrozenLake-v0, about ten minutes on 2 cores
    python baselines/ppo_llm.py --quick                            # a complete run in about a minute, to try a setup
    python baselines/ppo_llm.py --env-id YourEnv-v0 --demonstrations none

Demonstrations of the environment's oracle, supervised fine-tuning on them (`sft.py`), then PPO with a critic; success on
held-out levels at the end, beside a random agent and the oracle. Objective: `losses.py` and `advantages.py`. What is
left out on purpose: a reward model, a reference policy, reward normalisation.

Metrics of an iteration (`metrics.jsonl` and TensorBoard, stage `ppo`):

| name | what | good |
|---|---|---|
| success | share of this iteration's training episodes that were solved (sampled at temperature 1) | rises |
| validation_success | success on the validation levels, greedy | rises |
| episode_return, turns | mean sum of rewards; mean turns | rises; falls where speed pays |
| invalid_rate | share of replies that the environment could not read | falls to 0 |
| entropy | of the sampled tokens' distributions, nats | falls slowly, not to 0 |
| approximate_kl | of the sampling policy from the updated one, nats a token | below about 0.05 |
| clip_fraction | share of tokens whose ratio was clipped | below about 0.2 |
| policy_loss, value_loss | mean over tokens | value_loss falls |
| explained_variance | share of the returns' variance that the critic foresaw | rises towards 1 |
| gradient_norm | before clipping | steady |
| ratio_error | largest difference of the first ratio from 1 before any update | below 1e-4 |
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

try:
    import numpy as np
    import torch
    import tyro
    from torch import Tensor
    from tqdm import tqdm

    from turngym.agents.models import PolicyModel, load_policy_model
    from turngym.agents.scripted import OracleAgent, RandomAgent
    from turngym.agents.trajectory import Trajectory
    from turngym.baselines import losses
    from turngym.baselines.advantages import gae, token_rewards, whiten
    from turngym.baselines.demonstrations import oracle_demonstrations
    from turngym.baselines.environments import TRAIN_SEEDS, Env, held_out_seeds, make_envs, parse_arguments
    from turngym.baselines.evaluation import Score, play, score_trajectories, table
    from turngym.baselines.optimizers import Optimizer
    from turngym.baselines.parallel import Workers, micro_batches
    from turngym.baselines.plots import learning_curve
    from turngym.baselines.run_folder import RunFolder, default_folder
    from turngym.baselines.sft import SFTSettings, train_sft
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error


@dataclass(frozen=True)
class Args:
    """Train a policy on a text environment and report success on held-out levels."""

    env_id: str = "TextFrozenLake-v0"
    """A registered id, or module:Id to import yours first."""
    env_args: tuple[str, ...] = ()
    """Arguments of the environment as name=value, for example size=5 success_rate=0.8."""
    model: str = "tiny"
    """tiny (from scratch, no download), a folder with a saved transformers model, or a hub id."""
    split: Literal["train", "validation", "test"] = "test"
    """The levels of the closing table. Nothing is selected on them."""
    output_dir: Path | None = None
    """An empty or new folder for the run; by default runs/<id>-<seed>-<time>."""
    seed: int = 0
    """Decides weights, levels, luck and sampling."""
    quick: bool = False
    """A complete run in about a minute, to try a setup. Its figures are not a result."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """muon for a model from scratch; adamw for a pretrained one."""
    workers: int = 2
    """Threads that share rollouts and updates; one a core."""

    demonstrations: Literal["oracle", "none"] = "oracle"
    """Where imitation starts from: the environment's oracle, or nowhere."""
    demonstration_episodes: int = 2000
    """How many training levels the demonstrator plays. Fixed: more would raise the start, and hide what PPO adds."""
    sft_epochs: int = 30
    """At most so many passes over the demonstrations."""
    sft_patience: int = 4
    """SFT ends after so many epochs without a better validation score, and keeps its best weights."""
    sft_batch: int = 32
    """Demonstrations in an optimiser step."""
    sft_learning_rate: float = 2e-3
    """Peak learning rate of SFT; for a pretrained model of 100M parameters or more try 1e-5 to 1e-4."""

    iterations: int = 120
    """Rollout and update, so many times."""
    episodes: int = 256
    """Episodes in a rollout, each on a fresh training level."""
    max_new_tokens: int = 8
    """Longest reply in tokens, its end token included."""
    epochs: int = 2
    """Passes over each rollout."""
    minibatches: int = 4
    """Optimiser steps in a pass."""
    learning_rate: float = 1e-3
    """Peak learning rate of PPO: warmed up over 5 iterations, then falling linearly to a tenth. Pretrained: 1e-6 to 1e-5."""
    turn_gamma: float = 0.95
    """Discount from turn to turn; tokens within a turn are not discounted."""
    turn_lambda: float = 0.95
    """Trace decay of the advantage estimate from turn to turn."""
    clip_low: float = 0.2
    """The probability ratio may fall to 1 minus this."""
    clip_high: float = 0.28
    """The probability ratio may rise to 1 plus this."""
    value_clip: float = 0.5
    """The critic's estimate may move by this much in an update, in units of the return."""
    value_coefficient: float = 0.5
    """Weight of the critic's loss."""
    entropy_coefficient: float = 0.005
    """Weight of the entropy bonus."""
    max_gradient_norm: float = 1.0
    """Longer gradients are scaled down to this."""
    max_tokens: int = 2048
    """Padded tokens in a micro-batch: bounds memory; changes no result beyond rounding."""

    validate_every: int = 10
    """Iterations between validations; the best validated weights are kept."""
    validation_episodes: int = 256
    """Episodes of a validation, greedy."""
    evaluation_episodes: int = 1000
    """Episodes of each row of the closing table, greedy."""


_AT_LEAST_ONE = ("workers", "episodes", "epochs", "minibatches", "max_new_tokens", "validate_every")
_AT_LEAST_ONE += ("validation_episodes", "evaluation_episodes", "demonstration_episodes", "sft_batch", "sft_epochs")


def check(args: Args) -> None:
    """Raise `ValueError` for a number that is out of range."""
    limits = {**dict.fromkeys(_AT_LEAST_ONE, 1), "seed": 0, "iterations": 0, "sft_patience": 1}
    for name, least in limits.items():
        if getattr(args, name) < least:
            raise ValueError(f"--{name.replace('_', '-')} must be at least {least}, got {getattr(args, name)}")


def quick(args: Args) -> Args:
    """The same settings on a budget of about a minute."""
    small = {"demonstration_episodes": 300, "sft_epochs": 6, "iterations": 8, "episodes": 128}
    small |= {"validate_every": 4, "validation_episodes": 128, "evaluation_episodes": 200}
    return replace(args, **{name: min(value, getattr(args, name)) for name, value in small.items()})


@dataclass
class Run:
    """What a run works with."""

    args: Args
    model: PolicyModel
    envs: dict[str, list[Env]]
    workers: Workers
    folder: RunFolder

    def rng(self, purpose: int, iteration: int = 0) -> np.random.Generator:
        """A stream for one purpose in one iteration, so that an iteration depends on nothing before it but the weights."""
        return np.random.default_rng([self.args.seed, purpose, iteration])

    def rollout(self, split: str, seeds: list[int], *, temperature: float, seed: list[int]) -> list[Trajectory]:
        """Episodes of the present policy."""
        settings = {"temperature": temperature, "max_new_tokens": self.args.max_new_tokens, "seed": seed}
        return self.workers.rollout(self.model, self.envs[split], seeds, **settings)

    def validate(self) -> float:
        """Greedy success on the validation levels."""
        seeds = held_out_seeds("validation", self.args.validation_episodes)
        return float(np.mean([each.success for each in self.rollout("validation", seeds, temperature=0.0, seed=[0])]))


_SFT_ORDER, _LEVELS, _ORDER = range(3)


def prepare(args: Args) -> Run:
    """Make everything that a wrong setting can spoil, before anything takes time.

    Raises:
        ValueError: With one line that names the setting and says what is allowed.
    """
    check(args)
    workers = Workers(args.workers)
    arguments = parse_arguments(args.env_args)
    count = min(args.episodes, 256)
    envs = {split: make_envs(args.env_id, split, count, arguments) for split in {"train", "validation", args.split}}
    model = load_policy_model(args.model, seed=args.seed)
    folder = RunFolder(args.output_dir or default_folder(args.env_id, args.seed), asdict(args))
    return Run(args, model, envs, workers, folder)


def reference_scores(run: Run) -> dict[str, Score]:
    """Random agent and oracle on the levels of the closing table, as far as the environment knows them."""
    env, seeds = run.envs[run.args.split][0], held_out_seeds(run.args.split, run.args.evaluation_episodes)
    episodes: dict[str, list[Trajectory]] = {}
    if env.has_wrapper_attr("random_action"):
        episodes["random"] = play(env, RandomAgent(env, seed=run.args.seed), seeds)
    if env.has_wrapper_attr("oracle_action"):
        episodes["oracle"] = play(env, OracleAgent(env), seeds)
    success = {name: float(np.mean([each.success for each in played])) for name, played in episodes.items()}
    reference = (success.get("random", 0.0), success.get("oracle", 1.0))
    return {name: score_trajectories(played, reference) for name, played in episodes.items()}


def imitate(run: Run) -> None:
    """Supervised fine-tuning on the demonstrator's episodes."""
    args = run.args
    seeds = run.rng(_LEVELS).integers(TRAIN_SEEDS, size=args.demonstration_episodes).tolist()
    bar = tqdm(seeds, desc="demonstrations", unit="episode")
    demonstrations = oracle_demonstrations(run.envs["train"][0], run.model.format, bar)
    settings = SFTSettings(
        epochs=args.sft_epochs,
        patience=args.sft_patience,
        batch=args.sft_batch,
        optimizer=args.optimizer,
        learning_rate=args.sft_learning_rate,
        max_tokens=args.max_tokens,
    )
    train_sft(run.model, demonstrations, settings, run.validate, run.workers, run.folder, run.rng(_SFT_ORDER))


@dataclass
class Sample:
    """A trajectory with what an update needs, each `(sampled tokens,)`."""

    trajectory: Trajectory
    old_log_probs: Tensor
    old_values: Tensor
    advantages: Tensor
    returns: Tensor


def make_samples(trajectories: list[Trajectory], args: Args) -> list[Sample]:
    """Advantages, whitened over all sampled tokens of the rollout, and returns. Samples that we spoiled are left out."""
    kept = [each for each in trajectories if each.valid]
    values = [np.array([each.values[at] for at in each.policy_positions()]) for each in kept]
    advantages = [
        gae(
            token_rewards(each.rewards, each.turn_ends()),
            own,
            each.turn_ends(),
            each.bootstrap_value,
            turn_gamma=args.turn_gamma,
            turn_lambda=args.turn_lambda,
        )
        for each, own in zip(kept, values, strict=True)
    ]
    white = np.split(whiten(np.concatenate(advantages)), np.cumsum([len(own) for own in advantages])[:-1])
    return [
        Sample(
            trajectory=each,
            old_log_probs=torch.tensor([each.log_probs[at] for at in each.policy_positions()]),
            old_values=torch.tensor(own, dtype=torch.float32),
            advantages=torch.tensor(scaled, dtype=torch.float32),
            returns=torch.tensor(raw + own, dtype=torch.float32),
        )
        for each, own, raw, scaled in zip(kept, values, advantages, white, strict=True)
    ]


def batch_gradients(run: Run, samples: list[Sample]) -> dict[str, float]:
    """Set the gradients of PPO's loss over some samples, and return the sums that the metrics are made of."""
    args, tokens = run.args, sum(len(sample.returns) for sample in samples)
    sums: list[dict[str, float]] = []

    def loss(group: list[int]) -> Tensor:
        mine = [samples[index] for index in group]
        old_log_probs, old_values, advantages, returns = (
            torch.cat([getattr(sample, name) for sample in mine])
            for name in ("old_log_probs", "old_values", "advantages", "returns")
        )
        now = run.model.score([sample.trajectory for sample in mine])
        policy, clipped = losses.policy_loss(
            now.log_probs, old_log_probs, advantages, clip_low=args.clip_low, clip_high=args.clip_high
        )
        value = losses.value_loss(now.values, old_values, returns, clip=args.value_clip)
        entropy, kl = now.entropy.sum(), losses.approximate_kl(now.log_probs, old_log_probs)
        terms = {"policy_loss": policy, "value_loss": value, "entropy": entropy, "approximate_kl": kl}
        terms["clip_fraction"] = clipped.sum()
        sums.append({name: term.item() / tokens for name, term in terms.items()})
        sums[-1]["ratio_error"] = (now.log_probs - old_log_probs).exp().sub(1).abs().max().item()
        return (policy + args.value_coefficient * value - args.entropy_coefficient * entropy) / tokens

    run.workers.set_gradients(run.model, micro_batches([sample.trajectory for sample in samples], args.max_tokens), loss)
    total = {name: sum(part[name] for part in sums) for name in sums[0] if name != "ratio_error"}
    return {**total, "ratio_error": max(part["ratio_error"] for part in sums)}


def update(run: Run, optimizer: Optimizer, samples: list[Sample], iteration: int) -> dict[str, float]:
    """Several passes of clipped policy gradient over one rollout."""
    args, rng, steps = run.args, run.rng(_ORDER, iteration), []
    learning_rate = args.learning_rate * schedule(iteration, args.iterations)
    for _ in range(args.epochs):
        for part in np.array_split(rng.permutation(len(samples)), min(args.minibatches, len(samples))):
            metrics = batch_gradients(run, [samples[index] for index in part])
            norm = torch.nn.utils.clip_grad_norm_(run.model.parameters(), args.max_gradient_norm)
            steps.append({**metrics, "gradient_norm": norm.item()})
            assert len(steps) > 1 or metrics["ratio_error"] < 1e-4, f"sampling and training disagree: {metrics}"
            optimizer.step(learning_rate)
    mean = {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}
    return {**mean, "ratio_error": steps[0]["ratio_error"]}


def iterate(run: Run, optimizer: Optimizer, iteration: int) -> dict[str, float]:
    """One rollout and its update."""
    args = run.args
    seeds = run.rng(_LEVELS, iteration + 1).integers(TRAIN_SEEDS, size=args.episodes).tolist()
    trajectories = run.rollout("train", seeds, temperature=1.0, seed=[args.seed, iteration])
    score = score_trajectories(trajectories, (0.0, 1.0))
    samples = make_samples(trajectories, args)
    returns, values = (torch.cat([getattr(sample, name) for sample in samples]) for name in ("returns", "old_values"))
    metrics = {
        "success": score.success,
        "episode_return": score.episode_return,
        "turns": score.turns,
        "invalid_rate": score.invalid_rate,
        "explained_variance": float(1 - (returns - values).var() / returns.var().clamp(min=1e-8)),
        **update(run, optimizer, samples, iteration),
    }
    if iteration % args.validate_every == 0:
        run.folder.save_trajectories("ppo", trajectories[:2], run.model.tokenizer.decode)
    return metrics


def schedule(iteration: int, iterations: int) -> float:
    """Share of the peak learning rate: up over 5 iterations, then linearly down to a tenth."""
    return min(1.0, (iteration + 1) / 5) * (1 - 0.9 * iteration / max(1, iterations))


def reinforce(run: Run) -> None:
    """PPO; the model ends with the weights that did best on the validation levels, the start included."""
    optimizer = Optimizer(run.model, run.args.optimizer)
    best = run.validate()
    run.folder.save_model("ppo", run.model)
    bar = tqdm(range(run.args.iterations), desc="PPO", unit="iteration")
    for iteration in bar:
        metrics = iterate(run, optimizer, iteration)
        if (iteration + 1) % run.args.validate_every == 0 or iteration + 1 == run.args.iterations:
            metrics["validation_success"] = run.validate()
            if metrics["validation_success"] > best:
                best = metrics["validation_success"]
                run.folder.save_model("ppo", run.model)
        run.folder.log("ppo", iteration, metrics)
        bar.set_postfix(success=f"{metrics['success']:.3f}", validation=f"{best:.3f}", entropy=f"{metrics['entropy']:.2f}")
    bar.close()
    run.folder.load_model("ppo", run.model)


def train(run: Run) -> dict[str, Any]:
    """The whole recipe; returns the summary that the folder keeps too."""
    args = run.args
    scores = reference_scores(run)
    reference = tuple(scores[name].success if name in scores else bound for name, bound in (("random", 0.0), ("oracle", 1.0)))
    seeds = held_out_seeds(args.split, args.evaluation_episodes)

    def evaluate() -> Score:
        return score_trajectories(run.rollout(args.split, seeds, temperature=0.0, seed=[0]), reference)

    if args.demonstrations != "none":
        imitate(run)
        scores["sft"] = evaluate()
    reinforce(run)
    scores["ppo"] = evaluate()
    rows = {name: scores[name] for name in ("random", "sft", "ppo", "oracle") if name in scores}
    summary = {"env_id": args.env_id, "seed": args.seed, "split": args.split, "quick": args.quick}
    summary |= {"wall_s": round(run.folder.wall_s, 1), **{name: score.to_dict() for name, score in rows.items()}}
    run.folder.finish(summary)
    title = f"{args.env_id}, {args.model}, seed {args.seed}"
    learning_curve(run.folder.read_metrics(), reference, title, run.folder.path / "learning_curve.png")
    print(f"\n{args.env_id}, {args.split} levels, greedy replies{', --quick: not a result' if args.quick else ''}")
    print(table(rows))
    print(f"\n{run.folder.wall_s / 60:.1f} minutes; run folder: {run.folder.path}")
    return summary


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    try:
        args = tyro.cli(Args, args=argv, description=__doc__)
        run = prepare(quick(args) if args.quick else args)
    except ValueError as error:
        print(f"ppo_llm: {error}", file=sys.stderr)
        return 2
    train(run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
