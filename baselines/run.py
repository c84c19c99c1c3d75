"""What every recipe begins and ends with: settings, environments, model and folder; imitation; the closing table."""

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import tyro
from tqdm import tqdm

from turngym.agents.models import PolicyModel, load_policy_model
from turngym.agents.rollout import collect_rollout
from turngym.agents.scripted import OracleAgent, RandomAgent
from turngym.agents.served import ServedPolicy, VLLMServer
from turngym.agents.trajectory import Trajectory
from turngym.baselines.demonstrations import TEACHERS, load_demonstrations, oracle_demonstrations
from turngym.baselines.environments import TRAIN_SEEDS, Env, held_out_seeds, make_envs, parse_arguments
from turngym.baselines.evaluation import play, score_trajectories, table
from turngym.baselines.parallel import Workers
from turngym.baselines.plots import collapse_dashboard, learning_curve
from turngym.baselines.run_folder import RunFolder, default_folder, read_config
from turngym.baselines.sft import SFTSettings, train_sft
from turngym.baselines.task_metrics import task_metrics, told
from turngym.envs.splits import Split
from turngym.wrappers import ReasoningWrapper

_MOST_ENVS = 256
_QUICK_TOKENS, _QUICK_TOKENS_AN_EPISODE = 16, 300
"""Longest reply, and longest episode, up to which `--quick` plays its usual number of episodes."""

_ACTION_TOKENS, _THOUGHT_TOKENS = 8, 56
_DEMONSTRATION_LEVELS, _SFT_ORDER = range(2)


@dataclass(frozen=True)
class CommonArgs:
    """Settings that every recipe shares."""

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
    resume: Path | None = None
    """The folder of an interrupted run, to go on with under its own settings; no other setting may stand beside it."""
    seed: int = 0
    """Decides weights, levels, luck and sampling."""
    quick: bool = False
    """A complete run in about a minute, to try a setup. Its figures are not a result."""
    workers: int = 2
    """Threads that share rollouts and updates; one a core."""
    reply_format: Literal["action", "think"] = "action"
    """action: a reply is an action. think: <think>...</think><answer>action</answer>, trained as one sequence."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """muon for a model from scratch; adamw for a pretrained one."""

    demonstrations: str = "oracle"
    """Where imitation starts from: oracle (of the environment), rstar2 (the planner, on maps of PathPlanning-v0
    and RStar2-v0), none, or a file with lines of seed and replies."""
    demonstration_episodes: int = 1000
    """How many training levels the oracle plays. Fixed: more would raise the start, and hide what RL adds."""
    sft_epochs: int = 30
    """At most so many passes over the demonstrations."""
    sft_patience: int = 8
    """SFT ends after so many epochs without a better validation score, and keeps its best weights."""
    sft_batch: int = 32
    """Demonstrations in an optimiser step."""
    sft_learning_rate: float = 2e-3
    """Peak learning rate of SFT; for a pretrained model of 100M parameters or more try 1e-5 to 1e-4."""

    max_new_tokens: int | None = None
    """Longest reply in tokens, its end token included; by default 8 or the env's reply_tokens, and 56 with thoughts."""
    history_turns: int | None = None
    """Turns before the present one that the policy remembers, beside the instructions; by default all. With it, each
    turn is a training sample of its own, and episodes may be longer than the model can read."""
    server: str | None = None
    """Where a vLLM server samples all episodes, for example http://localhost:8000 (docs/models.md says how to start
    it); by default they are sampled here."""
    server_model: str | None = None
    """What the server calls the model; by default as --model does."""
    max_tokens: int = 2048
    """Padded tokens in a micro-batch: bounds memory; changes no result beyond rounding."""
    checkpoint_every: int = 5
    """Iterations between saved states, from which --resume goes on."""
    validate_every: int = 20
    """Iterations between validations; the best validated weights are kept."""
    validation_episodes: int = 256
    """Episodes of a validation, greedy."""
    evaluation_episodes: int = 1000
    """Episodes of each row of the closing table, greedy."""

    def check(self) -> None:
        """Raise `ValueError` for a number that is out of range; a recipe adds what its own settings need."""
        for name, least in {**dict.fromkeys(_AT_LEAST_ONE, 1), **dict.fromkeys(_AT_LEAST_ZERO, 0)}.items():
            value = getattr(self, name, None)
            if value is not None and value < least:
                raise ValueError(f"{option(name)} must be at least {least}, got {value}")
        if getattr(self, "reward_scale", 1.0) <= 0:
            raise ValueError(f"--reward-scale must be above 0, got {self.reward_scale}")
        for name in _SHARES:
            value = getattr(self, name, 0.0)
            if not 0 <= value <= 1:
                raise ValueError(f"{option(name)} must lie in 0 .. 1, got {value}")


