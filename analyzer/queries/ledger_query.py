"""Typed readings of the ledger for reports: SQL counts, nothing here judges or prints."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent.wire.bounded import json_said
from agent.wire.units import HOUR_US
from analyzer.period import Period
from analyzer.queries.statements import booked, placed, statements
from analyzer.states import BOOKINGS, CLASSES, Class, booking
from analyzer.text.words import counted, moment_words
from collector.store.session import Session

Dimension = Literal[
    "team", "user", "project", "model", "stage", "queue", "node_group", "held", "run", "node", "gpu", "sku",
    "purchase_option", "class", "state", "cause", "day", "hour",
]  # fmt: skip

# Each dimension: where its value stands, and the type that it has in a cursor.
COLUMNS: dict[str, tuple[str, type]] = {
    "team": ("l.team", str),
    "user": ("l.owner", str),
    "project": ("l.project", str),
    "model": ("l.model", str),
    "stage": ("l.stage", str),
    "queue": ("l.queue", str),
    "node_group": ("h.node_group", str),
    "held": ("l.run_id IS NOT NULL", bool),
    "run": ("l.run_id", str),
    "node": ("l.node", str),
    "gpu": ("l.gpu_uuid", str),
    "sku": ("l.sku", str),
    "purchase_option": ("l.purchase_option", str),
    "class": ("c.class", str),
    "state": ("l.state", str),
    "cause": ("l.cause", str),
    "day": ("d.day", int),
    "hour": ("l.hour", int),
}
OF_RUNS = frozenset({"team", "user", "project", "model", "stage", "queue"})  # read with the runs of the ledger's rows
PEOPLE = frozenset({"user"})  # names of people: shown to owners and admins alone
_CLASSES = ", ".join(f"('{each.state}', nullif('{each.cause or ''}', ''), '{each.klass}')" for each in BOOKINGS)
_JOINS = {
    "h": placed("l"),
    "c": (
        f"LEFT JOIN (VALUES {_CLASSES}) c(state, cause, class) ON c.state = l.state "
        "AND c.cause IS NOT DISTINCT FROM l.cause"
    ),
    "d": "ASOF LEFT JOIN (SELECT unnest($days) AS day) d ON l.hour >= d.day",
    "s": "LEFT JOIN ledger_hours s ON s.hour = l.hour",
}


def ledger_source(conditions: Sequence[str], dimensions: Sequence[str] = (), joins: Collection[str] = ()) -> str:
    """Return FROM ... WHERE ... of the ledger `l` with what these dimensions need, and these joins besides.

    The join "r" is of its runs: their columns are then the ledger's.
    """
    needed = {*joins, *(COLUMNS[name][0][0] for name in dimensions)}
    text = " ".join(text for letter, text in _JOINS.items() if letter in needed)
    table = booked("ledger") if "r" in needed or not OF_RUNS.isdisjoint(dimensions) else "ledger"
    return f"FROM {table} l {text} WHERE {' AND '.join(conditions)}"


_NOT_MEASURED = booking("unobserved", "gap").label
LARGE_GAP = 20  # of a breakdown: as much as a week may lack and still be called clear
_ORDER = {key: place for place, key in enumerate(dict.fromkeys((b.klass, b.label) for b in BOOKINGS))}


@dataclass(frozen=True, slots=True)
class BreakdownEntry:
    """One label of a breakdown: GPU milliseconds, and what the priced part of them cost (None: nothing is priced)."""

    klass: Class
    label: str
    milliseconds: int
    cost_micros: int | None
    unpriced_milliseconds: int = 0

    @property
    def is_part(self) -> bool:
        """Whether the cost is of a part of the time alone, and no more than the least that it can be."""
        return self.cost_micros is not None and self.unpriced_milliseconds > 0


@dataclass(frozen=True, slots=True)
class Unpriced:
    """GPU time for which no price is known."""

    sku: str | None
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where GPU time went: entries by class, largest first, and the time that has no price."""

    entries: tuple[BreakdownEntry, ...]
    unpriced: tuple[Unpriced, ...] = ()

    @property
    def milliseconds(self) -> int:
        """All GPU time."""
        return sum(entry.milliseconds for entry in self.entries)

    @property
    def cost_micros(self) -> int | None:
        """What all priced time cost; None where nothing is priced."""
        return known_sum(entry.cost_micros for entry in self.entries)

    @property
    def priced(self) -> bool:
        """Whether every millisecond has a price, so that shares can be shares of money."""
        return not self.unpriced and bool(self.cost_micros)

    @property
    def is_part(self) -> bool:
        """Whether the cost is of a part of the time alone."""
        return self.cost_micros is not None and any(entry.unpriced_milliseconds for entry in self.entries)

    def of(self, klass: Class) -> "Breakdown":
        """Return the entries of one class alone."""
        return Breakdown(tuple(entry for entry in self.entries if entry.klass == klass), self.unpriced)

    @property
    def main_loss(self) -> "BreakdownEntry | None":
        """What most avoidable time of it went to; None where there is none."""
        return max(self.of("avoidable").entries, key=lambda entry: entry.milliseconds, default=None)

    @property
    def measured(self) -> "Breakdown":
        """What is known: of time that nobody measured there is no share, neither useful nor avoidable."""
        return Breakdown(tuple(entry for entry in self.entries if entry.label != _NOT_MEASURED), self.unpriced)

    @property
    def has_gap(self) -> bool:
        """Whether a twentieth or more of it was not measured: shares and changes of it may then be others."""
        return (self.milliseconds - self.measured.milliseconds) * LARGE_GAP >= max(1, self.milliseconds)

    def weight(self, entry: BreakdownEntry) -> int:
        """Return what shares are taken of: money where all of it is known, else time."""
        return (entry.cost_micros or 0) if self.priced else entry.milliseconds

    @property
    def total_weight(self) -> int:
        """Return what shares are taken from."""
        return (self.cost_micros or 0) if self.priced else self.milliseconds


