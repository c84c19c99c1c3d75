"""RAGEN's levels: sound, repeatable, and as hard as RAGEN's own."""

from collections.abc import Iterator

import numpy as np
import pytest

from turngym.envs.errors import LevelError
from turngym.envs.sokoban import board
from turngym.envs.sokoban.board import Level
from turngym.envs.sokoban.ragen_levels import _played_backwards, _Pulled, _strolled, ragen_level


def fewest_moves(level: Level) -> int:
    """By breadth-first search over the rules alone."""
    met, front, moves = {level.start}, [level.start], 0
    while not any(board.is_solved(level, position) for position in front):
        after = {board.move(level, position, direction) for position in front for direction in range(4)} - met
        assert after, "no solution"
        met |= after
        front, moves = list(after), moves + 1
    return moves


@pytest.mark.parametrize(("size", "boxes"), [(6, 1), (6, 3), (8, 2)])
def test_levels_are_sound_and_begin_unsolved(size: int, boxes: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        level = ragen_level(rng, size, boxes)
        board.check_level(level)
        assert (level.width, level.height, len(level.boxes)) == (size, size, boxes)
        assert not set(level.boxes) & set(level.goals), "every box was pulled off its goal"


def test_the_same_stream_gives_the_same_levels() -> None:
    one, other = ([ragen_level(np.random.default_rng(seed), 6, 1) for seed in range(5)] for _ in range(2))
    assert one == other
    assert len(set(one)) > 3


def test_they_are_as_hard_as_ragens() -> None:
    """RAGEN's own generator: 4.14 moves in the mean of 8,000 levels; 8.4% need one move, 31% at most two."""
    rng = np.random.default_rng(1)
    moves = np.array([fewest_moves(ragen_level(rng, 6, 1)) for _ in range(1000)])
    assert moves.mean() == pytest.approx(4.14, abs=4 * 2.2 / 1000**0.5)
    for most, share in ((1, 0.084), (2, 0.312), (4, 0.567), (7, 0.92)):
        assert (moves <= most).mean() == pytest.approx(share, abs=4 * (share * (1 - share) / 1000) ** 0.5)


ROW = frozenset(range(8, 13))  # one row of five cells in a map of seven columns


def test_a_box_is_pulled_as_far_as_it_goes() -> None:
    """The player is on the box's right, walks to the right and pulls it along until the wall."""
    best = _played_backwards(_Pulled(9, (8,)), ROW, 7, 300)
    assert best == _Pulled(12, (11,), last=0, changes=1)


def test_the_search_stops_at_its_depth() -> None:
    best = _played_backwards(_Pulled(9, (8,)), ROW, 7, 4)
    assert best == _Pulled(11, (10,), last=0, changes=1), "a depth of four is two moves"


def test_a_box_that_cannot_be_pulled_gives_no_level() -> None:
    assert _played_backwards(_Pulled(12, (11,)), ROW, 7, 300) is None


def test_a_room_without_space_is_an_error() -> None:
    with pytest.raises(LevelError, match="no level of size 4 with 5 boxes"):
        ragen_level(np.random.default_rng(0), 4, 5)


def strolls(probability: float) -> Iterator[int]:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        yield _strolled(rng, _Pulled(8, (10,)), ROW, 7, probability)


def test_the_stroll_ends_where_the_player_can_walk() -> None:
    """From the end of the row up to the box there is one cell to go to, and then none that is new."""
    cells = list(strolls(0.5))
    assert set(cells) == {8, 9}
    assert cells.count(9) / len(cells) == pytest.approx(0.5, abs=0.05)
