"""Environments for a run: made by id and split, with one clear line where that is impossible."""

import ast
import importlib
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from turngym.envs import ENV_IDS
from turngym.envs.text_env import TextEnv

Env = gymnasium.Env[str, str]

TRAIN_SEEDS = 2**31
"""Training seeds are below this number: an environment without splits is tested on seeds that it never trained on."""

_FIRST_SEED = {"validation": TRAIN_SEEDS, "test": TRAIN_SEEDS + 10_000_000, "train": TRAIN_SEEDS + 20_000_000}


def make_envs(env_id: str, split: str, count: int, arguments: Mapping[str, Any]) -> list[Env]:
    """Make `count` environments of one split; an environment that knows no splits is made without.

    Raises:
        ValueError: If the id is not registered, an argument is not understood or out of range, or the environment does
            not take and return text.
    """
    if ":" in env_id and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a module of the user's own lies where the command is run
    try:
        importlib.import_module(env_id.partition(":")[0] if ":" in env_id else "turngym")
        spec = gymnasium.spec(env_id.rpartition(":")[2])
        if takes_split(spec):
            arguments = {**arguments, "split": split}
        envs = [gymnasium.make(env_id, **arguments) for _ in range(count)]
    except (gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound, ModuleNotFoundError) as error:
        raise ValueError(
            f"--env-id {env_id}: {error} Allowed are {', '.join(ENV_IDS)}, or module:Id of your own"
        ) from error
    except (gymnasium.error.Error, ValueError, TypeError) as error:
        raise ValueError(f"--env-id {env_id} with {dict(arguments)}: {error}") from error
    for space in (envs[0].observation_space, envs[0].action_space):
        if not isinstance(space, gymnasium.spaces.Text):
            raise ValueError(f"--env-id {env_id}: text goes in and out of a language agent, but this env has {space}")
    return envs


def takes_split(spec: Any) -> bool:
    """Whether an environment's constructor has a `split` argument, of its own or handed on to `TextEnv`."""
    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    is_ours = inspect.isclass(creator) and issubclass(creator, TextEnv)
    return is_ours or "split" in inspect.signature(creator).parameters


def held_out_seeds(split: str, count: int) -> list[int]:
    """The seeds of an evaluation: the same for every run, and never those of training."""
    first = _FIRST_SEED[split]
    return list(range(first, first + count))


def parse_arguments(pairs: Sequence[str], option: str = "--env-args") -> dict[str, Any]:
    """Read `name=value` pairs of an option; values are Python literals, and text where they are not.

    Raises:
        ValueError: If a pair has no `=`.
    """
    arguments = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"{option} {pair}: write name=value, for example size=8")
        try:
            arguments[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            arguments[name] = text
    return arguments
