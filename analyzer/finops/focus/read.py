"""Read FOCUS files of others, CSV (gzipped or not) or Parquet, line by line: exact decimals, bounded memory.

Versions 1.0 to 1.4 are read alike: of the columns that they share, those that a reconciliation needs. A provider's own
columns (x_…) and unknown ones are passed over. What exporters and query engines do to a file is undone here, once:
marks of byte order, folded names of columns, words for null, blank lines, a header that comes again, times without
zone (UTC, as FOCUS has no other), maps and structs. What would have to be guessed is refused by line and column.
"""

import csv
import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from agent.wire.bounded import json_said
from agent.wire.units import DAY_US
from analyzer.errors import ConfigError
from analyzer.period import micros
from analyzer.settings.bounded import BoundedLines

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
)  # fmt: skip
_TEXTS = ("BillingCurrency", "ChargeCategory", *_PROVIDERS, *_OPTIONAL_TEXTS)
_CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
# Bills in a provider's own form, by a column that no FOCUS file has, and where the provider has the other.
_NATIVE = {
    "lineItem/UsageStartDate": "an AWS Cost and Usage Report; export FOCUS 1.2 with AWS columns by Data Exports",
    "lineItem/intervalUsageStart": "an OCI cost report; take the file of the folder FOCUS Reports",
    "meterCategory": "Azure's cost details; create the export as 'Cost and usage details (FOCUS)'",
    "usage_start_time": "Google Cloud's billing export; query its FOCUS view of BigQuery",
}
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_NULLS = frozenset({"", "null", "(null)", "\\n", "none", "nan", "nat", "n/a", "<na>"})
_LONGEST_NULL = max(map(len, _NULLS))
_MAX_DIGITS = 38  # of a decimal, as in the widest column types of data warehouses
_MAX_LETTERS = 20_000
_LONGEST_US = 3_660 * DAY_US  # of a charge, ten years: longer ones are "for ever", and have no part of a day
_ROWS_MOST = 200_000_000  # of a file: a gzip of a few megabytes can stand for more lines than anybody waits for
_BATCH_ROWS, _DIGEST_BYTES = 5_000, 1 << 20
_PARQUET_MAGIC, _GZIP_MAGIC, _ZIP_MAGIC = b"PAR1", b"\x1f\x8b", b"PK\x03\x04"
_BYTE_ORDER_MARK = "\ufeff"
_OWN_COLUMN = "x_GpuMilliseconds"

_Cells = Mapping[str, object]


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
        for number, cells in _rows(path):
            yield _line(path, number, cells)


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
            with _csv_rows(path) as rows:
                names = next(rows, (0, []))[1]
    return _folded(_OWN_COLUMN) in map(_folded, names)


def digest_of(*paths: Path) -> str:
    """Return a digest of the content of the files of one bill, one after the other.

    Raises:
        ConfigError: one cannot be read.
    """
    found = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as file:
                while part := file.read(_DIGEST_BYTES):
                    found.update(part)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    return found.hexdigest()


