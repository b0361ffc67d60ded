"""The week of one team, from the week of the fleet, and what a week usually comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from analyzer.ledger.coverage import Measured, NotJudged, known_hours
from analyzer.period import Calendar, Period
from analyzer.queries.ledger_query import Breakdown, BreakdownEntry, Counted, Unpriced, fold
from analyzer.queries.statements import booked, statements
from analyzer.reports.groups import GroupRow, MeasuredWith, by_what_of_teams, teams
from analyzer.reports.week import WeekReport
from analyzer.states import words_of
from analyzer.text.words import kind_of
from collector.store.session import Session

_WEEKS = 4
_AVOIDABLE = words_of("avoidable")


@dataclass(frozen=True, slots=True)
class Came:
    """What a week came to, all of it and what was avoidable: GPU milliseconds, and millionths if all has a price."""

    milliseconds: int = 0
    micros: int = 0
    is_priced: bool = True
    avoidable_milliseconds: int = 0
    avoidable_micros: int = 0

    def __add__(self, other: "Came") -> "Came":
        return Came(
            self.milliseconds + other.milliseconds,
            self.micros + other.micros,
            self.is_priced and other.is_priced,
            self.avoidable_milliseconds + other.avoidable_milliseconds,
            self.avoidable_micros + other.avoidable_micros,
        )


@dataclass(frozen=True, slots=True)
class Usual:
    """The four weeks before one, by week and holder (team, and whether a run held it); none where one is not whole."""

    weeks: tuple[Mapping[tuple[str | None, bool], Came], ...] = ()

    @classmethod
    def read(cls, session: Session, calendar: Calendar, period: Period) -> "Usual":
        """Read the weeks before `period`; a period that is no week has none."""
        if kind_of(period) != "week":
            return cls()
        spans, span = [], period
        for _ in range(_WEEKS):
            span = calendar.before(span)
            spans.append(span)
        if not all(known_hours(session, each).complete for each in spans):
            return cls()
        (query,) = statements("interfaces/mail/weeks.sql")
        asked = {
            "starts": sorted(each.start for each in spans), "start": spans[-1].start, "end": period.start,
            "avoidable": _AVOIDABLE,
        }  # fmt: skip
        found: dict[int, dict[tuple[str | None, bool], Came]] = {each.start: {} for each in spans}
        for week, team, held, time, cost, is_priced, *lost in session.rows(query, asked):
            found[week][team, held] = Came(time, cost, is_priced, *lost)
        return cls(tuple(found.values()))

    def of(self, team: str | None) -> Came | None:
        """Return the median week of a team, or of the fleet (None); each of its figures is a median by itself."""
        if not self.weeks:
            return None
        came = [
            week.get((team, True), Came()) if team is not None else sum(week.values(), Came()) for week in self.weeks
        ]
        middle = {
            name: round(median(getattr(one, name) for one in came))
            for name in ("milliseconds", "micros", "avoidable_milliseconds", "avoidable_micros")
        }
        return replace(Came(**middle), is_priced=all(one.is_priced for one in came))


_SILENT = "not measured"  # the label under which unobserved time is printed
_NOTHING = Breakdown(())


@dataclass(frozen=True, slots=True)
class TeamFacts:
    """What the fleet's report does not have of its teams: the week before, and what could not be judged by team."""

    before: tuple[GroupRow, ...]
    not_judged: dict[str, tuple[NotJudged, ...]]
    unpriced: dict[str, tuple[Unpriced, ...]]
    unpriced_before: dict[str, tuple[Unpriced, ...]]
    corrections: dict[str, tuple[BreakdownEntry, ...]]
    by_what: dict[str, tuple[MeasuredWith, ...]]


def team_facts(session: Session, before: Period, period: Period) -> TeamFacts:
    """Read what the versions for teams need beside the report of the fleet."""
    rows = session.rows(
        "SELECT team, rule, missing, count(DISTINCT subject), min(subject) FROM not_evaluated "
        "JOIN runs ON runs.run_id = not_evaluated.subject WHERE hour >= ? AND hour < ? AND team IS NOT NULL "
        "GROUP BY ALL ORDER BY 4 DESC, rule, missing",
        [period.start, period.end],
    )
    found: dict[str, list[NotJudged]] = {}
    for team, *rule in rows:
        found.setdefault(team, []).append(NotJudged(*rule))
    return TeamFacts(
        teams(session, before),
        {team: tuple(rules) for team, rules in found.items()},
        _unpriced(session, period),
        _unpriced(session, before),
        _corrections(session, period),
        by_what_of_teams(session, period),
    )


def _unpriced(session: Session, period: Period) -> dict[str, tuple[Unpriced, ...]]:
    """Return by team the time without a price: money of the rest must not pass for all of it."""
    rows = session.rows(
        f"SELECT team, sku, sum(milliseconds) FROM {booked('ledger')} "
        "WHERE hour >= ? AND hour < ? AND cost_micros IS NULL AND team IS NOT NULL GROUP BY ALL ORDER BY 3 DESC, 2",
        [period.start, period.end],
    )
    found: dict[str, list[Unpriced]] = {}
    for team, sku, milliseconds in rows:
        found.setdefault(team, []).append(Unpriced(sku, milliseconds))
    return {team: tuple(parts) for team, parts in found.items()}


def _corrections(session: Session, period: Period) -> dict[str, tuple[BreakdownEntry, ...]]:
    """Return by team what was moved in its own time after hours of the period had closed."""
    rows = session.rows(
        f"SELECT team, state, cause, sum(milliseconds), sum(cost_micros) FROM {booked('adjustments')} "
        "WHERE hour >= ? AND hour < ? AND team IS NOT NULL GROUP BY ALL",
        [period.start, period.end],
    )
    found: dict[str, list[Counted]] = {}
    for team, state, cause, milliseconds, cost in rows:
        found.setdefault(team, []).append((state, cause, milliseconds, cost))
    return {team: fold(counts) for team, counts in found.items()}


def of_team(report: WeekReport, team: str, facts: TeamFacts) -> WeekReport:
    """Return the report of one team's time; a team that held nothing has an empty breakdown."""
    breakdown = _own(report.teams, team, facts.unpriced)
    return replace(
        report,
        breakdown=breakdown,
        previous=_own(facts.before, team, facts.unpriced_before) if report.previous is not None else None,
        teams=(),
        fleet=(),
        findings=tuple(one for one in report.findings if one.team == team),
        recommendations=tuple(one for one in report.recommendations if one.team == team),
        measured=_measured(breakdown),
        by_what=facts.by_what.get(team, ()),
        not_judged=facts.not_judged.get(team, ()),
        corrections=facts.corrections.get(team, ()),
        record=None,
        unheld=None,
        checked=tuple(one for one in report.checked if one.prediction.team == team),
        charged=tuple(one for one in report.charged if one.held and one.bearer == team),
    )


def _own(rows: Sequence[GroupRow], team: str, unpriced: dict[str, tuple[Unpriced, ...]]) -> Breakdown:
    own = next((row.breakdown for row in rows if row.held and row.name == team), _NOTHING)
    return replace(own, unpriced=unpriced.get(team, ()))


def _measured(own: Breakdown) -> Measured:
    silent = sum(entry.milliseconds for entry in own.entries if entry.label == _SILENT)
    return Measured(own.milliseconds, silent, ())
