"""Write rows of FOCUS as CSV or Parquet: into a file beside it, which takes its name only once it is whole."""

import csv
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.focus.columns import CURRENCY_DIGITS, DECIMALS, Column
from analyzer.finops.focus.rows import FocusRow, Value
from analyzer.text.table import decimal_digits, safe_cell

FileFormat = Literal["csv", "parquet"]
_BATCH_ROWS = 20_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES = {
    "text": pa.string(),
    "json": pa.string(),
    "decimal": pa.decimal128(CURRENCY_DIGITS, DECIMALS),
    "time": pa.timestamp("us", "UTC"),
}


def write(
    path: Path, columns: Sequence[Column], rows: Iterable[FocusRow], form: FileFormat, check: Callable[[], object]
) -> int:
    """Write the file, and return how many rows it has. Where anything fails, there is no file, or still the old one.

    `check` is called once all rows are written; what it raises undoes the file.

    Raises:
        ConfigError: it cannot be written there.
    """
    with _whole(path) as beside:
        count = _write_csv(beside, columns, rows) if form == "csv" else _write_parquet(beside, columns, rows)
        check()
        return count


@lru_cache(maxsize=1024)
def _moment_text(instant: int) -> str:
    """Return microseconds UTC as FOCUS writes a time: 2026-11-01T00:00:00Z."""
    return f"{_EPOCH + timedelta(microseconds=instant):%Y-%m-%dT%H:%M:%SZ}"


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    # A name that nobody can know before, and no link is followed: the folder may be one that others write in too.
    beside = path.with_name(f".gpuledger-{secrets.token_hex(8)}")
    try:
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield beside
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _write_csv(path: Path, columns: Sequence[Column], rows: Iterable[FocusRow]) -> int:
    count = 0
    names = [column.name for column in columns]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            writer.writerow([_cell(value) for value in map(row.get, names)])
            count += 1
    return count


def _cell(value: Value | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return safe_cell(value)
    return _moment_text(value) if isinstance(value, int) else decimal_digits(value)


def _write_parquet(path: Path, columns: Sequence[Column], rows: Iterable[FocusRow]) -> int:
    schema = pa.schema([pa.field(column.name, _TYPES[column.kind], nullable=column.nullable) for column in columns])
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in _batches(rows):
            try:
                arrays = [pa.array([row.get(name) for row in batch], schema.field(name).type) for name in schema.names]
            except pa.ArrowInvalid as error:
                raise LedgerError(f"an amount is too large for a FOCUS file: {error}") from error
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(batch)
    return count


def _batches(rows: Iterable[FocusRow]) -> Iterator[list[FocusRow]]:
    batch: list[FocusRow] = []
    for row in rows:
        batch.append(row)
        if len(batch) >= _BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch
