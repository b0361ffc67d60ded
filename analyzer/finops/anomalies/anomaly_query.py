"""Read what was out of the ordinary in a period: teams' cost, what of it was avoidable, and which runs made it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent.wire.units import WEEK_US
from analyzer.finops.anomalies.detect import WEEKS_MOST, Odd, like_hours, odd, weeks_missing
from analyzer.period import Period
from analyzer.queries.statements import statements
from analyzer.states import states_of, words_of

if TYPE_CHECKING:
    from collector.store.session import Session

What = Literal["cost", "avoidable cost"]
_FLOOR_MICROS = 50_000_000  # of difference: less is not worth a reader's minute (ours)
_NAMES_SHOWN = 3
_MOST = 12  # of a period: nobody reads more


@dataclass(frozen=True, slots=True)
class Contribution:
    """What runs of one name cost in the odd hours, and what they did in hours like them."""

    name: str
    actual: int
    expected: int


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A team's odd hours, with the runs that contributed most in its direction, and how many others did."""

    team: str | None
    what: What
    odd: Odd
    by_name: tuple[Contribution, ...]
    others: int


@dataclass(frozen=True, slots=True)
class Anomalies:
    """What was odd in a period, the largest first, and how many `more` were; none is judged while weeks are missing."""

    period: Period
    currency: str
    found: tuple[Anomaly, ...]
    more: int
    weeks_missing: int


def anomalies(session: "Session", period: Period, currency: str) -> Anomalies:
    """Read a period against the weeks before it."""
    since = period.start - WEEKS_MOST * WEEK_US
    known = frozenset(
        hour
        for (hour,) in session.rows("SELECT hour FROM ledger_hours WHERE hour >= ? AND hour < ?", [since, period.end])
    )
    gather, by_team, by_name = statements("finops/anomalies/gathered.sql")
    wholly, partly = states_of("avoidable")
    spans = {"start": since, "end": period.end, "wholly": wholly, "partly": partly, "avoidable": words_of("avoidable")}
    session.execute(gather, spans)
    held: dict[str | None, dict[int, int]] = {}
    avoidable: dict[str | None, dict[int, int]] = {}
    for team, hour, cost, lost in session.rows(by_team):
        held.setdefault(team, {})[hour] = cost
        avoidable.setdefault(team, {})[hour] = lost
    every: tuple[tuple[What, dict[str | None, dict[int, int]]], ...] = (("cost", held), ("avoidable cost", avoidable))
    seen = [
        (one, what, team)
        for what, teams in every
        for team, costs in teams.items()
        for one in odd(costs, known, period.start, period.end, _FLOOR_MICROS)
    ]
    seen.sort(key=lambda each: (-abs(each[0].impact), each[0].start, each[1], each[2] or ""))
    found = tuple(_explained(session, by_name, team, what, one, known, period) for one, what, team in seen[:_MOST])
    return Anomalies(period, currency, found, len(seen) - len(found), weeks_missing(known, period.start))


def _explained(
    session: "Session", by_name: str, team: str | None, what: What, one: Odd, known: frozenset[int], period: Period
) -> Anomaly:
    like, weeks = like_hours(known, one.hours, period.start)
    asked = {"hours": list(one.hours), "like": like, "weeks": weeks, "team": team, "everything": what == "cost"}
    rows = [Contribution(*row) for row in session.rows(by_name, asked)]
    sign = 1 if one.impact > 0 else -1
    along = sorted(
        (row for row in rows if sign * (row.actual - row.expected) > 0),
        key=lambda row: (-sign * (row.actual - row.expected), row.name),
    )
    return Anomaly(team, what, one, tuple(along[:_NAMES_SHOWN]), len(along[_NAMES_SHOWN:]))
