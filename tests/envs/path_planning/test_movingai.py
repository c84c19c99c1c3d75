"""MovingAI's files: every difference between them that was met is in a hand-made file here."""

import os
from collections import Counter
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import pytest

from turngym.envs.path_planning.maps import GridMap, Problem
from turngym.envs.path_planning.movingai import Scenario, load_map, load_scenarios, scenario_tolerance

HEADER = "type octile\nheight 3\nwidth 4\nmap\n"
DATA = os.environ.get("TURNGYM_DATA")
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: str) -> Path:
        path = tmp_path / "file"
        path.write_bytes(content.encode())
        return path

    return write


# Maps --------------------------------------------------------------------------------------------------------------


def test_cells(write: Write) -> None:
    """Ground and swamp are one zone, water another, and the origin is at the top left."""
    grid_map = load_map(write(HEADER + ".GS@\nWWOT\n...."))
    assert grid_map == GridMap.from_ascii("___#\n--##\n____", connectivity=8)


@pytest.mark.parametrize(
    "content",
    [
        (HEADER + "...@\n....\n.T..\n").replace("\n", "\r\n"),
        HEADER + "...@\n....\n.T..\n\n \n",
        HEADER + "...@  \n....\n.T..",
        "type octile\nwidth 4\nheight 3\nmap\n...@\n....\n.T..\n",
        "\ufefftype  octile \nheight\t3\nwidth  4\n\nmap \n...@\n....\n.T..\n",
    ],
    ids=["CRLF", "blank lines", "blanks at the end of a line", "order of the header", "spaces and a byte order mark"],
)
def test_maps_as_they_are_written(write: Write, content: str) -> None:
    assert load_map(write(content)) == GridMap.from_ascii("___#\n____\n_#__", connectivity=8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER.replace("octile", "octile-corner") + "....\n" * 3, "type must be octile, got octile-corner"),
        ("height 3\nwidth 4\nmap\n" + "....\n" * 3, "type must be octile, got None"),
        (HEADER + "....\n" * 2, "height says 3 rows, got 2"),
        (HEADER + "....\n" * 4, "height says 3 rows, got 4"),
        (HEADER + "....\n...\n....", "line 6: width says 4 cells, got 3"),
        (HEADER + "....\n....\n..x.", "line 7: cells are .* got {'x'}"),
        ("type octile\nheight 3\nwidth four\nmap\n", "must state width and height"),
        ("version 1\n", "a line 'map'"),
        ("", "a line 'map'"),
    ],
)
def test_what_is_no_map(write: Write, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_map(write(content))


# Scenarios ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("7\tmaps/dao/arena.map\t49\t48\t1\t11\t30\t12\t29.41421", "maps/dao/arena.map"),
        ("7 maps/bgmaps/arena.map 49 48 1 11 30 12 29.41421", "maps/bgmaps/arena.map"),
        ("7\tan arena.map\t49\t48\t1\t11\t30\t12\t29.41421", "an arena.map"),
        ("7\t\t49\t48\t1\t11\t30\t12\t29.41421", ""),
        ("7 49 48 1 11 30 12 29.41421 ", ""),
    ],
    ids=["tabs", "spaces", "a name with a space", "an empty name", "no name"],
)
@pytest.mark.parametrize("version", ["version 1", "version 1.0"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_rows_as_they_are_written(write: Write, row: str, name: str, version: str, end: str) -> None:
    """The file has width before height and x before y."""
    expected = Scenario(7, name, width=49, height=48, start=(11, 1), goal=(12, 30), length=29.41421)
    assert load_scenarios(write(end.join([version, row, row, ""]))) == [expected] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must be 'version 1', got ''"),
        ("1\tarena.map\t4\t4\t0\t0\t1\t1\t1.4\n", "must be 'version 1', got '1.tarena"),
        ("version 2\n", "must be 'version 1', got 'version 2'"),
        ("version 1\n\n1 a.map 4 4 0 0 1\n", "line 3: a row is bucket"),
        ("version 1\n1 a.map 4 4 0 0 1 x 1.0\n", "line 2: a row is bucket"),
    ],
)
def test_what_is_no_scenario_file(write: Write, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_scenarios(write(content))


def test_flaws(write: Write) -> None:
    """Junk rows stay in the list and say what is wrong with them; water is as good as land, from water."""
    grid_map = load_map(write(HEADER + "..T@\nWW.T\nW..."))
    rows = ["0 0 1 1", "0 2 1 1", "2 0 3 1", "0 0 2 0", "0 0 0 1", "1 2 5 0", "1 2 1 2"]
    scenarios = load_scenarios(write("version 1\n" + "".join(f"0 a.map 4 3 {row} 1\n" for row in rows)))
    assert [scenario.flaw(grid_map) for scenario in scenarios] == [
        "start (0, 0) and goal (1, 1) are in two zones",
        "",
        "start (0, 2) is blocked",
        "goal (0, 2) is blocked",
        "start (0, 0) and goal (1, 0) are in two zones",
        "goal (0, 5) is outside the map",
        "",
    ]
    assert scenarios[1].problem(grid_map) == Problem(grid_map, (2, 0), (1, 1))
    with pytest.raises(ValueError, match=r"start \(0, 2\) is blocked"):
        scenarios[2].problem(grid_map)
    with pytest.raises(ValueError, match="two cells"):
        scenarios[6].problem(grid_map)
    assert scenarios[1].flaw(GridMap(grid_map.zones.T)) == "made for 3 rows and 4 columns, not 4 and 3"


def test_the_tolerance_covers_what_files_keep() -> None:
    """Two decimals of 244.9553, six significant digits of 1415.2135, and no more."""
    for exact, published in ((244.9553, 244.95), (1000 * sqrt(2) + 1, 1415.21), (12 * sqrt(2), 16.9706)):
        assert abs(exact - published) <= scenario_tolerance(published)
    assert scenario_tolerance(16.97) < 0.01
    assert scenario_tolerance(2000.0) == pytest.approx(0.02)


# Published lengths -------------------------------------------------------------------------------------------------

FLAWED = {"wc3maps512": 8}
"""Rows that start and end on trees, by family; every other row of every file is of use."""


def _scenario_files() -> list[tuple[str, Path, Path]]:
    """Family, map and scenarios of every file under TURNGYM_DATA."""
    root = Path(DATA or "nowhere") / "movingai"
    found = []
    for scenarios in sorted(root.glob("scenarios/*/*.scen")):
        family = scenarios.parent.name
        found.append((family, root / "maps" / family / scenarios.stem, scenarios))
    for scenarios in sorted(root.glob("scenarios/mapf/*/*.scen")):
        name = scenarios.name.rsplit("-", 2)[0]
        found.append(("mapf", root / "maps" / "mapf" / f"{name}.map", scenarios))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="TURNGYM_DATA is not set")
def test_published_lengths() -> None:
    """Every usable row of every file, the multi-agent ones included, to the precision that its file keeps."""
    from turngym.envs.path_planning.search.astar import astar

    rows, flawed, wrong = Counter[str](), Counter[str](), []
    for family, map_path, path in _scenario_files():
        grid_map = load_map(map_path)
        for scenario in load_scenarios(path):
            if scenario.flaw(grid_map):
                flawed[family] += 1
                continue
            rows[family] += 1
            cost = astar(grid_map, scenario.start, scenario.goal).cost
            if abs(cost - scenario.length) > scenario_tolerance(scenario.length):
                wrong.append((path.name, scenario, cost))
    print(dict(rows), dict(flawed))
    assert not wrong
    assert dict(flawed) == FLAWED
    assert sum(rows.values()) == 73_006
