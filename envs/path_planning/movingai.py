"""Maps and scenarios in MovingAI's format.

Source: N. R. Sturtevant, "Benchmarks for Grid-Based Pathfinding", IEEE T-CIAIG 4(2), 2012, and the format's page at
movingai.com. Files in circulation differ from the page in line ends, separators, map names and precision; what was met
in them is read here, and what cannot be read is refused with its line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from turngym.envs.path_planning.maps import BLOCKED, LAND, WATER, Cell, Connectivity, GridMap, Problem

_ZONES = {".": LAND, "G": LAND, "S": LAND, "W": WATER, "@": BLOCKED, "O": BLOCKED, "T": BLOCKED}


def load_map(path: str | Path, *, connectivity: Connectivity = 8) -> GridMap:
    """Read a `.map` file.

    Ground (`.` `G`) and swamp (`S`) are land, `W` is water and passable from water alone, `@` `O` `T` are blocked. With
    8 neighbours and the corner rule of `GridMap`, published scenario lengths hold.

    Args:
        path: The file; lines may end in CRLF.
        connectivity: 8, or 4 for the multi-agent benchmarks, which are played so.

    Raises:
        ValueError: If the file is of another type (`octile-corner` is a different format), or does not hold as many
            rows, columns and known characters as its header says.
    """
    lines = _lines(path)
    (width, height), first = _header(path, lines)
    rows = [line.rstrip() for line in lines[first : first + height]]
    if len(rows) < height or any(line.strip() for line in lines[first + height :]):
        raise ValueError(f"{path}: height says {height} rows, got {len(lines) - first}")
    zones = np.empty((height, width), np.uint8)
    for index, row in enumerate(rows):
        if len(row) != width:
            raise ValueError(f"{path}, line {first + index + 1}: width says {width} cells, got {len(row)}")
        if set(row) - set(_ZONES):
            raise ValueError(f"{path}, line {first + index + 1}: cells are . G S W @ O T, got {set(row) - set(_ZONES)}")
        zones[index] = [_ZONES[glyph] for glyph in row]
    return GridMap(zones, connectivity=connectivity)


def _lines(path: str | Path) -> list[str]:
    return Path(path).read_text(encoding="utf-8-sig").splitlines()


def _header(path: str | Path, lines: list[str]) -> tuple[tuple[int, int], int]:
    """The width and height that a map's header states, and the index of the first row after it."""
    first = next((index for index, line in enumerate(lines, 1) if line.strip() == "map"), 0)
    if not first:
        raise ValueError(f"{path}: a map file has a line 'map' before its rows")
    fields = dict(line.split(maxsplit=1) for line in lines[: first - 1] if len(line.split()) > 1)
    fields = {name: value.strip() for name, value in fields.items()}
    if fields.get("type") != "octile":
        raise ValueError(f"{path}: type must be octile, got {fields.get('type')}")
    if not (fields.get("width", "").isdecimal() and fields.get("height", "").isdecimal()):
        raise ValueError(f"{path}: the header must state width and height, got {fields}")
    return (int(fields["width"]), int(fields["height"])), first


@dataclass(frozen=True)
class Scenario:
    """One row of a `.scen` file.

    Attributes:
        bucket: The row's bucket: the length divided by 4 and rounded down, in most files.
        map_name: As the row has it; often a path that is not there, sometimes "".
        width: Columns that the map should have.
        height: Rows that the map should have.
        start: `(row, col)`; the file has x, y.
        goal: `(row, col)`.
        length: The optimal length with 8 neighbours that the file states. The multi-agent scenarios state it so too,
            though they are played with 4: there it is no optimum of their own game.
    """

    bucket: int
    map_name: str
    width: int
    height: int
    start: Cell
    goal: Cell
    length: float

    def flaw(self, grid_map: GridMap) -> str:
        """Why the row is of no use on a map, in words; "" for a usable one."""
        if (grid_map.rows, grid_map.cols) != (self.height, self.width):
            return f"made for {self.height} rows and {self.width} columns, not {grid_map.rows} and {grid_map.cols}"
        for name, cell in (("start", self.start), ("goal", self.goal)):
            if not grid_map.is_free(cell):
                return f"{name} {cell} is {'blocked' if grid_map.inside(cell) else 'outside the map'}"
        if grid_map.zones[self.start] != grid_map.zones[self.goal]:
            return f"start {self.start} and goal {self.goal} are in two zones"
        return ""

    def problem(self, grid_map: GridMap) -> Problem:
        """The row as a problem on its map.

        Raises:
            ValueError: If the row is of no use there, or starts at its goal.
        """
        if self.flaw(grid_map):
            raise ValueError(self.flaw(grid_map))
        return Problem(grid_map, self.start, self.goal)


def load_scenarios(path: str | Path) -> list[Scenario]:
    """Read a `.scen` file, every row of it; `Scenario.flaw` tells which are of use.

    Columns may be separated by tabs or spaces, and the map's name may be missing.

    Raises:
        ValueError: If the file is not of version 1, or a row does not hold what it should.
    """
    lines = _lines(path)
    version = lines[0].split() if lines else []
    if version not in (["version", "1"], ["version", "1.0"]):
        raise ValueError(f"{path}: the first line must be 'version 1', got {lines[0] if lines else ''!r}")
    return list(_scenarios(path, lines))


def _scenarios(path: str | Path, lines: list[str]) -> Iterator[Scenario]:
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        fields = line.strip().split("\t") if "\t" in line.strip() else line.split()
        try:
            bucket, *name, width, height, start_x, start_y, goal_x, goal_y, length = fields
            yield Scenario(
                bucket=int(bucket),
                map_name=" ".join(name).strip(),
                width=int(width),
                height=int(height),
                start=(int(start_y), int(start_x)),
                goal=(int(goal_y), int(goal_x)),
                length=float(length),
            )
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: a row is bucket, map, width, height, start x and y, goal x and y, length; "
                f"got {line!r}"
            ) from error


def scenario_tolerance(length: float) -> float:
    """How far a published length may be from the exact one: files keep two decimals, or six significant digits."""
    return max(0.0075, 1e-5 * length)
