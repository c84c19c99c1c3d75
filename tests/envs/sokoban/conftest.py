"""Levels at random, most of them no good, for whatever must hold for all."""

from collections.abc import Callable

import numpy as np
import pytest

from turngym.envs.sokoban.board import GOAL, WALL, Level, enclosed, reachable


@pytest.fixture(scope="session")
def random_level() -> Callable[[int], Level]:
    """The level of a seed: one to three boxes in a room of up to 5 by 5 cells, solvable or not."""

    def level(seed: int) -> Level:
        rng = np.random.default_rng(seed)
        height, width, boxes = rng.integers((2, 4, 1), (6, 6, 4)).tolist()
        cells = np.full((height + 2, width + 2), WALL)
        cells[1:-1, 1:-1] = rng.choice([" ", WALL], (height, width), p=[0.85, 0.15])
        floor = np.flatnonzero(cells.reshape(-1) == " ")
        empty = Level("".join(cells.reshape(-1).tolist()), width + 2, (), int(rng.choice(floor)))
        inside = sorted(reachable(empty, empty.player, ()))
        if len(inside) < 2 * boxes + 1:
            return level(seed + 1_000_000)
        goals = set(rng.permutation(inside)[:boxes].tolist())
        boxes_and_player = rng.permutation(inside)[: boxes + 1].tolist()
        drawn = "".join(GOAL if cell in goals else symbol for cell, symbol in enumerate(empty.cells))
        return enclosed(Level(drawn, width + 2, tuple(sorted(boxes_and_player[1:])), boxes_and_player[0]))

    return level
