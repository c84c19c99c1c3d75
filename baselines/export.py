"""Episodes as data for other trainers: messages and token ids, with a mark on what is to be learned in both.

    python baselines/export.py oracle demonstrations.jsonl --env-id TextFrozenLake-v0 --episodes 1000
    python baselines/export.py runs/<folder>/trajectories.jsonl episodes.jsonl --dataset episodes
    python baselines/export.py replies.jsonl demonstrations.jsonl --env-id your_module:YourEnv-v0 --model <hub id>

The first writes what `ppo_llm.py` with the same seed learns to imitate; the second what a run has played; the third
plays recorded replies again (JSON lines with `seed` and `replies`). One JSON object a line, one line an episode:

| name | what |
|---|---|
| messages | `role` (user, assistant), `content`, and `loss`: true for replies, which are to be learned, else false |
| input_ids | the whole transcript as the model read and wrote it |
| assistant_masks | 1 where the policy wrote the token, the end of a reply included, else 0 |
| env_id, seed, level_id, success, episode_return | whose episode it is, and how it went |

Instructions and first observation are one user message. Trainers that start from messages apply their own template;
those that take ids learn from exactly the tokens that were sampled (TRL's SFTTrainer knows both columns by these
names). `--dataset` writes the same rows as a Hugging Face dataset, for `datasets.load_from_disk`.
"""

import dataclasses
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

try:
    import numpy as np
    import tyro
    from tqdm import tqdm
    from transformers import AutoTokenizer

    from turngym.agents.models import MODEL_NAMES, load_policy_model
    from turngym.agents.templates import TurnFormat, turn_format
    from turngym.agents.trajectory import Trajectory
    from turngym.baselines.demonstrations import load_demonstrations, oracle_demonstrations
    from turngym.baselines.environments import TRAIN_SEEDS
    from turngym.baselines.run import CommonArgs, make_replied
    from turngym.baselines.run_folder import write_whole
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error

Record = dict[str, Any]
_DEMONSTRATION_LEVELS = 0  # the purpose that run.py draws them for


@dataclass(frozen=True)
class Args:
    """Write episodes down for other trainers."""

    source: Annotated[str, tyro.conf.Positional]
    """oracle (of the environment), or a file: a run's trajectories.jsonl, or lines with seed and replies."""
    output: Annotated[Path, tyro.conf.Positional]
    """The file to write, JSON lines; replaced where it exists."""
    dataset: Path | None = None
    """A new folder for the same rows as a Hugging Face dataset."""
    env_id: str = "TextFrozenLake-v0"
    """What is played: a registered id, or module:Id to import yours first. Not read for trajectories.jsonl."""
    env_args: tuple[str, ...] = ()
    """Arguments of the environment as name=value."""
    reply_format: Literal["action", "think"] = "action"
    """action: a reply is an action. think: <think>...</think><answer>action</answer>."""
    model: str | None = None
    """Whose tokenizer and chat template, by name, folder or hub id. By default those of the run, or of tiny."""
    episodes: int = 1000
    """How many training levels the oracle plays."""
    seed: int = 0
    """Decides which."""
    failures: bool = False
    """Whether recorded episodes that failed are written too."""


def messages(trajectory: Trajectory, form: TurnFormat) -> list[Record]:
    """The conversation of an episode; an observation that nothing answers is left out.

    Raises:
        ValueError: If the transcript was not written in this format.
    """
    said: list[Record] = []
    before = 0
    for start, end in _spans(trajectory):
        given, reply = trajectory.ids[before:start], trajectory.ids[start:end]
        for role, ids in (("user", _inside(given, form, first=not said)), ("assistant", _without_end(reply, form))):
            content = form.tokenizer.decode(ids, clean_up_tokenization_spaces=False)
            said.append({"role": role, "content": content, "loss": role == "assistant"})
        before = end
    return said


def _spans(trajectory: Trajectory) -> Iterator[tuple[int, int]]:
    """Where each reply begins and ends among the ids."""
    for turn in range(trajectory.turns):
        places = [at for at, own in enumerate(trajectory.turn_id) if own == turn]
        yield places[0], places[-1] + 1


def _inside(given: list[int], form: TurnFormat, *, first: bool) -> list[int]:
    """A user message's ids, without what the template puts around them."""
    if not first and given[:1] == [form.end]:
        given = given[1:]  # a reply that was cut off was ended for the policy
    opening = form.opening if first else form.turn_change
    content = given[len(opening) : len(given) - len(form.reply_opening)]
    if [*opening, *content, *form.reply_opening] != given:
        raise ValueError("--model: another chat template has written this transcript; name the model that it is of")
    return content


def _without_end(reply: list[int], form: TurnFormat) -> list[int]:
    return reply[:-1] if reply[-1] == form.end else reply


