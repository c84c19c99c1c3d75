r"""Cold-start data for CodeInterpreter-v0: solutions with programs and what they printed, each played and checked.

    python baselines/cold_start.py templates cold_start.jsonl --episodes 1000
    python baselines/ppo_llm.py --env-id CodeInterpreter-v0 --demonstrations cold_start.jsonl

The first writes solutions of our own questions by template, several ways of saying the same (`solutions.py`). Any
model can write them instead: it plays training levels behind a server, on its own or rewriting a solution that it is
shown (`rewriting.py`), and what it wrote is checked in the same way:

    python -m turngym.agents.api --env-id turngym.baselines.rewriting:CodeInterpreterRewriting-v0 --split train \
        --base-url URL --model NAME --temperature 0.7 --samples 4 --episodes 1000 --output-dir runs/rewritten
    python baselines/cold_start.py runs/rewritten/trajectories.jsonl cold_start.jsonl

A file has a JSON object a line: `seed`, and `replies` (perhaps with the `outputs` that they claim) or a `solution`, one
text in ReTool's form: <code>...</code><interpreter>...</interpreter> ... <answer>...</answer>.

Every solution is played in the environment. It is kept where each reply can be read, no program fails, every claimed
output is what the interpreter printed, and the answer is right; what is dropped is counted by its fault. Solutions with
a failed program that a later one mends are dropped too, since imitating them would teach the failure: in ReTool, to
correct an error is not in the cold start but learned by RL. --keep-errors keeps them.

An interrupted command goes on where it stopped when it is given again. The file is written when all is done, whole.
"""

import dataclasses
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol

try:
    import gymnasium
    import numpy as np
    import tyro
    from tqdm import tqdm

    from turngym.baselines.environments import TRAIN_SEEDS, make_envs, parse_arguments
    from turngym.baselines.run_folder import write_whole
    from turngym.baselines.solutions import TEMPLATES, TemplateAgent
    from turngym.envs.code_interpreter.grammar import STOP_STRINGS, Answer, parse_reply
    from turngym.envs.code_interpreter.output import CLOSING, OPENING
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error

Env = gymnasium.Env[str, str]
Record = dict[str, Any]
_DEMONSTRATION_LEVELS = 0  # the purpose that run.py draws them for: the oracle's levels, solved in other ways
_TEMPLATE_CHOICE = 2
_OUTPUT = re.compile(rf"\s*{re.escape(OPENING)}(.*?){re.escape(CLOSING)}", re.DOTALL)


@dataclass(frozen=True)
class Args:
    """Write checked solutions of CodeInterpreter-v0 for imitation."""

    source: Annotated[str, tyro.conf.Positional]
    """templates, or a file with solutions of a model."""
    output: Annotated[Path, tyro.conf.Positional]
    """The file to write, JSON lines of seed, replies and outputs; replaced where it exists."""
    env_args: tuple[str, ...] = ()
    """Arguments of the environment as name=value, for example difficulty=(2,5); training needs the same."""
    episodes: int = 1000
    """How many training levels the templates solve; those of ppo_llm.py's oracle with the same seed."""
    templates: tuple[str, ...] = tuple(name for name in TEMPLATES if name != "text")
    """Which templates, each equally likely. text: answers without a program, for a policy that has none."""
    call_always: bool = False
    """Whether templates run a program for questions to be known by heart too: a model such as tiny knows none."""
    keep_errors: bool = False
    """Whether a solution may contain programs that failed."""
    seed: int = 0
    """Decides levels and templates."""


class Agent(Protocol):
    """Solves a question reply by reply."""

    def act(self, observation: str) -> str | None:
        """The next reply, or None where there is no further one."""


@dataclass(frozen=True)
class Recorded:
    """A solution from a file.

    Attributes:
        seed: Of the level.
        replies: What was written.
        outputs: What the interpreter is claimed to have printed after each program; None for no claim.
    """

    seed: int
    replies: tuple[str, ...]
    outputs: tuple[str, ...] | None


class RecordedAgent:
    """Gives the replies of a recorded solution."""

    def __init__(self, replies: Sequence[str]) -> None:
        self._replies = iter(replies)

    def act(self, observation: str) -> str | None:
        """The next of them; the observation is not read."""
        return next(self._replies, None)


@dataclass(frozen=True)
class Played:
    """A solution as it went in the environment."""

    replies: tuple[str, ...]
    outputs: tuple[str, ...]
    infos: tuple[dict[str, Any], ...]


