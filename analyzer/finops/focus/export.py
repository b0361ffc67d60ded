"""Export a period of the ledger: as FOCUS, held to the ledger before it is kept, or as rows for a spreadsheet.

One pass, a day at a time, as CSV or Parquet: into a file beside it, which takes its name only once it is whole.
"""

import csv
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.focus.charges import (
    Charge,
    Settled,
    adjusted_days,
    adjustments,
    charges,
    days,
    hours_in,
    place_hosts,
    places,
    statuses,
)
from analyzer.finops.focus.columns import CURRENCY_DIGITS, DECIMALS, Column, Issuer, columns
from analyzer.finops.focus.rows import (
    MILLIONTHS,
    FocusRow,
    RowContext,
    Value,
    adjustment_row,
    hours_of,
    scaled,
    usage_rows,
)
from analyzer.period import Period, local
from analyzer.queries.ledger_query import ledger_sums
from analyzer.queries.statements import booked
from analyzer.states import booking
from analyzer.text.table import decimal_digits, safe_cell
from collector.store.session import Session

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


_HOURS_AT_ONCE = 24


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported, how fine and as what. `leave_out_unpriced` leaves out GPU time that has no price.

    `energy` adds what the GPUs drew.
    """

    issuer: Issuer
    period: Period
    hourly: bool = False
    form: FileFormat = "csv"
    leave_out_unpriced: bool = False
    energy: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: rows, the bill and its corrections in millionths, and GPU time left out for want of a price."""

    rows: int
    cost_micros: int
    adjusted_micros: int
    unpriced_ms: int
    hours_known: int
    status: str | None


def export_focus(session: Session, asked: ExportOptions, path: Path) -> Exported:
    """Write the file and return what it says. Either it is whole and sums to the ledger, or it is not there.

    Raises:
        LedgerError: the period has no hour in the ledger, or GPU time without a price that was not to be left out.
        ConfigError: the file cannot be written.
    """
    with session.transaction():  # one state of the ledger from the first day to the last
        known = statuses(session, asked.period)
        if not known.by_hour:
            raise LedgerError(
                f"the ledger has no hour of {asked.period.label}; gpuledger admin analyze books what is there"
            )
        cost, unpriced = _totals(session, asked.period)
        if unpriced and not asked.leave_out_unpriced:
            raise LedgerError(
                f"{hours_of(unpriced):,.1f} GPU-hours have no price, and a bill needs one of each: gpuledger bill "
                "prices "
                "check names them; --leave-out-unpriced exports the others"
            )
        tally = _Tally()
        rows = tally.watched(_rows(session, asked, known))
        count = write(path, columns(asked.issuer.version), rows, asked.form, tally.holds_to(cost))
    status = known.least(asked.period.start, asked.period.end)
    return Exported(count, cost, tally.adjusted_micros, unpriced, len(known.by_hour), status)


def _totals(session: Session, period: Period) -> tuple[int, int]:
    (every,) = ledger_sums(session, period=period)
    return every.cost_micros or 0, every.unpriced_milliseconds


def _rows(session: Session, asked: ExportOptions, known: Settled) -> Iterator[FocusRow]:
    place_hosts(session, asked.period)
    for spans in _spans(asked):
        booked_spans = [(*span, status) for span in spans if (status := known.least(*span)) is not None]
        if not booked_spans:
            continue
        (first, until), last = spans[0], spans[-1][1]
        of_span: dict[int, list[Charge]] = {start: [] for start, _ in spans}
        for charge in charges(session, first, last, energy=asked.energy, each_us=until - first):
            if charge.unit_micros is not None:
                of_span[charge.start].append(charge)
        for start, end, status in booked_spans:
            yield from usage_rows(of_span[start], RowContext(asked.issuer, places(session, start, end), status))
    for start, end in adjusted_days(session, asked.period):
        for (begins, ends), of_hour in groupby(adjustments(session, start, end), lambda one: (one.start, one.end)):
            around = RowContext(asked.issuer, places(session, begins, ends), None)
            yield from (adjustment_row(charge, around) for charge in of_hour if charge.cost_micros is not None)


def _spans(asked: ExportOptions) -> Iterator[list[tuple[int, int]]]:
    """Yield the charge periods that are asked of the ledger at once: a day's hours, or a day."""
    if not asked.hourly:
        yield from ([day] for day in days(asked.period))
        return
    hours = list(hours_in(asked.period))
    yield from (hours[n : n + _HOURS_AT_ONCE] for n in range(0, len(hours), _HOURS_AT_ONCE))


def _amount(row: FocusRow, name: str) -> Decimal:
    value = row[name]
    if not isinstance(value, Decimal):
        raise TypeError(f"BUG: {name} is {value!r}")
    return value


