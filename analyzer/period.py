"""Name a span of time as people do ("2026-W46", "7d", "monday") and know which microseconds are meant.

Ledger rows are UTC hours, so a period must begin and end on one: zones whose offset is no whole hour are refused.
"""

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.wire.units import HOUR_US
from analyzer.errors import ConfigError

WINDOW_MS = 600_000
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
ALARMS_PERIOD = "7d"  # whose findings alarms tell
_EXAMPLES = "2026-W46, 2026-11, 7d, 12h, monday, today, 2026-11-09, 2026-11-09T08:00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Period:
    """A span of whole UTC hours: microseconds UTC, half-open, with the name that people gave it."""

    start: int
    end: int
    label: str
    timezone: str

    @property
    def hours(self) -> int:
        """Its length in hours; a week has 168, or 167 or 169 where the clock changes."""
        return (self.end - self.start) // HOUR_US

    @property
    def first_day(self) -> date:
        """The local day it begins on."""
        return local(self.start, self.timezone).date()

    @property
    def last_day(self) -> date:
        """The local day its last microsecond lies in."""
        return local(self.end - 1, self.timezone).date()


@dataclass(frozen=True, slots=True)
class Calendar:
    """The time zone by name and the first day of the week, 0 for Monday to 6 for Sunday."""

    timezone: str = "UTC"
    first_weekday: int = 0

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(
                f"this host does not know the time zone {self.timezone!r}: "
                "use a name like Europe/Berlin, and install the package tzdata"
            ) from error
        if not 0 <= self.first_weekday <= 6:
            raise ConfigError(f"the first day of the week is 0 (Monday) to 6 (Sunday), not {self.first_weekday}")

    def week(self, year: int, number: int) -> Period:
        """Return a week by its ISO number; where weeks begin before Monday, the one its Monday lies in."""
        try:
            monday = date.fromisocalendar(year, number, 1)
        except ValueError as error:
            raise ConfigError(f"there is no week {year}-W{number:02d}") from error
        first = monday - timedelta(days=-self.first_weekday % 7)
        return self._days(first, 7, f"{year}-W{number:02d}")

    def month(self, year: int, number: int) -> Period:
        """Return a calendar month of the site's clock."""
        try:
            first = date(year, number, 1)
        except ValueError as error:
            raise ConfigError(f"there is no month {year}-{number:02d}") from error
        return self._days(first, monthrange(year, number)[1], f"{year}-{number:02d}")

    def month_of(self, instant: int) -> Period:
        """Return the calendar month that a microsecond lies in."""
        day = local(instant, self.timezone).date()
        return self.month(day.year, day.month)

    def week_of(self, instant: int) -> Period:
        """Return the week that a microsecond lies in."""
        day = local(instant, self.timezone).date()
        first = day - timedelta(days=(day.weekday() - self.first_weekday) % 7)
        year, number, _ = (first + timedelta(days=-self.first_weekday % 7)).isocalendar()
        return self.week(year, number)

    def last_complete_week(self, known_until: int) -> Period:
        """Return the newest week that has ended by the end of the newest hour that is known."""
        return self.week_of(self.week_of(known_until).start - HOUR_US)

    def before(self, period: Period) -> Period:
        """Return the period of the same kind before this one: a week's, a month's, else one of the same length."""
        if re.fullmatch(r"\d{4}-W\d{2}", period.label):
            return self.week_of(period.start - HOUR_US)
        if re.fullmatch(r"\d{4}-\d{2}", period.label):
            return self.month_of(period.start - HOUR_US)
        return Period(2 * period.start - period.end, period.start, f"before {period.label}", self.timezone)

    def parse(self, text: str, now: int) -> Period:
        """Return the span a person means. `now` is where spans like 7d and monday end.

        Raises:
            ConfigError: the text names no span, or one of a zone that the ledger's hours cannot follow.
        """
        words = text.strip().lower()
        if match := re.fullmatch(r"(\d{4})-?w(\d{1,2})", words):
            return self.week(int(match[1]), int(match[2]))
        if match := re.fullmatch(r"(\d{4})-(\d{2})", words):
            return self.month(int(match[1]), int(match[2]))
        if match := re.fullmatch(r"(\d{1,4})([hdw])", words):
            return self._back(int(match[1]), match[2], words, now)
        if words in ("today", "yesterday"):
            return self._days(local(now, self.timezone).date() - timedelta(days=words == "yesterday"), 1, words)
        if words in WEEKDAYS:
            return self._since_weekday(words, now)
        return self._iso(text.strip(), now)

    def span(self, since: str | None, until: str | None, now: int) -> Period:
        """Return what `--since` and `--until` mean together; an until that names a day or a week includes it."""
        if since is None:
            raise ConfigError("--until needs --since: give the start of the period")
        first = self.parse(since, now)
        if until is None:
            return first
        last = self.parse(until, now)
        end = last.start if "T" in until else last.end
        if end <= first.start:
            raise ConfigError(f"--until {until} ends before --since {since} begins")
        return Period(first.start, end, f"{since} to {until}", self.timezone)

    def _iso(self, text: str, now: int) -> Period:
        try:
            if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
                return self._days(date.fromisoformat(text), 1, text)
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise ConfigError(f"{text!r} is not a valid period: use {_EXAMPLES}") from error
        start = micros(moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(self.timezone)))
        return self._checked(start // HOUR_US * HOUR_US, _hour_after(now), text)

    def _back(self, count: int, unit: str, label: str, now: int) -> Period:
        end = _hour_after(now)
        hours = count * {"h": 1, "d": 24, "w": 168}[unit]
        if hours == 0:
            raise ConfigError(f"{label} is not a valid span: use {_EXAMPLES}")
        return self._checked(end - hours * HOUR_US, end, label)

    def _since_weekday(self, name: str, now: int) -> Period:
        today = local(now, self.timezone).date()
        first = today - timedelta(days=(today.weekday() - WEEKDAYS.index(name)) % 7)
        return self._checked(self._midnight(first), _hour_after(now), f"since {name}")

    def _days(self, first: date, count: int, label: str) -> Period:
        return self._checked(self._midnight(first), self._midnight(first + timedelta(days=count)), label)

    def _midnight(self, day: date) -> int:
        return midnight(day, self.timezone)

    def _checked(self, start: int, end: int, label: str) -> Period:
        for edge in (start, end):
            offset = local(edge, self.timezone).utcoffset() or timedelta()
            if offset % timedelta(hours=1):
                raise ConfigError(
                    f"{self.timezone} is not whole hours from UTC, and the ledger's hours are: "
                    "set timezone to one that is, for example UTC"
                )
        if start >= end:
            raise ConfigError(f"{label} has not begun yet: the newest known hour ends {local(end, self.timezone)}")
        return Period(start, end, label, self.timezone)


def midnight(day: date, timezone: str) -> int:
    """Return the first instant of a day by a clock, microseconds UTC."""
    return micros(datetime.combine(day, time(), tzinfo=ZoneInfo(timezone)))


def day_starts(first: int, until: int, timezone: str) -> Iterator[int]:
    """Yield the first instants of days by a clock, from that of `first` on, of all that begin before `until`."""
    day = local(first, timezone).date()
    while (start := midnight(day, timezone)) < until:
        yield start
        day += timedelta(days=1)


def local(instant: int, timezone: str) -> datetime:
    """Return microseconds UTC as a local time."""
    return (_EPOCH + timedelta(microseconds=instant)).astimezone(ZoneInfo(timezone))


def micros(moment: datetime) -> int:
    """Return an aware time as microseconds UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def _hour_after(instant: int) -> int:
    return -(-instant // HOUR_US) * HOUR_US


def iso(micros: int) -> str:
    """Return microseconds UTC in ISO 8601: 2026-11-09T00:00:00Z, with a fraction where there is one."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat().removesuffix("+00:00") + "Z"