def alike_measured(one: Breakdown, other: Breakdown) -> bool:
    """Return whether about as much of both was measured, so that their difference is none of what was looked at."""
    gaps = [(each.milliseconds - each.measured.milliseconds) / max(1, each.milliseconds) for each in (one, other)]
    return abs(gaps[0] - gaps[1]) * LARGE_GAP < 1


Counted = tuple[str, str | None, int, int | None]  # state, cause, milliseconds, cost in micros


@dataclass(frozen=True, slots=True)
class LedgerSum:
    """GPU time of the rows with the same `keys`, and what the priced part of it cost (None: nothing is priced)."""

    keys: tuple[Any, ...]
    milliseconds: int
    cost_micros: int | None
    unpriced_milliseconds: int


def ledger_sums(
    session: Session, *by: str, period: Period | None = None, where: str = "true", values: Sequence[object] = ()
) -> list[LedgerSum]:
    """Return the ledger's GPU time by these of its columns, or expressions of them, ascending by their values.

    Of a period, and of the rows for which `where` holds with its `values`; without columns it is one sum.
    """
    inside, span = within(period) if period is not None else ("true", [])
    rows = session.rows(
        f"SELECT {''.join(f'{column}, ' for column in by)}coalesce(sum(milliseconds), 0)::BIGINT, "
        "sum(cost_micros)::BIGINT, coalesce(sum(milliseconds) FILTER (cost_micros IS NULL), 0)::BIGINT "
        f"FROM ledger WHERE {inside} AND {where} GROUP BY ALL ORDER BY ALL",
        [*span, *values],
    )
    return [LedgerSum(tuple(row[: len(by)]), *row[len(by) :]) for row in rows]