def play(env: Env, agent: Agent, observation: str) -> Played:
    """Play an episode that has just begun, until it ends or the agent has nothing more to say."""
    replies, outputs, infos, over = list[str](), list[str](), list[dict[str, Any]](), False
    while not over and (reply := agent.act(observation)) is not None:
        replies.append(reply)
        observation, _, terminated, truncated, info = env.step(reply)
        infos.append(info)
        if info["interpreter"]["status"] != "none":
            outputs.append(output_of(observation))
        over = terminated or truncated
    return Played(tuple(replies), tuple(outputs), tuple(infos))


def fault(played: Played, claimed: Sequence[str] | None = None, *, keep_errors: bool = False) -> str:
    """Why a solution is no good, or "" where it is.

    Args:
        played: The solution, as the environment took it.
        claimed: What its writer says that the interpreter printed; None for no claim.
        keep_errors: Whether programs may fail.
    """
    statuses = [info["interpreter"]["status"] for info in played.infos]
    if not all(info.get("valid", True) for info in played.infos):
        return "void: the sandbox failed"
    if not all(info["action_is_valid"] for info in played.infos):
        return "unreadable reply"
    if any(tag in reply for reply in played.replies for tag in (OPENING, CLOSING)):
        return "output written by hand"
    if not keep_errors and any(status not in ("ok", "none") for status in statuses):
        return "failed program"
    if claimed is not None and [each.strip() for each in claimed] != [each.strip() for each in played.outputs]:
        return "claimed output is not the interpreter's"
    if not played.replies or not isinstance(parse_reply(played.replies[-1]), Answer):
        return "no answer"
    return "" if played.infos[-1]["success"] else "wrong answer"


def output_of(observation: str) -> str:
    """What stands between the interpreter's tags."""
    match = _OUTPUT.match(observation)
    return match.group(1).strip("\n") if match else ""


def split_solution(text: str) -> tuple[list[str], list[str]]:
    """Cut a solution in one text into its replies and the outputs that it claims; what follows the answer is left out.

    A program without an output behind it claims that nothing was printed.
    """
    replies, outputs = list[str](), list[str]()
    while text.strip():
        reply, text = cut(text)
        replies.append(reply.strip())
        if not reply.endswith(STOP_STRINGS[0]):
            break
        match = _OUTPUT.match(text)
        outputs.append(match.group(1).strip("\n") if match else "")
        text = text[match.end() :] if match else text
    return replies, outputs


def cut(text: str) -> tuple[str, str]:
    """A text up to its first closing tag, and the rest."""
    end = min((text.find(stop) + len(stop) for stop in STOP_STRINGS if stop in text), default=len(text))
    return text[:end], text[end:]


def read_solutions(path: Path) -> list[Recorded]:
    """Solutions of a file; see above for its form.

    Raises:
        ValueError: If there is no such file, a line is not as described, or there is none.
    """
    if not path.is_file():
        raise ValueError(f"{path}: allowed are templates, or an existing file of solutions")
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
            if "solution" in told:
                replies, outputs = split_solution(str(told["solution"]))
            else:
                replies, outputs = [cut(str(reply))[0] for reply in told["replies"]], told.get("outputs")
            claimed = None if outputs is None else tuple(map(str, outputs))
            found.append(Recorded(int(told["seed"]), tuple(replies), claimed))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: expected seed, and replies or solution ({error!r})") from error
    if not found:
        raise ValueError(f"{path} holds no solution")
    return found


def by_template(args: Args, env: Env, first: int) -> Iterator[Record]:
    """One solution of each level from the `first` on, as a record with its fault."""
    seeds = np.random.default_rng([args.seed, _DEMONSTRATION_LEVELS]).integers(TRAIN_SEEDS, size=args.episodes)
    for index, seed in enumerate(seeds.tolist()[first:], first):
        rng = np.random.default_rng([args.seed, _TEMPLATE_CHOICE, index])
        template = args.templates[rng.integers(len(args.templates))]
        observation, _ = env.reset(seed=seed)
        problem = env.get_wrapper_attr("problem")
        by_heart = problem.by_heart and not args.call_always
        agent = TemplateAgent(dataclasses.replace(problem, by_heart=by_heart), template, rng)
        yield record(seed, play(env, agent, observation), keep_errors=args.keep_errors) | {"template": template}


def from_file(args: Args, env: Env, solutions: Sequence[Recorded], first: int) -> Iterator[Record]:
    """Each solution of a file from the `first` on, as a record with its fault; the second of two equal ones has one."""
    seen = {(each.seed, each.replies) for each in solutions[:first]}
    for each in solutions[first:]:
        observation, _ = env.reset(seed=each.seed)
        played = play(env, RecordedAgent(each.replies), observation)
        told = record(each.seed, played, each.outputs, keep_errors=args.keep_errors)
        told["fault"] = told["fault"] or ("said twice" if (each.seed, each.replies) in seen else "")
        seen.add((each.seed, each.replies))
        yield told