_AT_LEAST_ONE = """workers demonstration_episodes sft_epochs sft_patience sft_batch max_new_tokens max_tokens episodes
    checkpoint_every validate_every validation_episodes evaluation_episodes epochs minibatches group_size""".split()  # noqa: SIM905
_AT_LEAST_ZERO = ["seed", "iterations", "critic_warmup", "history_turns"]
_SHARES = ["retry_share"]


def option(name: str) -> str:
    """A setting as it is written on the command line."""
    return f"--{name.replace('_', '-')}"


AnyArgs = TypeVar("AnyArgs", bound=CommonArgs)


def limited(args: AnyArgs, *, iterations: int, episodes: int) -> AnyArgs:
    """The same settings with some numbers cut down, for `--quick`; the longer replies and episodes, the fewer of them.

    To read a demonstration costs little, to write a reply much: long replies alone do not make demonstrations fewer.

    Raises:
        ValueError: If there is no such environment.
    """
    env = make_replied(args, "train", 1)[0]
    reply = args.max_new_tokens or reply_tokens(env, args.reply_format)
    long = max(1, _longest_episode(env, reply) // _QUICK_TOKENS_AN_EPISODE)
    share = max(long, reply // _QUICK_TOKENS)
    env.close()
    counts = {"validation_episodes": 128, "evaluation_episodes": 200, "episodes": episodes}
    limits = {name: max(1, count // share) for name, count in counts.items()}
    limits |= {"demonstration_episodes": max(1, 300 // long), "sft_epochs": 8}
    limits["sft_batch"] = 8  # more steps on the few
    limits |= {"validate_every": 4, "iterations": iterations}
    known = {name: limit for name, limit in limits.items() if hasattr(args, name)}
    return dataclasses.replace(args, **{name: min(limit, getattr(args, name)) for name, limit in known.items()})


def _longest_episode(env: Env, reply: int) -> int:
    """About how many tokens an episode has that is played to its last turn, as far as the environment tells."""
    observation, _ = env.reset(seed=0)
    turns = env.get_wrapper_attr("turns_left") if env.has_wrapper_attr("turns_left") else 1
    return int(turns) * (len(observation.split()) + reply)


@dataclass
class Run:
    """What a recipe works with."""

    args: Any
    model: PolicyModel
    envs: dict[str, list[Env]]
    workers: Workers
    folder: RunFolder
    server: VLLMServer | None = None

    def rng(self, *purpose: int) -> np.random.Generator:
        """A stream for one purpose, so that a step depends on nothing before it but the weights."""
        return np.random.default_rng([self.args.seed, *purpose])

    def rollout(
        self,
        split: str,
        seeds: list[int],
        *,
        temperature: float,
        seed: list[int],
        groups: list[int] | None = None,
        noise_seeds: list[int] | None = None,
        max_new_tokens: int | None = None,
    ) -> list[Trajectory]:
        """Episodes of the present policy, with replies of at most `max_new_tokens` (by default the settings')."""
        env = self.envs[split][0]
        length = max_new_tokens or self.args.max_new_tokens or reply_tokens(env, self.args.reply_format)
        stop = env.get_wrapper_attr("stop_strings") if env.has_wrapper_attr("stop_strings") else ()
        settings = {"temperature": temperature, "max_new_tokens": length, "seed": seed, "stop": stop}
        settings["history_turns"] = self.args.history_turns
        if self.server:
            self.server.load(self.model)
            policy = ServedPolicy(self.model, self.server, **settings)
            return collect_rollout(policy, self.envs[split], seeds, groups=groups, noise_seeds=noise_seeds)
        return self.workers.rollout(self.model, self.envs[split], seeds, groups, noise_seeds, **settings)

    def validate(self) -> float:
        """Greedy success on the validation levels."""
        seeds = held_out_seeds("validation", self.args.validation_episodes)
        return float(np.mean([each.success for each in self.rollout("validation", seeds, temperature=0.0, seed=[0])]))


def reply_tokens(env: Env, reply_format: str) -> int:
    """The longest reply that an environment needs, in tokens of the tiny model."""
    action = env.get_wrapper_attr("reply_tokens") if env.has_wrapper_attr("reply_tokens") else _ACTION_TOKENS
    return int(action) + (_THOUGHT_TOKENS if reply_format == "think" else 0)


def prepare(args: CommonArgs, count: int) -> Run:
    """Make everything that a wrong setting can spoil, before anything takes time.

    Args:
        args: The settings; with `resume`, those of the run that is gone on with.
        count: Environments to make of each split.

    Raises:
        ValueError: With one line that names the setting and says what is allowed.
    """
    args.check()
    if args.demonstrations not in (*TEACHERS, "none") and not Path(args.demonstrations).is_file():
        raise ValueError(
            f"--demonstrations {args.demonstrations}: allowed are {', '.join(TEACHERS)}, none, or an existing file"
        )
    if args.server and args.history_turns is not None:
        raise ValueError(f"--history-turns {args.history_turns}: a server is asked for whole transcripts only")
    workers = Workers(args.workers)
    envs = {split: make_replied(args, split, count) for split in ("train", "validation", args.split)}
    teacher = args.demonstrations
    if teacher in TEACHERS and not envs["train"][0].has_wrapper_attr(f"{teacher}_action"):
        raise ValueError(
            f"--demonstrations {teacher}: {args.env_id} has no {teacher}_action; use none, or a file of episodes"
        )
    if teacher in TEACHERS and teacher != "oracle" and args.reply_format != "action":
        raise ValueError(f"--demonstrations {teacher}: it has no thoughts; use --reply-format action")
    model = load_policy_model(args.model, seed=args.seed)
    if args.resume:
        folder = RunFolder.reopen(args.resume)
    else:
        folder = RunFolder.create(args.output_dir or default_folder(args.env_id, args.seed), dataclasses.asdict(args))
    server = VLLMServer(args.server, args.server_model or args.model, folder.path / "served") if args.server else None
    return Run(args, model, envs, workers, folder, server)


def make_replied(args: CommonArgs, split: Split, count: int) -> list[Env]:
    """Environments of a split, which read replies of the format that the settings ask for."""
    envs = make_envs(args.env_id, split, min(count, _MOST_ENVS), parse_arguments(args.env_args))
    return [ReasoningWrapper(env) for env in envs] if args.reply_format == "think" else envs


def resumed(args: AnyArgs) -> AnyArgs:
    """The settings of the run that `--resume` names.

    Raises:
        ValueError: If another setting stands beside `--resume`, or there is no run to go on with.
    """
    assert args.resume is not None
    if dataclasses.replace(args, resume=None) != type(args)():
        raise ValueError(f"--resume {args.resume} goes on under the run's own settings: leave the other settings out")
    saved = {name: tuple(each) if isinstance(each, list) else each for name, each in read_config(args.resume).items()}
    unknown = sorted(set(saved) - {field.name for field in dataclasses.fields(args)})
    if unknown:
        raise ValueError(f"--resume {args.resume}: another recipe began this run, one with {', '.join(unknown)}")
    return type(args)(**{**saved, "resume": args.resume, "output_dir": None})


def finished(folder: Path, split: Split | None, workers: int, env_args: Sequence[str] = ()) -> tuple[Run, Split]:
    """A complete run, to be evaluated once more, and the split to do it on: the given one, else the run's own.

    `env_args` come after the run's own and so replace those of the same name.

    Raises:
        ValueError: If there is no run in the folder, it is not complete, or an argument is not understood.
    """
    if not (folder / "summary.json").is_file():
        raise ValueError(f"{folder}: no complete run is here (there is no summary.json)")
    saved = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    known = {field.name for field in dataclasses.fields(CommonArgs)}
    args = CommonArgs(**{name: value for name, value in saved.items() if name in known})
    args = dataclasses.replace(args, env_args=(*args.env_args, *env_args))
    split = split or args.split
    envs = {split: make_replied(args, split, _MOST_ENVS)}
    model = load_policy_model(args.model, seed=args.seed)
    return Run(args, model, envs, Workers(workers), RunFolder(folder, None)), split


def command_line(
    settings: type[AnyArgs],
    train: Callable[[Run], Any],
    argv: Sequence[str] | None,
    description: str | None,
    *,
    iterations: int,
    episodes: int,
) -> int:
    """The command line of a recipe: 0 after a complete run, 2 with one clear line where a setting is wrong.

    Args:
        settings: What can be set.
        train: The recipe.
        argv: Arguments; by default those of the process.
        description: Stands above the settings in `--help`.
        iterations: At most so many with `--quick`.
        episodes: At most so many in a rollout with `--quick`.
    """
    args = tyro.cli(settings, args=argv, description=description)
    try:
        if args.resume:
            args = resumed(args)
        elif args.quick:
            args = limited(args, iterations=iterations, episodes=episodes)
        run = prepare(args, getattr(args, "episodes", _MOST_ENVS))
    except ValueError as error:
        recipe = sys.modules[settings.__module__].__file__
        print(f"{Path(recipe or '').stem}: {error}", file=sys.stderr)
        return 2
    train(run)
    return 0


def begin(run: Run, name: str) -> None:
    """Bring the model to where the recipe of this name starts: imitation, as far as there is something to imitate."""
    if run.args.demonstrations == "none":
        return
    if run.folder.state_of(name):
        run.folder.load_model("sft", run.model)
    else:
        imitate(run)


def demonstrated(run: Run) -> list[Trajectory]:
    """The demonstrations that the settings ask for."""
    args, env = run.args, run.envs["train"][0]
    memory = {"history_turns": args.history_turns}
    if args.demonstrations not in TEACHERS:
        return load_demonstrations(Path(args.demonstrations), env, run.model.format, **memory)
    seeds = run.rng(_DEMONSTRATION_LEVELS).integers(TRAIN_SEEDS, size=args.demonstration_episodes).tolist()
    seeds_shown = tqdm(seeds, desc="demonstrations", unit="episode")
    return oracle_demonstrations(env, run.model.format, seeds_shown, args.demonstrations, **memory)


def sft_settings(args: CommonArgs) -> SFTSettings:
    """How to imitate, as the settings say."""
    return SFTSettings(
        epochs=args.sft_epochs,
        patience=args.sft_patience,
        batch=args.sft_batch,
        optimizer=args.optimizer,
        learning_rate=args.sft_learning_rate,
        max_tokens=args.max_tokens,
    )


def imitate(run: Run, demonstrations: Sequence[Trajectory] | None = None, settings: SFTSettings | None = None) -> None:
    """Supervised fine-tuning; the model ends with its best weights, which are saved as `sft`.

    Args:
        run: The run.
        demonstrations: What to imitate; by default what its settings ask for.
        settings: How; by default as they say.
    """
    demonstrations = demonstrated(run) if demonstrations is None else demonstrations
    settings = settings or sft_settings(run.args)
    train_sft(
        run.model, demonstrations, settings, run.validate, run.workers, run.folder, lambda e: run.rng(_SFT_ORDER, e)
    )


def reference_episodes(run: Run, seeds: list[int]) -> dict[str, list[Trajectory]]:
    """Episodes of the random agent and of the oracle, as far as the environment knows them."""
    env, episodes = run.envs[run.args.split][0], {}
    if env.has_wrapper_attr("random_action"):
        episodes["random"] = play(env, RandomAgent(env, seed=run.args.seed), seeds)
    if env.has_wrapper_attr("oracle_action"):
        episodes["oracle"] = play(env, OracleAgent(env), seeds)
    return episodes


def report(run: Run) -> dict[str, Any]:
    """Evaluate what was trained, write summary and learning curve, and print the closing table."""
    args = run.args
    seeds = held_out_seeds(args.split, args.evaluation_episodes)
    episodes = reference_episodes(run, seeds)
    policies = run.folder.models()
    for name in policies:
        run.folder.load_model(name, run.model)
        episodes[name] = run.rollout(args.split, seeds, temperature=0.0, seed=[0])
    reference = tuple(
        float(np.mean([each.success for each in episodes[name]])) if name in episodes else bound
        for name, bound in (("random", 0.0), ("oracle", 1.0))
    )
    order = [name for name in ("random", *policies, "oracle") if name in episodes]
    rows = {name: score_trajectories(episodes[name], reference) for name in order}
    summary = {"env_id": args.env_id, "seed": args.seed, "split": args.split, "quick": args.quick}
    summary |= {"wall_s": round(run.folder.wall_s, 1), "cpu_s": round(run.folder.cpu_s, 1)}
    summary |= {name: score.to_dict() for name, score in rows.items()}
    measured = {name: task_metrics(episodes[name]) for name in policies}
    if any(measured.values()):
        summary["metrics"] = {
            name: {metric: each.values for metric, each in measured[name].items()} for name in policies
        }
    title = f"{args.env_id}, {args.model}, seed {args.seed}"
    metrics = run.folder.read_metrics()
    learning_curve(metrics, reference, title, run.folder.path / "learning_curve.png")
    if any("group_reward_std" in line for line in metrics):
        collapse_dashboard(metrics, title, run.folder.path / "collapse.png")
    run.folder.finish(summary)
    print(f"\n{args.env_id}, {args.split} levels, greedy replies{', --quick: not a result' if args.quick else ''}")
    print(table(rows))
    print(told(measured), end="")
    print(f"\n{run.folder.wall_s / 60:.1f} minutes; run folder: {run.folder.path}")
    return summary
