"""Grid maps as values: what is free, what a step costs, and which steps are allowed.

Cells are `(row, col)`, counted from the top left corner. MovingAI's corner rule (a diagonal step needs both orthogonal
neighbours free) and its rule for water are the defaults, so that its published lengths hold.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Cell = tuple[int, int]
Connectivity = Literal[4, 8]
Corners = Literal["both_free", "one_free", "always"]

BLOCKED, LAND, WATER = 0, 1, 2
SQRT2 = sqrt(2.0)
OFFSETS: tuple[Cell, ...] = ((0, -1), (1, 0), (0, 1), (-1, 0), (1, -1), (1, 1), (-1, 1), (-1, -1))
"""Steps in the order Left, Down, Right, Up (as `grid.DIRECTIONS`), then the diagonals; a 4-connected map has four."""

_FROM_GLYPH = {"_": LAND, ".": LAND, "#": BLOCKED, "@": BLOCKED, "-": WATER}
_FREE_BESIDE = {"both_free": 2, "one_free": 1, "always": 0}
_GLYPHS = np.frombuffer(b"#_-", np.uint8)  # by zone


@dataclass(frozen=True, eq=False)
class GridMap:
    """A map of square cells. Maps are values: equal where their contents are, hashable, and their arrays read-only.

    A step goes between cells of the same nonzero zone. It costs its length (1 or √2, times `cell_size`) times the mean
    of the two cells' cost factors.

    Attributes:
        zones: `(rows, cols)` of uint8. 0 is blocked, 1 land, 2 water (passable from water alone); further zones are
            passable within themselves alone.
        costs: `(rows, cols)` of positive finite float64, the terrain's cost factor; None stands for 1 everywhere. What
            is given for blocked cells is replaced by 1.
        connectivity: 4 or 8 neighbours a cell.
        corners: Which of the two orthogonal neighbours must be free (of the same zone) for a diagonal step.
        cell_size: Length of a cell's side, in units of the caller's choice.

    Raises:
        ValueError: If an argument is out of its range, or the shapes differ.
    """

    zones: NDArray[np.uint8]
    costs: NDArray[np.float64] = None  # type: ignore[assignment]  # replaced when the map is made
    connectivity: Connectivity = 4
    corners: Corners = "both_free"
    cell_size: float = 1.0

    def __post_init__(self) -> None:
        zones = _zones(self.zones)
        costs = np.ones(zones.shape) if self.costs is None else np.array(self.costs, np.float64)
        if costs.shape != zones.shape:
            raise ValueError(f"costs must have the shape of zones, {zones.shape}, got {costs.shape}")
        costs[zones == BLOCKED] = 1.0
        if not (np.isfinite(costs).all() and (costs > 0).all()):
            raise ValueError(f"costs must be positive and finite, got {costs.min()} to {costs.max()}")
        if self.connectivity not in get_args(Connectivity):
            raise ValueError(f"connectivity must be 4 or 8, got {self.connectivity!r}")
        if self.corners not in get_args(Corners):
            raise ValueError(f"corners must be one of {', '.join(get_args(Corners))}, got {self.corners!r}")
        if not 0 < self.cell_size < float("inf"):
            raise ValueError(f"cell_size must be positive and finite, got {self.cell_size}")
        for name, array in (("zones", zones), ("costs", costs)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def from_array(cls, array: ArrayLike, **settings: Any) -> "GridMap":
        """A map from zones.

        Args:
            array: `(rows, cols)` of booleans (True is free) or of zones, 0 to 255 (0 is blocked).
            **settings: The other attributes.

        Raises:
            ValueError: If the array is of another kind.
        """
        return cls(_zones(array), **settings)

    @classmethod
    def from_ascii(cls, text: str, **settings: Any) -> "GridMap":
        """Read rows of cells, with or without spaces between them.

        Args:
            text: `_` or `.` is land, a digit 1 to 9 land with that cost factor, `-` water, `#` or `@` blocked.
            **settings: The attributes `connectivity`, `corners` and `cell_size`.

        Raises:
            ValueError: If rows differ in length, or another character occurs.
        """
        lines = ["".join(line.split()) for line in text.splitlines() if line.strip()]
        if len({len(line) for line in lines}) != 1:
            raise ValueError(f"a map has rows of one length, got lengths {[len(line) for line in lines]}")
        unknown = set("".join(lines)) - set(_FROM_GLYPH) - set("123456789")
        if unknown:
            raise ValueError(f"a map is drawn with _ . 1 to 9 - # @, got {sorted(unknown)}")
        zones = [[_FROM_GLYPH.get(glyph, LAND) for glyph in line] for line in lines]
        costs = [[float(glyph) if glyph.isdigit() else 1.0 for glyph in line] for line in lines]
        return cls(np.array(zones, np.uint8), np.array(costs), **settings)

    def to_ascii(self) -> str:
        """One line a row, one glyph a cell, as `from_ascii` reads them.

        Raises:
            ValueError: If the map holds what has no glyph: a zone above 2, a cost factor on land that is not one of
                1 to 9, or one on water that is not 1.
        """
        return "\n".join(row.tobytes().decode() for row in self.glyphs())

    def glyphs(self) -> NDArray[np.uint8]:
        """The ASCII code of every cell's glyph, `(rows, cols)`; raises as `to_ascii` does."""
        paved = (self.zones == LAND) & (self.costs != 1)
        if self.zones.max() > WATER or (self.costs[~paved] != 1).any():
            raise ValueError("only blocked cells, land and water of cost factor 1 have a glyph beside land 1 to 9")
        factors = self.costs[paved]
        if ((factors % 1 != 0) | (factors > 9)).any():
            raise ValueError(f"cost factors must be whole numbers up to 9 to be drawn, got {sorted(set(factors))}")
        drawn = _GLYPHS[self.zones]
        drawn[paved] = ord("0") + factors.astype(np.uint8)
        return drawn

    @cached_property
    def rows(self) -> int:
        """How many rows."""
        return int(self.zones.shape[0])

    @cached_property
    def cols(self) -> int:
        """How many columns."""
        return int(self.zones.shape[1])

    @property
    def offsets(self) -> tuple[Cell, ...]:
        """The steps that the connectivity allows."""
        return OFFSETS[: self.connectivity]

    @cached_property
    def cheapest(self) -> float:
        """The smallest cost factor of a free cell; 1 where no cell is free."""
        return float(self.costs.min(where=self.zones != BLOCKED, initial=np.inf)) if self.zones.any() else 1.0

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the contents, the same in every process (32 hexadecimal characters)."""
        settings = (self.zones.shape, self.connectivity, self.corners, float(self.cell_size))
        return hashlib.blake2b(
            repr(settings).encode() + self.zones.tobytes() + self.costs.tobytes(), digest_size=16
        ).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GridMap):
            return NotImplemented
        mine = (self.connectivity, self.corners, self.cell_size)
        return (
            mine == (other.connectivity, other.corners, other.cell_size)
            and np.array_equal(self.zones, other.zones)
            and np.array_equal(self.costs, other.costs)
        )

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return GridMap, (self.zones, self.costs, self.connectivity, self.corners, self.cell_size)

    def inside(self, cell: Cell) -> bool:
        """Whether the map has such a cell."""
        return 0 <= cell[0] < self.rows and 0 <= cell[1] < self.cols

    def is_free(self, cell: Cell) -> bool:
        """Whether a walker can stand there; False outside the map."""
        return self.inside(cell) and self._padded[self._index(cell)] != BLOCKED

    def neighbours(self, cell: Cell) -> Iterator[tuple[Cell, float]]:
        """The cells that one step leads to, with its cost, in the order of `OFFSETS`; none from a blocked cell."""
        if not self.is_free(cell):
            return
        here, (row, col) = self._index(cell), cell
        for (down, across), step in self._steps.items():
            if self._allows(here, step):
                there = (row + down, col + across)
                yield there, self._cost(cell, there, step.length)

    def step_cost(self, origin: Cell, target: Cell) -> float:
        """The cost of one step.

        Raises:
            ValueError: If the rules of the map do not allow it.
        """
        step = self._steps.get((target[0] - origin[0], target[1] - origin[1]))
        if step is None or not self.is_free(origin) or not self._allows(self._index(origin), step):
            raise ValueError(f"no step leads from {origin} to {target}")
        return self._cost(origin, target, step.length)

    def path_cost(self, path: Sequence[Cell]) -> float:
        """The cost of walking along a path, 0 for a single cell.

        Raises:
            ValueError: If the path is empty, stands on a cell that is not free, or takes a step that is not allowed.
        """
        if not path or not self.is_free(path[0]):
            raise ValueError(f"a path starts on a free cell, got {path[0] if path else 'an empty path'}")
        return sum((self.step_cost(path[index - 1], path[index]) for index in range(1, len(path))), 0.0)

    def heuristic(self, cell: Cell, goal: Cell) -> float:
        """A lower bound of the cost between two cells: the distance on an empty map of the cheapest terrain.

        That is the Manhattan distance with 4 neighbours and the octile distance with 8. It is consistent.
        """
        down, across = abs(cell[0] - goal[0]), abs(cell[1] - goal[1])
        diagonal = min(down, across) if self.connectivity == 8 else 0
        return (down + across + (SQRT2 - 2) * diagonal) * self.cheapest * self.cell_size

    def with_blocked(self, cells: Iterable[Cell]) -> "GridMap":
        """The map with some cells blocked.

        Raises:
            ValueError: If a cell is outside the map.
        """
        return self._with(cells, BLOCKED)

    def with_free(self, cells: Iterable[Cell]) -> "GridMap":
        """The map with some cells opened: those that are blocked become land of cost factor 1, others stay.

        Raises:
            ValueError: If a cell is outside the map.
        """
        return self._with((cell for cell in cells if not self.is_free(cell)), LAND)

    def _with(self, cells: Iterable[Cell], zone: int) -> "GridMap":
        zones = self.zones.copy()
        for cell in cells:
            if not self.inside(cell):
                raise ValueError(f"cells must be inside a map of {self.rows} by {self.cols}, got {cell}")
            zones[cell] = zone
        return replace(self, zones=zones)

    @cached_property
    def _padded(self) -> bytes:
        """Zones in a blocked border, row by row."""
        return np.pad(self.zones, 1).tobytes()

    @cached_property
    def _steps(self) -> dict[Cell, "_Step"]:
        width = self.cols + 2
        return {
            (down, across): _Step(
                down * width + across,
                (down * width, across),
                _FREE_BESIDE[self.corners] if down and across else 0,
                (SQRT2 if down and across else 1.0) * self.cell_size,
            )
            for down, across in self.offsets
        }

    def _index(self, cell: Cell) -> int:
        """The place of a cell in `_padded`."""
        return (cell[0] + 1) * (self.cols + 2) + cell[1] + 1

    def _allows(self, here: int, step: "_Step") -> bool:
        """Whether the map's rules allow a step from a free cell."""
        zones = self._padded
        zone = zones[here]
        if zones[here + step.ahead] != zone:
            return False
        return not step.free_beside or (
            (zones[here + step.beside[0]] == zone) + (zones[here + step.beside[1]] == zone) >= step.free_beside
        )

    def _cost(self, origin: Cell, target: Cell, length: float) -> float:
        return length * ((self.costs.item(origin) + self.costs.item(target)) / 2)


