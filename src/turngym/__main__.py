"""The command line: `turngym`, or `python -m turngym`."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import gymnasium

from turngym.envs import ENV_IDS, overlap, scores
from turngym.envs.checker import check_text_env
from turngym.envs.errors import ContractError, TurngymError
from turngym.envs.splits import SPLITS

_EXAMPLES = """examples:
  turngym envs                               what there is, and how hard it is
  turngym play TextFrozenLake-v0 --seed 7    play a level yourself
  turngym check my_module:MyEnv-v0           does my environment keep the contract?
  turngym overlap TextFrozenLake-v0          do training and test share levels?
"""
_HINT, _QUIT = "?", "quit"

Command = Callable[[argparse.Namespace], int]


class _UsageError(Exception):
    """Arguments that cannot be served; the message is one line."""


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Args:
        argv: Arguments, by default those of the process.

    Returns:
        The exit code: 0; 1 where a check or an environment failed; 2 for arguments that cannot be served.
    """
    try:
        arguments = _parser().parse_args(argv)
        command: Command = arguments.command
        return command(arguments)
    except (_UsageError, TurngymError) as error:
        print(f"turngym: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, _UsageError) else 1


# Arguments ---------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="turngym",
        description="Gymnasium environments for language agents: list them, check them, play them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (_add_envs, _add_check, _add_overlap, _add_scores, _add_play):
        add(commands)
    return parser


def _add(commands: Any, command: Command, name: str, summary: str, detail: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=f"{summary}. {detail}")
    parser.set_defaults(command=command)
    return parser


def _add_envs(commands: Any) -> None:
    detail = "With the success of random actions and of the oracle on test levels (95% interval in brackets)."
    _add(commands, _envs, "envs", "List the environments", detail)


def _add_check(commands: Any) -> None:
    detail = "Says which rule is broken, what was found and what is expected; the exit code is then 1."
    _add_env_id(_add(commands, _check, "check", "Check an environment against the text-environment contract", detail))


def _add_overlap(commands: Any) -> None:
    detail = "Mirror images and rotations count as the same level. Each count should be 0; if not, the exit code is 1."
    parser = _add(commands, _overlap, "overlap", "Count the levels that the splits share", detail)
    _add_env_id(parser)
    _add_count(parser, "--levels", 1000, "levels to draw of each split")


def _add_scores(commands: Any) -> None:
    detail = (
        "Plays random actions and the oracle on test levels with fixed seeds, and writes what came of it beside the "
        "scores that the file holds already."
    )
    parser = _add(commands, _scores, "scores", "Measure the reference scores", detail)
    parser.add_argument(
        "--env-id", type=_env_id, nargs="+", default=ENV_IDS, metavar="ENV_ID", help="only these (default: all of them)"
    )
    _add_count(parser, "--episodes", 2000, "episodes to play of each")
    parser.add_argument(
        "--output",
        type=Path,
        default=scores.REFERENCE_FILE,
        metavar="FILE",
        help="where to (default: the file that turngym.envs.scores reads)",
    )


def _add_play(commands: Any) -> None:
    detail = f"Type an action and press Enter. {_HINT} asks the oracle for a hint; {_QUIT} or Ctrl-D leaves."
    parser = _add(commands, _play, "play", "Play a level yourself", detail)
    _add_env_id(parser)
    parser.add_argument(
        "--seed", type=_count(0), metavar="K", help="seed of level and luck (default: new ones each time)"
    )
    parser.add_argument("--split", choices=SPLITS, help="levels of this split (default: the environment's own, train)")


def _add_env_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "env_id", type=_env_id, metavar="ENV_ID", help="as for gymnasium.make; module:ENV_ID imports the module before"
    )


def _add_count(parser: argparse.ArgumentParser, name: str, default: int, what: str) -> None:
    parser.add_argument(name, type=_count(1), default=default, metavar="N", help=f"{what} (default: %(default)s)")


