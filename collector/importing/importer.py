"""Import one file: all its good rows in one transaction with a receipt, its bad ones counted and named.

What cannot be converted to the contract's types costs its row, and only that. A column in another unit than the
contract's refuses the file: its small values would land, and its large ones would not.
"""

import csv
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from agent.wire.contract import Column, Table
from collector.errors import FileRefusedError
from collector.importing.files import Piece, Skipped, column_names, file_hash, pieces, require_keys, table_of
from collector.pipeline.batch_commit import chunked_import
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.validation import Array, Clock, Mask, any_of, faults, pc
from collector.store.database import Store

_TYPES: dict[str, Any] = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
_WHOLE = r"^[+-]?\d{1,18}$"
_FORMS = {
    "int64": (_WHOLE, "not a whole number"),
    "float64": (r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$", "not a number"),
    "bool": (r"^(?i:true|false|0|1)$", "neither true nor false"),
}
_DATE = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?"
_ZONE = r"(Z|[+-]\d\d:?\d\d)$"
_NO_TIME = "neither whole microseconds nor an ISO 8601 time"


@dataclass(frozen=True, slots=True)
class Converted:
    """A column in its type; `bad` marks the rows whose value could not be converted, or is None where all could."""

    values: Array
    bad: Mask | None = None
    says: str = ""


def convert(column: Column, raw: Array) -> Converted:
    """Return a column of a file in the type of the contract. NaN is how some tools write "missing": it becomes null."""
    if column.unit == "microseconds" and pa.types.is_timestamp(raw.type):
        return Converted(_microseconds(raw))
    if pa.types.is_dictionary(raw.type):
        raw = raw.dictionary_decode()
    if pa.types.is_floating(raw.type):
        raw = pc.if_else(pc.is_nan(raw), pa.scalar(None, raw.type), raw)
    if not pa.types.is_string(raw.type) or column.type == "string":
        try:
            return Converted(raw.cast(_TYPES[column.type]))
        except pa.ArrowException:
            pass  # at least one value does not fit; as text it can be told which
    text = _as_text(raw)
    if text is None:
        return Converted(pa.nulls(len(raw), _TYPES[column.type]), pc.is_valid(raw), f"a {raw.type}")
    return _times(text) if column.unit == "microseconds" else _parsed(column, text)


def _as_text(raw: Array) -> Array | None:
    try:
        return pc.utf8_trim_whitespace(raw.cast(pa.string()))
    except pa.ArrowException:
        return None


def _parsed(column: Column, text: Array) -> Converted:
    if column.type == "int64":
        text = pc.replace_substring_regex(text, r"\.0*$", "")  # tools write whole numbers beside nulls as 5.0
    form, says = _FORMS[column.type]
    return _where(text, form, says, lambda good: _unsigned(good).cast(_TYPES[column.type]), _TYPES[column.type])


def _unsigned(text: Array) -> Array:
    return pc.replace_substring_regex(text, r"^\+", "")


def _where(text: Array, form: str, says: str, parse: Callable[[Array], Array], kind: pa.DataType) -> Converted:
    """Parse what has the form; the rest is null and marked."""
    fits = pc.match_substring_regex(text, form)
    if pc.all(fits).as_py() is not False:
        return Converted(parse(text))
    good = pc.if_else(fits, text, pa.scalar(None, pa.string()))
    return Converted(parse(good).cast(kind), pc.fill_null(pc.invert(fits), False), says)


def _times(text: Array) -> Converted:
    """Read whole microseconds and ISO 8601 times, also mixed; a time without a zone is UTC."""
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    whole = pc.match_substring_regex(text, _WHOLE)
    if pc.all(whole).as_py() is not False:
        return Converted(_unsigned(text).cast(pa.int64()))
    zoned = pc.match_substring_regex(text, _DATE + _ZONE)
    plain = pc.match_substring_regex(text, _DATE + "$")
    parsed = [
        _only(text, whole).cast(pa.int64()),
        *(
            _iso(_only(text, mask), kind)
            for mask, kind in ((zoned, pa.timestamp("us", "UTC")), (plain, pa.timestamp("us")))
        ),
    ]
    values = pc.coalesce(*parsed)
    return Converted(values, pc.and_(pc.is_valid(text), pc.is_null(values)), _NO_TIME)


def _only(text: Array, mask: Mask) -> Array:
    return pc.if_else(mask, text, pa.scalar(None, pa.string()))


def _iso(text: Array, kind: Any) -> Array:  # noqa: ANN401 - a timestamp with or without a zone
    """Parse ISO times of one kind; a day such as 31 February has the form and is none, so these go one by one."""
    try:
        return _microseconds(text.cast(kind))
    except pa.ArrowException:
        return pa.array([_iso_one(value, kind) for value in text], pa.int64())


def _iso_one(value: Any, kind: Any) -> int | None:  # noqa: ANN401
    try:
        found: int | None = value.cast(kind).cast(pa.int64()).as_py()
    except pa.ArrowException:
        return None
    return found


def _microseconds(times: Array) -> Array:
    return times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64())