def record(trajectory: Trajectory, form: TurnFormat) -> Record:
    """An episode as one row; see the table above.

    Raises:
        ValueError: If the transcript was not written in this format.
    """
    *_, (_, end) = _spans(trajectory)
    if trajectory.ids[end - 1] != form.end:
        end += 1  # the end that was given to a reply that was cut off
    return {
        "messages": messages(trajectory, form),
        "input_ids": trajectory.ids[:end],
        "assistant_masks": trajectory.policy_mask[:end],
        "env_id": trajectory.env_id,
        "seed": trajectory.seed,
        "level_id": trajectory.level_id,
        "success": trajectory.success,
        "episode_return": trajectory.episode_return,
    }


def write_jsonl(records: Iterable[Record], path: Path) -> None:
    """Write rows to a file, one JSON object a line; whole or not at all."""
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda scratch: scratch.write_text(text, encoding="utf-8"))


def write_dataset(records: Sequence[Record], folder: Path) -> None:
    """Write rows as a Hugging Face dataset to a new or empty folder; whole or not at all."""
    from datasets import Dataset

    def save(scratch: Path) -> None:
        shutil.rmtree(scratch, ignore_errors=True)
        Dataset.from_list(list(records)).save_to_disk(scratch)

    folder.parent.mkdir(parents=True, exist_ok=True)
    write_whole(folder, save)


def recorded(path: Path) -> list[Trajectory]:
    """Read the `trajectories.jsonl` of a run.

    Raises:
        ValueError: If a line is not an episode with its tokens.
    """
    names, episodes = {field.name for field in dataclasses.fields(Trajectory)}, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            fields = json.loads(line)
            episodes.append(Trajectory(**{name: fields[name] for name in names}))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: expected an episode with its tokens ({error!r})") from error
    return [each for each in episodes if each.valid and each.turns]


def _has_tokens(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        return '"ids"' in file.readline()


def load_format(name: str) -> TurnFormat:
    """The chat format of a model; of one that did not come with this package, without its weights.

    Raises:
        ValueError: If there is no such model, or its template is not one that a history can grow in.
    """
    if name in MODEL_NAMES:
        return load_policy_model(name).format
    try:
        return turn_format(AutoTokenizer.from_pretrained(name))
    except (OSError, ValueError) as error:
        raise ValueError(f"--model {name}: its tokenizer cannot be used ({error})") from error


def collect(args: Args) -> list[Record]:
    """The rows that the settings ask for.

    Raises:
        ValueError: With one line that names the setting and says what is allowed.
    """
    path = Path(args.source)
    if args.source != "oracle" and not path.is_file():
        raise ValueError(f"{args.source}: allowed are oracle, or an existing file of episodes")
    if args.source != "oracle" and _has_tokens(path):
        config = path.with_name("config.json")
        saved = json.loads(config.read_text(encoding="utf-8"))["model"] if config.is_file() else "tiny"
        form, episodes = load_format(args.model or saved), recorded(path)
        episodes = [each for each in episodes if each.success or args.failures]
    else:
        form = load_format(args.model or "tiny")
        common = CommonArgs(env_id=args.env_id, env_args=args.env_args, reply_format=args.reply_format)
        env = make_replied(common, "train", 1)[0]
        if args.source == "oracle":
            rng = np.random.default_rng([args.seed, _DEMONSTRATION_LEVELS])
            seeds = rng.integers(TRAIN_SEEDS, size=args.episodes).tolist()
            episodes = oracle_demonstrations(env, form, tqdm(seeds, desc="demonstrations", unit="episode"))
        else:
            episodes = load_demonstrations(path, env, form)
        env.close()
    if not episodes:
        raise ValueError(f"{args.source}: no episode succeeded; --failures takes recorded ones that failed")
    return [record(each, form) for each in episodes]


def check(args: Args) -> None:
    """Raise `ValueError` for what would only fail after everything was played."""
    if args.episodes < 1 or args.seed < 0:
        raise ValueError("--episodes must be at least 1, --seed at least 0")
    if args.dataset is None:
        return
    if find_spec("datasets") is None:
        raise ValueError("--dataset: datasets is not installed: run  pip install datasets")
    if args.dataset.exists() and (not args.dataset.is_dir() or any(args.dataset.iterdir())):
        raise ValueError(f"--dataset {args.dataset}: this is in use; name a folder that does not exist yet")


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 when written, 2 where a setting is wrong."""
    args = tyro.cli(Args, args=argv, description=__doc__)
    try:
        check(args)
        records = collect(args)
    except ValueError as error:
        print(f"export: {error}", file=sys.stderr)
        return 2
    write_jsonl(records, args.output)
    if args.dataset is not None:
        write_dataset(records, args.dataset)
    masks = [each["assistant_masks"] for each in records]
    learned, tokens = sum(map(sum, masks)), sum(map(len, masks))
    print(f"{len(records)} episodes, {learned} of {tokens} tokens to be learned: {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
