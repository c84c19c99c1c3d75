"""Packs of ready-made Sokoban levels: 300 of Boxoban's, which ship with their optima, and any files in XSB."""

import re
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

from turngym.envs.sokoban.board import Level
from turngym.envs.sokoban.formats import parse_levels

BOXOBAN = "boxoban"
"""The pack that ships."""

_BOXOBAN_FILE = Path(__file__).with_name("boxoban") / "levels.txt"
_SUFFIXES = (".txt", ".xsb", ".sok")
_TITLE = re.compile(r"(?P<title>.+): (?P<pushes>\d+) pushes, (?P<moves>\d+) moves")


class PackedLevel(NamedTuple):
    """A level of a pack.

    Attributes:
        title: What the pack calls it.
        level: The level.
        pushes: The fewest pushes that solve it; None where the pack does not say.
        moves: The fewest moves that solve it; None where the pack does not say.
    """

    title: str
    level: Level
    pushes: int | None
    moves: int | None


def load_pack(pack: str | PathLike[str] = BOXOBAN) -> tuple[PackedLevel, ...]:
    """Read a pack; it is read once in each process.

    The pack that ships holds every tenth level of Boxoban's files unfiltered/test/000, medium/valid/000 and hard/000
    (Guez et al. 2018, Apache-2.0), all 10 by 10 with 4 boxes.

    Args:
        pack: "boxoban", or the path of a file in XSB, or of a folder: all its files that end in .txt, .xsb or .sok, in
            the order of their names. A title `name: 12 pushes, 30 moves` gives the optima.

    Raises:
        FileNotFoundError: If there is no such file or folder.
        ValueError: If a level is malformed, or there is none.
    """
    return _load(fspath(pack))


@lru_cache(maxsize=8)
def _load(pack: str) -> tuple[PackedLevel, ...]:
    if pack == BOXOBAN:
        return tuple(_read(_BOXOBAN_FILE))
    path = Path(pack)
    if not path.is_dir():
        return _some(_read(path), path)
    found = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
    levels = [(file.relative_to(path).with_suffix(""), packed) for file in found for packed in _read(file)]
    return _some([packed._replace(title=f"{name}/{packed.title}") for name, packed in levels], path)


def _some(levels: list[PackedLevel], path: Path) -> tuple[PackedLevel, ...]:
    if not levels:
        raise ValueError(f"a pack holds levels in XSB, got none in {path}")
    return tuple(levels)


def _read(file: Path) -> list[PackedLevel]:
    try:
        return [_packed(*named) for named in parse_levels(file.read_text(encoding="utf-8"))]
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _packed(title: str, level: Level) -> PackedLevel:
    known = _TITLE.fullmatch(title)
    if known is None:
        return PackedLevel(title, level, None, None)
    return PackedLevel(known["title"], level, int(known["pushes"]), int(known["moves"]))
