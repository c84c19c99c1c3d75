"""What a walker knows of a map that it has not seen whole: masks of cells, True where they have been seen."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import LAND, Cell, GridMap

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Sensor:
    """Sees every cell that is at most `radius` rows and at most `radius` columns away, walls or not.

    Attributes:
        radius: In cells, at least 1: a walker sees where it can step.

    Raises:
        ValueError: If the radius is smaller.
    """

    radius: int

    def __post_init__(self) -> None:
        if self.radius < 1:
            raise ValueError(f"radius must be at least 1, got {self.radius}")

    def view(self, shape: tuple[int, int], cell: Cell) -> Mask:
        """What is seen from a cell of a map with so many rows and columns."""
        mask, (top, left) = np.zeros(shape, bool), (max(place - self.radius, 0) for place in cell)
        mask[top : cell[0] + self.radius + 1, left : cell[1] + self.radius + 1] = True
        return mask

    def look(self, seen: Mask, cell: Cell) -> Mask:
        """What has been seen after looking around from a cell; the mask that is given stays as it is."""
        return seen | self.view((seen.shape[0], seen.shape[1]), cell)


def nothing_seen(grid_map: GridMap) -> Mask:
    """The mask to start with."""
    return np.zeros(grid_map.zones.shape, bool)


def assumed(grid_map: GridMap, seen: Mask) -> GridMap:
    """The map as an optimist knows it: what has not been seen is land of cost factor 1 (free-space assumption)."""
    return replace(
        grid_map, zones=np.where(seen, grid_map.zones, np.uint8(LAND)), costs=np.where(seen, grid_map.costs, 1.0)
    )
