"""Read bills, CSV or lines of JSON (gzipped or not) or Parquet, line by line: exact decimals, bounded memory.

FOCUS 1.0 to 1.4 are read alike: of the columns that they share, those that a reconciliation needs. A provider's own
columns (x_…, but the name of Microsoft's meter) and unknown ones are passed over; a bill in a provider's own form
becomes FOCUS by forms.py. What exporters and query engines do to a file is undone here, once: marks of byte order,
folded names of columns, words for null, blank lines, a header that comes again, times without zone (UTC, as FOCUS has
no other), maps and structs. What would have to be guessed is refused by line and column.
"""

import csv
import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from agent.wire.units import DAY_US
from analyzer.errors import ConfigError
from analyzer.finops.focus.forms import FORMS, BillForm, Cells, details_of, flat, folded, text_of
from analyzer.period import micros
from analyzer.settings.bounded import BoundedLines, strict_json
from analyzer.text.words import some

NEEDED = (
    "BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodEnd", "ChargePeriodStart", "EffectiveCost",
)  # fmt: skip
# Who sells: ProviderName until 1.2, ServiceProviderName from 1.3 on.
_PROVIDERS = ("ServiceProviderName", "ProviderName")
# Of the columns that may be missing: texts, then others.
_OPTIONAL_TEXTS = (
    "ChargeClass", "ChargeDescription", "CommitmentDiscountStatus", "ConsumedUnit", "PricingCategory", "PricingUnit",
    "RegionId", "ResourceId", "ServiceCategory", "ServiceName", "SkuId", "SkuMeter", "SkuPriceId",
)  # fmt: skip
_OPTIONAL = (
    *_OPTIONAL_TEXTS, "ConsumedQuantity", "ContractedCost", "ContractedUnitPrice", "PricingQuantity", "SkuPriceDetails",
    "x_SkuMeterName",
)  # fmt: skip
_FOCUS_COLUMNS = (*NEEDED, *_PROVIDERS, *_OPTIONAL)
_TEXTS = ("BillingCurrency", "ChargeCategory", *_PROVIDERS, *_OPTIONAL_TEXTS)
_CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
# Resources that stand for many machines, so that their hours have no bound.
_OF_MANY = re.compile(
    r"virtualMachineScaleSets/|capacity-?reservation|reserved-?instances/|reservationOrders/", re.IGNORECASE
)
_LONGEST_US = 3_660 * DAY_US  # of a charge, ten years: longer ones are "for ever", and have no part of a day
_ROWS_MOST = 200_000_000  # of a file: a gzip of a few megabytes can stand for more lines than anybody waits for
_BATCH_ROWS, _DIGEST_BYTES, _PEEKED, _UTF8_MOST, _SHOWN = 5_000, 1 << 20, 64, 4, 120
_PARQUET_MAGIC, _GZIP_MAGIC, _ZIP_MAGIC = b"PAR1", b"\x1f\x8b", b"PK\x03\x04"
_BYTE_ORDER_MARK = "\ufeff"
_OWN_COLUMN = "x_GpuMilliseconds"


@dataclass(frozen=True, slots=True)
class BillLine:
    """One charge of a bill. Times are microseconds UTC; what the file does not say is None."""

    provider: str | None
    category: str
    correction: bool
    currency: str
    start: int
    end: int
    has_zone: bool  # False where UTC was assumed
    billed: Decimal
    effective: Decimal
    contracted: Decimal | None
    unit_price: Decimal | None
    quantity: Decimal | None
    unit: str | None
    consumed_quantity: Decimal | None
    consumed_unit: str | None
    pricing_category: str | None
    region: str | None
    resource: str | None
    gpu_count: int | None
    instance_type: str | None
    texts: Mapping[str, str]  # by column, as far as they are there


def read_focus(*paths: Path) -> Iterator[BillLine]:
    """Yield the lines of the files of one bill in their order, never holding more than a batch of them.

    Raises:
        ConfigError: a file cannot be read, is no FOCUS, or a line of it is wrong; it names the line and the column.
    """
    for path in paths:
        with _renamed(path):
            for form, cells in (_cells_of_parquet if _magic(path) == _PARQUET_MAGIC else _cells_of_text)(path):
                yield from map(_line, form.as_focus(cells) if form is not None else (cells,))


def is_own(path: Path) -> bool:
    """Say whether a file is an export of gpuledger: that is the ledger itself, and no invoice.

    Raises:
        ConfigError: it cannot be read as CSV or Parquet.
    """
    with _renamed(path):
        if _magic(path) == _PARQUET_MAGIC:
            with pq.ParquetFile(path) as parquet:
                names = parquet.schema_arrow.names
        else:
            with _text(path) as (file, is_json):
                names = [] if is_json else next(_rows_of_text(path, file), (0, []))[1]
    return folded(_OWN_COLUMN) in map(folded, names)


def digest_of(*paths: Path) -> str:
    """Return a digest of the content of the files of one bill, one after the other, unpacked where they are gzipped.

    Raises:
        ConfigError: one cannot be read.
    """
    found = hashlib.sha256()
    for path in paths:
        with _renamed(path), path.open("rb") as raw:
            file = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == _GZIP_MAGIC else raw
            while part := file.read(_DIGEST_BYTES):
                found.update(part)
    return found.hexdigest()


