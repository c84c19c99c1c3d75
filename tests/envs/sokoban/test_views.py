"""The five formats: as written down by hand, and read back to what was shown."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.sokoban import board, views
from turngym.envs.sokoban.board import Level, Position
from turngym.envs.sokoban.formats import parse_dialect, to_dialect

LEVEL = parse_dialect("#####\n#P_##\n#XO_#\n#_√_#\n#####")
ON_GOAL = Position(12, (16, 17))

GRID = "# # # # #\n# P _ # #\n# X O _ #\n# _ √ _ #\n# # # # #"
THINGS = "player row 1 column 1\nbox row 2 column 1, row 3 column 2\ngoal row 2 column 2, row 3 column 2"
WALLS = "wall row 0 column 0 1 2 3 4, row 1 column 0 3 4, row 2 column 0 4, row 3 column 0 4, row 4 column 0 1 2 3 4"
ADJACENT = (
    "1 1: Down 2 1, Right 1 2\n"
    "1 2: Left 1 1, Down 2 2\n"
    "2 1: Down 3 1, Right 2 2, Up 1 1\n"
    "2 2: Left 2 1, Down 3 2, Right 2 3, Up 1 2\n"
    "2 3: Left 2 2, Down 3 3\n"
    "3 1: Right 3 2, Up 2 1\n"
    "3 2: Left 3 1, Right 3 3, Up 2 2\n"
    "3 3: Left 3 2, Up 2 3"
)
TEXTS = {
    "grid": GRID,
    "coordinates": f"map 5 5\n{THINGS}\n{WALLS}",
    "grid+coordinates": f"{GRID}\n{THINGS}",
    "adjacency": f"map 5 5\n{THINGS}\n{ADJACENT}",
}

every_format = pytest.mark.parametrize("observation_format", views.FORMATS)


@pytest.mark.parametrize("observation_format", TEXTS)
def test_as_written_by_hand(observation_format: str) -> None:
    assert views.render(LEVEL, LEVEL.start, observation_format) == TEXTS[observation_format]


def test_json_as_written_by_hand() -> None:
    assert json.loads(views.render(LEVEL, ON_GOAL, "json")) == {
        "rows": 5,
        "columns": 5,
        "player": [2, 2],
        "boxes": [[3, 1], [3, 2]],
        "goals": [[2, 2], [3, 2]],
        "walls": [[row, column] for row in range(5) for column in range(5) if LEVEL.cells[5 * row + column] == "#"],
    }


def test_the_player_on_a_goal_has_its_own_symbol() -> None:
    assert views.render(LEVEL, ON_GOAL, "grid") == "# # # # #\n# _ _ # #\n# _ S _ #\n# X √ _ #\n# # # # #"


@st.composite
def levels(draw: st.DrawFn) -> Level:
    """Closed maps, oblong ones too, with boxes, goals and player where the player can go."""
    height, width = draw(st.integers(3, 7)), draw(st.integers(4, 8))
    cells = [board.WALL] * (height * width)
    for row in range(1, height - 1):
        for column in range(1, width - 1):
            cells[row * width + column] = draw(st.sampled_from("#  "))
    player = draw(st.integers(1, height - 2)) * width + draw(st.integers(1, width - 2))
    cells[player] = board.FLOOR
    others = sorted(Level("".join(cells), width, (), player).inside - {player})
    if not others:
        cells[player - 1 if player % width > 1 else player + 1] = board.FLOOR
        others = sorted(Level("".join(cells), width, (), player).inside - {player})
    count = draw(st.integers(1, min(3, len(others))))
    boxes = draw(st.permutations(others))[:count]
    for goal in draw(st.permutations([player, *others]))[:count]:
        cells[goal] = board.GOAL
    level = Level("".join(cells), width, tuple(sorted(boxes)), player)
    board.check_level(level)
    return level


@every_format
@given(level=levels(), moves=st.lists(st.integers(0, 3), max_size=12))
def test_what_was_shown_is_read_back(observation_format: str, level: Level, moves: list[int]) -> None:
    position = level.start
    for direction in moves:
        position = board.move(level, position, direction)
    text = views.render(level, position, observation_format)
    shown = views.parse(text, observation_format)
    assert (shown.cells, shown.width, shown.start) == (level.cells, level.width, position)
    assert views.render(shown, shown.start, observation_format) == text


@given(levels())
def test_the_grid_is_the_dialect_with_spaces(level: Level) -> None:
    rows = views.render(level, level.start, "grid").split("\n")
    assert [row.split(" ") for row in rows] == [list(row) for row in to_dialect(level).split("\n")]


@every_format
@given(st.data())
def test_a_text_that_shows_no_position_is_refused(observation_format: str, data: st.DataObject) -> None:
    """One character more, less or other: a position that reads exactly so, or an error that says what is wrong."""
    text = views.render(LEVEL, LEVEL.start, observation_format)
    place = data.draw(st.integers(0, len(text) - 1))
    change = data.draw(st.sampled_from(["", "9", " ", "\n", "X", "_", "#", "-1", "0", "]", "row 1 column 1", "é"]))
    altered = text[:place] + change + text[place + data.draw(st.integers(0, 1)) :]
    try:
        level = views.parse(altered, observation_format)
    except ValueError:
        return
    assert views.render(level, level.start, observation_format) == altered


@pytest.mark.parametrize(
    ("observation_format", "text", "message"),
    [
        ("grid", "# # #", "exactly one player, got 0"),
        ("grid+coordinates", f"{GRID}\n{THINGS}".replace("player row 1", "player row 2"), "contradicts itself"),
        ("coordinates", "map 5 5\n" + THINGS, "at least 5 lines, got 4"),
        ("coordinates", TEXTS["coordinates"].replace("map 5 5", "map 5"), "such as 'map 6 6', got 'map 5'"),
        ("coordinates", TEXTS["coordinates"].replace("map 5 5", "map 4 5"), "on the map of 4 rows and 5 columns"),
        ("coordinates", TEXTS["coordinates"].replace("player row 1 column 1", "player"), "one player, got 0"),
        ("adjacency", TEXTS["adjacency"].replace("map 5 5", "map 99999 99999"), "1 to 100000 cells, got 99999"),
        ("adjacency", TEXTS["adjacency"].replace("Down 3 3", "Down 3 2"), "contradicts itself"),
        ("json", "[]", "JSON tells rows, columns, player, boxes, goals, walls"),
        ("json", "{", "Expecting"),
        ("json", views.render(LEVEL, LEVEL.start, "json").replace("[1, 1]", "1", 1), "cells pairs of them"),
        ("json", views.render(LEVEL, LEVEL.start, "json").replace('"rows": 5', '"rows": "5"'), "cells pairs of them"),
    ],
)
def test_errors_say_what_is_wrong(observation_format: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        views.parse(text, observation_format)
