"""Amounts of the ledger's hours (work, requests, energy, traffic): booked once, corrected where they came late.

They close with the ledger's hours: what is learned of a closed hour becomes a correction, dated now. Hours whose
samples have expired keep what is booked; those that no pass had booked before (an upgrade) are booked from the tiers,
and what those do not hold is noted as not kept. Every hour is booked whole, so that a pass that is cut off is made good
by the next.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent.wire.units import HOUR_US
from analyzer.ledger.pending import LOOK_AHEAD_US
from analyzer.measures.traffic.matrix import add_views
from analyzer.period import Period
from analyzer.queries.statements import run as run_sql
from analyzer.queries.statements import statements
from analyzer.text.words import moment_words, plain
from collector.lake.tiers import all_kept_from, kept_by_table, kept_from
from collector.store.session import Session
from collector.tier_tables import tiered

_GPU_HOURS = 11_000  # booked at once, as in a chunk of the ledger (chunks.py)


@dataclass(frozen=True, slots=True)
class _AmountKind:
    """One kind of amounts: its column in amount_hours, the samples it is made of, its tables, whether tiers hold it."""

    name: str
    samples: tuple[str, ...]
    tables: tuple[str, ...]
    has_tiers: bool = True


_KINDS = (
    _AmountKind("served", ("service_samples",), ("served",)),
    _AmountKind("latency", ("service_samples",), ("latency",), has_tiers=False),
    _AmountKind("progress", ("progress",), ("progress",), has_tiers=False),
    _AmountKind("energy", ("gpu_samples",), ("energy",)),
    _AmountKind("activity", ("gpu_samples",), ("activity",)),
    _AmountKind("traffic", ("network_samples", "flow_samples", "gpu_samples"), ("traffic",)),
)
TABLES = tuple(table for kind in _KINDS for table in kind.tables)
# What is told of as a correction, of which subject.
_COUNTED = {
    "served": (
        "run_id",
        (
            "requests",
            "requests_failed",
            "tokens_in",
            "tokens_cached",
            "tokens_out",
            "promised_us",
            "kept_us",
            "undecided_us",
        ),
    ),
    "progress": ("run_id", ("steps", "samples", "tokens")),
    "energy": ("gpu_uuid", ("millijoules",)),
    "activity": ("gpu_uuid", ("active_permille_ms",)),
    "traffic": ("run_id", ("receive_bytes", "transmit_bytes")),
}

_RUNS = (
    "SELECT DISTINCT run_id FROM ledger WHERE hour >= $from_us AND hour < $until_us AND run_id IS NOT NULL ORDER BY ALL"
)


@dataclass(frozen=True, slots=True)
class Span:
    """Hours that abut, [start, end) in microseconds, all closed with what is booked of them or all open."""

    start: int
    end: int
    is_shut: bool


def find_due_amounts(session: Session, batch: int) -> None:
    """Fill `amount_due` with the hours that what came since the last pass touches; `due` must be filled."""
    kept = kept_from(session, {name for kind in _KINDS for name in kind.samples})
    run_sql(session, "ledger/amounts/due.sql", batch=batch, judgeable=kept + LOOK_AHEAD_US if kept else 0)


def book_amounts(session: Session, now_us: int) -> None:
    """Book what is due, oldest first, some hours in a transaction each."""
    (waiting,) = statements("ledger/amounts/waiting.sql")
    hours = session.rows(waiting)
    if not hours:
        return
    run_sql(session, "ledger/amounts/names.sql")
    by_table = kept_by_table(session)
    kept = {kind.name: all_kept_from(by_table, kind.samples) for kind in _KINDS}
    if kept["traffic"]:  # of its first hour a part lies in samples that began before it, and are gone
        kept["traffic"] += HOUR_US
    (gpus,) = session.row("SELECT count(DISTINCT gpu_uuid) FROM ledger WHERE hour = ?", [hours[-1][0]])
    for span in _spans(hours, kept.values(), max(1, _GPU_HOURS // max(1, gpus))):
        with session.transaction():
            _book(session, span, kept, now_us)


def _spans(hours: Iterable[tuple[int, bool]], edges: Iterable[int], most: int) -> Iterator[Span]:
    """Yield spans of hours that are booked alike, none over an edge at which samples begin to be kept."""
    cuts = {-(-edge // HOUR_US) * HOUR_US for edge in edges}
    span: Span | None = None
    for hour, is_shut in hours:
        goes_on = (
            span is not None
            and (hour, is_shut) == (span.end, span.is_shut)
            and hour not in cuts
            and hour - span.start < most * HOUR_US
        )
        if span is not None and not goes_on:
            yield span
        start = span.start if span is not None and goes_on else hour
        span = Span(start, hour + HOUR_US, is_shut)
    if span is not None:
        yield span


def _book(session: Session, span: Span, kept: Mapping[str, int], now_us: int) -> None:
    sources = {kind.name: _source(session, kind, span, kept[kind.name]) for kind in _KINDS}
    for kind in _KINDS:
        _count(session, kind.name, sources[kind.name], span)
    if span.is_shut:
        for table, (subject, units) in _COUNTED.items():
            _correct(session, table, subject, units, span, now_us)
        return
    within = f"hour >= {span.start} AND hour < {span.end}"
    for table in TABLES:
        if f"{table}_amounts" not in session.without_rows:
            session.execute(f"DELETE FROM {table}_amounts WHERE {within}")
        if f"{table}_new" not in session.without_rows:
            session.execute(f"INSERT INTO {table}_amounts BY NAME SELECT * FROM {table}_new ORDER BY ALL")
            session.without_rows.discard(f"{table}_amounts")
    (batch,) = session.row("SELECT coalesce(max(batch), 0) FROM receipts")
    columns = ("hour", "booked_batch", *sources)
    rows = [(hour, batch, *sources.values()) for hour in range(span.start, span.end, HOUR_US)]
    session.execute(f"DELETE FROM amount_hours WHERE {within}")
    session.load("amount_hours", columns, rows)


def _source(session: Session, kind: _AmountKind, span: Span, kept: int) -> str | None:
    """Return what a kind is booked from: samples, tiers where those have expired, or None: nothing is kept."""
    if span.start >= kept:
        return "samples"
    if not kind.has_tiers:
        return None
    hours = kept_from(session, [tiered(name).name("hours") for name in kind.samples])
    return "tiers" if span.start >= hours else None


def _count(session: Session, kind: str, source: str | None, span: Span) -> None:
    """Fill the temporary tables of one kind, `served_new` and so on; empty where nothing is kept."""
    asked: dict[str, object] = {"from_us": span.start, "until_us": span.end}
    if kind == "latency":
        return  # counted with what was served
    if source is None or (kind == "traffic" and source == "samples" and not _is_traffic_told(session, asked)):
        for table in ("served", "latency") if kind == "served" else (kind,):
            session.execute(f"CREATE OR REPLACE TEMP TABLE {table}_new AS FROM {table}_amounts LIMIT 0")
    elif kind == "traffic":
        runs = [run for (run,) in session.rows(_RUNS, asked)]
        run_sql(session, "measures/traffic/segments.sql", runs=runs, **asked)
        nodes = [node for (node,) in session.rows("SELECT DISTINCT node FROM traffic_segments ORDER BY node")]
        add_views(session, nodes, span.start, span.end, from_tiers=source == "tiers")
        run_sql(session, "ledger/amounts/traffic.sql")
    else:
        if kind == "energy":
            run_sql(session, "ledger/amounts/energy_shares.sql", **asked)
        run_sql(session, f"ledger/amounts/{kind}{'_of_tiers' if source == 'tiers' else ''}.sql", **asked)


_NVLINK_TOLD = """
SELECT EXISTS (FROM gpu_samples WHERE coalesce(nvlink_transmit_bytes, nvlink_receive_bytes) IS NOT NULL
    AND started_at < $until_us AND ended_at > $from_us)
