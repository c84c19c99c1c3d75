"""Steps and resets per second of our Sokoban, GEM's and TextArena's, with text, in one run.

    pip install --no-deps gem-llm textarena        # beside the extra `bench`; `make bench` does so
    python benchmarks/sokoban_env.py [--steps 2000] [--repeats 9]

All play 6x6 levels with two boxes (GEM's "easy") by the same random valid moves, and give the board as text after
every step. Ours proves the fewest moves of every level; the others only know that it can be solved.

    long    steps of episodes that end with the solution alone
    short   steps of episodes of 20 turns, each on a new level; the resets between them are not counted
    resets  resets alone
    play    short episodes with their resets: what a training run sees

Time is CPU time of the process. Each repeat runs both sides one after the other; the table shows the median of the
repeats, and of the ratios of each repeat with the smallest and the largest of them.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium
from gem.envs.game_env.sokoban.sokoban import SokobanEnv as GemSokoban
from rates import print_header, print_row, random_directions
from textarena.envs.Sokoban.env import SokobanEnv as TextArenaSokoban

import turngym  # noqa: F401  # registers the environments
from turngym.envs import grid
from turngym.envs.jit import COMPILED

SIZE, BOXES = 6, 2
SHORT, LONG = 20, 1_000_000


class Side(NamedTuple):
    """How to begin an episode by its seed, and to make a move, after which it tells whether the episode is over."""

    reset: Callable[[int], object]
    step: Callable[[int], bool]


class Rates(NamedTuple):
    """How many a second, as told above."""

    long: float
    short: float
    resets: float
    play: float


def ours(turns: int, *, wrapped: bool) -> Side:
    made = gymnasium.make("Sokoban-v0", size=SIZE, boxes=BOXES, min_moves=1, max_moves=SHORT, max_turns=turns)
    env: gymnasium.Env[str, str] = made if wrapped else made.unwrapped

    def step(direction: int) -> bool:
        _, _, terminated, truncated, _ = env.step(grid.DIRECTIONS[direction])
        return terminated or truncated

    return Side(lambda seed: env.reset(seed=seed), step)


def gem(turns: int) -> Side:
    env = GemSokoban(dim_room=(SIZE, SIZE), max_turns=turns, num_boxes=BOXES)
    replies = [f"\\boxed{{{name.lower()}}}" for name in grid.DIRECTIONS]

    def step(direction: int) -> bool:
        _, _, terminated, truncated, _ = env.step(replies[direction])
        return terminated or truncated

    return Side(lambda seed: env.reset(seed=seed), step)


def textarena(turns: int) -> Side:
    env = TextArenaSokoban(dim_room=(SIZE, SIZE), max_turns=turns, num_boxes=BOXES)
    replies = [f"[{name.lower()}]" for name in grid.DIRECTIONS]

    def step(direction: int) -> bool:
        over, _ = env.step(replies[direction])
        env.get_observation()
        return bool(over)

    def reset(seed: int) -> Any:
        env.reset(num_players=1, seed=seed)
        return env.get_observation()

    return Side(reset, step)


def seconds(side: Side, steps: int) -> tuple[float, int, float]:
    """Seconds that so many steps took, how many resets came between them, and the seconds that these took."""
    directions, of_steps, resets, of_resets = random_directions(steps), 0.0, 0, 0.0
    direction = next(directions, None)
    while direction is not None:
        begin = time.process_time()
        side.reset(resets)
        middle, resets = time.process_time(), resets + 1
        while direction is not None:
            over, direction = side.step(direction), next(directions, None)
            if over:
                break
        of_steps, of_resets = of_steps + time.process_time() - middle, of_resets + middle - begin
    return of_steps, resets, of_resets


def measure(make: Callable[[int], Side], steps: int) -> Rates:
    """Play so many steps in long episodes, and as many in short ones."""
    long, _, _ = seconds(make(LONG), steps)
    short, resets, of_resets = seconds(make(SHORT), steps)
    return Rates(steps / long, steps / short, resets / of_resets, steps / (short + of_resets))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="steps of each side in a repeat")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    print(f"kernels compiled by numba: {COMPILED}")
    print_header("Sokoban of")
    for peer_name, peer in (("GEM", gem), ("TextArena", textarena)):
        for our_name, mine in (("make", partial(ours, wrapped=True)), ("unwrapped", partial(ours, wrapped=False))):
            measure(mine, SHORT)
            pairs = [(measure(mine, arguments.steps), measure(peer, arguments.steps)) for _ in range(arguments.repeats)]
            for what in Rates._fields:
                print_row(f"{our_name}: {what}", peer_name, [(getattr(a, what), getattr(b, what)) for a, b in pairs])


if __name__ == "__main__":
    main()
