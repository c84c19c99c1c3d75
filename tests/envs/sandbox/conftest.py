"""Prints the table of hostile programs at the end of a run."""

import pytest

from .hostile import PROGRAMS

_TABLE: dict[tuple[str, str, str], tuple[str, bool, bool]] = {}


@pytest.fixture(scope="session")
def hostile_table() -> dict[tuple[str, str, str], tuple[str, bool, bool]]:
    """Tier, user and row to outcome, whether it was expected, whether it is a documented breach."""
    return _TABLE


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _TABLE:
        return
    columns = sorted({(tier, user) for tier, user, _ in _TABLE})
    write = terminalreporter.write_line
    terminalreporter.section(
        "hostile programs: outcome by tier and user (! unexpected, * documented breach, - not run)"
    )
    write(f"{'row':5}{'program':48}" + "".join(f"{f'{tier} {user}':22}" for tier, user in columns))
    for program in PROGRAMS:
        cells = [_TABLE.get((tier, user, program.row)) for tier, user in columns]
        shown = [f"{cell[0]}{'' if cell[1] else ' !'}{' *' if cell[2] else ''}" if cell else "-" for cell in cells]
        write(f"{program.row:5}{program.name[:46]:48}" + "".join(f"{text[:20]:22}" for text in shown))