"""


def _is_traffic_told(session: Session, span: dict[str, object]) -> bool:
    """Return whether any sample tells of traffic; of many sites none does, and who was where need not be found."""
    if {"network_samples", "flow_samples"} <= session.without_rows:
        return bool(session.row(_NVLINK_TOLD, span)[0])
    return True


def _correct(session: Session, table: str, subject: str, units: Iterable[str], span: Span, now_us: int) -> None:
    """Write down what closed hours would say now beyond what is booked of them and corrected before."""
    within = f"hour >= {span.start} AND hour < {span.end}"
    for unit in units:
        session.execute(
            f"""
            INSERT INTO amount_corrections
            SELECT {now_us}, hour, subject, '{unit}', sum(amount)::BIGINT FROM (
                SELECT hour, {subject} AS subject, sum({unit}) AS amount FROM {table}_new GROUP BY ALL
                UNION ALL
                SELECT hour, {subject}, -sum({unit}) FROM {table}_amounts WHERE {within} GROUP BY ALL
                UNION ALL
                SELECT hour, subject, -sum(amount) FROM amount_corrections WHERE {within} AND unit = '{unit}'
                GROUP BY ALL
            ) GROUP BY hour, subject HAVING sum(amount) <> 0 ORDER BY ALL
            """
        )


_UNITS = ("requests", "tokens_in", "tokens_out", "tokens", "samples", "steps")


@dataclass(frozen=True, slots=True)
class Correction:
    """How much more of a unit the runs of one name did in closed hours, from the first to the last of them."""

    name: str
    unit: str
    amount: int
    first_hour: int
    last_hour: int

    def words(self, timezone: str) -> str:
        """Return the sentence that stands in the report of the period in which it was learned."""
        since = moment_words(self.first_hour, timezone)
        hours = since if self.first_hour == self.last_hour else f"{since} to {moment_words(self.last_hour, timezone)}"
        learned = f"{self.amount:+,} {self.unit} of {plain(self.name)}"
        return f"Learned of closed hours ({hours}): {learned}. What is closed keeps its figures."


def corrections(session: Session, period: Period) -> tuple[Correction, ...]:
    """Return the corrections of work that were recorded in a period."""
    rows = session.rows(
        """
        SELECT coalesce(r.name, c.subject) AS name, c.unit, sum(c.amount)::BIGINT, min(c.hour), max(c.hour)
        FROM amount_corrections c LEFT JOIN runs r ON r.run_id = c.subject
        WHERE c.recorded_at >= $start AND c.recorded_at < $end AND list_contains($units, c.unit)
        GROUP BY ALL HAVING sum(c.amount) <> 0 ORDER BY ALL
        """,
        {"start": period.start, "end": period.end, "units": list(_UNITS)},
    )
    return tuple(Correction(*row) for row in rows)
