"""What was out of the ordinary: what a team cost beside what such hours did, and which runs made the difference.

Hours are compared with the same weekday and hour in the weeks before. algorithms.md 7: the residual from the median of
such hours, more than 3.5 times 1.4826 median deviations off, two hours or more in a row, and worth looking at in money.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from agent.wire.units import HOUR_US, WEEK_US
from analyzer.finops.unit_cost.report import UnitReport
from analyzer.finops.unit_cost.text import change_words
from analyzer.period import Period
from analyzer.queries.statements import statements
from analyzer.states import states_of, words_of
from analyzer.text.layout import TextLayout
from analyzer.text.words import counted, days, money, percent, plain, span_words
from collector.store.session import Session

_WEEKS_MOST = 8
_WEEKS_LEAST = 3  # below, a median is one week's word
_SURE = 3.5
_TO_SIGMA = 1.4826
_SCALE_LEAST = 0.02  # of what such hours cost: what repeats to the digit would make a cent an anomaly (ours)
_HOURS_LEAST = 2
_GAP_MOST = 1  # hours in between that were ordinary


@dataclass(frozen=True, slots=True)
class Odd:
    """Hours in a row that cost more, or less, than such hours did. Amounts are millionths, of the odd hours alone."""

    start: int
    end: int
    hours: tuple[int, ...]
    actual: int
    expected: int

    @property
    def impact(self) -> int:
        """What it made of difference; negative where it cost less."""
        return self.actual - self.expected


def odd(cost: Mapping[int, int], known: frozenset[int], start: int, end: int, floor: int) -> list[Odd]:
    """Return what was odd from `start` to `end`, the largest first.

    `cost` is by hour; `known` are the hours that the ledger has: of those without cost nothing was spent, of others
    nobody knows. An hour that has not enough like it before is not judged.
    """
    hours = [hour for hour in range(start, end, HOUR_US) if hour in known]
    usual = {hour: median(like) for hour in hours if len(like := _like(cost, known, hour, start)) >= _WEEKS_LEAST}
    scale = _scale(cost, known, start)
    if scale is None:
        return []
    off = {
        hour: cost.get(hour, 0) - expected
        for hour, expected in usual.items()
        if abs(cost.get(hour, 0) - expected) > _SURE * max(scale, _SCALE_LEAST * expected)
    }
    found = [_merged(group, cost, usual) for group in _groups(off)]
    kept = [one for one in found if len(one.hours) >= _HOURS_LEAST and abs(one.impact) >= floor]
    return sorted(kept, key=lambda one: (-abs(one.impact), one.start))


def weeks_missing(known: frozenset[int], start: int) -> int:
    """Return how many more weeks of ledger before `start` are needed to judge."""
    weeks = next((week for week in range(_WEEKS_LEAST) if start - (week + 1) * WEEK_US not in known), _WEEKS_LEAST)
    return _WEEKS_LEAST - weeks


def _like_hours(known: frozenset[int], hours: Sequence[int], start: int) -> tuple[list[int], int]:
    """Return the hours before `start` that these are compared with, and how many weeks of them there are."""
    found = [hour - week * WEEK_US for hour in hours for week in _weeks(known, hour, start)]
    return found, max(1, round(len(found) / max(1, len(hours))))


def _weeks(known: frozenset[int], hour: int, start: int) -> list[int]:
    first = (hour - start) // WEEK_US + 1  # a period of weeks is not compared with itself
    return [week for week in range(first, first + _WEEKS_MOST) if hour - week * WEEK_US in known]


def _like(cost: Mapping[int, int], known: frozenset[int], hour: int, start: int) -> list[int]:
    return [cost.get(hour - week * WEEK_US, 0) for week in _weeks(known, hour, start)]


def _scale(cost: Mapping[int, int], known: frozenset[int], start: int) -> float | None:
    """Return how far hours before usually lie from such hours, as one standard deviation; None where nobody knows."""
    by_kind: dict[int, list[int]] = {}
    for hour in known:
        if start - _WEEKS_MOST * WEEK_US <= hour < start:
            by_kind.setdefault(hour % WEEK_US, []).append(cost.get(hour, 0))
    apart = [
        abs(amount - middle)
        for amounts in by_kind.values()
        if len(amounts) >= _WEEKS_LEAST
        for middle in (median(amounts),)
        for amount in amounts
    ]
    return _TO_SIGMA * median(apart) if apart else None


def _groups(off: Mapping[int, float]) -> list[list[int]]:
    groups: list[list[int]] = []
    for hour in sorted(off):
        last = groups[-1][-1] if groups else None
        if last is not None and hour - last <= (_GAP_MOST + 1) * HOUR_US and (off[hour] > 0) == (off[last] > 0):
            groups[-1].append(hour)
        else:
            groups.append([hour])
    return groups


def _merged(hours: Sequence[int], cost: Mapping[int, int], usual: Mapping[int, float]) -> Odd:
    actual = sum(cost.get(hour, 0) for hour in hours)
    expected = round(sum(usual[hour] for hour in hours))
    return Odd(hours[0], hours[-1] + HOUR_US, tuple(hours), actual, expected)


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


def anomalies(session: Session, period: Period, currency: str) -> Anomalies:
    """Read a period against the weeks before it."""
    since = period.start - _WEEKS_MOST * WEEK_US
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
    session: Session, by_name: str, team: str | None, what: What, one: Odd, known: frozenset[int], period: Period
) -> Anomaly:
    like, weeks = _like_hours(known, one.hours, period.start)
    asked = {"hours": list(one.hours), "like": like, "weeks": weeks, "team": team, "everything": what == "cost"}
    rows = [Contribution(*row) for row in session.rows(by_name, asked)]
    sign = 1 if one.impact > 0 else -1
    along = sorted(
        (row for row in rows if sign * (row.actual - row.expected) > 0),
        key=lambda row: (-sign * (row.actual - row.expected), row.name),
    )
    return Anomaly(team, what, one, tuple(along[:_NAMES_SHOWN]), len(along[_NAMES_SHOWN:]))


_ROWS = 10
_HEAD = "ANOMALIES"


def anomalies_text(report: Anomalies, units: UnitReport, layout: TextLayout, top: int | None = None) -> str:
    """Return a period's anomalies as text: of unit costs and of teams."""
    lines = [f"anomalies {report.period.label}   {days(report.period)}, {report.period.timezone}", ""]
    body = _sentences(report, units, top or _ROWS)
    if not body and report.weeks_missing:
        lines += [*layout.wrap("Insufficient data to find anomalies."), ""]
    elif not body:
        lines += [*layout.wrap("No anomalies."), ""]
    else:
        lines.append(_HEAD)
        for sentence in body:
            lines += layout.wrap(sentence, "  - ", "    ")
        lines.append("")
    if more := report.more + sum(max(0, len(each) - (top or _ROWS)) for each in (report.found, units.changes)):
        lines += [*layout.wrap(f"and {counted(more, 'smaller one')}"), ""]
    if report.weeks_missing:
        missing = counted(report.weeks_missing, "more week")
        lines += [*layout.wrap(f"The usual cost of teams needs {missing} of ledger before this period."), ""]
    return layout.page([*lines, "next: gpuledger bill units      gpuledger findings"])


