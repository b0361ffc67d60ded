"""Import one file: all its good rows in one transaction with a receipt, its bad ones counted and named."""

import csv
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from agent.wire.contract import Table
from collector.importing.columns import convert
from collector.importing.files import Piece, Skipped, column_names, file_hash, pieces
from collector.importing.tables import require_keys, table_of
from collector.pipeline.chunked_import import chunked_import
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.range_checks import Clock, Mask, any_of, faults, pc

if TYPE_CHECKING:
    from collector.store.database import Store

_MAX_NAMED = 100_000  # rejected rows that are named; further ones are counted


@dataclass(frozen=True, slots=True)
class Reject:
    """One row that was not taken: its line (or row, from 1, where a file has no lines), why, and what it said."""

    line: int
    reason: str
    raw: str


@dataclass(slots=True)
class Imported:
    """What became of one file. Times are the first start and the last end that landed, microseconds UTC."""

    path: Path
    table: str
    read: int = 0
    landed: int = 0
    rejected: int = 0
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


def import_file(store: "Store | None", path: Path, table: str | None = None, node: str | None = None) -> Imported:
    """Land the good rows of a file, once; without a store nothing is written and the rest is the same.

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
            _read(path, found, node, result, land)
    return result


@contextmanager
def _sink(
    store: "Store | None", path: Path, table: Table, result: Imported
) -> Iterator[Callable[[pa.Table], None] | None]:
    """Yield what takes the rows, or None where the store has this file already."""
    if store is None:
        yield lambda _: None
        return
    digest = file_hash(path)
    stream = f"import:{digest}:{table.name}"
    with chunked_import(store, agent=f"import:{path.name}", stream=stream, body_hash=digest) as taking:
        result.repeated = taking is None
        yield None if taking is None else lambda rows: taking.add(table.name, rows)


def _read(path: Path, table: Table, node: str | None, result: Imported, land: Callable[[pa.Table], None]) -> None:
    now = time.time_ns() // 1000
    skipped = Skipped()
    for piece in pieces(path, skipped):
        rows, bad, reasons = checked_rows(table, piece.rows, node, Clock(now, now))
        blank = _blank(piece.rows)
        good = rows.filter(pc.invert(pc.or_(bad, blank)))
        result.read += rows.num_rows - (pc.sum(blank).as_py() or 0)
        _refuse(pc.and_not(bad, blank), reasons, piece, path, skipped, result)
        if good.num_rows:
            land(pa.Table.from_batches([good]))
            _note_span(good, result)
        result.landed += good.num_rows
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
