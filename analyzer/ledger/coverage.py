"""Typed readings of what a period rests on: the fleet, the hours, what was silent, not judged, or corrected since.

One rule for all readings. Amounts are those of the hours known. What is said to be lost or saved *a week* is scaled
from these hours. What is compared with the period before is compared with as many of its first hours. Shares, and
prices of a unit, are told as they are.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from agent.wire.units import HOUR_US
from analyzer.errors import EmptyLedgerError, LedgerError
from analyzer.ledger.pending import is_reached
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunFacts, RunWindow, per_gpu_rate
from analyzer.period import Calendar, Period
from analyzer.queries.ledger_query import BreakdownEntry, fold, ledger_sums, within
from analyzer.queries.statements import statements
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Unjudged:
    """One rule that one run could not be held to in one hour, and the signal that it lacked."""

    hour_us: int
    subject: str
    rule: str
    missing: str


def by_rule(found: Iterable[Unjudged]) -> dict[tuple[str, str], list[str]]:
    """Return whom each rule could not be held to, by rule and by what it lacked; each subject once."""
    by: dict[tuple[str, str], list[str]] = {}
    for one in found:
        whom = by.setdefault((one.rule, one.missing), [])
        if one.subject not in whom:
            whom.append(one.subject)
    return by


def rules_in(found: Iterable[Unjudged]) -> int:
    """Return how many rules could not be judged of somebody."""
    return len({one.rule for one in found})


def unjudged_windows(
    windows: Sequence[RunWindow], facts: RunFacts, in_rack_rate: int | None, limits: Thresholds
) -> list[Unjudged]:
    """Return what could not be judged of one run's hour; `in_rack_rate` is what its fabric gives inside a rack."""
    hour_us = windows[0].window_ms * 1000 // HOUR_US * HOUR_US
    missing = {
        "cross_rack": _cross_rack(windows, facts, in_rack_rate, limits),
        "waiting for input": _input(windows, limits),
        "busy, underused": _underused(windows),
    }
    return [Unjudged(hour_us, facts.run_id, rule, why) for rule, why in missing.items() if why is not None]


def _cross_rack(
    windows: Sequence[RunWindow], facts: RunFacts, in_rack_rate: int | None, limits: Thresholds
) -> str | None:
    if facts.nodes < 2:
        return None
    if facts.racks is None:
        return "the rack of its hosts is unknown"
    if facts.racks < 2:
        return None
    if all(window.rdma_out is None for window in windows):
        return "no RDMA port traffic was reported"
    if in_rack_rate is None:
        return "no exchange inside a rack, on such GPUs and ports, to compare with"
    sent = ((window, per_gpu_rate(window, (window.rdma_out or 0) // 1000) or 0) for window in windows)
    exchanging = [window for window, rate in sent if rate >= limits.exchange_kb_per_ms]
    if exchanging and all(window.sm_ms * 2 < window.ms for window in exchanging):
        return "no SM activity of its GPUs, which shows for how long they exchange"
    return None


def _input(windows: Sequence[RunWindow], limits: Thresholds) -> str | None:
    low = [window for window in windows if window.still >= limits.low_permille]
    if low and all(window.cpu_busy is None and window.disk_busy is None and window.busiest is None for window in low):
        return "no CPU, disk or loader figures of its hosts"
    return None


def _underused(windows: Sequence[RunWindow]) -> str | None:
    if all(window.sm_ms == 0 and window.power is None for window in windows):
        return "neither SM activity nor power of its GPUs"
    return None


def known_part(session: Session, period: Period) -> Period:
    """Return the part of a period that the ledger has, under its name; all of it where it has nothing."""
    first, end = session.row(
        "SELECT min(hour), max(hour) + 3600000000 FROM ledger_hours WHERE hour >= ? AND hour < ?",
        [period.start, period.end],
    )
    return period if first is None else replace(period, start=first, end=end)


def like_before(session: Session, period: Period, calendar: Calendar) -> Period:
    """Return what a period is compared with: the one before it, and of that no more hours than have passed of this."""
    before, until = calendar.before(period), known_part(session, period).end
    return replace(before, end=min(before.end, before.start + until - period.start))


CLOSED = ("closed", "final")
STATUSES = ("provisional", "open", "closed", "final")  # from least to most settled
_SILENT_SHOWN = 3
_NOT_JUDGED_SHOWN = 40


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


def no_hours(session: Session, run_id: str) -> LedgerError:
    """Return why the ledger has no hour of a known run: what it used was another's by a better word, or it had none."""
    (is_anothers,) = session.row(
        """
        SELECT EXISTS (
            SELECT 1 FROM allocations a JOIN ledger l ON l.gpu_uuid = a.gpu_uuid AND l.run_id <> a.run_id
                AND l.hour < coalesce(a.ended_at, a.started_at + 1) AND l.hour + 3600000000 > a.started_at
            WHERE a.run_id = ?
                AND coalesce(a.ended_at, a.started_at) < (SELECT max(hour) + 3600000000 FROM ledger_hours))
        """,
        [run_id],
    )
    why = "it held no GPU, or its hours are not analyzed yet"
    if is_anothers:
        why = "the GPUs that it used were allocated to another run, to which their time is booked"
    return LedgerError(f"the ledger has no GPU time of {run_id}: {why}")


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
        EmptyLedgerError: it is empty.
    """
    newest = newest_hour_end(session)
    if newest is None:
        raise EmptyLedgerError
    return newest


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """GPU time of one state in one stretch of a run; `bucket_start` is in microseconds UTC."""

    bucket_start: int
    state: str
    cause: str | None
    milliseconds: int


def timeline(
    session: Session, run_id: str, points: int = 60, within: tuple[int, int] = (0, 2**62)
) -> list[TimelinePoint]:
    """Return the run's time in `points` stretches of equal length, or fewer where it was kept less finely.

    `within` are the microseconds between which it is looked at. A stretch takes the buckets that begin in it; the last
    may be cut short by the run's end.
    """
    rows = session.rows(
        """
        SELECT bucket_start, state, cause, sum(milliseconds)::BIGINT FROM run_timeline
        WHERE run_id = ? AND bucket_start >= ? AND bucket_start < ? GROUP BY ALL ORDER BY ALL
        """,
        [run_id, *within],
    )
    if not rows:
        return []
    starts = sorted({row[0] for row in rows})
    fine = min((later - earlier for earlier, later in pairwise(starts)), default=1)
    span = starts[-1] + fine - starts[0]
    width = max(fine, -(-span // points // fine) * fine)
    sums: dict[tuple[int, str, str | None], int] = defaultdict(int)
    for start, state, cause, milliseconds in rows:
        sums[starts[0] + (start - starts[0]) // width * width, state, cause] += milliseconds
    return [TimelinePoint(*key, ms) for key, ms in sorted(sums.items(), key=lambda item: (item[0][0], item[0][1:2]))]