def _sentences(report: Anomalies, units: UnitReport, top: int = _ROWS) -> list[str]:
    """Return what was odd as sentences, unit costs first, then teams; at most `top` of each."""
    zone = report.period.timezone
    changes = [change_words(line, change, report.currency, zone) for line, change in units.changes[:top]]
    return [*changes, *(anomaly_words(one, report) for one in report.found[:top])]


def anomaly_words(one: Anomaly, report: Anomalies) -> str:
    """Return "team-nlp cost $412 more than such hours did, Tue 10 Nov 14:00 - 20:00: $900 (+84.2%). ..."."""
    odd, currency = one.odd, report.currency
    more = "more" if odd.impact > 0 else "less"
    share = percent(abs(odd.impact), odd.expected)
    told = f" ({'+' if odd.impact > 0 else '-'}{share})" if odd.expected else ""
    what = "cost" if one.what == "cost" else "had avoidable cost of"
    who = plain(one.team) if one.team is not None else "unmapped runs"
    when = span_words(odd.start, odd.end, report.period.timezone)
    difference = money(abs(odd.impact), currency, 0)
    if not odd.expected:
        first = f"{who} {what} {money(odd.actual, currency, 0)}, where there is usually none, {when}"
    elif one.what == "cost":
        first = f"{who} {what} {difference} {more} than usual, {when}: {money(odd.actual, currency, 0)}{told}"
    else:
        first = f"{who} {what} {money(odd.actual, currency, 0)}, {difference} {more} than usual{told}, {when}"
    names = [f"{plain(each.name)} {_signed(each.actual - each.expected, currency)}" for each in one.by_name]
    if one.others:
        names.append(counted(one.others, "other"))
    return f"{first}. Largest changes: {', '.join(names)}." if names else f"{first}."


def _signed(micros: int, currency: str) -> str:
    return f"{'+' if micros > 0 else '-'}{money(abs(micros), currency, 0)}"
