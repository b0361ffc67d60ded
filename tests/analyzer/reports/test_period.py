"""Periods: which microseconds a person means."""

from datetime import UTC, datetime

import pytest

from agent.wire.units import HOUR_US
from analyzer.errors import ConfigError
from analyzer.period import Calendar, Period, micros

BERLIN = Calendar("Europe/Berlin")
NOW = micros(datetime(2026, 11, 18, 10, 30, tzinfo=UTC))  # a Wednesday


def utc(*parts: int) -> int:
    """Return a UTC time in microseconds."""
    return micros(datetime(*parts, tzinfo=UTC))  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-W46", utc(2026, 11, 8, 23), utc(2026, 11, 15, 23)),
        ("2026w46", utc(2026, 11, 8, 23), utc(2026, 11, 15, 23)),
        ("2026-10", utc(2026, 9, 30, 22), utc(2026, 10, 31, 23)),
        ("7d", utc(2026, 11, 11, 11), utc(2026, 11, 18, 11)),
        ("12h", utc(2026, 11, 17, 23), utc(2026, 11, 18, 11)),
        ("monday", utc(2026, 11, 15, 23), utc(2026, 11, 18, 11)),
        ("Wednesday", utc(2026, 11, 17, 23), utc(2026, 11, 18, 11)),
        ("yesterday", utc(2026, 11, 16, 23), utc(2026, 11, 17, 23)),
        ("2026-11-09", utc(2026, 11, 8, 23), utc(2026, 11, 9, 23)),
        ("2026-11-09T08:00", utc(2026, 11, 9, 7), utc(2026, 11, 18, 11)),
        ("2026-11-09T08:00+00:00", utc(2026, 11, 9, 8), utc(2026, 11, 18, 11)),
    ],
)
def test_words_mean_local_time(text: str, start: int, end: int) -> None:
    """People say "monday" in their own clock; the ledger keeps UTC."""
    period = BERLIN.parse(text, NOW)
    assert (period.start, period.end) == (start, end)


@pytest.mark.parametrize(("week", "hours"), [("2026-W13", 167), ("2026-W43", 169), ("2026-W46", 168)])
def test_a_week_with_a_clock_change_has_167_or_169_hours(week: str, hours: int) -> None:
    """Forcing 168 hours would move an hour of money into the neighbouring week."""
    assert BERLIN.parse(week, NOW).hours == hours


def test_weeks_abut_through_a_year() -> None:
    """An hour in no week, or in two, breaks the sum over weeks; the year has 53 of them."""
    week = BERLIN.parse("2026-W01", NOW)
    for _ in range(60):
        following = BERLIN.week_of(week.end)
        assert following.start == week.end
        assert BERLIN.before(following) == week
        week = following


def test_months_abut_through_two_years() -> None:
    """Finance adds months: they have 28 to 31 days, and an hour more or less where the clock changes."""
    month = BERLIN.parse("2026-01", NOW)
    for _ in range(24):
        following = BERLIN.month_of(month.end)
        assert following.start == month.end
        assert BERLIN.before(following) == month
        month = following
    assert BERLIN.parse("2026-10", NOW).hours == 31 * 24 + 1


def test_the_default_is_the_last_complete_week() -> None:
    """A half week looks cheap; the report speaks of a whole one unless asked otherwise."""
    assert BERLIN.last_complete_week(NOW).label == "2026-W46"
    assert BERLIN.last_complete_week(utc(2026, 11, 15, 23)).label == "2026-W46"
    assert BERLIN.last_complete_week(utc(2026, 11, 15, 22)).label == "2026-W45"


def test_weeks_may_begin_on_sunday() -> None:
    """The first day of the week is a setting; the week keeps the name of the Monday in it."""
    week = Calendar("UTC", 6).parse("2026-W46", NOW)
    assert week == Period(utc(2026, 11, 8), utc(2026, 11, 15), "2026-W46", "UTC")
    assert Calendar("UTC", 6).week_of(utc(2026, 11, 8, 5)) == week


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Asia/Kathmandu", "Australia/Adelaide"])
def test_zones_off_the_hour_are_refused(zone: str) -> None:
    """Ledger hours are UTC hours: a half-hour zone would split them silently."""
    with pytest.raises(ConfigError, match="whole hours from UTC"):
        Calendar(zone).parse("2026-W46", NOW)


@pytest.mark.parametrize("text", ["", "soon", "2026-W54", "2026-13", "0d", "2026-13-01", "2027-01-01T00:00"])
def test_what_names_no_period_is_refused_in_a_sentence(text: str) -> None:
    """A misread period is a wrong report; the message says what can be said instead."""
    with pytest.raises(ConfigError):
        BERLIN.parse(text, NOW)


def test_an_unknown_zone_is_named() -> None:
    """A typing error in the settings must be found at the start."""
    with pytest.raises(ConfigError, match="Europe/Atlantis"):
        Calendar("Europe/Atlantis")


def test_until_includes_the_day_it_names() -> None:
    """ "--since 2026-11-09 --until 2026-11-10" is two days to everybody who types it."""
    assert BERLIN.span("2026-11-09", "2026-11-10", NOW).hours == 48
    assert BERLIN.span("2026-11-09", "2026-11-10T00:00", NOW).end - BERLIN.span("2026-11-09", None, NOW).end == 0
    with pytest.raises(ConfigError, match="before"):
        BERLIN.span("2026-11-09", "2026-11-08", NOW)
    assert BERLIN.span("2026-11-09", None, NOW).end % HOUR_US == 0
