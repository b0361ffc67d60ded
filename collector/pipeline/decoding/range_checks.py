"""What values are believed: ranges by unit, keys that are there, intervals that have a length and lie in the past.

What fails is named by table, column and row; nothing is clipped. The same rules judge the rows of batches (where
fast_validation.py suspects a column) and of imports.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from agent.wire.contract import AHEAD_OF_SENDER, EARLIEST, Column, Table
from agent.wire.tables import TABLES
from collector.errors import BatchError

pc: Any = pyarrow.compute  # its published types refuse plain numbers and arrays of unknown type, which it takes
Array: TypeAlias = Any
Mask: TypeAlias = Any  # a BooleanArray

_AHEAD_OF_US = 86_400_000_000  # a day: a clock so wrong is not corrected for but refused
LONGEST_INTERVAL = 32 * 86_400_000_000  # a month; one row over years would be booked into every hour of them
LONGEST_TEXT = 4096  # bytes


@dataclass(frozen=True, slots=True)
class Clock:
    """When a batch was sealed, by its agent's clock, and when it came, by ours; microseconds UTC.

    Row times are judged by the agent's clock: one that is some hours off is told apart by the two and still counts.
    """

    sent_at: int
    received_at: int

    @property
    def latest(self) -> int:
        """The last microsecond that a row may name as past."""
        return self.sent_at + AHEAD_OF_SENDER

    def check(self) -> None:
        """Refuse a batch from the future.

        Raises:
            BatchError: 422, the sender's clock is more than a day ahead of ours.
        """
        if self.sent_at > self.received_at + _AHEAD_OF_US:
            raise BatchError(422, "clock", "sent_at is more than a day ahead of this collector; set the sender's clock")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a row is put aside: the column that says it, and the end of a sentence."""

    column: str
    says: str


@dataclass(frozen=True, slots=True)
class Rule(Reason):
    """One thing that must hold in a column: `bad` marks the rows where it does not."""

    bad: Callable[[pa.RecordBatch, Clock], Mask]


def faults(
    table: Table, rows: pa.RecordBatch, clock: Clock, columns: Collection[str] | None = None
) -> Iterator[tuple[Rule, Mask]]:
    """Yield every rule that some row breaks, with the mask of those rows (never null); of `columns`, or of them all."""
    looked_at = set(rows.schema.names) if columns is None else columns
    for rule in rules(table):
        if rule.column in looked_at:
            mask = pc.fill_null(rule.bad(rows, clock), False)
            if pc.any(mask).as_py():
                yield rule, mask


def any_of(masks: Iterable[Mask], count: int) -> Mask:
    """Return which of so many rows one of these masks marks."""
    marked: Mask = pa.repeat(pa.scalar(False), count)
    for mask in masks:
        marked = pc.or_(marked, mask)
    return marked


def plausible(table: Table, rows: pa.RecordBatch, clock: Clock) -> tuple[pa.RecordBatch, list[Rule]]:
    """Return the rows that can be true, and what the others break: one that cannot must not keep the others out."""
    broken = list(faults(table, rows, clock))
    bad = any_of((mask for _, mask in broken), rows.num_rows)
    return rows.filter(pc.invert(bad)), [rule for rule, _ in broken]


def rules(table: Table) -> tuple[Rule, ...]:
    """Return what must hold in a table, in the order in which faults are told."""
    return _rules(table.name)  # by name: a table's hash is all its columns'


@cache
def _rules(name: str) -> tuple[Rule, ...]:
    table = TABLES[name]
    found = [_present(column, needs_text(table, column)) for column in table.columns if column.required]
    found += [rule for column in table.columns if (rule := _value_rule(column))]
    return (*found, *time_rules(table))


def is_interval(table: Table) -> bool:
    """Whether each row of the table spans an interval, rather than an allocation or an ownership that may be open."""
    return "ended_at" in table.names and table.column("ended_at").required


def needs_text(table: Table, column: Column) -> bool:
    """Whether an empty text is refused: a key names something, but a run that waits is on no node yet."""
    return column.required and column.type == "string" and (is_interval(table) or column.name != "node")


def _present(column: Column, needs_text: bool) -> Rule:
    name = column.name
    if needs_text:
        return Rule(name, "every row needs it", lambda rows, _: pc.less(_length(rows, name), 1))
    return Rule(name, "every row needs it", lambda rows, _: pc.is_null(rows.column(name)))


def _length(rows: pa.RecordBatch, name: str) -> Array:
    return pc.fill_null(pc.binary_length(rows.column(name)), 0)


def _value_rule(column: Column) -> Rule | None:
    name, within = column.name, column.range
    if column.type == "string":
        return Rule(
            name,
            f"longer than {LONGEST_TEXT} bytes",
            lambda rows, _: pc.greater(pc.binary_length(rows.column(name)), LONGEST_TEXT),
        )
    if column.type == "bool" or (within is None and column.type == "int64"):
        return None
    if within is None:
        return Rule(
            name, "not a finite number; unknown is null", lambda rows, _: pc.invert(pc.is_finite(rows.column(name)))
        )
    low, high = within
    says = f"outside {low:g} to {high:g}{'' if column.unit in ('ratio', 'count') else f' {column.unit}'}"
    return Rule(name, says, lambda rows, _: _outside(rows.column(name), low, high))


def _outside(values: Array, low: float, high: float) -> Array:
    if pa.types.is_integer(values.type):
        low, high = int(low), int(high)
    inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))  # NaN is not inside
    return pc.invert(inside)


def time_rules(table: Table) -> tuple[Rule, ...]:
    """Return what must hold between the times of a row; open ends are null and break nothing."""
    if is_interval(table):
        return (
            Rule(
                "started_at",
                "the interval has no length",
                lambda r, _: pc.greater_equal(r.column("started_at"), r.column("ended_at")),
            ),
            _not_too_early("started_at"),
            _not_ahead("ended_at"),
            Rule(
                "ended_at",
                "the interval is longer than 32 days",
                lambda r, _: pc.greater(pc.subtract(r.column("ended_at"), r.column("started_at")), LONGEST_INTERVAL),
            ),
        )
    if "owned_from" in table.names:  # until when something is owned may be known long before
        return (_not_before("owned_until", "owned_from"),)
    if "ended_at" not in table.names:  # a name holds for ever
        return ()
    # The ledger reaches from the first evidence to the last: a row of 1970 or of next year would stretch it to there.
    before = _not_before("ended_at", "started_at")
    return before, _not_too_early("started_at"), _not_ahead("started_at"), _not_ahead("ended_at")


def _not_before(end: str, start: str) -> Rule:
    return Rule(end, f"before {start}", lambda r, _: pc.less(r.column(end), r.column(start)))


def _not_too_early(name: str) -> Rule:
    return Rule(name, "before 2015; times are microseconds UTC", lambda r, _: pc.less(r.column(name), EARLIEST))


def _not_ahead(name: str) -> Rule:
    return Rule(name, "in the sender's future", lambda r, clock: pc.greater(r.column(name), clock.latest))
