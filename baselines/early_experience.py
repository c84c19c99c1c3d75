"""Early Experience: more from the same demonstrations, by trying out what they did not do. No reward is needed.

    python baselines/early_experience.py --method world_model      # tiny on TextFrozenLake-v0, minutes on 2 cores
    python baselines/early_experience.py --method reflection --reply-format think
    python baselines/early_experience.py --method imitation        # the same demonstrations and updates without it
    python baselines/early_experience.py --quick                   # a complete run in about a minute, to try a setup
    python baselines/ppo_llm.py --model runs/<folder>/model --demonstrations none      # RL goes on from there
    python baselines/early_experience.py --resume runs/<folder>    # goes on where an interrupted run stopped

From every state of a demonstration some other actions are carried out (`branching.py`). What is learned from that:

| --method | before imitation | imitated |
|---|---|---|
| imitation | nothing | the demonstrations |
| world_model | what follows each action that was tried, the demonstrated one too, under a prompt of its own | the demonstrations |
| reflection | nothing | the demonstrations with thoughts: what came of each action, and so the demonstrated one |

All have the same number of optimiser updates at most: what a world model takes is taken off imitation, in whole passes.
A reflection stands where the outcomes speak for the demonstrated action and nothing leaks; elsewhere the thought is
empty, so that plain demonstrations are mixed in. With `--reply-format think` the other two methods imitate the oracle's
own thoughts, where it has any: these know more than outcomes tell.

The run folder also gets `experience.jsonl`, a line for each state with all that was tried there, and `model/`, a
transformers model for `--model`. Metrics are those of SFT, and

| name | what |
|---|---|
| states, transitions, reflections | of stage `experience`: how many states, outcomes of actions, and thoughts that were kept |
| loss | of stage `pretraining`: of the world model, nats a token |

Source: arXiv:2510.08558.
"""  # noqa: E501  # a table's row is one line

import dataclasses
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

try:
    from tqdm import tqdm

    from turngym.agents.models import PolicyModel
    from turngym.agents.trajectory import Trajectory
    from turngym.baselines.branching import Branch, branch, owner_of_state, reflections, transition
    from turngym.baselines.demonstrations import ReplayAgent, demonstrate
    from turngym.baselines.environments import Env, make_envs, parse_arguments
    from turngym.baselines.run import CommonArgs, Run, command_line, demonstrated, imitate, report, sft_settings
    from turngym.baselines.run_folder import write_whole
    from turngym.baselines.sft import pretrain, updates_a_pass
    from turngym.wrappers.reasoning import Reply, parse_reply
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error


