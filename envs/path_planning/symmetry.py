"""A name that the eight orientations of a problem share."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turngym.envs.path_planning.maps import Problem


def canonical(problem: Problem) -> str:
    """A fingerprint shared by the eight orientations of a problem, for `splits.split_of` (32 hexadecimal characters).

    It is made of terrain, start and goal; `connectivity`, `corners` and `cell_size` do not count, so that a level
    belongs to one split whatever the rules it is played by.
    """
    ends = np.zeros(problem.map.zones.shape)
    ends[problem.start], ends[problem.goal] = 1.0, 2.0
    layers = np.stack([problem.map.zones, problem.map.costs, ends], axis=-1)
    content = min(repr(view.shape).encode() + view.tobytes() for view in orientations(layers))
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def orientations(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """An array turned and mirrored along its first two axes, in all eight ways, itself first."""
    for view in (array, array.swapaxes(0, 1)):
        for quarters in range(4):
            yield np.rot90(view, quarters)
