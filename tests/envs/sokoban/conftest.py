"""Levels at random, most of them no good, for whatever must hold for all; and a search to check solvers against."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from turngym.envs.sokoban.board import GOAL, WALL, Level, enclosed, reachable


@pytest.fixture(scope="session")
def random_level() -> Callable[[int], Level]:
    """The level of a seed: one to three boxes in a room of up to 5 by 5 cells, every second one surely solvable."""

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
        goals, (player, *start) = (
            rng.permutation(inside)[:boxes].tolist(),
            rng.permutation(inside)[: boxes + 1].tolist(),
        )
        if seed % 2:
            player, start = pulled(empty, rng, goals)
        drawn = "".join(GOAL if cell in goals else symbol for cell, symbol in enumerate(empty.cells))
        return enclosed(Level(drawn, width + 2, tuple(sorted(start)), player))

    return level


def pulled(empty: Level, rng: np.random.Generator, boxes: list[int]) -> tuple[int, list[int]]:
    """Player and boxes after random steps, which drag the box behind along."""
    player = int(rng.choice(sorted(empty.inside - set(boxes))))
    for direction in rng.integers(4, size=100).tolist():
        there, behind = empty.steps[player][direction], empty.steps[player][(direction + 2) % 4]
        if there not in boxes:
            if there != player:
                boxes = [player if box == behind else box for box in boxes]
            player = there
    return player, boxes


@pytest.fixture(scope="session")
def fewest(root: Path) -> Callable[[str, str, int], int | None]:
    """The exhaustive search that the benchmark checks solvers against."""
    spec = importlib.util.spec_from_file_location("brute_force", root / "benchmarks" / "sokoban_brute_force.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.fewest
