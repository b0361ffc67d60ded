"""When an hour may still change: provisional, open, closed 48 h after its week, final with its month."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from agent.wire.units import HOUR_US
from analyzer.ledger.thresholds import LOOK_AHEAD_MS
from analyzer.period import Calendar, local, micros

if TYPE_CHECKING:
    from collector.store.session import Session

LOOK_AHEAD_US = LOOK_AHEAD_MS * 1000
CLOSES_AFTER = timedelta(hours=48)


def status_of_hour(hour_us: int, known_until_us: int, now_us: int, calendar: Calendar) -> str:
    """Return provisional, open, closed or final."""
    if hour_us + HOUR_US + LOOK_AHEAD_US > known_until_us and now_us < micros(closes_at(hour_us, calendar)):
        return "provisional"
    if now_us < micros(closes_at(hour_us, calendar)):
        return "open"
    return "final" if now_us >= micros(final_at(hour_us, calendar)) else "closed"


def close_hours(session: "Session", calendar: Calendar, now_us: int, *, provisional: bool) -> None:
    """Close the hours whose time has come, whether or not anything new is known of them.

    Hours that an earlier pass settled are closed before a pass, so that what it learns becomes an adjustment.
    Provisional ones are closed after it: it may yet complete them.
    """
    (known_us,) = session.row("SELECT until_us FROM known")
    rows = session.rows(
        "SELECT hour, status FROM ledger_hours WHERE status <> 'final' AND (status = 'provisional') = ? ORDER BY hour",
        [provisional],
    )
    now = [(hour, before, status_of_hour(hour, known_us, now_us, calendar)) for hour, before in rows]
    for hour, before, status in now:
        if status != before and status in ("closed", "final"):
            session.execute("UPDATE ledger_hours SET status = ? WHERE hour = ?", [status, hour])


def settle_hours(session: "Session") -> None:
    """Open the provisional hours whose look-ahead has passed, and write down up to when all is booked."""
    (known_us,) = session.row("SELECT until_us FROM known")
    session.execute(
        "UPDATE ledger_hours SET status = 'open' WHERE status = 'provisional' AND hour <= ?",
        [(known_us or 0) - HOUR_US - LOOK_AHEAD_US],
    )
    session.execute("DELETE FROM analysed_until")
    if known_us is not None:
        session.load("analysed_until", ("until_us",), [[known_us]])


def reached_until(session: "Session") -> int:
    """Return up to when the last pass found anything to book, in microseconds; 0 where none has."""
    return int(session.row("SELECT coalesce(max(until_us), 0) FROM analysed_until")[0])


def is_reached(session: "Session", until_us: int) -> bool:
    """Return whether passes came to the last hour before a moment.

    Where telemetry stopped, or a pass is under way, owned hours before it are still to be booked, whatever the clock
    says: a period of which they are part is not closed.
    """
    return reached_until(session) > until_us - HOUR_US


def closes_at(hour_us: int, calendar: Calendar) -> datetime:
    """Return when the week of this hour closes: 48 hours after its last."""
    here = local(hour_us, calendar.timezone)
    since = (here.weekday() - calendar.first_weekday) % 7
    next_week = here.date() + timedelta(days=7 - since)
    ends = datetime(next_week.year, next_week.month, next_week.day, tzinfo=ZoneInfo(calendar.timezone))
    return ends.astimezone(UTC) + CLOSES_AFTER  # in UTC, where 48 hours are 48 hours in a night of a clock change too


def final_at(hour_us: int, calendar: Calendar) -> datetime:
    """Return when the month of this hour is final: with its end, and never before its week is closed."""
    here = local(hour_us, calendar.timezone)
    month = datetime(here.year + here.month // 12, here.month % 12 + 1, 1, tzinfo=ZoneInfo(calendar.timezone))
    return max(month, closes_at(hour_us, calendar))
