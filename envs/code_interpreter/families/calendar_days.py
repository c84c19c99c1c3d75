"""Days of the Gregorian calendar as numbers, by its own rules and not by `datetime`, which the programs use."""

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FRIDAY = WEEKDAYS.index("Friday")
_YEARS, _DAYS = 400, 146_097  # the calendar repeats after 400 years, which are whole weeks


def spell(year: int, month: int, day: int) -> str:
    """A date as text, such as 1969-07-20."""
    return f"{year:04}-{month:02}-{day:02}"


def number(year: int, month: int, day: int) -> int:
    """Days since the last day of February of the year 0; a year is taken to begin in March, so leap days end it."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day


def date(days: int) -> str:
    """The date of a number, the inverse of `number`."""
    cycles, rest = divmod(days - 1, _DAYS)
    year = min(rest // 365, _YEARS - 1)
    while number(year, 3, 1) - 1 > rest:
        year -= 1
    rest -= number(year, 3, 1) - 1
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5 + 1
    year += _YEARS * cycles
    return spell(year, month + 3, day) if month < 10 else spell(year + 1, month - 9, day)


def after(first: str, days: int) -> str:
    """The date so many days after another."""
    return date(number(*_read(first)) + days)


def days_between(first: str, last: str) -> int:
    """Days from one date to another."""
    return number(*_read(last)) - number(*_read(first))


def fridays_the_13th(first_year: int, last_year: int) -> int:
    """How often the 13th is a Friday in these years, both included."""
    months = ((year, month) for year in range(first_year, last_year + 1) for month in range(1, 13))
    return sum((number(year, month, 13) + 1) % 7 == _FRIDAY for year, month in months)  # day 6 was a Monday


def _read(text: str) -> tuple[int, int, int]:
    year, month, day = map(int, text.split("-"))
    return year, month, day
