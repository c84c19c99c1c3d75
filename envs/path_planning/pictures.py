"""Pictures of planning on a map, as text and as an image: path, waypoints, edges to avoid, and where a search went."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import LAND, WATER, Cell, GridMap
from turngym.envs.path_planning.view import View

Image = NDArray[np.uint8]
Colour = tuple[int, int, int]

PATH, WAYPOINT, AVOID, ONCE, OFTEN = "*", "+", "X", ".", ":"
"""Glyphs of `draw_ansi`: the path, waypoints, edges to avoid, and cells expanded once and more than once."""

_WALL, _WATER, _UNSEEN = (60, 62, 68), (120, 170, 220), (150, 150, 156)
_LAND, _DEAREST = (244, 244, 240), (176, 150, 110)
_HEAT, _PATH, _WAYPOINT, _AVOID = (240, 130, 40), (40, 90, 200), (130, 60, 170), (200, 30, 40)
_PLAYER, _GOAL, _MARK = (220, 70, 60), (70, 170, 80), (90, 20, 40)


@dataclass(frozen=True)
class Overlay:
    """What a planner has done on a map.

    Attributes:
        path: Cells of the path, in order.
        waypoints: Cells that were proposed.
        avoid: Edges between two cells that a local search did not get through.
        expansions: `(rows, cols)`, how often each cell was expanded; None where that was not counted.
    """

    path: tuple[Cell, ...] = ()
    waypoints: tuple[Cell, ...] = ()
    avoid: tuple[tuple[Cell, Cell], ...] = ()
    expansions: NDArray[np.integer] | None = None


def draw_ansi(view: View, overlay: Overlay = Overlay()) -> str:  # frozen
    """The view as rows of glyphs with a space between any two.

    Player and goal cover what the view marks, then waypoints, the path, edges to avoid, and expanded cells.
    """
    drawn: dict[Cell, str] = {}
    if overlay.expansions is not None:
        often = overlay.expansions > 1
        expanded = np.argwhere(overlay.expansions > 0).tolist()
        drawn |= {(row, col): OFTEN if often[row, col] else ONCE for row, col in expanded}
    drawn |= {cell: AVOID for edge in overlay.avoid for cell in line(*edge)}
    drawn |= dict.fromkeys(overlay.path, PATH)
    drawn |= dict.fromkeys(overlay.waypoints, WAYPOINT)
    drawn |= view.things
    cells = [list(row) for row in view.cells.view("S1").astype("U1")]
    for (row, col), glyph in drawn.items():
        cells[row][col] = glyph
    return "\n".join(" ".join(row) for row in cells)


def draw_image(view: View, overlay: Overlay = Overlay(), *, tile: int = 8) -> Image:  # frozen
    """The view as an image.

    Land is the darker the dearer it is, expanded cells are the more orange the more often they were expanded (on a
    logarithmic scale), edges to avoid are red lines, the path is a blue one.

    Args:
        view: What is known of the problem.
        overlay: What was done.
        tile: Pixels along a cell's side, at least 1.

    Returns:
        Red, green and blue, `(rows * tile, cols * tile, 3)`.

    Raises:
        ValueError: If the tile is smaller.
    """
    if tile < 1:
        raise ValueError(f"tile must be at least 1, got {tile}")
    ground = _heated(_ground(view), overlay.expansions)
    image = ground.repeat(tile, axis=0).repeat(tile, axis=1)
    for edge in overlay.avoid:
        _stroke(image, edge, _AVOID, tile)
    for edge in zip(overlay.path, overlay.path[1:], strict=False):
        _stroke(image, edge, _PATH, tile)
    for colour, cells in (
        (_WAYPOINT, overlay.waypoints),
        (_MARK, tuple(view.marks)),
        (_GOAL, (view.goal,)),
        (_PLAYER, (view.player,)),
    ):
        for row, col in cells:
            image[_inner(row, tile), _inner(col, tile)] = colour
    return image


def line(origin: Cell, target: Cell) -> list[Cell]:
    """The cells on a straight line between two, both included."""
    steps = max(abs(origin[0] - target[0]), abs(origin[1] - target[1]))
    shares = np.linspace(0, 1, steps + 1)
    rows, cols = (np.rint(first + shares * (last - first)) for first, last in zip(origin, target, strict=True))
    return [(int(row), int(col)) for row, col in zip(rows, cols, strict=True)]


def _ground(view: View) -> Image:
    """The colour of every cell, `(rows, cols, 3)`."""
    grid_map: GridMap = view.map
    image = np.empty((*grid_map.zones.shape, 3), np.uint8)
    image[:] = _WALL
    image[grid_map.zones >= WATER] = _WATER
    land = grid_map.zones == LAND
    image[land] = _mixed(np.array(_LAND), _DEAREST, ((grid_map.costs[land] - 1) / 8).clip(0, 1))
    if view.seen is not None:
        image[~view.seen] = _UNSEEN
    return image


def _heated(ground: Image, expansions: NDArray[np.integer] | None) -> Image:
    if expansions is None or not expansions.any():
        return ground
    heat = np.log1p(expansions) / np.log1p(expansions.max())
    return np.where((expansions > 0)[..., None], _mixed(ground, _HEAT, 0.25 + 0.6 * heat), ground)


def _mixed(under: NDArray[np.integer], over: Colour, share: NDArray[np.float64]) -> Image:
    """Colours of which a share, 0 to 1, is covered by another."""
    mixed: Image = np.rint(under + share[..., None] * (np.array(over) - under)).astype(np.uint8)
    return mixed


def _stroke(image: Image, edge: Iterable[Cell], colour: Colour, tile: int) -> None:
    """Draw a line between the middles of two cells, a third of a tile wide."""
    origin, target = ((row * tile + tile // 2, col * tile + tile // 2) for row, col in edge)
    reach = max(tile // 6, 0)
    for row, col in line(origin, target):
        image[max(row - reach, 0) : row + reach + 1, max(col - reach, 0) : col + reach + 1] = colour


def _inner(place: int, tile: int) -> slice:
    """The middle of a tile, with a margin where there is room for one."""
    margin = tile // 5
    return slice(place * tile + margin, (place + 1) * tile - margin)