def _count(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
        return int(text)

    return read


def _env_id(text: str) -> str:
    """An id that can be made. A module beside the caller is found, however the command line was started."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        gymnasium.make(text).close()
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise argparse.ArgumentTypeError(f"{str(error).rstrip('.')}; turngym envs lists ours") from error
    return text


# Commands ----------------------------------------------------------------------------------------------------------


def _envs(arguments: argparse.Namespace) -> int:
    width = max(map(len, ENV_IDS))
    print(f"{'id':<{width}}  {'random':<19}  {'oracle':<19}".rstrip())
    for env_id in ENV_IDS:
        try:
            stored = scores.reference(env_id)
        except ValueError:  # new, not measured yet
            print(f"{env_id:<{width}}  {'-':<19}  -")
            continue
        floor = _percent(stored.random, stored.random_interval)
        print(f"{env_id:<{width}}  {floor:<19}  {_percent(stored.oracle, stored.oracle_interval)}")
    return 0


def _percent(rate: float | None, interval: scores.Interval | None) -> str:
    if rate is None or interval is None:
        return "-"
    return f"{rate:.1%} [{interval[0] * 100:.1f}, {interval[1] * 100:.1f}]"


def _check(arguments: argparse.Namespace) -> int:
    with closing(gymnasium.make(arguments.env_id)) as env:
        try:
            check_text_env(env)
        except ContractError as error:
            print(error)
            return 1
    print(f"{arguments.env_id} keeps the text-environment contract")
    return 0


def _overlap(arguments: argparse.Namespace) -> int:
    try:
        found = overlap.measure_overlap(arguments.env_id, arguments.levels)
    except ValueError as error:
        raise _UsageError(str(error)) from error
    print(f"{arguments.env_id}: {arguments.levels} levels drawn of each split")
    for split, count in found.distinct.items():
        print(f"distinct levels in {split}: {count}")
    for (one, other), count in found.shared.items():
        print(f"levels shared by {one} and {other}: {count}")
    if found.by_design:
        print("this environment has one set of levels for all splits, by design")
    return int(any(found.shared.values()) and not found.by_design)


def _scores(arguments: argparse.Namespace) -> int:
    for env_id in arguments.env_id:
        measured = scores.measure(env_id, arguments.episodes)
        scores.write_scores({env_id: measured}, arguments.output, order=ENV_IDS)
        floor = _percent(measured.random, measured.random_interval)
        ceiling = _percent(measured.oracle, measured.oracle_interval)
        print(f"{env_id}: random {floor}, oracle {ceiling} by {measured.oracle_method}", flush=True)
    return 0


def _play(arguments: argparse.Namespace) -> int:
    options = {"split": arguments.split} if arguments.split else {}
    with closing(gymnasium.make(arguments.env_id, **options)) as env:
        if not env.has_wrapper_attr("instructions"):
            raise _UsageError(f"{arguments.env_id} cannot be played in words: it has no instructions")
        observation, info = env.reset(seed=arguments.seed)
        print(f"{info['instructions']}\n({_HINT} asks for a hint, {_QUIT} leaves)\n\n{observation}")
        total, over, truncated = 0.0, False, False
        while not over:
            action = _ask(env)
            if action is None:
                print("You left.")
                return 0
            observation, reward, terminated, truncated, info = env.step(action)
            total, over = total + float(reward), terminated or truncated
            print(f"\n{observation}")
    ending = "Well done" if info["success"] else "No turns left" if truncated else "That was the end"
    print(f"\n{ending}: you earned {total:g}.")
    return 0


def _ask(env: gymnasium.Env[Any, Any]) -> str | None:
    """The player's next action, or None to leave."""
    while True:
        try:
            text = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            return None
        if text.strip() == _QUIT:
            return None
        if text.strip() != _HINT:
            return text
        has_oracle = env.has_wrapper_attr("oracle_action")
        print((has_oracle and env.get_wrapper_attr("oracle_action")()) or "no hint here")


if __name__ == "__main__":
    sys.exit(main())
