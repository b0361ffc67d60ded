"""Rows that cannot be true are told from the others of their batch, which they do not cost.

A batch is authentic and well-formed or it is refused whole: its envelope, its schema, its Arrow. What a row says is
another matter. One impossible reading (a driver that reports 2^63 watts, a clock that was set back between a reading
and its sealing) used to cost all tables of its batch, for ever: an agent sets aside what is refused with 422. Such rows
are now put aside here, with what they say and why they are not believed, and the sender is told how many.

First comes a fast look at all tables of a body: a batch is true or it is not, and nearly all are. The rules
judge row by row and column by column, some thousand microseconds a batch, and most of that goes into
handing single columns to a kernel. Here a message's body is looked at as it lies, as one array of 64-bit words. Read as
an unsigned number, a float of 0 or more is ordered like the float, and what is negative, infinite or no number at all
is larger than any bound; integers are ordered by themselves. So one comparison with the largest word that may stand in
each place holds for every number of a message. Texts and times are compared for all tables at once.

The look never lets a fault through; it may suspect a column that is fine (a negative temperature, whatever lies under
a null), of which the rules then say so.

What values are believed: ranges by unit, keys that are there, intervals that have a length and lie in the past.

What fails is named by table, column and row; nothing is clipped. The same rules judge the rows of batches (where
the look suspects a column) and of imports.
"""

import json
import math
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from agent.wire.contract import AHEAD_OF_SENDER, EARLIEST, Column, Table
from agent.wire.tables import TABLES
from collector.errors import BatchError
from collector.pipeline.decoding.arrow_messages import Message

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


_WORD = 8  # bytes
_ANYTHING = b"\xff" * _WORD
_BUFFERS = {"string": 3}  # of one column: nulls, offsets, bytes; any other type has nulls and values
_UINT64: Any = pa.uint64()
# Bounds of layouts that were seen before: an agent's next batch is mostly laid out like its last. At most 8 MiB each.
_SMALL_WORDS, _SMALL_LAYOUTS = 1024, 1024
_LARGE_WORDS, _LARGE_LAYOUTS = 32_768, 32


@dataclass(frozen=True, slots=True)
class _Layout:
    """What is to be looked at in a table's first columns: indices of columns, and of buffers."""

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    offsets: tuple[int, ...]  # where the offset of each number's values stands in Message.buffers
    most: tuple[bytes, ...]  # the largest word that may stand in each number's values
    unbounded: tuple[int, ...]  # floats of any sign
    keys: tuple[int, ...]  # texts that may not be empty
    texts: tuple[int, ...]  # other texts
    required: tuple[int, ...]
    times: tuple[int, int] | None  # started_at and ended_at, where a row spans an interval


def all_fine(tables: Iterable[tuple[Table, Message]], clock: Clock) -> bool:
    """Return whether certainly no row of these tables breaks a rule."""
    seen = [(_layout(table.name, m.rows.num_columns), m) for table, m in tables if m.rows.num_rows]
    return (
        all(_numbers(layout, message) is None for layout, message in seen)
        and not any(_missing(layout, message.rows) or _infinite(layout, message.rows) for layout, message in seen)
        and _texts_fine(seen)
        and _times_fine(seen, clock)
        and not any(_times_of_facts(table, message.rows, clock) for table, message in tables)
    )


def suspects(table: Table, message: Message, clock: Clock) -> set[str]:
    """Return the columns of which some rule may be broken; nothing of the others is."""
    rows = message.rows
    if rows.num_rows == 0:
        return set()
    layout = _layout(table.name, rows.num_columns)
    seen = [(layout, message)]
    indices = {*(_numbers(layout, message) or ()), *_missing(layout, rows), *_infinite(layout, rows)}
    if not _texts_fine(seen):
        indices |= {*layout.keys, *layout.texts}
    if not _times_fine(seen, clock):
        indices |= set(layout.times or ())
    return {layout.names[index] for index in indices} | _times_of_facts(table, rows, clock)


