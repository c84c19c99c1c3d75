"""Plays an environment with a model behind a server that speaks OpenAI's chat protocol, and says how well it does.

    python -m turngym.agents.api --base-url http://localhost:8000/v1 --model NAME --env-id TextFrozenLake-v0
    python -m turngym.agents.api --resume runs/<folder>

Any registered id and any such server: vLLM, SGLang, llama.cpp, `transformers serve`, or a service. Many episodes are
played at a time; rate limits, failures of the server and timeouts are retried with growing pauses. Every episode is a
line of `trajectories.jsonl` when it ends (a file that the recipes take as `--demonstrations`), and an interrupted run
goes on with those that are missing. Needs the extra `api`. A key, if the server wants one, stands in OPENAI_API_KEY.
"""

import ast
import asyncio
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium

from turngym.agents.api_messages import Conversation, Message
from turngym.agents.api_results import ApiFolder, Job, closing_words, summarise
from turngym.agents.trajectory import Trajectory
from turngym.envs.errors import TurngymError
from turngym.envs.text_env import TextEnv
from turngym.lazy import require
from turngym.wrappers import ReasoningWrapper, ToolCallWrapper
from turngym.wrappers.tool_formats import TOOL

openai, tyro, tqdm = (require(module, "api") for module in ("openai", "tyro", "tqdm"))

Env = gymnasium.Env[str, str]
_OF_TOKENS = ("ids", "policy_mask", "turn_id", "segment", "log_probs", "values", "bootstrap_value")  # a server's own
_AT_LEAST_ONE = ("episodes", "samples", "concurrency", "max_tokens")
_AT_LEAST_ZERO = ("first_seed", "retries", "temperature")


class ServerError(TurngymError):
    """The server cannot be used: it is not there, or refuses what all requests have in common."""


@dataclass(frozen=True)
class Args:
    """Evaluate a model behind a server on an environment."""

    base_url: str = "http://localhost:8000/v1"
    """Where the server is, with its /v1."""
    model: str = ""
    """What the server calls the model."""
    env_id: str = "TextFrozenLake-v0"
    """A registered id, or module:Id to import yours first."""
    env_args: tuple[str, ...] = ()
    """Arguments of the environment as name=value, for example size=5."""
    split: Literal["train", "validation", "test", "none"] = "test"
    """The levels to play; none for an environment that knows no splits."""
    episodes: int = 200
    """How many levels."""
    first_seed: int = 0
    """Seed of the first level; the others follow it."""
    samples: int = 1
    """Episodes on each level; with more than one, pass@k is measured too."""
    reply_format: Literal["action", "think", "tools"] = "action"
    """action: replies are actions. think: <think>...</think><answer>action</answer>. tools: programs are tool calls."""
    instructions_role: Literal["user", "system"] = "user"
    """Whether the instructions stand before the first observation or in a system message."""
    temperature: float = 0.0
    """Of sampling; 0 asks for the likeliest tokens."""
    max_tokens: int = 512
    """Longest reply, in tokens."""
    request: tuple[str, ...] = ()
    """Further fields of every request as name=value, for example top_p=0.9."""
    concurrency: int = 16
    """Episodes at a time."""
    retries: int = 6
    """How often a request is tried again before its episode is void."""
    timeout_s: float = 120.0
    """Longest wait for a reply, in seconds."""
    output_dir: Path | None = None
    """An empty or new folder for the run; by default runs/<id>-<model>-<time>."""
    resume: Path | None = None
    """The folder of an interrupted run, to go on with under its own settings; no other setting may stand beside it."""


