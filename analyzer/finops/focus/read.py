"""Read FOCUS files of others, CSV or Parquet, line by line: strict, decimals exact, memory bounded.

Versions 1.0 to 1.4 are read alike: of the columns that they share, those that a reconciliation needs. A provider's own
columns (x_…) and unknown ones are passed over.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from agent.wire.bounded import json_said
from analyzer.errors import ConfigError
from analyzer.period import micros
from analyzer.settings.bounded import BoundedLines

_MAX_LETTERS = 20_000


def _json_object(text: str | None) -> dict[str, object]:
    """Return the object that a cell holds; empty where there is none, or it is none: it only helps to name things."""
    if text is None or len(text) > _MAX_LETTERS:
        return {}
    try:
        found = json_said(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


NEEDED = (
    "BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodEnd", "ChargePeriodStart", "EffectiveCost",
)  # fmt: skip
# Who sells: ProviderName until 1.2, ServiceProviderName from 1.3 on.
_PROVIDERS = ("ServiceProviderName", "ProviderName")
_OPTIONAL = (
    "ChargeClass", "ChargeDescription", "CommitmentDiscountStatus", "ConsumedQuantity", "ConsumedUnit",
    "ContractedUnitPrice", "InvoiceId", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit",
    "RegionId", "ResourceId", "ResourceName", "ServiceCategory", "ServiceName", "SkuId", "SkuMeter", "SkuPriceDetails",
    "SkuPriceId",
)  # fmt: skip
_CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
_MAX_DIGITS = 38  # of a decimal, as in the widest column types of data warehouses
_BATCH_ROWS = 5_000
_PARQUET_MAGIC = b"PAR1"
_OWN_COLUMN = "x_GpuMilliseconds"

_Cells = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class BillLine:
    """One charge of a bill. Times are microseconds UTC; what the file does not say is None."""

    number: int
    provider: str | None
    category: str
    correction: bool
    currency: str
    start: int
    end: int
    billed: Decimal
    effective: Decimal
    unit_price: Decimal | None
    quantity: Decimal | None
    unit: str | None
    pricing_category: str | None
    region: str | None
    gpu_count: int | None
    instance_type: str | None
    texts: Mapping[str, str]  # SkuId, SkuMeter, ChargeDescription and the like, as far as they are there


def read_focus(path: Path) -> Iterator[BillLine]:
    """Yield the lines of a file in its order, never holding more than a batch of them.

    Raises:
        ConfigError: the file cannot be read, is no FOCUS, or a line of it is wrong; it names the line and the column.
    """
    try:
        with path.open("rb") as file:
            form = _cells_of_parquet if file.read(4) == _PARQUET_MAGIC else _cells_of_csv
        for number, cells in form(path):
            yield _line(path, number, cells)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error


def is_own(path: Path) -> bool:
    """Say whether a file is an export of gpuledger: that is the ledger itself, and no invoice.

    Raises:
        ConfigError: it cannot be read as CSV or Parquet.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) == _PARQUET_MAGIC:
                with pq.ParquetFile(path) as parquet:
                    return _OWN_COLUMN in parquet.schema_arrow.names
        with path.open(encoding="utf-8-sig", newline="") as text:
            return _OWN_COLUMN in next(csv.reader(BoundedLines(path, text)), [])
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except (pa.ArrowException, csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is neither CSV in UTF-8 nor Parquet; name the bill's own file") from error


def _cells_of_csv(path: Path) -> Iterator[tuple[int, _Cells]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = BoundedLines(path, file)
        reader = csv.reader(lines, strict=True)
        try:
            names = next(reader, [])
            wanted = _checked(path, names)
            places = [(name, names.index(name)) for name in wanted]
            lines.next_row()
            for row in reader:
                lines.next_row()
                if len(row) != len(names):
                    raise ConfigError(
                        f"{path}, line {reader.line_num}: {len(row)} cells, and the header has {len(names)}"
                    )
                yield reader.line_num, {name: row[place] for name, place in places}
        except csv.Error as error:
            raise ConfigError(f"{path}, line {reader.line_num}: not valid CSV: {error}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is neither CSV in UTF-8 nor Parquet; name the bill's own file") from error


def _cells_of_parquet(path: Path) -> Iterator[tuple[int, _Cells]]:
    try:
        with pq.ParquetFile(path) as file:
            wanted = _checked(path, file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches(_BATCH_ROWS, columns=wanted):
                for cells in batch.to_pylist():
                    number += 1
                    yield number, cells
    except (pa.ArrowException, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _checked(path: Path, names: list[str]) -> list[str]:
    missing = [name for name in NEEDED if name not in names]
    if not any(name in names for name in _PROVIDERS):
        missing.append(f"{_PROVIDERS[0]} (or {_PROVIDERS[1]})")
    if missing:
        raise ConfigError(f"{path} is not a FOCUS file of 1.0 to 1.4: it lacks {', '.join(missing)}")
    wanted = [name for name in (*NEEDED, *_PROVIDERS, *_OPTIONAL) if name in names]
    if twice := [name for name in wanted if names.count(name) > 1]:
        raise ConfigError(f"{path} has the column {twice[0]} more than once")
    return wanted


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

    def text(self, name: str) -> str | None:
        """Return a text, or None where it is empty; FOCUS has no empty texts."""
        value = self.cells.get(name)
        return str(value) if value not in (None, "") else None

    def amount(self, name: str) -> Decimal | None:
        """Return a decimal exactly as written. A binary float of a Parquet file is its shortest decimal."""
        value = self.cells.get(name)
        if value is None or value == "":
            return None
        try:
            found = value if isinstance(value, Decimal) else Decimal(str(value).strip())
        except InvalidOperation as error:
            raise self.wrong(name, "not a decimal number") from error
        if not found.is_finite() or abs(found.adjusted()) > _MAX_DIGITS or len(found.as_tuple().digits) > _MAX_DIGITS:
            raise self.wrong(name, "not a decimal number of up to 38 digits")
        return found

    def needed(self, name: str) -> Decimal:
        """Return a decimal that must be there."""
        found = self.amount(name)
        if found is None:
            raise self.wrong(name, "it must not be null")
        return found

    def time(self, name: str) -> int:
        """Return microseconds UTC. A Parquet time without zone is UTC, as FOCUS has no other."""
        value = self.cells.get(name)
        if isinstance(value, datetime):
            return micros(value if value.tzinfo else value.replace(tzinfo=UTC))
        try:
            moment = datetime.fromisoformat(str(value).strip().removesuffix(" UTC") + "Z" * str(value).endswith(" UTC"))
        except ValueError as error:
            raise self.wrong(name, "not a time such as 2026-11-01T00:00:00Z") from error
        if moment.tzinfo is None:
            raise self.wrong(name, "a time needs its zone, such as 2026-11-01T00:00:00Z")
        return micros(moment)


def _line(path: Path, number: int, cells: _Cells) -> BillLine:
    cell = _Cell(path, number, cells)
    category = cell.text("ChargeCategory")
    if category not in _CATEGORIES:
        raise cell.wrong("ChargeCategory", f"it is one of {', '.join(_CATEGORIES)}")
    currency = cell.text("BillingCurrency")
    if currency is None or not (len(currency) == 3 and currency.isascii() and currency.isupper()):
        raise cell.wrong("BillingCurrency", "not an ISO 4217 code such as USD")
    start, end = cell.time("ChargePeriodStart"), cell.time("ChargePeriodEnd")
    if end <= start:
        raise cell.wrong("ChargePeriodEnd", "it is not after ChargePeriodStart")
    details = _json_object(cell.text("SkuPriceDetails"))
    return BillLine(
        number,
        cell.text("ServiceProviderName") or cell.text("ProviderName"),
        category,
        cell.text("ChargeClass") == "Correction",
        currency,
        start,
        end,
        cell.needed("BilledCost"),
        cell.needed("EffectiveCost"),
        cell.amount("ContractedUnitPrice"),
        cell.amount("PricingQuantity"),
        cell.text("PricingUnit"),
        cell.text("PricingCategory"),
        cell.text("RegionId"),
        _count(details.get("GpuCount")),
        _text(details.get("InstanceType")),
        {name: text for name in _OPTIONAL if (text := cell.text(name)) is not None},
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
