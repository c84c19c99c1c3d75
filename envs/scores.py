"""The floor and the ceiling of every environment: success of random actions and of its oracle, and scores between them.

The figures stand in `reference_scores.json` beside this file, which `python -m turngym scores` writes.
"""

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np

REFERENCE_FILE = Path(__file__).with_name("reference_scores.json")
Interval = tuple[float, float]
_Z95 = 1.959963984540054
_STREAM = 0x666C6F6F72  # keeps the draws of random actions apart from the streams of the environments


@dataclass(frozen=True)
class Reference:
    """What one environment gives to somebody who knows nothing and to somebody who knows all, on test levels.

    Attributes:
        random: Success rate of uniformly drawn valid actions.
        random_interval: 95% Wilson interval of it.
        oracle: Success rate of the oracle, or None where the environment has none.
        oracle_interval: 95% interval of it over the levels.
        oracle_method: "value": mean of the exact success probability, by `oracle_value` at reset; "replay": share of
            the episodes that the oracle's actions won; "none".
        episodes: How many episodes were played, the same levels for both.
        first_seed: Seed of the first; the others follow it.
    """

    random: float
    random_interval: Interval
    oracle: float | None
    oracle_interval: Interval | None
    oracle_method: Literal["value", "replay", "none"]
    episodes: int
    first_seed: int


@dataclass(frozen=True)
class _Outcome:
    """One episode: whether it was won, and what it earned."""

    success: bool
    episode_return: float


def reference(env_id: str) -> Reference:
    """The stored scores of a registered environment with its default arguments.

    Args:
        env_id: The environment's id, as given to `gymnasium.make`.

    Raises:
        ValueError: If no scores are stored for it.
    """
    stored = _stored(REFERENCE_FILE)
    if env_id not in stored:
        raise ValueError(
            f"env_id must be one of {', '.join(stored)}, got {env_id!r}; python -m turngym scores --env-id adds one"
        )
    return stored[env_id]


def normalized(env_id: str, success: float) -> float:
    """A success rate on the scale from random actions, 0, to the oracle, 1. Beyond both where `success` is.

    Args:
        env_id: The environment's id.
        success: Success rate on test levels, in [0, 1].

    Raises:
        ValueError: If no scores are stored, or there is nothing between random actions and the oracle.
    """
    if not 0 <= success <= 1:
        raise ValueError(f"success must be between 0 and 1, got {success}")
    scores = reference(env_id)
    if scores.oracle is None or scores.oracle <= scores.random:
        raise ValueError(f"{env_id} has no scale: random {scores.random}, oracle {scores.oracle}")
    return (success - scores.random) / (scores.oracle - scores.random)


def wilson_interval(successes: int, count: int, z: float = _Z95) -> Interval:
    """Wilson's interval of a success rate; within [0, 1] and of sensible width also at both ends.

    Args:
        successes: How many episodes were won.
        count: How many were played, at least 1.
        z: Half width in standard errors; the default covers 95%.
    """
    rate, spread = successes / count, z * z / count
    centre = (rate + spread / 2) / (1 + spread)
    half = z * math.sqrt(rate * (1 - rate) / count + spread / (4 * count)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_interval(probabilities: Sequence[float]) -> Interval:
    """95% interval of a mean of probabilities, by the normal approximation; within [0, 1]."""
    mean, half = float(np.mean(probabilities)), _Z95 * float(np.std(probabilities)) / math.sqrt(len(probabilities))
    return max(0.0, mean - half), min(1.0, mean + half)


def measure(env_id: str, episodes: int, first_seed: int = 0) -> Reference:
    """Play random actions and the oracle on the same test levels.

    Args:
        env_id: The environment's id.
        episodes: How many episodes, at least 1.
        first_seed: Seed of the first; the others follow it.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}")
    env = gymnasium.make(env_id, split="test")
    seeds = range(first_seed, first_seed + episodes)
    try:
        floor = _floor(env, seeds)
        ceiling, values = _ceiling(env, seeds)
    finally:
        env.close()
    wins = sum(outcome.success for outcome in floor)
    interval = wilson_interval(wins, episodes)
    if not ceiling:
        return Reference(wins / episodes, interval, None, None, "none", episodes, first_seed)
    # A value is an expected return. It is a success probability, free of the luck of single episodes, where the
    # return was the success in everything that was played.
    if len(values) == episodes and all(one.episode_return == one.success for one in floor + ceiling):
        mean = float(np.mean(values))
        return Reference(wins / episodes, interval, mean, mean_interval(values), "value", episodes, first_seed)
    won = sum(outcome.success for outcome in ceiling)
    bounds = wilson_interval(won, episodes)
    return Reference(wins / episodes, interval, won / episodes, bounds, "replay", episodes, first_seed)


def _floor(env: gymnasium.Env[Any, Any], seeds: range) -> list[_Outcome]:
    """Episodes of random actions."""
    draw, rng, outcomes = env.get_wrapper_attr("random_action"), np.random.default_rng([_STREAM, seeds.start]), []
    for seed in seeds:
        env.reset(seed=seed)
        outcomes.append(_play(env, lambda: str(draw(rng))))
    return outcomes


def _ceiling(env: gymnasium.Env[Any, Any], seeds: range) -> tuple[list[_Outcome], list[float]]:
    """Episodes of the oracle, and its values at their starts where it knows them; nothing where there is no oracle."""
    act, expect = env.get_wrapper_attr("oracle_action"), env.get_wrapper_attr("oracle_value")
    outcomes, values = [], []
    for seed in seeds:
        env.reset(seed=seed)
        value = expect()
        if value is not None:
            values.append(float(value))
        elif act() is None:
            return [], []
        outcomes.append(_play(env, act))
    return outcomes, values


def _play(env: gymnasium.Env[Any, Any], act: Callable[[], str | None]) -> _Outcome:
    """Play from a start to the end, or until nothing is known to do, which is no success."""
    total, action = 0.0, act()
    while action is not None:
        _, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        if terminated or truncated:
            return _Outcome(bool(info["success"]), total)
        action = act()
    return _Outcome(False, total)


def write_scores(measured: dict[str, Reference], file: Path = REFERENCE_FILE, order: Iterable[str] = ()) -> None:
    """Put scores into a file, beside those that it holds already; a reader sees the old file or the new one.

    Args:
        measured: Scores by id.
        file: Where to.
        order: Ids in the order in which they should stand; others follow.
    """
    scores = {**_stored(file), **measured}
    ordered = [env_id for env_id in order if env_id in scores]
    ordered += sorted(scores.keys() - set(ordered))
    text = json.dumps({env_id: _rounded(asdict(scores[env_id])) for env_id in ordered}, indent=2)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(f"{text}\n")
        os.chmod(name, 0o644)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
    _stored.cache_clear()


def _rounded(value: Any) -> Any:
    """Six digits are more than the intervals leave."""
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_rounded(part) for part in value]
    return round(value, 6) if isinstance(value, float) else value


@cache
def _stored(file: Path) -> dict[str, Reference]:
    """The content of a file by id; nothing where there is no file."""
    entries = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {env_id: _from_json(entry) for env_id, entry in entries.items()}


def _from_json(entry: dict[str, Any]) -> Reference:
    intervals = {key: tuple(entry[key]) for key in ("random_interval", "oracle_interval") if entry[key] is not None}
    return Reference(**{**entry, **intervals})