class Evaluation:
    """Plays episodes on one server.

    Args:
        args: The settings.

    Raises:
        ValueError: If a setting is wrong; one line that names it.
    """

    def __init__(self, args: Args) -> None:
        _check(args)
        self.args = args
        self._request = {"model": args.model, "temperature": args.temperature, "max_tokens": args.max_tokens}
        if args.reply_format == "tools":
            self._request["tools"] = [TOOL]
        further = _pairs(args.request, "--request")
        if "max_completion_tokens" in further:  # what some models want in its place
            del self._request["max_tokens"]
        self._request["extra_body"] = further
        self._client = openai.AsyncOpenAI(
            base_url=args.base_url,
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            max_retries=args.retries,
            timeout=args.timeout_s,
        )
        self.envs = [make_env(args) for _ in range(min(args.concurrency, args.episodes * args.samples))]

    async def run(self, jobs: Sequence[Job], write: Callable[[dict[str, Any]], None]) -> None:
        """Play many episodes, as many at a time as there are environments.

        Args:
            jobs: What to play.
            write: Called with each episode when it ends.

        Raises:
            ServerError: If the server cannot be used; what was written until then stays.
        """
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(len(self.envs)))
        waiting = iter(jobs)

        async def worker(env: Env) -> None:
            for job in waiting:
                write(await self.play(env, job))

        try:
            async with asyncio.TaskGroup() as group:
                for env in self.envs:
                    group.create_task(worker(env))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            await self._client.close()

    async def play(self, env: Env, job: Job) -> dict[str, Any]:
        """One episode, as a line of `trajectories.jsonl`; not valid where the server failed it.

        Raises:
            ServerError: If the server cannot be used.
        """
        seed, sample = job
        shares_level = self.args.samples > 1 and isinstance(env.unwrapped, TextEnv)
        luck = {"noise_seed": seed * self.args.samples + sample} if shares_level else None
        observation, info = await asyncio.to_thread(env.reset, seed=seed, options=luck)
        episode = Trajectory(seed=seed, env_id=self.args.env_id, group=seed, level_id=str(info.get("level_id", "")))
        episode.state_keys.append(str(info.get("state_key", "")))
        stop = env.get_wrapper_attr("stop_strings") if env.has_wrapper_attr("stop_strings") else ()
        said = Conversation(str(info.get("instructions", "")), observation, self.args.instructions_role, stop)
        replies, usage, failure = list[str](), {"prompt_tokens": 0, "completion_tokens": 0}, ""
        while episode.valid and not (episode.terminated or episode.truncated):
            completion = await self._ask(said.messages)
            if isinstance(completion, str):
                episode.valid, failure = False, completion
                continue
            for name in usage:
                usage[name] += getattr(completion.usage, name, 0) or 0
            message = completion.choices[0].message
            replies.append(said.add_reply(message, with_thought=self.args.reply_format == "think"))
            step = await asyncio.to_thread(env.step, replies[-1])
            observation, reward, episode.terminated, episode.truncated, info = step
            episode.record_turn(float(reward), info)
            said.add_observation(observation)
        told = {name: value for name, value in episode.to_dict().items() if name not in _OF_TOKENS}
        return told | {
            "sample": sample,
            "replies": replies,
            "messages": said.messages,
            **usage,
            "failure": failure,
        }

    async def _ask(self, messages: list[Message]) -> Any:
        """What the server replies, or why it does not, however often it is asked."""
        try:
            completion = await self._client.chat.completions.create(messages=messages, **self._request)
        except openai.APITimeoutError as error:
            return _line(error)
        except (
            openai.APIConnectionError,
            openai.AuthenticationError,
            openai.PermissionDeniedError,
            openai.NotFoundError,
        ) as error:
            raise ServerError(f"{self.args.base_url}: {_line(error)}") from error
        except openai.APIError as error:
            return _line(error)
        return completion if completion.choices else "the server replied with nothing"


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def make_env(args: Args) -> Env:
    """An environment that reads replies of the format that the settings ask for.

    Raises:
        ValueError: If there is none, or it does not take such replies.
    """
    if ":" in args.env_id and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a module of the user's own lies where the command is run
    arguments = _pairs(args.env_args, "--env-args") | ({} if args.split == "none" else {"split": args.split})
    try:
        env: Env = gymnasium.make(args.env_id, **arguments)
    except (gymnasium.error.Error, ModuleNotFoundError, ValueError, TypeError) as error:
        raise ValueError(f"--env-id {args.env_id} with {arguments}: {error}") from error
    if not isinstance(env.action_space, gymnasium.spaces.Text):
        raise ValueError(f"--env-id {args.env_id}: a model replies in text, but this env takes {env.action_space}")
    if args.reply_format == "tools":
        return ToolCallWrapper(env, "hermes", show_form=False)  # the form in which a conversation spells calls out
    return ReasoningWrapper(env) if args.reply_format == "think" else env


