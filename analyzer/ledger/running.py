"""A period that still runs, or that begins before the ledger does: how much of it is known, and what is like it.

One rule for all readings. Amounts are those of the hours known. What is said to be lost or saved *a week* is scaled
from these hours. What is compared with the period before is compared with as many of its first hours. Shares, and
prices of a unit, are told as they are.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from analyzer.period import Calendar, Period

if TYPE_CHECKING:
    from collector.store.session import Session


def known_part(session: "Session", period: Period) -> Period:
    """Return the part of a period that the ledger has, under its name; all of it where it has nothing."""
    first, end = session.row(
        "SELECT min(hour), max(hour) + 3600000000 FROM ledger_hours WHERE hour >= ? AND hour < ?",
        [period.start, period.end],
    )
    return period if first is None else replace(period, start=first, end=end)


def like_before(session: "Session", period: Period, calendar: Calendar) -> Period:
    """Return what a period is compared with: the one before it, and of that no more hours than have passed of this."""
    before, until = calendar.before(period), known_part(session, period).end
    return replace(before, end=min(before.end, before.start + until - period.start))