@dataclass(slots=True)
class _Tally:
    """Sums what passes by, in millionths, so that a bill that is not the ledger's is never kept."""

    effective: Decimal = Decimal(0)
    billed: Decimal = Decimal(0)
    adjusted: Decimal = Decimal(0)

    @property
    def adjusted_micros(self) -> int:
        return int(self.adjusted.scaleb(MILLIONTHS))

    def watched(self, rows: Iterator[FocusRow]) -> Iterator[FocusRow]:
        for row in rows:
            cost, billed = _amount(row, "EffectiveCost"), _amount(row, "BilledCost")
            if row["ChargeCategory"] == "Adjustment":
                self.adjusted += cost
            else:
                self.effective += cost
                self.billed += billed
            yield row

    def holds_to(self, cost_micros: int) -> Callable[[], None]:
        """Return what is asked once all rows are written, before the file gets its name."""

        def check() -> None:
            ledger = scaled(cost_micros, MILLIONTHS)
            if (self.effective, self.billed) != (ledger, ledger):
                raise LedgerError(f"BUG: the bill is {self.effective} and {self.billed} billed, the ledger {ledger}")

        return check


COLUMNS: tuple[Column, ...] = (
    Column("day", "text", False, "the site's day"),
    Column("holder", "text", False, "team, unmapped (a run of no known team) or nobody"),
    Column("team", "text", True, "the team"),
    Column("cost_centre", "text", True, "its cost centre"),
    Column("project", "text", True, "the run's project"),
    Column("run_id", "text", True, "the run that held"),
    Column("run_name", "text", True, "its name"),
    Column("stage", "text", True, "the kind of work"),
    Column("sku", "text", True, "the GPU kind"),
    Column("purchase_option", "text", True, "on_demand, reserved, spot or owned"),
    Column("class", "text", False, "useful, avoidable, overhead, spare or unknown"),
    Column("state", "text", False, "the ledger's state"),
    Column("cause", "text", True, "its cause"),
    Column("gpu_milliseconds", "decimal", False, "GPU time, exactly"),
    Column("gpu_hours", "decimal", False, "the same, rounded down to a billionth"),
    Column("cost", "decimal", True, "to the millionth; empty where no price is known"),
    Column("currency", "text", False, "the ledger's"),
    Column("status", "text", True, "provisional, open, closed or final: the day's least settled hour's"),
    Column("model", "text", True, "the model that the run is of"),
)
_WORDS = (
    "run_id", "run_name", "team", "cost_centre", "project", "stage", "model", "sku", "purchase_option", "state",
    "cause",
)  # fmt: skip
_ROWS = f"""
SELECT l.run_id, l.name, l.team, l.cost_centre, l.project, l.stage, l.model, l.sku, l.purchase_option, l.state, l.cause,
    sum(l.milliseconds), sum(l.cost_micros), l.cost_micros IS NULL AS unpriced
FROM {booked("ledger")} l WHERE l.hour >= $start AND l.hour < $end
GROUP BY ALL
ORDER BY l.team NULLS LAST, l.run_id NULLS LAST, l.sku, l.purchase_option, l.state, l.cause, unpriced
"""


def export_csv(session: Session, period: Period, currency: str, path: Path) -> int:
    """Write the file and return how many rows it has; their time and cost sum to the ledger's of the period.

    Raises:
        LedgerError: the ledger has no hour of the period.
        ConfigError: the file cannot be written.
    """
    with session.transaction():
        known = statuses(session, period)
        if not known.by_hour:
            raise LedgerError(f"the ledger has no hour of {period.label}; gpuledger admin analyze books what is there")
        return write(path, COLUMNS, _day_rows(session, period, currency, known), "csv", lambda: None)


def _day_rows(session: Session, period: Period, currency: str, known: Settled) -> Iterator[FocusRow]:
    for start, end in days(period):
        day = f"{local(start, period.timezone).date()}"
        status = known.least(start, end)
        if status is not None:
            for row in session.rows(_ROWS, {"start": start, "end": end}):
                yield {"day": day, "currency": currency, "status": status, **_row(row)}


def _row(row: tuple[Any, ...]) -> FocusRow:
    *words, milliseconds, cost, _ = row
    known = dict(zip(_WORDS, words, strict=True))
    known["holder"] = "nobody" if known["run_id"] is None else "unmapped" if known["team"] is None else "team"
    known["class"] = booking(known["state"], known["cause"]).klass
    amounts: FocusRow = {"gpu_milliseconds": Decimal(milliseconds), "gpu_hours": hours_of(milliseconds)}
    if cost is not None:
        amounts["cost"] = scaled(cost, MILLIONTHS)
    return {name: str(value) for name, value in known.items() if value is not None} | amounts
