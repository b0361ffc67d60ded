"""What /metrics tells of the fleet, as the ledger has it: SQL counts, nothing here judges or prints.

Who loses most is told by name: runs and teams of the last complete hour, runs of the newest ten minutes, and the
dearest findings of the week. Each list is cut, so that /metrics has an end; what is cut is in the sums beside it.

The ledger's newest hour is booked as far as it is known, with every pass. Its states may still change until the hour
closes, so no cost is told of the newest ten minutes; what somebody should hear of within minutes does not wait for it.

What stands beside the ledger (traffic of the last complete hour, the month's budgets, faults of prices) is read once an
hour of the ledger, and not with every pass of the analysis: a month's spending reads weeks.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from agent.wire.units import HOUR_SECONDS, HOUR_US
from analyzer.errors import ConfigError
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.finops.budgets.month import BudgetLine, MonthReport, read_month
from analyzer.interfaces.live.live_view import booked_until
from analyzer.ledger.coverage import STATUSES, newest_hour_end
from analyzer.ledger.teams import team_book
from analyzer.measures.traffic.fleet import read_fleet_traffic
from analyzer.measures.traffic.matrix import ClassBytes
from analyzer.measures.traffic.tariff import TariffBook
from analyzer.period import WINDOW_MS, Period
from analyzer.prices.check import booked_kinds, complaints, owned_kinds
from analyzer.prices.price_book import price_book
from analyzer.queries.ledger_query import LedgerSum, known_sum, ledger_sums
from analyzer.reports.reader import Reader
from analyzer.states import Class, booking, words_of
from collector.store.session import Session

OTHER, NOBODY, UNMAPPED = "other", "nobody", "unmapped"
RUNS_SHOWN, TEAMS_SHOWN, FINDINGS_SHOWN = 20, 20, 20
STRETCH_US = WINDOW_MS * 1000  # of the timeline that booking writes beside the ledger

_RUNS = """
WITH stretch AS (
    SELECT run_id, state, cause, sum(milliseconds)::BIGINT AS milliseconds,
        (state || '/' || coalesce(cause, '')) IN (SELECT unnest($avoidable)) AS is_lost
    FROM {table} WHERE {clock} >= $start AND {clock} < $end AND run_id IS NOT NULL GROUP BY ALL
), most AS (
    SELECT run_id FROM stretch WHERE is_lost GROUP BY run_id ORDER BY sum(milliseconds) DESC, run_id LIMIT $shown
)
SELECT s.run_id, coalesce(r.name, ''), coalesce(r.team, $unmapped), s.state, s.cause, s.milliseconds
FROM stretch s JOIN most USING (run_id) LEFT JOIN runs r USING (run_id) ORDER BY ALL
"""

_TEAMS = """
WITH of_hour AS (
    SELECT coalesce(r.team, $unmapped) AS team, l.state, sum(l.milliseconds)::BIGINT AS milliseconds,
        sum(l.cost_micros)::BIGINT AS cost
    FROM ledger l JOIN runs r USING (run_id) WHERE l.hour >= $start AND l.hour < $end
        AND (l.state || '/' || coalesce(l.cause, '')) IN (SELECT unnest($avoidable)) GROUP BY ALL
), most AS (
    SELECT team FROM of_hour GROUP BY team
    ORDER BY sum(cost) DESC NULLS LAST, sum(milliseconds) DESC, team LIMIT $shown
)
SELECT team, state, cost FROM of_hour JOIN most USING (team) ORDER BY ALL
"""

_STATES = """
SELECT state, cause, sum(milliseconds)::BIGINT FROM run_timeline
WHERE bucket_start >= $start AND bucket_start < $end GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class StateTime:
    """GPU time of one state and cause, and what it cost: millionths, None where no part of it has a price."""

    klass: Class
    state: str
    cause: str
    milliseconds: int
    unpriced_milliseconds: int = 0
    cost_micros: int | None = None


@dataclass(frozen=True, slots=True)
class TeamPart:
    """GPU time of one team and class."""

    team: str
    klass: Class
    milliseconds: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True)