def _check(args: Args) -> None:
    if not args.model:
        raise ValueError("--model must name a model of the server")
    for name, least in {**dict.fromkeys(_AT_LEAST_ONE, 1), **dict.fromkeys(_AT_LEAST_ZERO, 0)}.items():
        if getattr(args, name) < least:
            raise ValueError(f"--{name.replace('_', '-')} must be at least {least}, got {getattr(args, name)}")
    if not args.timeout_s > 0:
        raise ValueError(f"--timeout-s must be above 0, got {args.timeout_s}")
    if args.samples > 1 and args.temperature == 0:
        raise ValueError("--samples above 1 needs a --temperature above 0: all samples would be the same")


def _pairs(pairs: Sequence[str], option: str) -> dict[str, Any]:
    """Read `name=value` pairs; values are Python literals, and text where they are not."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"{option} {pair}: write name=value, for example size=8")
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
    return values


def prepare(args: Args) -> tuple[Evaluation, ApiFolder]:
    """Make everything that a wrong setting can spoil, before anything takes time.

    Raises:
        ValueError: With one line that names the setting.
    """
    if args.resume is None:
        evaluation = Evaluation(args)
        name = f"{args.env_id}-{args.model}-{time.strftime('%Y%m%d-%H%M%S')}"
        safe = "".join(each if each.isalnum() or each in "._-" else "-" for each in name).lstrip(".-")
        folder = ApiFolder(args.output_dir or Path("runs") / safe)
        folder.create(dataclasses.asdict(args))
        return evaluation, folder
    if dataclasses.replace(args, resume=None) != Args():
        raise ValueError(f"--resume {args.resume} goes on under the run's own settings: leave the other settings out")
    folder = ApiFolder(args.resume)
    saved = folder.settings()
    if saved.keys() != {field.name for field in dataclasses.fields(Args)}:
        raise ValueError(f"--resume {args.resume}: this is a run of another command")
    lists = {name: tuple(saved[name]) for name in ("env_args", "request")}
    return Evaluation(Args(**saved | lists | {"output_dir": None})), folder


def evaluate(args: Args) -> dict[str, Any]:
    """Play what is missing, and sum up; returns the summary that the folder keeps too.

    Raises:
        ValueError: If a setting is wrong.
        TurngymError: If the server cannot be used, or fails every episode.
    """
    evaluation, folder = prepare(args)
    args = evaluation.args
    jobs = [(args.first_seed + level, sample) for level in range(args.episodes) for sample in range(args.samples)]
    done = {job for job, line in folder.episodes().items() if line["valid"]}
    bar = tqdm.tqdm(total=len(jobs), initial=len(done), desc=args.env_id, unit="episode")

    def write(line: dict[str, Any]) -> None:
        folder.append(line)
        bar.update()

    try:
        asyncio.run(evaluation.run([job for job in jobs if job not in done], write))
    except ServerError as error:
        raise ServerError(f"{error} Go on with --resume {folder.path}") from error
    finally:
        bar.close()
        for env in evaluation.envs:
            env.close()
    episodes = folder.episodes()
    scale = args.env_id.rpartition(":")[2] if args.split == "test" and not args.env_args else None
    summary = summarise([episodes[job] for job in jobs], scale)
    told = {name: getattr(args, name) for name in ("env_id", "split", "model", "reply_format", "temperature")}
    folder.write("summary.json", told | summary)
    print(f"\n{args.env_id}, {args.split} levels, {args.model}\n{closing_words(summary)}\nrun folder: {folder.path}")
    return told | summary


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 when done, 1 where the server cannot be used, 2 where a setting is wrong."""
    args = tyro.cli(Args, args=argv, description=__doc__)
    try:
        evaluate(args)
    except (ValueError, TurngymError) as error:
        print(f"api: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