def known_sum(amounts: Iterable[int | None]) -> int | None:
    """Return the sum of the amounts that are known; None where none is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def fold(counted: Iterable[Counted]) -> tuple[BreakdownEntry, ...]:
    """Return entries by class and label from counts by state and cause: classes in order, largest first.

    A count without cost is time that has no price: whoever counts keeps that apart from what has one.
    """
    sums: dict[tuple[Class, str], BreakdownEntry] = {}
    for state, cause, milliseconds, cost in counted:
        what = booking(state, cause)
        before = sums.get((what.klass, what.label), BreakdownEntry(what.klass, what.label, 0, None))
        sums[what.klass, what.label] = BreakdownEntry(
            what.klass,
            what.label,
            before.milliseconds + milliseconds,
            known_sum((before.cost_micros, cost)),
            before.unpriced_milliseconds + (milliseconds if cost is None else 0),
        )
    return tuple(sorted((one for one in sums.values() if one.milliseconds or one.cost_micros), key=_place))


def _place(entry: BreakdownEntry) -> tuple[int, int, int, int]:
    order = _ORDER[entry.klass, entry.label]
    return CLASSES.index(entry.klass), -(entry.cost_micros or 0), -entry.milliseconds, order


def breakdown(session: Session, period: Period, run_id: str | None = None) -> Breakdown:
    """Return where the GPU time of a period went, of the fleet or of one run."""
    where, values = ("true", []) if run_id is None else ("run_id = ?", [run_id])
    found = ledger_sums(session, "state", "cause", period=period, where=where, values=values)
    has_unpriced = any(one.unpriced_milliseconds for one in found)
    return Breakdown(
        fold(
            part
            for one in found
            for part in priced_parts(
                one.keys[0], one.keys[1], one.milliseconds, one.cost_micros, one.unpriced_milliseconds
            )
        ),
        unpriced(session, period=period, where=where, values=values) if has_unpriced else (),
    )


def unpriced(
    session: Session, *, period: Period | None = None, where: str = "true", values: Sequence[object] = ()
) -> tuple[Unpriced, ...]:
    """Return the GPU time without a price by kind of GPU, most first."""
    sums = ledger_sums(session, "sku", period=period, where=f"{where} AND cost_micros IS NULL", values=values)
    return tuple(Unpriced(one.keys[0], one.milliseconds) for one in sorted(sums, key=lambda one: -one.milliseconds))


def priced_parts(
    state: str, cause: str | None, milliseconds: int, cost_micros: int | None, unpriced_milliseconds: int
) -> Iterator[Counted]:
    """Yield the time that has a price, and the time that has none."""
    if cost_micros is not None:
        yield state, cause, milliseconds - unpriced_milliseconds, cost_micros
    if unpriced_milliseconds:
        yield state, cause, unpriced_milliseconds, None


def within(period: Period) -> tuple[str, list[object]]:
    """Return the condition and the values that limit a query to the hours of a period."""
    return "hour >= ? AND hour < ?", [period.start, period.end]


GapKind = Literal["served", "latency", "progress", "energy", "traffic"]
_NOUNS: dict[GapKind, str] = {
    "served": "requests and tokens of services",
    "latency": "latencies of services",
    "progress": "what runs say of their work",
    "energy": "energy",
    "traffic": "traffic",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """Hours of a period without one kind of amounts, the last of which ends at `until` (microseconds UTC).

    They were never kept, or no pass has booked them yet (`is_waiting`).
    """

    kind: GapKind
    hours: int
    until: int
    is_waiting: bool

    def words(self, timezone: str) -> str:
        """Return the sentence that stands beside the figures."""
        noun, hours, until = _NOUNS[self.kind], counted(self.hours, "hour"), moment_words(self.until, timezone)
        if self.is_waiting:
            return f"Not booked yet: {noun}, of {hours} until {until}. The next analysis books them."
        return (
            f"Not kept: {noun}, of {hours} until {until}. Their samples had expired before a release that books them; "
            "no figure here has those hours."
        )


def gaps(session: Session, period: Period, *kinds: GapKind) -> tuple[Gap, ...]:
    """Return what the hours of the ledger in a period lack of these kinds."""
    selects = [
        f"SELECT '{kind}', count(*), max(l.hour) + {HOUR_US}, a.hour IS NULL FROM ledger_hours l "
        f"LEFT JOIN amount_hours a USING (hour) WHERE l.hour >= $start AND l.hour < $end AND a.{kind} IS NULL "
        "GROUP BY a.hour IS NULL"
        for kind in kinds
    ]
    asked: dict[str, object] = {"start": period.start, "end": period.end}
    return tuple(Gap(*row) for row in session.rows(f"{' UNION ALL '.join(selects)} ORDER BY ALL", asked))


def labels_of(text: str | None) -> dict[str, str]:
    """Return the labels of an allocation, a JSON object of strings; empty where there are none or they are broken."""
    try:
        labels = json_said(text or "{}")
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run that waits for GPUs. None is not known; `submitted_at` is microseconds UTC, `priority` its scheduler's."""

    run_id: str
    name: str | None
    account: str | None
    queue: str | None
    qos: str | None
    gpus: int
    time_limit_seconds: int | None
    priority: float | None
    submitted_at: int | None


def read_queue(session: Session, now_us: int) -> tuple[QueuedRun, ...]:
    """Read the runs that wait for GPUs at a moment, as their scheduler would begin them.

    Raises:
        StoreError: the store does not answer.
    """
    (waiting,) = statements("queries/waiting.sql")
    return tuple(QueuedRun(*row) for row in session.rows(waiting, {"end": now_us}))
