"""Levels and solutions as text: collections as they are met in the wild, both ways, and clear words for broken ones."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.sokoban import board
from turngym.envs.sokoban.board import Level
from turngym.envs.sokoban.formats import (
    parse_dialect,
    parse_level,
    parse_levels,
    parse_lurd,
    to_dialect,
    to_lurd,
    to_xsb,
)

FIRST = "####\n# .###\n# $  #\n#  @ #\n######"
SECOND = "  ####\n###  ####\n#  * $. #\n#    +$ #\n#########"

needs_data = pytest.mark.skipif("TURNGYM_DATA" not in os.environ, reason="set TURNGYM_DATA to a folder of level files")


def titles(text: str) -> list[str]:
    return [named.title for named in parse_levels(text)]


# One level ---------------------------------------------------------------------------------------------------------


def test_symbols_and_ragged_rows() -> None:
    level = parse_level(SECOND)
    assert level == Level("  ####   ###  #####  .  . ##    .  ##########", 9, (21, 23, 33), 32)
    assert level.goals == (21, 24, 32)
    assert to_xsb(level) == SECOND


def test_other_floors_comments_and_line_ends() -> None:
    text = "; a comment\r\n" + FIRST.replace(" ", "-").replace("---", "-_-").replace("\n", "\r\n") + "\r\n\r\n"
    assert parse_level(text) == parse_level(FIRST)


def test_a_later_position() -> None:
    level = parse_level(FIRST)
    position = board.move(level, board.move(level, level.start, 0), 3)
    assert to_xsb(level, position) == "####\n# *###\n# @  #\n#    #\n######"


@pytest.mark.parametrize(
    ("dialect", "xsb"),
    [
        ("######\n#P_OO#\n#_XX√#\n######", "######\n#@ ..#\n# $$*#\n######"),
        ("#######\n#S_X__#\n#######", "#######\n#+ $  #\n#######"),
    ],
)
def test_the_dialect(dialect: str, xsb: str) -> None:
    assert parse_dialect(dialect) == parse_level(xsb)
    assert parse_dialect("\n".join(" ".join(row) for row in dialect.split("\n"))) == parse_level(xsb)
    assert to_dialect(parse_level(xsb)) == dialect


@given(seed=st.integers(0, 2**16))
def test_round_trips(random_level: Callable[[int], Level], seed: int) -> None:
    level = random_level(seed)
    assert parse_level(to_xsb(level)) == level
    assert parse_dialect(to_dialect(level)) == level


@pytest.mark.parametrize(
    ("read", "text", "fault"),
    [
        (parse_level, "#####\n#@$x#\n#####", "got 'x' in row 2, column 4"),
        (parse_level, "", "exactly one player, got 0"),
        (parse_level, "#####\n# $.#\n#####", "exactly one player, got 0"),
        (parse_level, "######\n#@$.+#\n######", "exactly one player, got 2"),
        (parse_level, "#####\n#@$ #\n#####", "got 1 boxes and 0 goals"),
        (parse_level, "####\n#@ #\n####", "at least one box"),
        (parse_level, "#####\n#@$.\n#####", "a way out at row 2, column 5"),
        (parse_dialect, "#####\n#P$O#\n#####", "got '\\$' in row 2, column 3"),
    ],
)
def test_broken_levels(read: Callable[[str], Level], text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read(text)


# Collections -------------------------------------------------------------------------------------------------------


def test_titles_before_levels() -> None:
    text = f"; A collection\n\n; one\n\n{FIRST}\n\n; two\n\n{SECOND}\n"
    assert titles(text) == ["one", "two"]
    assert [named.level for named in parse_levels(text)] == [parse_level(FIRST), parse_level(SECOND)]


def test_titles_after_levels() -> None:
    assert titles(f"; A collection\n\n{FIRST}\n; one\n\n{SECOND}\n; two\n") == ["one", "two"]
    assert titles(f"{FIRST}\n\none\n\n{SECOND}\n\ntwo\n") == ["one", "two"]


def test_titles_that_touch_the_next_level() -> None:
    assert titles(f"; 0\n{FIRST}\n\n; 1\n{SECOND}\n\nThe end.") == ["0", "1"]


def test_other_remarks() -> None:
    assert titles(f"{FIRST}\nTitle: Up\nAuthor: me\n\n{SECOND}\nTitle: Down\nAuthor: me") == ["Up", "Down"]
    assert titles(f"{FIRST}\n\n{SECOND}") == ["1", "2"]
    assert titles("no levels --- at all") == []
    assert titles(f"\ufeff{FIRST}") == ["1"], "a mark of the byte order is none"


def test_a_broken_level_is_named() -> None:
    with pytest.raises(ValueError, match=r"level 'two', from line 9: .* got 'x' in row 2, column 3"):
        parse_levels(f"; one\n{FIRST}\n\n; two\n#####\n#@x #\n#####")


@needs_data
@pytest.mark.parametrize(
    ("name", "count", "first", "last"),
    [
        ("boxoban/hard_000.txt", 1000, "0", "999"),
        ("boxoban/unfiltered_test_000.txt", 1000, "0", "999"),
        ("skinner/microban.txt", 155, "1", "155"),
        ("skinner/microban_155.xsb", 155, "1", "'The Dungeon'"),
        ("skinner/microban_II_135.xsb", 135, "1", "'Fractal'"),
        ("skinner/sasquatch.txt", 50, "1", "50"),
        ("xsokoban_90.xsb", 90, "1", "90"),
    ],
)
def test_real_collections(name: str, count: int, first: str, last: str) -> None:
    named = parse_levels((Path(os.environ["TURNGYM_DATA"]) / "sokoban" / name).read_text())
    assert (len(named), named[0].title, named[-1].title) == (count, first, last)
    for _, level in named:
        assert parse_level(to_xsb(level)) == level


@needs_data
def test_two_prints_of_one_collection() -> None:
    folder = Path(os.environ["TURNGYM_DATA"]) / "sokoban" / "skinner"
    one, other = (parse_levels((folder / name).read_text()) for name in ("microban.txt", "microban_155.xsb"))
    assert sum(this.level == that.level for this, that in zip(one, other, strict=True)) == 154


# Solutions ---------------------------------------------------------------------------------------------------------


def test_lurd() -> None:
    level = parse_level(FIRST)
    assert to_lurd(level, [0, 3, 1, 0, 3]) == "lUdlu"
    assert parse_lurd(level, "lU dl\nu") == (0, 3, 1, 0, 3)


def test_lurd_from_a_later_position() -> None:
    level = parse_level(FIRST)
    position = board.move(level, level.start, 0)
    assert to_lurd(level, [3], position) == "U"
    assert parse_lurd(level, "U", position) == (3,)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("lx", "got 'x' as move 2"),
        ("ld", r"move 2 \('d'\) is impossible"),
        ("lu", r"move 2 \('u'\) is a push"),
        ("L", r"move 1 \('L'\) is a walk"),
    ],
)
def test_broken_lurd(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_lurd(parse_level(FIRST), text)


def test_moves_that_cannot_be_spelt() -> None:
    with pytest.raises(ValueError, match=r"move 1 \('d'\) is impossible"):
        to_lurd(parse_level(FIRST), [1])
