"""The table: hostile programs under every tier, as root and as an ordinary user, each cell with its outcome.

A cell is skipped only where this machine cannot make its tier or its user, and says so.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from turngym.envs.sandbox import cgroups

from .hostile import HARMLESS, PROGRAMS, Program

HERE = Path(__file__).parent
COLUMNS = [(tier, user) for tier in ("A", "A-", "B") for user in ("root", "user")] + [("C", "user")]
CELLS = [
    pytest.param(tier, user, program, id=f"{tier}-{user}-{program.row}")
    for tier, user in COLUMNS
    for program in PROGRAMS
    if tier != "C" or program.row in HARMLESS
]
_CANNOT = 77


@pytest.fixture(scope="module", autouse=True)
def _no_groups_left() -> Iterator[None]:
    yield
    column.cache_clear()
    if sys.platform.startswith("linux"):
        cgroups.available()  # making a group deletes those of the dead, the user's share among them


@functools.cache
def column(tier: str, user: str) -> dict:
    """All outcomes of one column: a process of its own runs them, in one sandbox."""
    command = [sys.executable, str(HERE / "driver.py"), tier]
    if user == "root" and os.geteuid() != 0:
        return {"missing": "these tests do not run as root"}
    if user == "user" and os.geteuid() == 0:
        command = [sys.executable, str(HERE / "nobody.py"), *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
    unreadable = any(sign in done.stderr[-300:] for sign in ("No module named", "Permission denied"))
    if done.returncode == _CANNOT or (done.returncode and user == "user" and unreadable):
        return {"missing": f"an ordinary user cannot run this interpreter here: {done.stderr.strip()[-200:]}"}
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("tier", "user", "program"), CELLS)
def test_program(tier: str, user: str, program: Program, hostile_table: dict) -> None:
    found = column(tier, user)
    if "missing" in found:
        pytest.skip(f"tier {tier} as {user}: {found['missing']}")
    got, detail = found["rows"][program.row]
    expected = program.differs.get(tier, program.expect).split("|")
    hostile_table[tier, user, program.row] = got, got in expected, program.breach
    assert got in expected, f"{program.name}: {detail}"


@pytest.mark.parametrize(("tier", "user"), COLUMNS)
def test_nothing_is_left(tier: str, user: str) -> None:
    found = column(tier, user)
    if "missing" in found:
        pytest.skip(f"tier {tier} as {user}: {found['missing']}")
    assert found["tier"] == tier
    assert (found["uid"] == 0) == (user == "root")
    assert not found["left"]


def test_the_table_is_whole() -> None:
    rows = [program.row for program in PROGRAMS]
    assert len(rows) == len(set(rows))
    numbers = {int("".join(filter(str.isdigit, row))) for row in rows}
    assert set(range(1, 81)) <= numbers
    assert len(numbers - set(range(1, 81))) >= 20
