"""Typed readings of what a period rests on: the fleet, the hours, what was silent, not judged, or corrected since."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_US
from analyzer.errors import LedgerError
from analyzer.ledger.closing import is_reached
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.unjudged import Unjudged
from analyzer.period import Period
from analyzer.queries.ledger_query import BreakdownEntry, fold, ledger_sums, within
from analyzer.queries.statements import statements
from collector.store.session import Session

CLOSED = ("closed", "final")
STATUSES = ("provisional", "open", "closed", "final")  # from least to most settled
_SILENT_SHOWN = 3
_NOT_JUDGED_SHOWN = 40
EMPTY = "the ledger is empty: bring telemetry (agents, gpuledger import), then gpuledger admin analyze"


@dataclass(frozen=True, slots=True)
class Sku:
    """GPUs of one kind: how many were owned in the period, how they were bought, and until when if that is one time."""

    sku: str | None
    purchase_option: str | None
    gpus: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Hours:
    """How many hours of the period the ledger has, and how settled the least settled of them is."""

    known: int
    expected: int
    status: str | None
    rules_versions: tuple[str, ...]
    price_versions: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether no hour is missing."""
        return self.known >= self.expected


@dataclass(frozen=True, slots=True)
class Silent:
    """A node that was not measured: the longest time on any one of its GPUs, beginning in `first_hour`."""

    node: str
    milliseconds: int
    first_hour: int


@dataclass(frozen=True, slots=True)
class Measured:
    """GPU milliseconds that runs held, and how much of it was not measured."""

    held_milliseconds: int
    not_measured_milliseconds: int
    nodes: tuple[Silent, ...]


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A rule that lacked a signal, for how many subjects (runs or nodes), and one of them."""

    rule: str
    missing: str
    subjects: int
    example: str


def fleet(session: Session, period: Period) -> tuple[Sku, ...]:
    """Return the GPUs that the ledger covers, most numerous first."""
    where, values = within(period)
    rows = session.rows(
        f"""
        WITH ends AS (
            SELECT sku, purchase_option, max(owned_until) AS until FROM ownership GROUP BY ALL
            HAVING count(*) = count(owned_until) AND min(owned_until) = max(owned_until)
        ), owned AS (
            SELECT sku, purchase_option, count(DISTINCT gpu_uuid) AS gpus FROM ledger WHERE {where} GROUP BY ALL
        )
        SELECT o.sku, o.purchase_option, o.gpus, e.until
        FROM owned o LEFT JOIN ends e
            ON e.sku IS NOT DISTINCT FROM o.sku AND e.purchase_option IS NOT DISTINCT FROM o.purchase_option
        ORDER BY o.gpus DESC, o.sku, o.purchase_option
        """,
        values,
    )
    return tuple(Sku(*row) for row in rows)


def cluster(session: Session, period: Period) -> str | None:
    """Return the one cluster that all scheduled runs of the period name; None where there are none or several."""
    where, values = within(period)
    rows = session.rows(
        f"SELECT DISTINCT split_part(run_id, '/', 2) FROM ledger WHERE {where} AND "
        "split_part(run_id, '/', 1) IN ('slurm', 'kubernetes', 'ray') LIMIT 2",
        values,
    )
    return rows[0][0] if len(rows) == 1 else None


def known_hours(session: Session, period: Period) -> Hours:
    """Return which hours of the period are in the ledger; open while some of it is still to be booked."""
    where, values = within(period)
    rows = session.rows(f"SELECT status, rules_version, price_version FROM ledger_hours WHERE {where}", values)
    statuses = [row[0] for row in rows]
    rules, prices = sorted({row[1] for row in rows}), sorted({row[2] for row in rows if row[2]})
    if statuses and all(status in CLOSED for status in statuses):
        prices = _booked_by(session, period)
    status = least_settled(statuses, is_reached=is_reached(session, period.end))
    return Hours(len(rows), period.hours, status, tuple(rules), tuple(prices))


def least_settled(statuses: Sequence[str], *, is_reached: bool) -> str | None:
    """Return the status of the least settled hour, open where more hours are still to be booked; None where is none."""
    told = statuses if is_reached or not statuses else (*statuses, "open")
    return min(told, key=STATUSES.index, default=None)


def _booked_by(session: Session, period: Period) -> list[str]:
    """Return by which prices a closed period's figures are: a later version has made its adjustments, and no more."""
    where, values = within(period)
    rows = session.rows(
        f"SELECT DISTINCT price_version FROM ledger WHERE {where} AND price_version IS NOT NULL ORDER BY 1", values
    )
    return [version for (version,) in rows]


