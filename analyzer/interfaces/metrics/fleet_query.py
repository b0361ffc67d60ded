"""What /metrics tells of the fleet, as the ledger has it: SQL counts, nothing here judges or prints."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.wire.units import HOUR_US
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.interfaces.metrics.losing import TEAMS_SHOWN, UNMAPPED, Losing, read_losing
from analyzer.interfaces.metrics.recent import Recent, read_recent
from analyzer.ledger.coverage import STATUSES, newest_hour_end
from analyzer.period import Period
from analyzer.queries.ledger_query import LedgerSum, known_sum, ledger_sums
from analyzer.reports.reader import Reader
from analyzer.states import Class, booking
from collector.store.session import Session

OTHER, NOBODY = "other", "nobody"


@dataclass(frozen=True, slots=True)
class StateTime:
    """GPU time of one state and cause, and what it cost: millionths, None where no part of it has a price."""

    klass: Class
    state: str
    cause: str
    milliseconds: int
    unpriced_milliseconds: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True)
class TeamPart:
    """GPU time of one team and class."""

    team: str
    klass: Class
    milliseconds: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True)
class Open:
    """Findings of one rule and confidence that are still open, and what is at stake in them."""

    rule: str
    confidence: str
    findings: int
    milliseconds: int
    at_stake_micros: int | None


@dataclass(frozen=True, slots=True)
class FleetReading:
    """The fleet in the last complete hour and in the week that it lies in. Times are microseconds UTC."""

    currency: str
    hour: int | None  # the newest hour that is not provisional; None where there is none
    hour_parts: tuple[StateTime, ...]
    week: Period
    week_parts: tuple[StateTime, ...]
    week_teams: tuple[TeamPart, ...]
    open_findings: tuple[Open, ...]
    losing: Losing
    recent: Recent
    known_until: int  # the end of the newest hour
    hours: dict[str, int]  # of the week, by status
    runs: int  # that hold a GPU in the newest hours


def read_fleet(reader: Reader) -> FleetReading | None:
    """Return what the ledger says of the fleet now; None while it is empty."""
    session, until = reader.session, newest_hour_end(reader.session)
    if until is None:
        return None
    week = reader.calendar.week_of(until - 1)
    hour = _last_complete_hour(session)
    found = findings(session, week.start, week.end, with_evidence=False)
    return FleetReading(
        reader.settings.currency,
        hour,
        _parts(session, hour, hour + HOUR_US) if hour is not None else (),
        week,
        _parts(session, week.start, week.end),
        _teams(session, week),
        _open(found),
        read_losing(session, hour, found),
        read_recent(session),
        until,
        _hours(session, week),
        _running(session, hour),
    )


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


def _open(found: Iterable[Finding]) -> tuple[Open, ...]:
    still = [finding for finding in found if finding.still_open and not finding.suspicion]
    kinds = {(finding.rule, finding.confidence) for finding in still}
    return tuple(_open_of(rule, word, still) for rule, word in sorted(kinds))


def _open_of(rule: str, confidence: str, still: list[Finding]) -> Open:
    own = [finding for finding in still if (finding.rule, finding.confidence) == (rule, confidence)]
    at_stake = known_sum(finding.at_stake_micros for finding in own)
    return Open(rule, confidence, len(own), sum(finding.milliseconds for finding in own), at_stake)


def _hours(session: Session, week: Period) -> dict[str, int]:
    rows = session.rows(
        "SELECT status, count(*) FROM ledger_hours WHERE hour >= ? AND hour < ? GROUP BY ALL", [week.start, week.end]
    )
    return dict.fromkeys(STATUSES, 0) | dict(rows)


def _running(session: Session, hour: int | None) -> int:
    return int(session.row("SELECT count(DISTINCT run_id) FROM ledger WHERE hour = ?", [hour])[0])
