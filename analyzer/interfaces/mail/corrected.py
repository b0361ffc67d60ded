"""Corrections to weeks that had closed: what was learned of them since the mail before, told once, by week."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from analyzer.ledger.closing import CLOSES_AFTER
from analyzer.period import Calendar, Period
from analyzer.queries.ledger_query import BreakdownEntry, Counted, fold, known_sum
from analyzer.queries.statements import statements
from analyzer.text.words import gpu_hours, kind_of, money
from collector.store.session import Session

_WEEKS_READ = 53  # what is older is the books' of a year that is over
_WEEKS_SHOWN = 6
CLOSES_AFTER_US = CLOSES_AFTER // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Corrections:
    """What was moved, by the label of the week, team (None: no team's) and state; amounts are differences.

    `totals` are what these weeks cost by their reports, by label and team, in millionths; None: not all is priced.
    """

    currency: str
    rows: tuple[tuple[str, str | None, Counted], ...] = ()
    totals: "Mapping[tuple[str, str | None], int | None]" = field(default_factory=dict)

    @classmethod
    def read(cls, session: Session, calendar: Calendar, period: Period, currency: str) -> "Corrections":
        """Read what was recorded from when the week before `period` closed until `period` does; of a week alone."""
        if kind_of(period) != "week":
            return cls(currency)
        weeks = [calendar.before(period)]
        while len(weeks) < _WEEKS_READ:
            weeks.append(calendar.before(weeks[-1]))
        labels = {week.start: week.label for week in weeks}
        query, total = statements("interfaces/mail/corrected.sql")
        asked = {
            "starts": sorted(labels), "end": period.start,
            "since": period.start + CLOSES_AFTER_US, "until": period.end + CLOSES_AFTER_US,
        }  # fmt: skip
        rows = session.rows(query, asked)
        told = [week for week in weeks if week.start in {start for start, *_ in rows}][:_WEEKS_SHOWN]
        closed: dict[str, object] = {"weeks": [week.start for week in told], "ends": [week.end for week in told]}
        costs = session.rows(total, closed) if told else []
        return cls(
            currency,
            tuple((labels[week], team, tuple(count)) for week, team, *count in rows),
            {(labels[week], team): None if is_part else micros for week, team, _, micros, is_part in costs},
        )

    def lines(self, team: str | None) -> tuple[str, ...]:
        """Return a sentence a week, the newest first: of the fleet (None), or of one team's time alone."""
        weeks = sorted({label for label, _, _ in self.rows}, reverse=True)
        by_week = {
            label: fold(count for each, whose, count in self.rows if each == label and team in (None, whose))
            for label in weeks
        }
        told = [
            f"{label}: {moved_words(entries, self.currency, self._total(label, team))}."
            for label, entries in by_week.items()
            if entries
        ]
        more = [f"and earlier weeks: gpuledger report {weeks[_WEEKS_SHOWN]}"] if len(told) > _WEEKS_SHOWN else []
        return (*told[:_WEEKS_SHOWN], *more)

    def _total(self, label: str, team: str | None) -> int | None:
        """Return what a week cost by its report: all of it (None), or one team's time; None where that is not known."""
        own = [cost for (week, whose), cost in self.totals.items() if week == label and team in (None, whose)]
        known = [cost for cost in own if cost is not None]
        return sum(known) if known and len(known) == len(own) else None


def moved_words(entries: Iterable[BreakdownEntry], currency: str, total: int | None) -> str:
    """Return "working -16.0 GPU-hours, -$41.60; work lost +16.0 GPU-hours, +$41.60; the total stays $67,737.60".

    `total` is what was told of all of it, None where that is not known; where it moves, by how much stands before it.
    """
    every = tuple(entries)
    said = [f"{one.label} {_moved(one.milliseconds, one.cost_micros, currency)}" for one in every]
    time, cost = sum(one.milliseconds for one in every), known_sum(one.cost_micros for one in every)
    if not time and not cost:
        return "; ".join([*said, "the total stays" if total is None else f"the total stays {money(total, currency)}"])
    beside = "" if total is None else f", beside a total of {money(total, currency)}"
    return "; ".join([*said, f"in all {_moved(time, cost, currency)}{beside}"])


def _moved(milliseconds: int, micros: int | None, currency: str) -> str:
    time = f"{'+' if milliseconds > 0 else ''}{gpu_hours(milliseconds)} GPU-hours"
    return time if micros is None else f"{time}, {'+' if micros > 0 else ''}{money(micros, currency)}"