@dataclass(frozen=True)
class Args(CommonArgs):
    """Learn from demonstrations and from what could have been done instead."""

    method: Literal["world_model", "reflection", "imitation"] = "world_model"
    """What is learned beside the demonstrations; see the table above. reflection needs --reply-format think."""
    demonstration_episodes: int = 100
    """How many training levels the oracle plays. Few: this is for when demonstrations are dear."""
    alternatives: int = 3
    """Other actions that are tried in each state, at most."""
    world_model_share: float = 0.3
    """At most this share of the updates goes into the world model, and at most one pass over what was tried."""
    world_model_batch: int = 128
    """Tried actions in an update of the world model; an update of imitation has whole episodes."""

    def check(self) -> None:
        """Raise `ValueError` for what is out of range."""
        super().check()
        for name in ("alternatives", "world_model_batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.world_model_share <= 1:
            raise ValueError(f"--world-model-share must lie in 0 .. 1, got {self.world_model_share}")
        if self.demonstrations == "none":
            raise ValueError("--demonstrations none: there is nothing to branch from; use oracle, or a file")
        owner_of_state(self.bare_env())
        if self.method == "reflection" and self.reply_format != "think":
            raise ValueError("--method reflection: thoughts need --reply-format think")

    def bare_env(self) -> Env:
        """The environment itself, in whatever format replies are: thoughts play no part in what it does."""
        return make_envs(self.env_id, "train", 1, parse_arguments(self.env_args))[0]


_TRIED, _ORDER = range(20, 22)  # purposes of random streams; those below belong to run.py and policy_gradient.py


@dataclass(frozen=True)
class Lessons:
    """What a method learns from.

    Attributes:
        imitated: Episodes.
        predicted: Exchanges that a world model learns before.
        thoughts: How many thoughts were added.
    """

    imitated: list[Trajectory]
    predicted: Sequence[Trajectory] = ()
    thoughts: int = 0


def action_of(reply: str) -> str:
    """What a reply has the environment do, without the thought before it."""
    parsed = parse_reply(reply)
    return parsed.action if isinstance(parsed, Reply) else reply


def explore(run: Run, demonstrations: Sequence[Trajectory]) -> list[list[Branch]]:
    """The branches of every demonstration."""
    args, rng, explored = run.args, run.rng(_TRIED), []
    env = args.bare_env()
    for each in tqdm(demonstrations, desc="experience", unit="episode"):
        actions = [action_of(run.model.decode(ids)) for ids in each.replies()]
        explored.append(branch(env, actions, each.seed, count=args.alternatives, rng=rng))
    env.close()
    return explored


def imitation(run: Run, demonstrations: list[Trajectory], explored: list[list[Branch]]) -> Lessons:
    """The demonstrations, and nothing else."""
    return Lessons(demonstrations)


def world_model(run: Run, demonstrations: list[Trajectory], explored: list[list[Branch]]) -> Lessons:
    """Every executed action with what followed, before the demonstrations."""
    _, info = run.args.bare_env().reset(seed=0)
    instructions, form = str(info.get("instructions", "")), run.model.format
    predicted = [
        transition(each, outcome, instructions, form)
        for branches in explored
        for each in branches
        for outcome in each.outcomes
    ]
    return Lessons(demonstrations, predicted)


def reflection(run: Run, demonstrations: list[Trajectory], explored: list[list[Branch]]) -> Lessons:
    """The demonstrations with thoughts that their outcomes speak for."""
    env, imitated, thoughts = run.envs["train"][0], [], 0
    for each, branches in zip(demonstrations, explored, strict=True):
        kept = reflections(branches)
        replies = [str(Reply(thought, own.chosen.action)) for thought, own in zip(kept, branches, strict=True)]
        imitated.append(
            demonstrate(env, ReplayAgent(replies), run.model.format, each.seed, history_turns=run.args.history_turns)
        )
        thoughts += sum(map(bool, kept))
    return Lessons(imitated, thoughts=thoughts)


METHODS = {"imitation": imitation, "world_model": world_model, "reflection": reflection}


def budget(args: Args, episodes: int, examples: int) -> tuple[int, int]:
    """Updates of the world model and passes of imitation; together no more updates than imitation alone has.

    Args:
        args: The settings.
        episodes: How many are imitated.
        examples: How many the world model learns from; without any, imitation has all.
    """
    a_pass = updates_a_pass(episodes, args.sft_batch)
    share = min(int(args.world_model_share * args.sft_epochs * a_pass), (args.sft_epochs - 1) * a_pass)
    updates = min(share, -(-examples // args.world_model_batch))
    return updates, args.sft_epochs - -(-updates // a_pass)


def write_experience(path: Path, demonstrations: Sequence[Trajectory], explored: Sequence[Sequence[Branch]]) -> None:
    """One JSON object a line for each state: seed, turn, observation, the chosen outcome and those that were tried."""
    lines = [
        {
            "seed": each.seed,
            "turn": turn,
            "observation": own.observation,
            "chosen": own.chosen.to_dict(),
            "tried": [outcome.to_dict() for outcome in own.tried],
        }
        for each, branches in zip(demonstrations, explored, strict=True)
        for turn, own in enumerate(branches)
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_whole(path, lambda scratch: scratch.write_text(text, encoding="utf-8"))


def save_transformers_model(model: PolicyModel, folder: Path) -> None:
    """Write the language model and its tokenizer to a folder that `--model` takes, whole or not at all."""

    def save(scratch: Path) -> None:
        shutil.rmtree(scratch, ignore_errors=True)
        model.lm.save_pretrained(scratch)
        model.tokenizer.save_pretrained(scratch)
        shutil.rmtree(folder, ignore_errors=True)

    write_whole(folder, save)


def train(run: Run) -> dict[str, Any]:
    """The whole recipe; returns the summary that the folder keeps too."""
    args, folder = run.args, run.folder
    demonstrations = demonstrated(run)
    explored = explore(run, demonstrations)
    lessons = METHODS[args.method](run, demonstrations, explored)
    if folder.state is None:
        write_experience(folder.path / "experience.jsonl", demonstrations, explored)
        states = [each for branches in explored for each in branches]
        counts = {"states": len(states), "transitions": sum(len(each.outcomes) for each in states)}
        folder.log("experience", 0, {**counts, "reflections": lessons.thoughts})
    settings = sft_settings(args)
    updates, epochs = budget(args, len(lessons.imitated), len(lessons.predicted))
    if updates and not folder.state_of("sft"):
        batched = dataclasses.replace(settings, batch=args.world_model_batch)
        pretrain(run.model, lessons.predicted, batched, updates, run.workers, folder, lambda e: run.rng(_ORDER, e))
    imitate(run, lessons.imitated, dataclasses.replace(settings, epochs=epochs))
    save_transformers_model(run.model, folder.path / "model")
    return report(run)


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 after a complete run, 2 where a setting is wrong."""
    return command_line(Args, train, argv, __doc__, iterations=0, episodes=1)


if __name__ == "__main__":
    sys.exit(main())