@contextmanager
def _renamed(path: Path) -> Iterator[None]:
    """Raise what libraries say of a file as our own error."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"{path} is a gzip file that is damaged or cut off; fetch it again") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is neither text in UTF-8 nor Parquet; export it as CSV in UTF-8") from error
    except (pa.ArrowException, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == _ZIP_MAGIC:
        raise ConfigError(
            f"{path} is a ZIP archive or a workbook; unpack it or save its sheet as CSV, and name the files of the bill"
        )
    return magic


@contextmanager
def _text(path: Path) -> Iterator[tuple[TextIOWrapper, bool]]:
    """Open a file of text, gzipped or not, and say whether it is lines of JSON."""
    with path.open("rb") as raw:
        packed = raw.peek(2)[:2] == _GZIP_MAGIC
        stream = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if packed else raw
        with TextIOWrapper(stream, encoding="utf-8", newline="") as file:
            first = file.read(_PEEKED).lstrip(_BYTE_ORDER_MARK).lstrip()[:1]
            if first == "[":
                raise ConfigError(f"{path} is a list of JSON; export it as newline-delimited JSON, Parquet or CSV")
            file.seek(0)
            yield file, first == "{"


def _rows_of_text(path: Path, file: TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    lines = BoundedLines(path, file)
    reader = csv.reader((line.replace(_BYTE_ORDER_MARK, "") for line in lines), strict=True)
    try:
        for row in reader:
            lines.next_row()
            if reader.line_num > _ROWS_MOST:
                raise ConfigError(f"{path} has more than {_ROWS_MOST:,} lines; divide it by days")
            if any(map(str.strip, row)):
                yield reader.line_num, row
    except csv.Error as error:
        raise ConfigError(f"{path}, line {reader.line_num}: not valid CSV: {error}") from error


_Line = tuple[BillForm | None, Cells]


def _cells_of_text(path: Path) -> Iterator[_Line]:
    with _text(path) as (file, is_json):
        yield from (_cells_of_json if is_json else _cells_of_csv)(path, file)


def _cells_of_csv(path: Path, file: TextIOWrapper) -> Iterator[_Line]:
    rows = _rows_of_text(path, file)
    _, header = next(rows, (0, []))
    if header and header[0].casefold().startswith("sep="):  # a spreadsheet's own line, before the names
        _, header = next(rows, (0, []))
    form, places = _checked(path, header)
    names = _own_names(form, header, places)
    for number, row in rows:
        if row == header:  # files were joined
            continue
        if len(row) < len(header) or any(row[len(header) :]):
            raise ConfigError(f"{path}, line {number}: {len(row)} cells, and the header has {len(header)}")
        yield form, Cells(path, number, {name: row[place] for place, name in places}, names)


def _cells_of_json(path: Path, file: TextIOWrapper) -> Iterator[_Line]:
    """Yield the lines of an export as JSON, as BigQuery writes it: what is null may be left out."""
    lines = BoundedLines(path, file)
    form, wanted = None, dict[str, str]()
    for number, line in enumerate(lines, 1):
        lines.next_row()
        if number > _ROWS_MOST:
            raise ConfigError(f"{path} has more than {_ROWS_MOST:,} lines; divide it by days")
        if not line.strip():
            continue
        try:
            row = strict_json(line.replace(_BYTE_ORDER_MARK, ""), len(line) * _UTF8_MOST, Decimal)
        except ValueError as error:
            raise ConfigError(f"{path}, line {number}: not a line of JSON: {error}") from error
        if not isinstance(row, dict):
            raise ConfigError(f"{path}, line {number}: not an object of JSON, with a name for each value")
        cells = row | flat(row)
        if not wanted:
            form, _ = _checked(path, list(cells), may_lack=True)
            columns = form.columns if form is not None else _FOCUS_COLUMNS
            wanted = {folded(name): name for name in columns}
        found = {wanted[key]: value for name, value in cells.items() if (key := folded(name)) in wanted}
        yield form, Cells(path, number, found, {name: name for name in wanted.values()} if form is not None else {})


def _cells_of_parquet(path: Path) -> Iterator[_Line]:
    with pq.ParquetFile(path) as file:
        names = _parquet_names(file.schema_arrow)
        form, places = _checked(path, names)
        wanted, own = [(names[place], name) for place, name in places], _own_names(form, names, places)
        number = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=[name for name, _ in wanted]):
            for cells in batch.to_pylist():
                number += 1
                yield form, Cells(path, number, {name: _of_struct(cells, at) for at, name in wanted}, own)


def _parquet_names(schema: pa.Schema) -> list[str]:
    """Return the names of columns, and of the fields of those that are structs, after a dot."""
    found = []
    for column in schema:
        found.append(column.name)
        if pa.types.is_struct(column.type):
            found += [f"{column.name}.{part.name}" for part in column.type]
    return found


def _of_struct(cells: Mapping[str, Any], name: str) -> object:
    if name in cells:
        return cells[name]
    before, _, field = name.partition(".")
    return (cells.get(before) or {}).get(field)


def _own_names(form: BillForm | None, header: Sequence[str], places: Sequence[tuple[int, str]]) -> dict[str, str]:
    """Return how the file spells the columns of a provider's form."""
    return {name: header[place] for place, name in places} if form is not None else {}