class OpenFindings:
    """Findings of one rule and confidence that are still open, and what is at stake in them."""

    rule: str
    confidence: str
    findings: int
    milliseconds: int
    at_stake_micros: int | None


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """One of the dearest findings that are still open; team and run are empty where it is of none."""

    id: str
    rule: str
    confidence: str
    team: str
    run_id: str
    milliseconds: int
    at_stake_micros: int | None


@dataclass(frozen=True, slots=True)
class RunPart:
    """GPU time of one run in one state and cause, in the last complete hour or the newest ten minutes."""

    run_id: str
    name: str
    team: str
    klass: Class
    state: str
    cause: str
    milliseconds: int


@dataclass(frozen=True, slots=True)
class TeamLoss:
    """What one team lost in one state, in the last complete hour; the cost is None where none of it has a price."""

    team: str
    state: str
    cost_micros: int | None


@dataclass(frozen=True, slots=True)
class Recent:
    """The runs that lost most in the ten minutes before `until` (microseconds UTC), in all of their states.

    `held` is of all runs, those that are not among them too.
    """

    until: int
    runs: tuple[RunPart, ...] = ()
    held: tuple[StateTime, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetReading:
    """The fleet in the last complete hour and in the week that it lies in. Times are microseconds UTC."""

    currency: str
    hour: int | None  # the newest hour that is not provisional; None where there is none
    hour_parts: tuple[StateTime, ...]
    week: Period
    week_parts: tuple[StateTime, ...]
    week_teams: tuple[TeamPart, ...]
    open_findings: tuple[OpenFindings, ...]
    losing_runs: tuple[RunPart, ...]
    losing_teams: tuple[TeamLoss, ...]
    dearest_findings: tuple[OpenFinding, ...]
    recent: Recent
    known_until: int  # the end of the newest hour
    known_seconds: dict[str, int]  # of the week, by how far they are settled
    runs: int  # that hold a GPU in the newest hours

    @property
    def unpriced_milliseconds(self) -> int:
        """GPU time of the last complete hour without a price."""
        return sum(part.unpriced_milliseconds for part in self.hour_parts)


def read_fleet(reader: Reader) -> FleetReading | None:
    """Return what the ledger says of the fleet now; None while it is empty."""
    session, until = reader.session, newest_hour_end(reader.session)
    if until is None:
        return None
    week = reader.calendar.week_of(until - 1)
    hour = _last_complete_hour(session)
    of_hour = None if hour is None else (hour, hour + HOUR_US)
    still = [
        finding
        for finding in findings(session, week.start, week.end, with_evidence=False)
        if finding.still_open and not finding.suspicion
    ]
    return FleetReading(
        reader.settings.currency,
        hour,
        _parts(session, *of_hour) if of_hour else (),
        week,
        _parts(session, week.start, week.end),
        _teams(session, week),
        _open(still),
        _losing_runs(session, "ledger", "hour", of_hour) if of_hour else (),
        _losing_teams(session, of_hour) if of_hour else (),
        tuple(map(_open_finding, still[:FINDINGS_SHOWN])),
        read_recent(session),
        until,
        _known_seconds(session, week),
        int(session.row("SELECT count(DISTINCT run_id) FROM ledger WHERE hour = ?", [hour])[0]),
    )


def read_recent(session: Session) -> Recent:
    """Return the newest ten minutes that are wholly booked.

    Raises:
        LedgerError: the ledger is empty.
    """
    end = booked_until(session) // STRETCH_US * STRETCH_US
    stretch = (end - STRETCH_US, end)
    states = session.rows(_STATES, {"start": stretch[0], "end": stretch[1]})
    return Recent(
        end,
        _losing_runs(session, "run_timeline", "bucket_start", stretch),
        tuple(StateTime(booking(state, cause).klass, state, cause or "", ms) for state, cause, ms in states),
    )


def _losing_runs(session: Session, table: str, clock: str, span: tuple[int, int]) -> tuple[RunPart, ...]:
    """Return all states of the runs that lost most in a span of this table, microseconds UTC by its `clock`."""
    asked: dict[str, object] = {
        "start": span[0],
        "end": span[1],
        "avoidable": words_of("avoidable"),
        "unmapped": UNMAPPED,
        "shown": RUNS_SHOWN,
    }
    rows = session.rows(_RUNS.format(table=table, clock=clock), asked)
    return tuple(
        RunPart(run_id, name, team, booking(state, cause).klass, state, cause or "", milliseconds)
        for run_id, name, team, state, cause, milliseconds in rows
    )


def _losing_teams(session: Session, span: tuple[int, int]) -> tuple[TeamLoss, ...]:
    asked: dict[str, object] = {
        "start": span[0],
        "end": span[1],
        "avoidable": words_of("avoidable"),
        "unmapped": UNMAPPED,
        "shown": TEAMS_SHOWN,
    }
    return tuple(TeamLoss(*row) for row in session.rows(_TEAMS, asked))


def _open_finding(finding: Finding) -> OpenFinding:
    run_id = finding.run_ids[0] if finding.run_ids else ""
    team = finding.team or (UNMAPPED if run_id else "")
    amounts = finding.milliseconds, finding.at_stake_micros
    return OpenFinding(finding.id, finding.rule, finding.confidence, team, run_id, *amounts)


def _last_complete_hour(session: Session) -> int | None:
    hour: int | None = session.row("SELECT max(hour) FROM ledger_hours WHERE status <> 'provisional'")[0]
    return hour


def _parts(session: Session, start: int, end: int) -> tuple[StateTime, ...]:
    sums = ledger_sums(session, "state", "cause", where="hour >= ? AND hour < ?", values=[start, end])
    return tuple(map(_state_time, sums))


def _state_time(one: LedgerSum) -> StateTime:
    state, cause = one.keys
    amounts = one.milliseconds, one.unpriced_milliseconds, one.cost_micros
    return StateTime(booking(state, cause).klass, state, cause or "", *amounts)


def _teams(session: Session, week: Period) -> tuple[TeamPart, ...]:
    """Return the week by team and class: those that held most by name, the others together."""
    rows = session.rows(
        """
        WITH held AS (
            SELECT CASE WHEN l.run_id IS NULL THEN $nobody ELSE coalesce(r.team, $unmapped) END AS team,
                l.run_id IS NOT NULL AND r.team IS NOT NULL AS named, l.state, l.cause, l.milliseconds, l.cost_micros
            FROM ledger l LEFT JOIN runs r ON r.run_id = l.run_id WHERE l.hour >= $start AND l.hour < $end
        ), most AS (
            SELECT team FROM held WHERE named GROUP BY team
            ORDER BY sum(cost_micros) DESC NULLS LAST, sum(milliseconds) DESC, team LIMIT $shown
        )
        SELECT if(named AND team NOT IN (SELECT team FROM most), $other, team) AS shown, state, cause,
            sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT
        FROM held GROUP BY ALL ORDER BY ALL
        """,
        {
            "nobody": NOBODY,
            "unmapped": UNMAPPED,
            "other": OTHER,
            "start": week.start,
            "end": week.end,
            "shown": TEAMS_SHOWN,
        },
    )
    sums: dict[tuple[str, Class], tuple[int, int | None]] = {}
    for team, state, cause, milliseconds, cost in rows:
        key = (team, booking(state, cause).klass)
        before, cost_before = sums.get(key, (0, None))
        sums[key] = (before + milliseconds, known_sum((cost_before, cost)))
    return tuple(TeamPart(*key, *amounts) for key, amounts in sorted(sums.items()))


def _open(still: Sequence[Finding]) -> tuple[OpenFindings, ...]:
    kinds = {(finding.rule, finding.confidence) for finding in still}
    return tuple(_open_of(rule, word, still) for rule, word in sorted(kinds))


def _open_of(rule: str, confidence: str, still: Iterable[Finding]) -> OpenFindings:
    own = [finding for finding in still if (finding.rule, finding.confidence) == (rule, confidence)]
    at_stake = known_sum(finding.at_stake_micros for finding in own)
    return OpenFindings(rule, confidence, len(own), sum(finding.milliseconds for finding in own), at_stake)


def _known_seconds(session: Session, week: Period) -> dict[str, int]:
    rows = session.rows(
        "SELECT status, count(*) FROM ledger_hours WHERE hour >= ? AND hour < ? GROUP BY ALL", [week.start, week.end]
    )
    return dict.fromkeys(STATUSES, 0) | {status: hours * HOUR_SECONDS for status, hours in rows}


_LOG = logging.getLogger(__name__)
_BEARERS_SHOWN, _BUDGETS_SHOWN = 20, 50
_FAULTS = ("missing", "stale", "gaps", "over", "ending", "suspicious", "unused", "unknown")


@dataclass(frozen=True, slots=True)
class Bearer:
    """One bearer of the month's cost; None of its amounts where that is not known, or it has no budget."""

    name: str
    scope: str  # team, project or fleet; unmapped, and nobody, are no teams, whatever a team is called
    spent_micros: int | None
    budget_micros: int | None
    expected_micros: int | None
    high_micros: int | None


@dataclass(frozen=True, slots=True)
class FinopsFigures:
    """What was read for one hour. `faults` counts the complaints of `gpuledger bill prices check` by kind."""

    traffic: tuple[ClassBytes, ...] = ()
    month: Period | None = None  # None where it could not be read
    bearers: tuple[Bearer, ...] = ()
    faults: dict[str, int] | None = None  # None where the price file cannot be read
    unreadable: dict[str, bool] = field(default_factory=dict)  # by the settings key of the file


def read_beside(reader: Reader, hour: int | None, until: int) -> FinopsFigures:
    """Return what stands beside a ledger whose last complete hour begins at `hour`, and that is known until `until`.

    A file that a person broke costs its own figures and no others.
    """
    month, faults = _month(reader), _faults(reader, until)
    return FinopsFigures(
        _traffic(reader, hour),
        None if month is None else month.period,
        () if month is None else _bearers(month),
        faults,
        {"budgets": month is None, "prices": faults is None},
    )


def _traffic(reader: Reader, hour: int | None) -> tuple[ClassBytes, ...]:
    if hour is None:
        return ()
    of_hour = replace(reader.calendar.week_of(hour), start=hour, end=hour + HOUR_US)
    return read_fleet_traffic(reader.session, of_hour, reader.settings.currency, TariffBook()).classes


def _month(reader: Reader) -> MonthReport | None:
    try:
        return read_month(reader.session, reader.calendar, reader.settings, None)
    except ConfigError as error:
        _LOG.warning("/metrics has no budgets: %s", error)
        return None


def _bearers(month: MonthReport) -> tuple[Bearer, ...]:
    """Return the dearest bearers, and of those that have a budget more."""
    budgeted = [line for line in month.every if line.budget is not None][:_BUDGETS_SHOWN]
    names = {line.name for line in (*month.lines[:_BEARERS_SHOWN], *budgeted, month.fleet)}
    return tuple(_bearer(line, _scope(line, month)) for line in month.every if line.name in names)


def _scope(line: BudgetLine, month: MonthReport) -> str:
    if line is month.fleet:
        return "fleet"
    if not line.held:
        return "nobody"
    if line.project is not None:
        return "project"
    return "unmapped" if line.team is None else "team"


def _bearer(line: BudgetLine, scope: str) -> Bearer:
    ending, budget = line.ending, line.budget
    return Bearer(
        line.name,
        scope,
        line.spent_micros,
        None if budget is None else budget.micros_per_month,
        None if ending is None else ending.expected_micros,
        None if ending is None else ending.high_micros,
    )


def _faults(reader: Reader, until: int) -> dict[str, int] | None:
    today = datetime.fromtimestamp(reader.clock() / 1e6, UTC).date()
    try:
        book, mapped = price_book(reader.settings), team_book(reader.settings)
    except ConfigError as error:
        _LOG.warning("/metrics has no price faults: %s", error)
        return None
    teams = {rule.team.name for rule in mapped.rules} or None
    fleet, booked = owned_kinds(reader.session, until), booked_kinds(reader.session)
    found = complaints(book, fleet, today, teams, booked)
    return dict.fromkeys(_FAULTS, 0) | Counter(each.kind for each in found)