def _rows(path: Path) -> Iterator[tuple[int, _Cells]]:
    with _renamed(path):
        yield from (_cells_of_parquet if _magic(path) == _PARQUET_MAGIC else _cells_of_csv)(path)


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
        raise ConfigError(f"{path} is neither CSV in UTF-8 nor Parquet; name the bill's own file") from error
    except (pa.ArrowException, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == _ZIP_MAGIC:
        raise ConfigError(f"{path} is a ZIP archive; unpack it, and name the files of the bill in it")
    return magic


@contextmanager
def _csv_rows(path: Path) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Give the rows that are not blank, each with the number of its line."""
    with path.open("rb") as raw:
        packed = raw.peek(2)[:2] == _GZIP_MAGIC
        stream = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if packed else raw
        with TextIOWrapper(stream, encoding="utf-8", newline="") as file:
            yield _rows_of_text(path, file)


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


def _cells_of_csv(path: Path) -> Iterator[tuple[int, _Cells]]:
    with _csv_rows(path) as rows:
        _, header = next(rows, (0, []))
        if header and header[0].casefold().startswith("sep="):  # a spreadsheet's own line, before the names
            _, header = next(rows, (0, []))
        places = [(name, place) for place, name in _checked(path, header)]
        for number, row in rows:
            if row == header:  # files were joined
                continue
            if len(row) < len(header) or any(row[len(header) :]):
                raise ConfigError(f"{path}, line {number}: {len(row)} cells, and the header has {len(header)}")
            yield number, {name: row[place] for name, place in places}


def _cells_of_parquet(path: Path) -> Iterator[tuple[int, _Cells]]:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        wanted = [(name, names[place]) for place, name in _checked(path, names)]
        number = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=[own for _, own in wanted]):
            for cells in batch.to_pylist():
                number += 1
                yield number, {name: cells[own] for name, own in wanted}


def _folded(name: str) -> str:
    """Return a name as query engines fold it: BilledCost, billedcost and billed_cost are one column."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _checked(path: Path, header: Sequence[str]) -> list[tuple[int, str]]:
    """Return where the columns are that are read: the place in the file, and the name in FOCUS.

    Raises:
        ConfigError: it is no FOCUS file; what it is instead is said where it can be told.
    """
    names = [_folded(name) for name in header]
    missing = [name for name in NEEDED if _folded(name) not in names]
    if not any(_folded(name) in names for name in _PROVIDERS):
        missing.append(f"{_PROVIDERS[0]} (or {_PROVIDERS[1]})")
    if missing:
        raise ConfigError(_no_focus(path, header, missing))
    wanted = [name for name in (*NEEDED, *_PROVIDERS, *_OPTIONAL) if _folded(name) in names]
    if twice := [name for name in wanted if names.count(_folded(name)) > 1]:
        raise ConfigError(f"{path} has the column {twice[0]} more than once")
    return [(names.index(_folded(name)), name) for name in wanted]


def _no_focus(path: Path, header: Sequence[str], missing: Sequence[str]) -> str:
    if len(header) == 1:
        for separator, what in _SEPARATORS.items():
            if separator in header[0]:
                return (
                    f"{path}, line 1: columns are separated by {what}; export it with commas, and decimals with points"
                )
    names = {_folded(name): name for name in header}
    for column, what in _NATIVE.items():
        if (own := names.get(_folded(column))) is not None:
            return f"{path}, line 1: the column {own} is of no FOCUS file: this is {what}"
    return f"{path} is not a FOCUS file of 1.0 to 1.4: it lacks {', '.join(missing)}"


_UTC, _ZONE = re.compile(r"\s*UTC$"), re.compile(r"\s*([+-]\d\d:?\d\d)Z?$")  # 00:00:00 UTC, and Go's 00:00:00 +0000 UTC


@lru_cache(maxsize=4096)
def _moment(text: str) -> datetime:
    return datetime.fromisoformat(_ZONE.sub(r"\1", _UTC.sub("Z", text.strip())))


def _text(value: object) -> str | None:
    """Return a text, or None where it is empty or a word for null; FOCUS has no empty texts."""
    text = str(value).strip()
    return None if len(text) <= _LONGEST_NULL and text.casefold() in _NULLS else text


def _digits(amount: Decimal, text: str) -> int:
    """Return how many digits count, without zeros at the end: engines print a scale of 40 in full."""
    return 0 if len(text) <= _MAX_DIGITS else len("".join(map(str, amount.as_tuple().digits)).rstrip("0"))


@dataclass(frozen=True, slots=True)
class _Cell:
    """Reads the cells of one line, and names line and column where one is wrong."""

    path: Path
    number: int
    cells: _Cells

    def wrong(self, name: str, why: str) -> ConfigError:
        """Return the error of one cell."""
        shown = str(self.cells.get(name))[:60]
        return ConfigError(f"{self.path}, line {self.number}: {name} is {shown!r}: {why}")

    def amount(self, name: str) -> Decimal | None:
        """Return a decimal exactly as written. A binary float of a Parquet file is its shortest decimal."""
        text = _text(self.cells.get(name))
        if text is None:
            return None
        try:
            found = Decimal(text)
        except InvalidOperation as error:
            comma = ", it has a comma; export decimals with points" if "," in text else ""
            raise self.wrong(name, f"not a decimal number{comma}") from error
        if found.is_finite() and found.adjusted() < -_MAX_DIGITS:  # 0E-40, or the noise of a binary float
            return Decimal(0)
        if not found.is_finite() or found.adjusted() > _MAX_DIGITS or _digits(found, text) > _MAX_DIGITS:
            raise self.wrong(name, "not a decimal number of up to 38 digits")
        return found

    def needed(self, name: str) -> Decimal:
        """Return a decimal that must be there."""
        found = self.amount(name)
        if found is None:
            raise self.wrong(name, "it must not be null")
        return found

    def time(self, name: str) -> datetime:
        """Return a time; without tzinfo where the file says no zone."""
        value = self.cells.get(name)
        try:
            return value if isinstance(value, datetime) else _moment(str(value))
        except ValueError as error:
            raise self.wrong(name, "not a time such as 2026-11-01T00:00:00Z") from error


def _line(path: Path, number: int, cells: _Cells) -> BillLine:
    cell = _Cell(path, number, cells)
    texts = {name: text for name in _TEXTS if (text := _text(cells.get(name))) is not None}
    category = texts.get("ChargeCategory", "").capitalize()
    if category not in _CATEGORIES:
        raise cell.wrong("ChargeCategory", f"it is one of {', '.join(_CATEGORIES)}")
    currency = texts.get("BillingCurrency")
    if currency is None or not (len(currency) == 3 and currency.isascii() and currency.isupper()):
        raise cell.wrong("BillingCurrency", "not an ISO 4217 code such as USD")
    times = cell.time("ChargePeriodStart"), cell.time("ChargePeriodEnd")
    start, end = (micros(each if each.tzinfo else each.replace(tzinfo=UTC)) for each in times)
    if end <= start:
        raise cell.wrong("ChargePeriodEnd", "it is not after ChargePeriodStart")
    if end - start > _LONGEST_US:
        raise cell.wrong("ChargePeriodEnd", "the charge would last more than ten years")
    details = _details(cells.get("SkuPriceDetails"))
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
        quantity=cell.amount("PricingQuantity"),
        unit=texts.get("PricingUnit"),
        consumed_quantity=cell.amount("ConsumedQuantity"),
        consumed_unit=texts.get("ConsumedUnit"),
        pricing_category=texts.get("PricingCategory"),
        region=texts.get("RegionId"),
        resource=texts.get("ResourceId"),
        gpu_count=_count(details.get("gpucount")),
        instance_type=_named(details.get("instancetype")),
        texts=texts,
    )


_PAIR = re.compile(r"(\w+)\s*=\s*([^,{}]*)")  # Hive's and Athena's way to print a map: {InstanceType=p5.48xlarge}


def _details(value: object) -> Mapping[str, object]:
    """Return what a cell of keys and values holds, by folded keys; empty where there is none: it only helps to name.

    JSON, or a map or a struct of Parquet.
    """
    if isinstance(value, str) and len(value) <= _MAX_LETTERS:
        try:
            found = json_said(value)
        except ValueError:
            found = _PAIR.findall(value)
    else:
        found = value
    if isinstance(found, list):  # a map's pairs, or BigQuery's records of key and value
        pairs = [tuple(each.values()) if isinstance(each, dict) else each for each in found]
        found = dict(each for each in pairs if isinstance(each, tuple) and len(each) == len(("key", "value")))
    return {_folded(str(key)): one for key, one in found.items()} if isinstance(found, dict) else {}


def _named(value: object) -> str | None:
    return value.strip() if isinstance(value, str) else None


def _count(value: object) -> int | None:
    """Return a whole number above 0, also where it is written as a text: maps have one type of values."""
    text = str(value).removesuffix(".0")
    return int(text) if text.isdecimal() and 0 < len(text) <= 4 and int(text) > 0 else None
