"""Five ways to write a planning problem's state as text, each within a token budget and each read back by a parser.

`grid` draws one glyph a cell; `coordinates` lists the cells that differ from the commonest ground; `runs` writes rows
as runs of equal cells; `roads` lists junctions and the corridors between them; `overview` gives blocks of cells, and
single cells around the player, so that a map of any size has a form. The first three hold everything that is shown;
`roads` leaves out how corridors bend, `overview` what is far away. All begin with the line that `view` describes.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Literal, get_args

import numpy as np

from turngym.envs.path_planning.maps import GridMap
from turngym.envs.path_planning.overview import Overview, overview, read_overview
from turngym.envs.path_planning.roads import RoadMap, junctions, read_roads, road_map, road_text, trace_roads
from turngym.envs.path_planning.view import (
    PLAIN,
    GlyphCodes,
    View,
    count_tokens,
    read_header,
    undrawn,
    view_of,
)

Form = Literal["grid", "coordinates", "runs", "roads", "overview"]
FORMS: tuple[Form, ...] = get_args(Form)
MAX_TOKENS = 1024

_FIRST_LINE = "The first line gives P (you) and G (goal) with row and column, from 0 at the top left. "
_GROUND = "_ is free, # a wall, - water, ? unseen, a digit the cost of a step there."
LEGENDS: dict[Form, str] = {
    "grid": f"{_FIRST_LINE}Then the map: {_GROUND}",
    "coordinates": f"{_FIRST_LINE}Then the map's size, the ground of most cells, and row and column of the others: "
    f"{_GROUND}",
    "runs": f"{_FIRST_LINE}Then rows of the map as runs: # 3 is three walls. {_GROUND}",
    "roads": f"{_FIRST_LINE}Then every junction with its roads: direction of the first step, cost, and where to.",
    "overview": f"{_FIRST_LINE}Then the map's size and the cells along a block's side, and the map in blocks: _ is "
    "free, . mostly free, + mostly wall, # wall, ? unseen. Then single cells around you, from a row and column on: "
    f"{_GROUND}",
}
"""What to tell a model about each form."""


def render(view: View, form: Form, *, max_tokens: int = MAX_TOKENS) -> str:
    """A view as text.

    Args:
        view: What to show.
        form: One of `FORMS`.
        max_tokens: Budget, in `count_tokens` tokens; `overview` fills it, the others do not depend on it.

    Raises:
        ValueError: If the text needs more tokens, or the map holds what has no glyph (see `GridMap.to_ascii`).
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    text = f"{view.header}\n{_body(view, form, max_tokens)}"
    if len(text.encode()) > max_tokens and count_tokens(text) > max_tokens:
        raise ValueError(f"max_tokens must be at least {count_tokens(text)} for this {form} text, got {max_tokens}")
    return text


def parse(text: str, form: Form, **settings: Any) -> View | RoadMap | Overview:
    """Read a text of `render` back.

    Args:
        text: The text.
        form: The form it is in.
        **settings: `connectivity`, `corners` and `cell_size` of the map, which no text states.

    Returns:
        The view; of `roads` and `overview`, what they state of it.

    Raises:
        ValueError: If the text is not of that form.
    """
    first, *lines = text.split("\n")
    try:
        header = read_header(first)
        if form == "roads":
            return read_roads(header, lines)
        if form == "overview":
            return read_overview(header, lines)
        rows = {"grid": undrawn, "coordinates": _read_coordinates, "runs": _read_runs}[form](lines)
        return view_of(rows, header, settings)
    except (ValueError, LookupError, StopIteration) as error:
        raise ValueError(f"not a text of the form {form}: {error}") from error


