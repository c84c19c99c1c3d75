"""Pictures: every layer is where it should be, and covers what it should."""

import numpy as np
import pytest

from turngym.envs.path_planning.maps import GridMap
from turngym.envs.path_planning.pictures import Overlay, draw_ansi, draw_image, line
from turngym.envs.path_planning.view import View

VIEW = View(GridMap.from_ascii("_____\n_#-2_\n_____"), (0, 0), (2, 4), marks={(2, 0): "O"})
EXPANSIONS = np.array([[1, 1, 1, 0, 0], [2, 0, 0, 0, 0], [9, 0, 0, 0, 0]])
OVERLAY = Overlay(path=((0, 0), (0, 1), (0, 2)), waypoints=((0, 2),), avoid=(((0, 2), (2, 4)),), expansions=EXPANSIONS)


def test_text_by_hand() -> None:
    assert draw_ansi(VIEW) == "P _ _ _ _\n_ # - 2 _\nO _ _ _ G"
    assert draw_ansi(VIEW, OVERLAY) == "P * + _ _\n: # - X _\nO _ _ _ G"
    seen = np.ones((3, 5), bool)
    seen[1] = False
    assert draw_ansi(View(VIEW.map, (0, 0), (0, 0), seen)) == "√ _ _ _ _\n? ? ? ? ?\n_ _ _ _ _"


@pytest.mark.parametrize("tile", [1, 2, 5, 8])
def test_images_have_the_size_of_the_map(tile: int) -> None:
    image = draw_image(VIEW, OVERLAY, tile=tile)
    assert image.shape == (3 * tile, 5 * tile, 3)
    assert image.dtype == np.uint8


def colour(image: np.ndarray, row: int, col: int, tile: int = 9) -> tuple[int, ...]:
    """The colour at a cell's top left corner, which no line and no square reaches."""
    return tuple(image[row * tile, col * tile].tolist())


def middle(image: np.ndarray, row: int, col: int, tile: int = 9) -> tuple[int, ...]:
    return tuple(image[row * tile + tile // 2, col * tile + tile // 2].tolist())


def test_layers() -> None:
    plain, full = draw_image(VIEW, tile=9), draw_image(VIEW, OVERLAY, tile=9)
    grounds = [colour(plain, row, col) for row, col in ((0, 0), (1, 1), (1, 2), (1, 3))]
    assert len(set(grounds)) == 4  # land, wall, water, and land that is dear
    things = [middle(full, row, col) for row, col in ((0, 0), (2, 4), (2, 0), (0, 2), (0, 1), (1, 3))]
    assert len(set(things)) == 6  # player, goal, mark, waypoint, path, edge to avoid
    assert middle(full, 0, 1) == tuple(full[4, 9].tolist())  # the path is drawn through
    assert middle(plain, 0, 1) == colour(plain, 0, 1)
    reds = [colour(full, row, 0) for row in range(3)]
    assert reds[0][2] > reds[1][2] > reds[2][2]  # the more often expanded, the less blue
    assert colour(full, 0, 3) == colour(plain, 0, 3)


def test_nothing_unseen_is_painted() -> None:
    seen = np.zeros((3, 5), bool)
    seen[0] = True
    image = draw_image(View(VIEW.map, (0, 0), (0, 4), seen), tile=1)
    assert len(np.unique(image[1:].reshape(-1, 3), axis=0)) == 1


def test_lines() -> None:
    assert line((0, 0), (0, 0)) == [(0, 0)]
    assert line((2, 1), (2, 3)) == [(2, 1), (2, 2), (2, 3)]
    assert line((0, 4), (2, 0)) == [(0, 4), (0, 3), (1, 2), (2, 1), (2, 0)]


def test_tiles_have_a_size() -> None:
    with pytest.raises(ValueError, match="tile must be at least 1, got 0"):
        draw_image(VIEW, tile=0)
