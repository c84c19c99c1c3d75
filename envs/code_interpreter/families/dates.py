"""Weekdays, dates and the days between them."""

from turngym.envs.code_interpreter.families import calendar_days
from turngym.envs.code_interpreter.kinds import Arguments, Kind, Rng, between


def _draw_weekday(rng: Rng, level: int) -> Arguments:
    days = ((1, 6), (7, 30), (50, 365), (10**3, 10**4), (10**8, 10**9), (10**20, 10**21))[level]
    return calendar_days.WEEKDAYS[between(rng, (0, 6))], between(rng, days)


def _weekday(day: str, n: int) -> str:
    return calendar_days.WEEKDAYS[(calendar_days.WEEKDAYS.index(day) + n) % 7]


def _draw_days(rng: Rng, level: int) -> tuple[str, int]:
    """A date, and a number of days; on the first levels both ends lie in one month."""
    days = between(rng, ((2, 9), (10, 20), (40, 300), (400, 4000), (10**4, 5 * 10**4), (3 * 10**5, 10**6))[level])
    year, month = between(rng, (1600, 2100)), between(rng, (1, 12))
    return calendar_days.spell(year, month, between(rng, (1, max(1, 28 - days)) if level < 2 else (1, 28))), days


def _draw_days_between(rng: Rng, level: int) -> Arguments:
    first, days = _draw_days(rng, level)
    return first, calendar_days.after(first, days)


def _draw_fridays(rng: Rng, level: int) -> Arguments:
    first, span = between(rng, (1600, 2100)), between(rng, ((0, 3), (20, 200), (400, 2000))[level - 3])
    return first, first + span


KINDS = (
    Kind(
        name="weekday",
        family="dates",
        draw=_draw_weekday,
        names="day n",
        question="Today is {day}. Which day of the week will it be in {n} days?",
        program=(
            "days = 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split()\n"
            "print(days[(days.index(day) + n) % 7])"
        ),
        solve=_weekday,
    ),
    Kind(
        name="days_between",
        family="dates",
        draw=_draw_days_between,
        names="first last",
        question="How many days after {first} is {last} (Gregorian calendar, year-month-day)?",
        program="from datetime import date\nprint((date.fromisoformat(last) - date.fromisoformat(first)).days)",
        solve=calendar_days.days_between,
    ),
    Kind(
        name="date_after",
        family="dates",
        draw=_draw_days,
        names="first n",
        question="Which date is {n} days after {first} (Gregorian calendar)? Write it as year-month-day, as here.",
        program="from datetime import date, timedelta\nprint(date.fromisoformat(first) + timedelta(days=n))",
        solve=calendar_days.after,
    ),
    Kind(
        name="fridays",
        family="dates",
        draw=_draw_fridays,
        names="a b",
        question=(
            "How many times is the 13th of a month a Friday in the years {a} to {b}, both included (Gregorian "
            "calendar)?"
        ),
        program=(
            "from datetime import date\n"
            "print(sum(date(y, m, 13).weekday() == 4 for y in range(a, b + 1) for m in range(1, 13)))"
        ),
        solve=calendar_days.fridays_the_13th,
        levels=range(3, 6),
    ),
)