def held_span(session: Session, run_ids: Sequence[str]) -> tuple[int, int] | None:
    """Return from when until when the ledger has hours that these runs held, in microseconds; None where there is none.

    `run_ids` are at least one.
    """
    runs = ", ".join("?" * len(run_ids))  # named one by one, DuckDB skips the row groups that have none of them
    first, last = session.row(f"SELECT min(hour), max(hour) FROM ledger WHERE run_id IN ({runs})", list(run_ids))
    return None if first is None else (first, last + HOUR_US)


def measured(session: Session, period: Period) -> Measured:
    """Return how much of the held time was measured, and the nodes that were silent longest."""
    where, values = within(period)
    sums = ledger_sums(session, "state", period=period, where="run_id IS NOT NULL")
    held = sum(one.milliseconds for one in sums)
    silent = sum(one.milliseconds for one in sums if one.keys == ("unobserved",))
    nodes = session.rows(
        "SELECT node, max(ms) AS longest, min(first) FROM (SELECT node, sum(milliseconds) AS ms, min(hour) AS first "
        f"FROM ledger WHERE {where} AND state = 'unobserved' GROUP BY node, gpu_uuid) "
        f"GROUP BY node ORDER BY longest DESC, node LIMIT {_SILENT_SHOWN}",
        values,
    )
    return Measured(held, silent, tuple(Silent(*row) for row in nodes))


@dataclass(frozen=True, slots=True)
class Unheld:
    """Milliseconds of GPU-hours that nobody held, and of those in which the GPU worked, how active it was (permille).

    A GPU that works is used by somebody: nobody told who held it, and what it did is in no run's figures.
    """

    milliseconds: int
    worked: int
    activity: int | None


def unheld(session: Session, period: Period) -> Unheld:
    """Return how much of what is booked as free was at work."""
    (select,) = statements("ledger/unheld.sql")
    asked: dict[str, object] = {"start": period.start, "end": period.end, "active": Thresholds().active_permille}
    return Unheld(*session.row(select, asked))


def not_judged(session: Session, period: Period, subject: str | None = None) -> tuple[NotJudged, ...]:
    """Return the rules that lacked a signal, for the fleet or for one run; those that touch most come first."""
    where, values = within(period)
    if subject is not None:
        where, values = f"{where} AND subject = ?", [*values, subject]
    rows = session.rows(
        "SELECT rule, missing, count(DISTINCT subject) AS subjects, min(subject) FROM not_evaluated "
        f"WHERE {where} GROUP BY ALL ORDER BY subjects DESC, rule, missing LIMIT {_NOT_JUDGED_SHOWN}",
        values,
    )
    return tuple(NotJudged(*row) for row in rows)


def unjudged(session: Session, period: Period) -> list[Unjudged]:
    """Return each rule that lacked a signal, by run and rule: the newest day's word of each."""
    where, values = within(period)
    rows = session.rows(
        f"SELECT max(hour), subject, rule, arg_max(missing, hour) FROM not_evaluated WHERE {where} "
        "GROUP BY subject, rule ORDER BY rule, subject",
        values,
    )
    return [Unjudged(*row) for row in rows]


def corrections(session: Session, period: Period) -> tuple[BreakdownEntry, ...]:
    """Return what was moved after hours of the period had closed; the amounts sum to nothing."""
    where, values = within(period)
    return fold(
        session.rows(
            f"SELECT state, cause, sum(milliseconds), sum(cost_micros) FROM adjustments WHERE {where} GROUP BY ALL",
            values,
        )
    )


def newest_hour_end(session: Session) -> int | None:
    """Return the end of the newest hour in the ledger, microseconds UTC; None for an empty ledger."""
    newest: int | None = session.row("SELECT max(hour) + 3600000000 FROM ledger_hours")[0]
    return newest


def ledger_end(session: Session) -> int:
    """Return the end of the newest hour of a ledger that must have one, microseconds UTC.

    Raises:
        LedgerError: it is empty.
    """
    newest = newest_hour_end(session)
    if newest is None:
        raise LedgerError(EMPTY)
    return newest
