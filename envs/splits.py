"""Train, validation and test levels, kept apart by what a level *is* rather than by the seed that drew it."""

import hashlib
from typing import Literal, get_args

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

_HASHER = hashlib.blake2b(digest_size=8)


def digest(text: str) -> str:
    """A short fingerprint of `text`, the same in every process (16 hexadecimal characters)."""
    hasher = _HASHER.copy()  # in half the time of making one
    hasher.update(text.encode())
    return hasher.hexdigest()


def split_of(canonical: str) -> Split:
    """The split that owns a level: eight tenths train, one validation, one test.

    Args:
        canonical: The level's canonical form. Levels that are mirror images or rotations of each other must share it,
            so that no test level can be met in training in another orientation.
    """
    share = hashlib.blake2b(canonical.encode(), digest_size=8, person=b"turngym split").digest()[0]
    return "train" if share < 205 else "validation" if share < 231 else "test"


def check_split(split: str) -> None:
    """Raise `ValueError` unless `split` names a split."""
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
