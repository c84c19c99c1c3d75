"""Sokoban's rules by hand, what is the same level and what is not, and what is wrong with broken ones."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.sokoban import board
from turngym.envs.sokoban.board import Level, Position, canonical, check_level, enclosed, move
from turngym.envs.sokoban.formats import parse_level, to_xsb

LEFT, DOWN, RIGHT, UP = range(4)
SEEDS = st.integers(0, 2**16)

# The player is on cell 9, boxes on 10 and 17, goals on 12 and 18.
LEVEL = parse_level("########\n#@$ .  #\n#$.    #\n########")


# Moves -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directions", "player", "boxes"),
    [
        ([RIGHT], 10, (11, 17)),
        ([RIGHT, RIGHT], 11, (12, 17)),
        ([RIGHT, RIGHT, RIGHT, RIGHT], 13, (14, 17)),
        ([RIGHT] * 5, 13, (14, 17)),  # the wall holds the box, which holds the player
        ([UP], 9, (10, 17)),
        ([DOWN], 9, (10, 17)),  # a box before a wall
        ([RIGHT, LEFT], 9, (11, 17)),  # nothing is pulled
        ([RIGHT, DOWN], 18, (11, 17)),  # a goal is walked on
        ([RIGHT, DOWN, LEFT], 18, (11, 17)),
    ],
)
def test_moves(directions: list[int], player: int, boxes: tuple[int, ...]) -> None:
    position = LEVEL.start
    for direction in directions:
        position = move(LEVEL, position, direction)
    assert position == Position(player, boxes)


def test_no_box_pushes_a_box() -> None:
    level = parse_level("#######\n#@$$ .#\n#    .#\n#######")
    assert move(level, level.start, RIGHT) is level.start


def test_what_cannot_move_is_the_same_object() -> None:
    for direction in (LEFT, DOWN, UP):
        assert move(LEVEL, LEVEL.start, direction) is LEVEL.start
    assert board.legal_moves(LEVEL, LEVEL.start) == [RIGHT]
    assert [board.is_push(LEVEL, LEVEL.start, direction) for direction in range(4)] == [False, False, True, False]


def test_solved_when_all_boxes_are_on_goals() -> None:
    assert board.boxes_on_goals(LEVEL, LEVEL.start) == 0
    assert board.boxes_on_goals(LEVEL, Position(9, (12, 17))) == 1
    assert not board.is_solved(LEVEL, Position(9, (12, 17)))
    assert board.boxes_on_goals(LEVEL, Position(9, (12, 18))) == 2
    assert board.is_solved(LEVEL, Position(9, (12, 18)))


def test_drawing() -> None:
    assert board.draw(LEVEL, LEVEL.start) == "#########@$ .  ##$.    #########"
    assert board.draw(LEVEL, Position(18, (12, 17))) == "#########   *  ##$+    #########"


def test_levels_are_values() -> None:
    again = Level(LEVEL.cells, LEVEL.width, LEVEL.boxes, LEVEL.player)
    assert LEVEL.steps  # what is remembered beside a level does not count
    assert again == LEVEL
    assert hash(again) == hash(LEVEL)
    assert (LEVEL.height, LEVEL.goals, LEVEL.start) == (4, (12, 18), Position(9, (10, 17)))


@given(seed=SEEDS, directions=st.lists(st.integers(0, 3), max_size=30))
def test_a_move_changes_one_cell_and_at_most_one_box(
    random_level: Callable[[int], Level], seed: int, directions: list[int]
) -> None:
    level = random_level(seed)
    position = level.start
    for direction in directions:
        after = move(level, position, direction)
        row, column = np.array(divmod(after.player, level.width)) - divmod(position.player, level.width)
        assert (row, column) == ((0, -1), (1, 0), (0, 1), (-1, 0))[direction] or after is position
        assert after.boxes == tuple(sorted(set(after.boxes)))
        assert len(after.boxes) == len(level.boxes)
        assert (set(after.boxes) - set(position.boxes) != set()) == board.is_push(level, position, direction)
        assert after.player not in after.boxes
        assert all(level.cells[cell] != board.WALL for cell in (after.player, *after.boxes))
        position = after


# The same level ----------------------------------------------------------------------------------------------------


def rows_of(level: Level) -> list[str]:
    symbols = board.draw(level, level.start)
    return [symbols[first : first + level.width] for first in range(0, len(symbols), level.width)]


def orientations(level: Level) -> list[str]:
    grid = np.array([list(row) for row in rows_of(level)])
    turned = [np.rot90(grid, quarter) for quarter in range(4)]
    return ["\n".join("".join(row) for row in view) for view in (*turned, *(view.T for view in turned))]


@given(seed=SEEDS)
def test_all_orientations_are_one_level(random_level: Callable[[int], Level], seed: int) -> None:
    texts = orientations(random_level(seed))
    assert len({canonical(parse_level(text)) for text in texts}) == 1
    assert canonical(parse_level(texts[0])) in texts


@pytest.mark.parametrize(
    "text",
    [
        "########\n#@$ .  #\n#$.    #\n########",
        "  ########\n  #@$ .  #\n  #$.    #  #\n  ########",
        "##########\n##########\n##@$ .  ##\n##$.    ##\n##########",
        "########\n#@$ .  #\n#$.    #\n########\n# * #\n#####",  # a room of its own
        " #######\n#@$ .  #\n#$.    #\n #######",
    ],
)
def test_what_lies_outside_the_walls_does_not_count(text: str) -> None:
    assert canonical(parse_level(text)) == canonical(LEVEL)


def test_walls_goals_boxes_and_player_count() -> None:
    cells = LEVEL.cells
    others = [
        replace(LEVEL, player=11),
        replace(LEVEL, boxes=(11, 17)),
        replace(LEVEL, cells=cells[:12] + " ." + cells[14:]),
        replace(LEVEL, cells=cells[:22] + "#" + cells[23:]),
    ]
    assert len({canonical(level) for level in (LEVEL, *others)}) == 5


def test_enclosed() -> None:
    level = parse_level("   ####\n## #@ ####\n   #$ . ##\n   ######")
    assert to_xsb(enclosed(level)) == "######\n#@####\n#$ . #\n######".replace("#@####", "#@ ###")
    assert enclosed(LEVEL) == LEVEL


# What is wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "fault"),
    [
        (Level("####@", 4, (), 0), "5 cells for width 4"),
        (Level("", 3, (), 0), "0 cells for width 3"),
        (Level("#####x########", 7, (), 0), "got 'x' at row 1, column 6"),
        (replace(LEVEL, boxes=(17, 10)), "boxes are sorted"),
        (replace(LEVEL, boxes=(10, 10)), "boxes are sorted"),
        (replace(LEVEL, player=3), "the player stands on floor or a goal, got cell 3"),
        (replace(LEVEL, boxes=(0, 10)), "the box stands on floor or a goal, got cell 0"),
        (replace(LEVEL, boxes=(10, 99)), "the box stands on floor or a goal, got cell 99"),
        (replace(LEVEL, player=10), "the player stands on no box, got both at row 2, column 3"),
        (replace(LEVEL, cells=LEVEL.cells.replace(".", " "), boxes=()), "at least one box"),
        (replace(LEVEL, boxes=(10,)), "got 1 boxes and 2 goals"),
        (replace(LEVEL, cells=LEVEL.cells[:15] + " " + LEVEL.cells[16:]), "a way out at row 2, column 8"),
        (Level("#######   ####### #.   #######", 6, (22,), 7), "outside at row 4, column 2"),
    ],
)
def test_faults(level: Level, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        check_level(level)


def test_a_box_that_is_done_with_may_stand_outside() -> None:
    check_level(parse_level("########\n#@$ .  #\n#$.    #\n########\n# * #\n#####"))