def record(seed: int, played: Played, claimed: Sequence[str] | None = None, *, keep_errors: bool) -> Record:
    """A solution as one line, with what is wrong with it."""
    return {
        "fault": fault(played, claimed, keep_errors=keep_errors),
        "seed": seed,
        "replies": list(played.replies),
        "outputs": list(played.outputs),
        "difficulty": played.infos[-1]["difficulty"] if played.infos else None,
    }


class Progress:
    """What an interrupted command has done: beside the output, a line with its settings and one for each solution.

    Args:
        output: The file that will be written in the end.
        settings: The settings of the command.

    Raises:
        ValueError: If another command was interrupted here.
    """

    def __init__(self, output: Path, settings: Record) -> None:
        self._path = progress_of(output)
        heading = json.dumps(settings, default=str)
        whole = self._path.read_bytes() if self._path.exists() else b""
        whole = whole[: whole.rfind(b"\n") + 1]  # a crash may have left a line without its end
        lines = whole.decode("utf-8").split("\n")[:-1]
        if lines and lines[0] != heading:
            raise ValueError(f"{self._path} is of a command with other settings: finish that one, or delete the file")
        self.done: list[Record] = [json.loads(line) for line in lines[1:]]
        if not lines:
            whole = f"{heading}\n".encode()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, lambda scratch: scratch.write_bytes(whole))
        os.truncate(self._path, len(whole))

    def add(self, told: Record) -> None:
        """Write a solution down."""
        self.done.append(told)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told, ensure_ascii=False) + "\n")


def progress_of(output: Path) -> Path:
    """Where an interrupted command leaves what it has done."""
    return output.with_name(output.name + ".progress")


def made_by(args: Args, env: Env) -> tuple[Callable[[int], Iterator[Record]], int]:
    """What makes the records that the settings ask for, from a given one on, and how many there are in all.

    Raises:
        ValueError: With one line that names the setting and says what is allowed.
    """
    if args.source != "templates":
        solutions = read_solutions(Path(args.source))
        return partial(from_file, args, env, solutions), len(solutions)
    if not args.templates or not set(args.templates) <= set(TEMPLATES):
        raise ValueError(f"--templates must be some of {', '.join(TEMPLATES)}, got {' '.join(args.templates)!r}")
    if args.episodes < 1 or args.seed < 0:
        raise ValueError("--episodes must be at least 1, --seed at least 0")
    env.reset(seed=0)
    if not env.get_wrapper_attr("problem").kind:
        raise ValueError("templates solve our own questions alone: a dataset's take a model, see --help")
    return partial(by_template, args, env), args.episodes


def collect(args: Args) -> list[Record]:
    """Play and check what is not done yet; all records in order, with their faults.

    Raises:
        ValueError: With one line that names the setting and says what is allowed.
    """
    (env,) = make_envs("CodeInterpreter-v0", "train", 1, parse_arguments(args.env_args))
    make, total = made_by(args, env)
    progress = Progress(args.output, dataclasses.asdict(args))
    kept, done = sum(not each["fault"] for each in progress.done), len(progress.done)
    bar = tqdm(make(done), desc="solutions", unit="solution", initial=done, total=total)
    for told in bar:
        progress.add(told)
        kept += not told["fault"]
        bar.set_postfix(kept=kept, refresh=False)
    env.close()
    return progress.done


def write(told: Sequence[Record], output: Path) -> Counter[str]:
    """Write the good ones to the output, whole, and return how many there were of each fault."""
    kept = [{name: value for name, value in each.items() if name != "fault"} for each in told if not each["fault"]]
    if not kept:
        faults = ", ".join(f"{count} {name}" for name, count in Counter(each["fault"] for each in told).most_common())
        raise ValueError(f"no solution is good: {faults}")
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in kept)
    write_whole(output, lambda scratch: scratch.write_text(text, encoding="utf-8"))
    return Counter(each["fault"] for each in told if each["fault"])


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 when written, 2 where a setting is wrong or no solution is good."""
    args = tyro.cli(Args, args=argv, description=__doc__)
    try:
        told = collect(args)
        dropped = write(told, args.output)
    except ValueError as error:
        print(f"cold_start: {error}", file=sys.stderr)
        return 2
    progress_of(args.output).unlink()
    print(f"{len(told) - dropped.total()} of {len(told)} solutions: {args.output}")
    for name, count in dropped.most_common():
        print(f"{count:>6}  dropped, {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
