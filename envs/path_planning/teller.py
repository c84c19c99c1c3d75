"""Which text form an environment writes, and views as its text and as numbers."""

from dataclasses import dataclass
from sys import maxsize

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.levels import Source
from turngym.envs.path_planning.maps import GridMap
from turngym.envs.path_planning.text_forms import FORMS, LEGENDS, Form, render
from turngym.envs.path_planning.view import GOAL, PLAIN, PLAYER, PLAYER_ON_GOAL, UNSEEN, WALL, View

CODES = f"{PLAIN}{WALL}{GOAL}{PLAYER}{PLAYER_ON_GOAL}-{UNSEEN}*23456789"
"""The glyphs of `numbered` views: a cell's number is its glyph's place here."""


@dataclass(frozen=True)
class Teller:
    """Writes views in one form.

    Attributes:
        form: The form.
        max_tokens: Budget of the form `overview`; the others need what they need.
    """

    form: Form
    max_tokens: int

    @classmethod
    def of(
        cls, source: Source, form: Form | None, max_tokens: int, *, marks: int = 0, sensor: bool = False
    ) -> "Teller":
        """The form that was asked for, or the fullest one in which all problems of a source fit into the budget.

        Raises:
            ValueError: If there is no such form, or not even an overview fits.
        """
        if form not in (None, *FORMS):
            raise ValueError(f"text_form must be one of {', '.join(FORMS)} or None, got {form!r}")
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {max_tokens}")
        chosen = form or source.form(max_tokens, marks=marks, sensor=sensor)
        teller = cls(chosen, max_tokens if chosen == "overview" else maxsize)
        rows, cols = source.shape
        teller.tell(View(GridMap.from_array(np.ones((rows, cols), bool)), (rows - 1, cols - 1), (rows - 1, cols - 2)))
        return teller

    @property
    def legend(self) -> str:
        """What to tell a model about the form."""
        return LEGENDS[self.form]

    def tell(self, view: View) -> str:
        """A view as text."""
        return render(view, self.form, max_tokens=self.max_tokens)


def numbered(view: View) -> NDArray[np.int8]:
    """A view as numbers `(rows, cols)`: the place of each cell's glyph in `CODES`."""
    codes = np.zeros(128, np.int8)
    for code, glyph in enumerate(CODES):
        if glyph != PLAYER_ON_GOAL:
            codes[ord(glyph)] = code
    numbers: NDArray[np.int8] = codes[view.cells]
    for cell, glyph in view.things.items():
        numbers[cell] = CODES.index(glyph)
    return numbers


def tile(shape: tuple[int, int]) -> int:
    """Pixels along a cell's side, so that the image of a map of so many rows and columns has a sensible size."""
    return max(1, min(32, 512 // max(shape)))
