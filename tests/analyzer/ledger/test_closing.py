"""When an hour may still change, by the site's own calendar."""

from datetime import UTC, datetime

import pytest

from analyzer.ledger.pending import closes_at, final_at, status_of_hour
from analyzer.period import Calendar

SITE = Calendar()
BERLIN = Calendar("Europe/Berlin")


def us(*when: int) -> int:
    """Return a moment in UTC as microseconds."""
    return int(datetime(*when, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[misc, arg-type]


def utc(*when: int) -> datetime:
    """Return a moment in UTC."""
    return datetime(*when, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize("hour", [us(2026, 11, 9), us(2026, 11, 12, 7), us(2026, 11, 15, 23)])
def test_every_hour_of_a_week_closes_together(hour: int) -> None:
    """48 hours after the week, when its report has been read: Monday to Sunday close on Wednesday."""
    assert closes_at(hour, SITE) == utc(2026, 11, 18)


def test_the_first_weekday_decides_which_week_an_hour_is_in() -> None:
    """Where weeks begin on Sunday, Sunday's hours close a week after Saturday's."""
    sunday = Calendar(first_weekday=6)
    assert closes_at(us(2026, 11, 14, 23), sunday) == utc(2026, 11, 17)
    assert closes_at(us(2026, 11, 15), sunday) == utc(2026, 11, 24)


def test_a_week_ends_at_the_sites_midnight() -> None:
    """23:00 UTC on Sunday is Monday in Berlin."""
    assert closes_at(us(2026, 11, 15, 22), BERLIN) == utc(2026, 11, 17, 23)
    assert closes_at(us(2026, 11, 15, 23), BERLIN) == utc(2026, 11, 24, 23)


@pytest.mark.parametrize(
    ("hour", "closes"),
    [
        (us(2026, 3, 28), utc(2026, 3, 30, 23)),
        (us(2026, 10, 24), utc(2026, 10, 26, 22)),
    ],
)
def test_a_clock_change_makes_the_grace_no_shorter(hour: int, closes: datetime) -> None:
    """Weeks that begin on Sunday end in the night in which the clock changes: 48 hours from midnight stay 48 hours."""
    site = Calendar("Europe/Berlin", 6)
    assert closes_at(hour, site) == closes


def test_a_closed_hour_is_final_with_its_month() -> None:
    """Finance closes by months."""
    assert final_at(us(2026, 11, 10), SITE) == utc(2026, 12, 1)
    assert final_at(us(2026, 12, 10), SITE) == utc(2027, 1, 1)


def test_no_hour_is_final_before_its_week_is_closed() -> None:
    """The last days of a month are in a week that goes on."""
    assert final_at(us(2026, 11, 30), SITE) == utc(2026, 12, 9) == closes_at(us(2026, 11, 30), SITE)


HOUR = us(2026, 11, 10, 8)


@pytest.mark.parametrize(
    ("known", "now", "status"),
    [
        (us(2026, 11, 10, 9), us(2026, 11, 10, 9), "provisional"),
        (us(2026, 11, 10, 9, 29), us(2026, 11, 10, 10), "provisional"),
        (us(2026, 11, 10, 9, 30), us(2026, 11, 10, 10), "open"),
        (us(2026, 11, 17), us(2026, 11, 17, 23, 59), "open"),
        (us(2026, 11, 18), us(2026, 11, 18), "closed"),
        (us(2026, 11, 10, 9), us(2026, 11, 18), "closed"),
        (us(2026, 11, 30), us(2026, 12, 1), "final"),
    ],
)
def test_an_hour_is_provisional_open_closed_and_final(known: int, now: int, status: str) -> None:
    """What is known decides until it is settled, then the calendar; an hour that fell silent closes all the same."""
    assert status_of_hour(HOUR, known, now, SITE) == status