def _checked(
    path: Path, header: Sequence[str], *, may_lack: bool = False
) -> tuple[BillForm | None, list[tuple[int, str]]]:
    """Return the provider's form (None: FOCUS), and where the columns are that are read, with their names there.

    Raises:
        ConfigError: it is no bill that can be read; what it lacks is said.
    """
    names = [folded(name) for name in header]
    missing = [name for name in NEEDED if folded(name) not in names]
    if not any(folded(name) in names for name in _PROVIDERS):
        missing.append(f"{_PROVIDERS[0]} (or {_PROVIDERS[1]})")
    form = next((one for one in FORMS if folded(one.needed[0]) in names), None) if missing else None
    if form is not None:
        lacks = [name for name in form.needed if folded(name) not in names and not may_lack]
        if lacks:
            raise ConfigError(f"{path}, line 1: this is {form.name}, and it lacks the columns {', '.join(lacks)}")
    elif missing:
        raise ConfigError(_no_focus(path, header, missing))
    columns = form.columns if form is not None else _FOCUS_COLUMNS
    wanted = [name for name in columns if folded(name) in names]
    if twice := [name for name in wanted if names.count(folded(name)) > 1]:
        raise ConfigError(f"{path} has the column {twice[0]} more than once")
    return form, [(names.index(folded(name)), name) for name in wanted]


def _no_focus(path: Path, header: Sequence[str], missing: Sequence[str]) -> str:
    if len(header) == 1:
        for separator, what in _SEPARATORS.items():
            if separator in header[0]:
                return (
                    f"{path}, line 1: columns are separated by {what}; export it with commas, and decimals with points"
                )
    providers = ", ".join(form.name for form in FORMS)
    return (
        f"{path} is not a FOCUS file of 1.0 to 1.4: its first line has {some(list(header))[:_SHOWN]!r}, and it lacks"
        f" {', '.join(missing)}; nor is it {providers}"
    )


def _line(cell: Cells) -> BillLine:
    cells = cell.cells
    texts = {name: text for name in _TEXTS if (text := text_of(cells.get(name))) is not None}
    if (meter := text_of(cells.get("x_SkuMeterName"))) is not None:  # Microsoft's, until FOCUS 1.1
        texts.setdefault("SkuMeter", meter)
    category = texts.get("ChargeCategory", "").capitalize()
    if category not in _CATEGORIES:
        raise cell.wrong("ChargeCategory", f"it is one of {', '.join(_CATEGORIES)}")
    currency = texts.get("BillingCurrency")
    if currency is None or not (len(currency) == 3 and currency.isascii() and currency.isupper()):
        raise cell.wrong("BillingCurrency", "not an ISO 4217 code such as USD")
    times = cell.time("ChargePeriodStart"), cell.time("ChargePeriodEnd")
    start, end = (micros(each if each.tzinfo else each.replace(tzinfo=UTC)) for each in times)
    if end == start and category != "Usage":
        end += 1  # taxes, credits and roundings are of a moment in some exports; they have no hours
    if end <= start:
        raise cell.wrong("ChargePeriodEnd", "it is not after ChargePeriodStart")
    if end - start > _LONGEST_US:
        raise cell.wrong("ChargePeriodEnd", "the charge would last more than ten years")
    details = details_of(cells.get("SkuPriceDetails"))
    priced = cell.amount("PricingQuantity"), texts.get("PricingUnit")
    consumed = cell.amount("ConsumedQuantity"), texts.get("ConsumedUnit")
    quantity, unit = consumed if priced == (None, None) else priced
    return BillLine(
        provider=texts.get("ServiceProviderName") or texts.get("ProviderName"),
        category=category,
        correction=texts.get("ChargeClass", "").casefold() == "correction",
        currency=currency,
        start=start,
        end=end,
        has_zone=all(each.tzinfo for each in times),
        billed=cell.needed("BilledCost"),
        effective=cell.needed("EffectiveCost"),
        contracted=cell.amount("ContractedCost"),
        unit_price=cell.amount("ContractedUnitPrice"),
        quantity=quantity,
        unit=unit,
        consumed_quantity=consumed[0],
        consumed_unit=consumed[1],
        pricing_category=texts.get("PricingCategory"),
        region=texts.get("RegionId"),
        resource=None if _OF_MANY.search(texts.get("ResourceId", "")) else texts.get("ResourceId"),
        gpu_count=_count(details.get("gpucount")),
        instance_type=_named(details.get("instancetype")),
        texts=texts,
    )


def _named(value: object) -> str | None:
    return value.strip() if isinstance(value, str) else None


def _count(value: object) -> int | None:
    """Return a whole number above 0, also where it is written as a text: maps have one type of values."""
    text = str(value).removesuffix(".0")
    return int(text) if text.isdecimal() and 0 < len(text) <= 4 and int(text) > 0 else None