def choose_form(grid_map: GridMap, max_tokens: int = MAX_TOKENS, *, marks: int = 0, sensor: bool = False) -> Form:
    """The fullest form in which every view of a map fits into a budget, wherever player and goal are.

    That is `grid` where it fits, else the shorter one of `coordinates` and `runs`, else `roads`, else `overview`.

    Args:
        grid_map: The map.
        max_tokens: The budget.
        marks: How many marks a view may have.
        sensor: Whether views are of what has been seen so far; then the length of all but `grid` and `overview` changes
            with every look, and these two alone are considered.
    """
    thing = 3 + sum(len(str(side - 1)) for side in (grid_map.rows, grid_map.cols))  # its glyph, cell, and ground
    room = max_tokens - (2 + marks) * thing - 1 - 2  # the end of the line, and what a √ takes beyond a glyph
    if grid_map.rows * (grid_map.cols + 1) - 1 <= room:
        return "grid"
    if not sensor:
        cells = grid_map.glyphs()
        lengths = {"coordinates": count_tokens(_coordinates(cells)), "runs": count_tokens(_runs(cells))}
        shorter: Form = "coordinates" if lengths["coordinates"] < lengths["runs"] else "runs"
        if lengths[shorter] <= room:
            return shorter
        if _roads_fit(grid_map, room, 2 + marks):
            return "roads"
    return "overview"


def _body(view: View, form: Form, max_tokens: int) -> str:
    if form == "grid":
        return view.drawn
    if form == "coordinates":
        return _coordinates(view.cells)
    if form == "runs":
        return _runs(view.cells)
    if form == "roads":
        found = road_map(view)
        return road_text(found.roads, found.frontier)
    return overview(view, max_tokens).text()


def _coordinates(cells: GlyphCodes) -> str:
    """`map 3 4 of _`, and a line `# at 0 2 | 1 2` for each other glyph."""
    counts = np.bincount(cells.ravel(), minlength=128)
    counts[ord(PLAIN)] += 1  # of two grounds that are as common, plain land is the one that is not listed
    common = int(counts.argmax())
    lines = [f"map {cells.shape[0]} {cells.shape[1]} of {chr(common)}"]
    for code in np.unique(cells[cells != common]).tolist():
        places = " | ".join([f"{row} {col}" for row, col in np.argwhere(cells == code).tolist()])
        lines.append(f"{chr(code)} at {places}")
    return "\n".join(lines)


def _read_coordinates(lines: list[str]) -> list[str]:
    _, rows, cols, _, common = lines[0].split()
    drawn = [[common] * int(cols) for _ in range(int(rows))]
    for line in lines[1:]:
        glyph, places = line.split(" at ")
        for place in places.split(" | "):
            row, col = place.split()
            drawn[int(row)][int(col)] = glyph
    return ["".join(row) for row in drawn]


def _runs(cells: GlyphCodes) -> str:
    """`row 0 to 1 _ 2 # 1`: equal rows that follow each other, and the runs of equal cells in them."""
    return "\n".join(_run_lines(row.tobytes().decode() for row in cells))


def _run_lines(rows: Iterator[str]) -> Iterator[str]:
    first = 0
    for row, same in groupby(rows):
        last = first + len(list(same)) - 1
        where = f"row {first}" if first == last else f"row {first} to {last}"
        yield " ".join([where, *(f"{glyph} {len(list(run))}" for glyph, run in groupby(row))])
        first = last + 1


def _read_runs(lines: list[str]) -> list[str]:
    rows: list[str] = []
    for line in lines:
        word, first, *items = line.split()
        last = first
        if items[0] == "to":
            _, last, *items = items
        if word != "row" or int(first) != len(rows):
            raise ValueError(f"rows follow each other, from 0 on, got {line!r}")
        row = "".join(glyph * int(count) for glyph, count in zip(items[::2], items[1::2], strict=True))
        rows += [row] * (int(last) - int(first) + 1)
    return rows


def _roads_fit(grid_map: GridMap, room: int, things: int) -> bool:
    """Whether the roads of the whole map fit, with some more nodes on corridors."""
    digits = sum(len(str(side - 1)) for side in (grid_map.rows, grid_map.cols))
    farthest = len(f"{grid_map.costs.max() * grid_map.cell_size * 2 * grid_map.zones.size:.2f}")
    road = 4 + farthest + digits  # separator, direction of two words, to
    nodes = junctions(grid_map)
    spent = things * (2 + digits + 2 * road)
    if spent + int(nodes.sum()) * 3 > room:
        return False
    roots = [(row, col) for row, col in np.argwhere(nodes).tolist()]
    return spent + count_tokens(road_text(trace_roads(grid_map, nodes, roots))) <= room
