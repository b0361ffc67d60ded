"""What each team, each project and the fleet cost a day: SQL counts, over whole days of the site's clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from analyzer.period import day_starts, local, midnight
from analyzer.queries.booked import booked

if TYPE_CHECKING:
    from collector.store.session import Session

# By hour and run first: a fleet has a hundred rows of the ledger where that has one.
_BY_DAY = f"""
WITH by_hour AS (
    SELECT hour, run_id, coalesce(sum(cost_micros), 0)::BIGINT AS micros,
        coalesce(sum(milliseconds) FILTER (WHERE cost_micros IS NULL), 0)::BIGINT AS unpriced
    FROM ledger WHERE hour >= $start AND hour < $end GROUP BY ALL
)
SELECT d.day, h.team, h.project, h.run_id IS NOT NULL, sum(h.micros)::BIGINT, sum(h.unpriced)::BIGINT
FROM {booked("by_hour")} h ASOF JOIN (SELECT unnest($days) AS day) d ON h.hour >= d.day
GROUP BY ALL
"""

Whose = tuple[str | None, str | None, bool]  # team, project, whether a run held the GPU


@dataclass(frozen=True, slots=True)
class Days:
    """Days of the site's clock: their first instants, and whether the ledger has all hours of each."""

    starts: tuple[int, ...]
    whole: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Spending:
    """Cost by day in millionths of whoever held GPUs; what has no price is not in it, and `unpriced` says how long."""

    days: Days
    by_day: Mapping[Whose, Sequence[int]]
    unpriced_milliseconds: Mapping[Whose, int]

    def of(self, wanted: "Sequence[Whose]") -> list[int]:
        """Return by day what these cost together."""
        rows = [self.by_day[whose] for whose in wanted]
        return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * len(self.days.starts)

    def history(self, wanted: "Sequence[Whose]", until: int) -> list[int | None]:
        """Return the days before the one that begins at `until`; None is a day of which hours are missing.

        A day of 23 or 25 hours counts as 24 of its hours: else the Sundays after it would be forecast to be like it.
        """
        ends = [*self.days.starts[1:], until]
        every = zip(self.days.starts, ends, self.days.whole, self.of(wanted), strict=True)
        return [
            cost * 24 * HOUR_US // (end - start) if is_whole else None
            for start, end, is_whole, cost in every
            if start < until
        ]


def spending(session: "Session", timezone: str, since: int, until: int) -> Spending:
    """Return what was spent each day from the day of `since`, or of the ledger's first hour, to `until`."""
    (first,) = session.row("SELECT min(hour) FROM ledger_hours WHERE hour >= ? AND hour < ?", [since, until])
    if first is None:
        return Spending(Days((), ()), {}, {})
    starts = list(day_starts(first, until, timezone))
    known = session.rows(
        "SELECT d.day, count(*) FROM ledger_hours h ASOF JOIN (SELECT unnest($days) AS day) d ON h.hour >= d.day "
        "WHERE h.hour >= $start AND h.hour < $end GROUP BY ALL",
        {"days": starts, "start": since, "end": until},
    )
    rows = session.rows(_BY_DAY, {"days": starts, "start": since, "end": until})
    place = {start: number for number, start in enumerate(starts)}
    by_day: dict[Whose, list[int]] = {}
    unpriced: dict[Whose, int] = {}
    for day, team, project, held, cost, milliseconds in rows:
        whose = (team, project, held)
        by_day.setdefault(whose, [0] * len(starts))[place[day]] += cost
        unpriced[whose] = unpriced.get(whose, 0) + milliseconds
    hours = dict(known)
    end = midnight(local(starts[-1], timezone).date() + timedelta(days=1), timezone)
    whole = tuple(hours.get(start, 0) * HOUR_US == after - start for start, after in pairwise([*starts, end]))
    return Spending(Days(tuple(starts), whole), by_day, unpriced)