@cache
def _layout(table: str, width: int) -> _Layout:
    columns = list(enumerate(TABLES[table].columns[:width]))
    buffers = [0]
    for _, column in columns:
        buffers.append(buffers[-1] + _BUFFERS.get(column.type, 2))
    numbers = [(index, column, column.range) for index, column in columns if column.range]
    texts = [(index, needs_text(TABLES[table], column)) for index, column in columns if column.type == "string"]
    names = tuple(column.name for _, column in columns)
    return _Layout(
        names=names,
        numbers=tuple(index for index, _, _ in numbers),
        offsets=tuple(2 * (buffers[index] + 1) for index, _, _ in numbers),
        most=tuple(struct.pack("<d" if c.type == "float64" else "<q", high) for _, c, (_, high) in numbers),
        unbounded=tuple(index for index, column in columns if column.type == "float64" and not column.range),
        keys=tuple(index for index, needed in texts if needed),
        texts=tuple(index for index, needed in texts if not needed),
        required=tuple(index for index, column in columns if column.required),
        times=(names.index("started_at"), names.index("ended_at")) if is_interval(TABLES[table]) else None,
    )


def _numbers(layout: _Layout, message: Message) -> Sequence[int] | None:
    """Compare all numbers at once; return None where they are fine, else the columns that may not be.

    A message whose buffers overlap or stand askew is no agent's: it leaves all of them suspect.
    """
    rows, words = message.rows.num_rows, message.body.size // _WORD
    offsets = tuple(map(message.buffers.__getitem__, layout.offsets))
    bounds = _bounds_remembered(layout.most, offsets, rows, words)
    if bounds is None:
        return layout.numbers
    within = _call("less_equal", pa.Array.from_buffers(_UINT64, words, [None, message.body]), bounds)
    if not within.false_count:
        return None
    places = zip(layout.numbers, offsets, strict=True)
    return [index for index, offset in places if within.slice(offset // _WORD, rows).false_count]


def _bounds_remembered(most: tuple[bytes, ...], offsets: tuple[int, ...], rows: int, words: int) -> Array | None:
    if words <= _SMALL_WORDS:
        return _small_bounds(most, offsets, rows, words)
    return (_large_bounds if words <= _LARGE_WORDS else _bounds)(most, offsets, rows, words)


def _bounds(most: tuple[bytes, ...], offsets: tuple[int, ...], rows: int, words: int) -> Array | None:
    """Return for each word of a body the largest that may stand there; None where columns overlap."""
    parts, end = [], 0
    for bound, offset in zip(most, offsets, strict=True):
        if offset < end or offset % _WORD:
            return None
        parts += [_ANYTHING * ((offset - end) // _WORD), bound * rows]
        end = offset + rows * _WORD
    parts.append(_ANYTHING * (words - end // _WORD))
    return pa.Array.from_buffers(_UINT64, words, [None, pa.py_buffer(b"".join(parts))])


_small_bounds = lru_cache(_SMALL_LAYOUTS)(_bounds)
_large_bounds = lru_cache(_LARGE_LAYOUTS)(_bounds)


def _missing(layout: _Layout, rows: pa.RecordBatch) -> list[int]:
    return [index for index in layout.required if rows.column(index).null_count]


def _infinite(layout: _Layout, rows: pa.RecordBatch) -> list[int]:
    return [index for index in layout.unbounded if _call("is_finite", rows.column(index)).false_count]


def _texts_fine(seen: Sequence[tuple[_Layout, Message]]) -> bool:
    """Measure all texts at once."""
    keys = [message.rows.column(index) for layout, message in seen for index in layout.keys]
    others = [message.rows.column(index) for layout, message in seen for index in layout.texts]
    if not keys and not others:
        return True
    lengths = _call("binary_length", pa.concat_arrays(keys + others))
    of_keys = lengths.slice(0, sum(map(len, keys)))
    return _all(("less_equal", lengths, LONGEST_TEXT), ("greater", of_keys, 0))


def _times_fine(seen: Sequence[tuple[_Layout, Message]], clock: Clock) -> bool:
    """Compare all intervals at once."""
    pairs = [[message.rows.column(index) for index in layout.times] for layout, message in seen if layout.times]
    if not pairs:
        return True
    started, ended = (pa.concat_arrays([pair[side] for pair in pairs]) for side in (0, 1))
    spans = _call("subtract", ended, started)
    return _all(
        ("greater_equal", started, EARLIEST),
        ("less_equal", ended, clock.latest),
        ("greater", spans, 0),
        ("less_equal", spans, LONGEST_INTERVAL),
    )


def _times_of_facts(table: Table, rows: pa.RecordBatch, clock: Clock) -> set[str]:
    """Return the columns of times that may be open; such tables are few and short."""
    if _is_interval(table.name) or not rows.num_rows:
        return set()
    return {rule.column for rule in time_rules(table) if pc.any(rule.bad(rows, clock)).as_py()}


@cache
def _is_interval(table: str) -> bool:
    return is_interval(TABLES[table])


def _all(*comparisons: tuple[str, Array, int]) -> bool:
    """Return whether no value fails its comparison; nulls do not."""
    return not any(_call(name, values, _scalar(bound, values.type)).false_count for name, values, bound in comparisons)


def _call(name: str, *arguments: Array) -> Array:
    """Call a kernel by name: the wrappers of pyarrow.compute take longer than the kernel takes for a batch."""
    return _function(name).call(list(arguments))


@cache
def _function(name: str) -> Any:  # noqa: ANN401 - a kernel
    return pc.get_function(name)


@lru_cache(maxsize=256)  # a clock's latest is another for every batch
def _scalar(value: int, kind: pa.DataType) -> Any:  # noqa: ANN401 - a typed number
    return pa.scalar(value, kind)


_TOLD_OF_A_TABLE = 10  # rows put aside that are kept with what they say; further ones are only counted
_LONGEST_VALUE = 200  # characters of a text that are kept


@dataclass(frozen=True, slots=True)
class Aside:
    """A row that was put aside: its table and column, why in a sentence, and what it says as JSON.

    Nulls are left out, and what may name a person: evidence of a fault needs no names.
    """

    table: str
    column: str
    reason: str
    content: str


@dataclass(frozen=True, slots=True)
class Sifted:
    """The rows of a table that may be true, how many may not, and the first of those."""

    rows: pa.RecordBatch
    count: int = 0
    asides: tuple[Aside, ...] = ()


def sift(tables: Mapping[str, Message], clock: Clock) -> dict[str, Sifted]:
    """Return which rows of the tables of a batch are believed."""
    if all_fine([(TABLES[name], message) for name, message in tables.items()], clock):
        return {name: Sifted(message.rows) for name, message in tables.items()}
    return {name: _sifted(TABLES[name], message, clock) for name, message in tables.items()}


def _sifted(table: Table, message: Message, clock: Clock) -> Sifted:
    columns = suspects(table, message, clock)
    broken = list(faults(table, message.rows, clock, columns)) if columns else []
    return parted(table, message.rows, broken)


def parted(table: Table, rows: pa.RecordBatch, broken: Sequence[tuple[Reason, Mask]]) -> Sifted:
    """Return the rows of a table that break none of these rules, each of which comes with the rows that break it."""
    if not broken:
        return Sifted(rows)
    bad = any_of((mask for _, mask in broken), rows.num_rows)
    told = pc.indices_nonzero(bad).slice(0, _TOLD_OF_A_TABLE).to_pylist()
    asides = tuple(_aside(table, rows, index, broken) for index in told)
    return Sifted(rows.filter(pc.invert(bad)), int(bad.true_count), asides)


def _aside(table: Table, rows: pa.RecordBatch, index: int, broken: Sequence[tuple[Reason, Mask]]) -> Aside:
    rule = next(rule for rule, mask in broken if mask[index].as_py())
    (row,) = rows.slice(index, 1).to_pylist()
    value = row[rule.column]
    named = _names_people(table.name)
    shown = "null" if value is None else "not shown" if rule.column in named else f"{value!r:.60}"
    reason = f"{table.name}.{rule.column} in row {index} is {shown}: {rule.says}"
    content = {name: _shown(value) for name, value in row.items() if value is not None and name not in named}
    return Aside(table.name, rule.column, reason, json.dumps(content, ensure_ascii=False))


@cache
def _names_people(table: str) -> frozenset[str]:
    return frozenset(column.name for column in TABLES[table].columns if column.sensitivity == "identity")


def _shown(value: Any) -> Any:  # noqa: ANN401 - any value that a column may hold
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return value[:_LONGEST_VALUE] if isinstance(value, str) else value
