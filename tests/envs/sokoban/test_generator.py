"""Generated levels: as hard as asked, the same everywhere, and clear words where there can be none."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from turngym.envs.errors import LevelError
from turngym.envs.sokoban.board import canonical, check_level
from turngym.envs.sokoban.formats import to_xsb
from turngym.envs.sokoban.generator import generate, generate_set

EASY = {"size": 6, "boxes": 1, "min_moves": 4, "max_moves": 12}


@pytest.mark.parametrize(
    ("size", "boxes", "min_moves", "max_moves"),
    [(6, 1, 4, 12), (6, 2, 9, 9), (7, 2, 1, 6), ((5, 9), 1, 10, 20), (8, 3, 15, 40), (5, 2, 1, 9)],
)
def test_as_hard_as_asked(
    size: Any, boxes: int, min_moves: int, max_moves: int, fewest: Callable[[str, str, int], int | None]
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        level = generate(rng, size=size, boxes=boxes, min_moves=min_moves, max_moves=max_moves)
        check_level(level)
        assert (level.height, level.width) == (size if isinstance(size, tuple) else (size, size))
        assert len(level.boxes) == boxes
        assert not level.goal_set & set(level.boxes)
        optimum = fewest(to_xsb(level), "moves", 100_000)
        assert optimum is None or min_moves <= optimum <= max_moves
        assert optimum is not None or boxes > 2


def test_every_length_is_found() -> None:
    for moves in range(1, 13):
        generate(np.random.default_rng(moves), size=6, boxes=1, min_moves=moves, max_moves=moves)


def test_one_draw_after_the_other() -> None:
    rng, again = np.random.default_rng(5), np.random.default_rng(5)
    levels = [generate(rng, **EASY) for _ in range(5)]
    assert [generate(again, **EASY) for _ in range(5)] == levels
    assert len(set(levels)) == 5


def test_golden_levels() -> None:
    """A change here changes every seed's levels: the ids get a new version."""
    easy = generate(np.random.default_rng(0), **EASY)
    assert to_xsb(easy) == "######\n#    #\n#   .#\n## $@#\n##  ##\n######"
    hard = generate(np.random.default_rng(0), size=8, boxes=3, min_moves=15, max_moves=40)
    assert to_xsb(hard) == "########\n#   ####\n# . $ @#\n#     .#\n# $ $ .#\n#      #\n########\n########"


PROGRAM = """
import json
import numpy as np
from turngym.envs.sokoban.generator import generate
rng = np.random.default_rng(7)
print(json.dumps([generate(rng, size=7, boxes=2, min_moves=5, max_moves=25).__dict__["cells"] for _ in range(5)]))
"""


def test_the_same_in_every_process(run_python: Callable[..., str]) -> None:
    rng = np.random.default_rng(7)
    here = [generate(rng, size=7, boxes=2, min_moves=5, max_moves=25).cells for _ in range(5)]
    for seed, switch in (("0", "0"), ("1", "1")):
        assert json.loads(run_python("-c", PROGRAM, PYTHONHASHSEED=seed, NUMBA_DISABLE_JIT=switch)) == here


def test_a_set_has_no_level_twice_in_any_orientation() -> None:
    levels = generate_set(np.random.default_rng(1), 60, size=(5, 6), boxes=1, min_moves=1, max_moves=4)
    assert len({canonical(level) for level in levels}) == len(levels) == 60
    rng = np.random.default_rng(1)
    drawn = [canonical(generate(rng, size=(5, 6), boxes=1, min_moves=1, max_moves=4)) for _ in range(60)]
    assert len(set(drawn)) < 60


def test_a_set_that_cannot_be_had() -> None:
    with pytest.raises(LevelError, match=r"only \d+ of 5000 levels found, then the same ones 100 times in a row"):
        generate_set(np.random.default_rng(1), 5000, size=5, boxes=1, min_moves=5, max_moves=6)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"size": 4}, "size must be between 5 and 20 cells along each side, walls included, got 4"),
        ({"size": (6, 21)}, r"size must be between 5 and 20 cells along each side, walls included, got \(6, 21\)"),
        ({"boxes": 0}, "boxes must be between 1 and 5, a third of the cells inside, got 0"),
        ({"boxes": 6}, "boxes must be between 1 and 5, a third of the cells inside, got 6"),
        ({"min_moves": 0}, "min_moves must be between 1 and max_moves, got 0 and 12"),
        ({"min_moves": 13}, "min_moves must be between 1 and max_moves, got 13 and 12"),
    ],
)
def test_impossible_wishes(changed: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        generate(np.random.default_rng(0), **(EASY | changed))


@pytest.mark.parametrize("size", [6.0, "6", (6,), (6, 6.5), (6, 6, 6), None])
def test_sizes_that_are_none(size: Any) -> None:
    with pytest.raises(TypeError, match="size must be a whole number of cells, or two: rows and columns, got"):
        generate(np.random.default_rng(0), **(EASY | {"size": size}))


def test_wishes_that_luck_does_not_grant() -> None:
    with pytest.raises(LevelError, match="no level of size 5 with 1 boxes and 40 to 50 moves in 1000 rooms"):
        generate(np.random.default_rng(0), size=5, boxes=1, min_moves=40, max_moves=50)
