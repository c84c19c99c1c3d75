"""The pack that ships, with its optima, and packs from files and folders."""

import os
from pathlib import Path

import pytest

import turngym.envs.sokoban
from turngym.envs.jit import COMPILED
from turngym.envs.sokoban.board import canonical
from turngym.envs.sokoban.formats import parse_levels
from turngym.envs.sokoban.packs import load_pack
from turngym.envs.sokoban.solver import solve

LEVEL = "#####\n#@$.#\n#####\n"


def test_the_pack_that_ships() -> None:
    pack = load_pack()
    assert load_pack("boxoban") is pack
    assert len({canonical(packed.level) for packed in pack}) == 300
    assert {(packed.level.width, packed.level.height, len(packed.level.boxes)) for packed in pack} == {(10, 10, 4)}
    assert (pack[0].title, pack[0].pushes, pack[0].moves) == ("unfiltered/test/000/0", 13, 23)
    assert (pack[299].title, pack[150].title) == ("hard/000/990", "medium/valid/000/500")


def test_its_optima() -> None:
    for packed in load_pack()[:: 1 if COMPILED else 20]:
        assert len(solve(packed.level).moves) == packed.moves
        assert solve(packed.level, metric="pushes").pushes == packed.pushes


def test_its_licence_lies_beside_it() -> None:
    folder = Path(turngym.envs.sokoban.__file__).parent / "boxoban"
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert "google-deepmind/boxoban-levels" in (folder / "NOTICE").read_text()


@pytest.mark.skipif("TURNGYM_DATA" not in os.environ, reason="set TURNGYM_DATA to a folder of level files")
def test_its_levels_are_the_originals() -> None:
    folder = Path(os.environ["TURNGYM_DATA"]) / "sokoban" / "boxoban"
    originals = [
        named.level
        for name in ("unfiltered_test_000", "medium_valid_000", "hard_000")
        for named in parse_levels((folder / f"{name}.txt").read_text())[::10]
    ]
    assert [packed.level for packed in load_pack()] == originals


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(f"; first\n{LEVEL}\n; second: 1 pushes, 1 moves\n{LEVEL}")
    first, second = load_pack(file)
    assert (first.title, first.pushes, first.moves) == ("first", None, None)
    assert (second.title, second.pushes, second.moves) == ("second", 1, 1)


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for name in ("train/001.txt", "train/000.txt", "b.xsb", "a.sok", "LICENSE"):
        (tmp_path / name).write_text(f"; 0\n{LEVEL}")
    assert [packed.title for packed in load_pack(str(tmp_path))] == ["a/0", "b/0", "train/000/0", "train/001/0"]


def test_broken_packs(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        load_pack(tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="a pack holds levels in XSB, got none in"):
        load_pack(tmp_path)
    (tmp_path / "bad.txt").write_text(LEVEL.replace("@", " "))
    with pytest.raises(ValueError, match=r"bad\.txt: level '1', from line 1: .*exactly one player, got 0"):
        load_pack(tmp_path)