_MAX_NAMED = 100_000  # rejected rows that are named; further ones are counted


@dataclass(frozen=True, slots=True)
class Reject:
    """One row that was not taken: its line (or row, from 1, where a file has no lines), why, and what it said."""

    line: int
    reason: str
    raw: str


@dataclass(slots=True)
class Imported:
    """What became of one file. Times are the first start and the last end that landed, microseconds UTC.

    `there` are the rows whose keys and interval the store had already, `assumed` what was taken for granted of a log.
    """

    path: Path
    table: str
    read: int = 0
    landed: int = 0
    rejected: int = 0
    there: int = 0
    assumed: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    rejects: list[Reject] = field(default_factory=list)
    ignored_columns: tuple[str, ...] = ()
    repeated: bool = False
    first: int | None = None
    last: int | None = None

    def refuse(self, reject: Reject) -> None:
        """Count a row that was not taken, and keep it while there are not too many."""
        self.rejected += 1
        if len(self.rejects) < _MAX_NAMED:
            self.rejects.append(reject)


def import_file(
    store: Store | None,
    path: Path,
    table: str | None = None,
    node: str | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Land the good rows of a file, once; without a store nothing is written and the rest is the same.

    `progress` gets the number of rows read so far, every hundred thousand or so.

    Raises:
        FileRefusedError: the file cannot be read, or it cannot be told what it is.
        StoreError: the store refused it; nothing of the file was landed.
    """
    columns = column_names(path)
    found = table_of(path, columns, table)
    require_keys(found, path, columns, node)
    ignored = tuple(name for name in columns if name not in found.names)
    result = Imported(path, found.name, ignored_columns=ignored)
    with _sink(store, path, found, result) as land:
        if land is not None:
            _read(path, found, node, result, land, progress)
    return result


@contextmanager
def _sink(
    store: Store | None, path: Path, table: Table, result: Imported
) -> Iterator[Callable[[pa.Table], int] | None]:
    """Yield what takes rows and returns how many were there, or None where the store has this file already."""
    if store is None:
        yield lambda _: 0
        return
    digest = file_hash(path)
    stream = f"import:{digest}:{table.name}"
    with chunked_import(store, agent=f"import:{path.name}", stream=stream, body_hash=digest) as taking:
        result.repeated = taking is None
        yield None if taking is None else lambda rows: taking.add(table.name, rows)


@dataclass(frozen=True, slots=True)
class _Look:
    """What a column in another unit looks like: where its largest values lie, and that unit with the way out."""

    unit: str
    low: float
    high: float
    words: str


_LOOKS = {
    "ratio": _Look("ratio", 1.5, 1e4, "percent; divide it by 100"),
    "watts": _Look("watts", 1e4, 1e9, "mW; divide it by 1,000"),
    "hertz": _Look("hertz", 1.0, 1e5, "MHz; multiply it by 1,000,000"),
    "memory": _Look("bytes", 1.0, 4e5, "MiB; multiply it by 1,048,576"),
}
_AGAIN = 2  # values from which on a column is judged: one alone is a bad reading


@dataclass(slots=True)
class _UnitCheck:
    """Counts by column how many values lie beyond any that is meant, and refuses the file where that goes on."""

    table: Table
    beyond: dict[str, int] = field(default_factory=dict)
    highest: dict[str, float] = field(default_factory=dict)

    def look(self, rows: pa.RecordBatch) -> None:
        """Count the values of some rows, the bad ones too."""
        for column in self.table.columns:
            look = self._look_of(column)
            if look is None:
                continue
            values = pc.cast(rows.column(column.name), pa.float64(), safe=False)  # of whole ones beyond 2**53 about
            beyond = pc.sum(pc.greater(values, look.low)).as_py() or 0
            self.beyond[column.name] = self.beyond.get(column.name, 0) + beyond
            self.highest[column.name] = max(self.highest.get(column.name, 0.0), pc.max(values).as_py() or 0.0)

    def require(self, path: Path) -> None:
        """Refuse a file of which a column is in another unit.

        Raises:
            FileRefusedError: one is; the sentence names the unit.
        """
        for name, beyond in self.beyond.items():
            look, highest = self._look_of(self.table.column(name)), self.highest[name]
            if look is not None and beyond >= _AGAIN and look.low < highest <= look.high:
                raise FileRefusedError(
                    f"{path}: {self.table.name}.{name} reaches {highest:,g}, and is in {look.unit}: it looks like "
                    f"{look.words}. Nothing of the file was imported"
                )

    def _look_of(self, column: Column) -> _Look | None:
        is_memory = (self.table.name, column.name) in (
            ("gpu_samples", "memory_used_bytes"),
            ("inventory", "memory_bytes"),
        )
        return _LOOKS.get("memory" if is_memory else column.unit)


def _read(
    path: Path,
    table: Table,
    node: str | None,
    result: Imported,
    land: Callable[[pa.Table], int],
    progress: Callable[[int], None],
) -> None:
    now = time.time_ns() // 1000
    skipped = Skipped()
    units = _UnitCheck(table)
    for piece in pieces(path, skipped):
        rows, bad, reasons = checked_rows(table, piece.rows, node, Clock(now, now))
        blank = _blank(piece.rows)
        units.look(rows)
        good = rows.filter(pc.invert(pc.or_(bad, blank)))
        result.read += rows.num_rows - (pc.sum(blank).as_py() or 0)
        _refuse(pc.and_not(bad, blank), reasons, piece, path, skipped, result)
        if good.num_rows:
            there = land(pa.Table.from_batches([good]))
            _note_span(good, result)
            result.landed += good.num_rows - there
            result.there += there
        progress(result.read)
    units.require(path)
    for line, text in skipped.lines:
        result.read += 1
        result.refuse(Reject(line, "has more or fewer values than the header has names", text))
    result.rejects.sort(key=lambda reject: reject.line)


def checked_rows(
    table: Table, raw: pa.RecordBatch, node: str | None, clock: Clock
) -> tuple[pa.RecordBatch, Mask, list[tuple[str, Mask]]]:
    """Return the rows in the contract's columns, which of them are bad, and for each reason the rows it holds for."""
    arrays, reasons = [], []
    for column in table.columns:
        if column.name in raw.schema.names:
            converted = convert(column, raw.column(column.name))
            arrays.append(converted.values)
            if converted.bad is not None:
                reasons.append((f"{table.name}.{column.name} is {converted.says}", converted.bad))
        else:
            value = node if column.name == "node" else None
            arrays.append(pa.repeat(pa.scalar(value, arrow_schema(table).field(column.name).type), raw.num_rows))
    nullable = pa.schema([one.with_nullable(True) for one in arrow_schema(table)])
    rows = pa.record_batch(arrays, schema=nullable)
    reasons += [(f"{table.name}.{rule.column}: {rule.says}", mask) for rule, mask in faults(table, rows, clock)]
    return rows, any_of((mask for _, mask in reasons), raw.num_rows), reasons


def _blank(raw: pa.RecordBatch) -> Mask:
    """Mark rows without any value, which is how an empty line reads."""
    blank = pc.is_null(raw.column(0))
    for index in range(1, raw.num_columns):
        if not pc.any(blank).as_py():
            break
        blank = pc.and_(blank, pc.is_null(raw.column(index)))
    return blank


def _refuse(
    bad: Mask, reasons: list[tuple[str, Mask]], piece: Piece, path: Path, skipped: Skipped, result: Imported
) -> None:
    """Name the bad rows one by one, each with its first reason; there are few, or few are named."""
    for row in pc.indices_nonzero(bad).to_pylist():
        if len(result.rejects) >= _MAX_NAMED:
            result.rejected += 1
            continue
        reason = next(says for says, mask in reasons if mask[row].as_py())
        line = skipped.line_of(piece.first_row + row) if ".csv" in path.suffixes else piece.first_row + row + 1
        result.refuse(Reject(line, reason, _raw(piece.rows, row)))


def _raw(rows: pa.RecordBatch, row: int) -> str:
    out = io.StringIO()
    values = [column[row].as_py() for column in rows.columns]
    csv.writer(out, lineterminator="").writerow("" if value is None else value for value in values)
    return out.getvalue()


def _note_span(rows: pa.RecordBatch, result: Imported) -> None:
    if not {"owned_from", "started_at"} & set(rows.schema.names):
        return  # names have no times
    starts, ends = ("owned_from", "owned_until") if "owned_from" in rows.schema.names else ("started_at", "ended_at")
    first = pc.min(rows.column(starts)).as_py()
    last = pc.max(rows.column(ends)).as_py()
    result.first = min((value for value in (result.first, first) if value is not None), default=None)
    result.last = max((value for value in (result.last, last) if value is not None), default=None)