class _Step(NamedTuple):
    """One kind of step: what it adds to a place in `_padded`, also by rows and by columns alone, and its length."""

    ahead: int
    beside: tuple[int, int]
    free_beside: int
    length: float


@dataclass(frozen=True)
class Problem:
    """A map, where to start and where to go.

    Attributes:
        map: The map.
        start: A free cell.
        goal: Another free cell. Whether a path leads there is not checked.

    Raises:
        ValueError: If a cell is outside the map or not free, or both are the same.
    """

    map: GridMap
    start: Cell
    goal: Cell

    def __post_init__(self) -> None:
        for name in ("start", "goal"):
            row, col = getattr(self, name)
            cell = int(row), int(col)
            object.__setattr__(self, name, cell)
            if not self.map.inside(cell):
                raise ValueError(f"{name} must be inside a map of {self.map.rows} by {self.map.cols}, got {cell}")
            if not self.map.is_free(cell):
                raise ValueError(f"{name} must be a free cell, got {cell}")
        if self.start == self.goal:
            raise ValueError(f"start and goal must be two cells, got {self.start} twice")


def _zones(array: ArrayLike) -> NDArray[np.uint8]:
    """A checked copy of zones."""
    given = np.asarray(array)
    if given.ndim != 2 or given.size == 0 or given.dtype.kind not in "bui":
        raise ValueError(
            f"zones must be booleans or whole numbers in two dimensions, got {given.dtype} of shape {given.shape}"
        )
    if given.dtype.kind != "b" and (given.min() < 0 or given.max() > 255):
        raise ValueError(f"zones must be between 0 and 255, got {given.min()} to {given.max()}")
    return given.astype(np.uint8, order="C")
