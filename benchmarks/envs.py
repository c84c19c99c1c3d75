"""Steps per second of our lakes and of Gymnasium's FrozenLake, with text, in one run.

    python benchmarks/envs.py [--steps 5000] [--repeats 9]

Both sides are made by `gymnasium.make`, play random valid actions, give the board as text after every step and reset
as they go. Gymnasium's gives its text by `render()` with `render_mode="ansi"`. It keeps one map for ever, while ours
draws a new level at every reset; the last row lets Gymnasium's have a new random map for every episode too.

Time is CPU time of the process. Each repeat runs both sides one after the other; the table shows the median of the
repeats, and of the ratios of each repeat with the smallest and the largest of them.
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from rates import print_header, print_row, random_directions, rate

import turngym  # noqa: F401  # registers the environments
from turngym.envs import grid


class Pair(NamedTuple):
    """One row: our environment and its peer, each played for so many steps."""

    name: str
    ours: Callable[[int], None]
    peer_name: str
    peer: Callable[[int], None]


def ours(env_id: str) -> Callable[[int], None]:
    env = gymnasium.make(env_id)

    def play(steps: int) -> None:
        env.reset(seed=0)
        for direction in random_directions(steps):
            _, _, terminated, truncated, _ = env.step(grid.DIRECTIONS[direction])
            if terminated or truncated:
                env.reset()

    return play


def peer(env_id: str, **arguments: Any) -> Callable[[int], None]:
    env = gymnasium.make(env_id, render_mode="ansi", **arguments)

    def play(steps: int) -> None:
        env.reset(seed=0)
        env.render()
        for direction in random_directions(steps):
            _, _, terminated, truncated, _ = env.step(direction)
            env.render()
            if terminated or truncated:
                env.reset()
                env.render()

    return play


def peer_with_new_maps(steps: int) -> None:
    def new_env(episode: int) -> gymnasium.Env[Any, Any]:
        lake = generate_random_map(size=4, seed=episode)
        env = gymnasium.make("FrozenLake-v1", render_mode="ansi", is_slippery=False, desc=lake)
        env.reset(seed=episode)
        env.render()
        return env

    episode, env = 0, new_env(0)
    for direction in random_directions(steps):
        _, _, terminated, truncated, _ = env.step(direction)
        env.render()
        if terminated or truncated:
            episode += 1
            env = new_env(episode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5000, help="steps of each side in a repeat")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    pairs = [
        Pair("TextFrozenLake-v0", ours("TextFrozenLake-v0"), "4x4", peer("FrozenLake-v1", is_slippery=False)),
        Pair(
            "TextFrozenLakeSlippery-v0",
            ours("TextFrozenLakeSlippery-v0"),
            "4x4 slippery",
            peer("FrozenLake-v1", success_rate=0.8),
        ),
        Pair("TextFrozenLake8x8-v0", ours("TextFrozenLake8x8-v0"), "8x8", peer("FrozenLake8x8-v1", is_slippery=False)),
        Pair("TextFrozenLake-v0", ours("TextFrozenLake-v0"), "4x4, new maps", peer_with_new_maps),
    ]
    print_header("Gymnasium FrozenLake")
    for pair in pairs:
        rates = [(rate(pair.ours, arguments.steps), rate(pair.peer, arguments.steps)) for _ in range(arguments.repeats)]
        print_row(pair.name, pair.peer_name, rates)


if __name__ == "__main__":
    main()
