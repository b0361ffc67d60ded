"""Read the site's own price file, prices.toml: what this site pays, from when, and who says so.

currency = "USD"                  # the ledger's one currency; the default

[[price]]
sku = "H100-80GB"
purchase_option = "reserved"      # as in the fleet's ownership; "any" for all, unknown included
usd_per_gpu_hour = 2.60           # the key names the currency
from = 2026-01-01                 # UTC midnight, or a time with offset that is a whole UTC hour
until = 2027-04-01                # optional, exclusive
source = "contract 4711"
as_of = 2026-11-01                # when somebody last looked
node_group = "rack-1"             # optional: only there, before the general price

[[list_price]]                    # pay a row of the list prices, named in full
provider = "aws"
region = "us-east-1"
instance_type = "p5.48xlarge"
purchase_option = "on_demand"
from = 2026-07-20
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.pricing.list_prices import ListPrice, list_prices
from analyzer.toml_entry import Entry, read_toml, toml_of

PURCHASE_OPTIONS = ("on_demand", "reserved", "spot", "owned")
ANY = "any"

_KEYS = ("currency", "price", "list_price")
_PRICE_KEYS = ("sku", "purchase_option", "from", "until", "source", "as_of", "node_group")
_LIST_KEYS = ("provider", "region", "instance_type", "purchase_option", "from", "until", "node_group")


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One price of this site over one period. None in `sku`, `purchase_option` or `node_group` means any.

    `starts_at` and `ends_at` are whole UTC hours in microseconds; `as_of` is None where the source has no date.
    """

    sku: str | None
    purchase_option: str | None
    node_group: str | None
    micros_per_gpu_hour: int
    starts_at: int
    ends_at: int | None
    source: str
    as_of: date | None

    def covers(self, at_us: int) -> bool:
        """Say whether the price is in effect at this microsecond."""
        return self.starts_at <= at_us and (self.ends_at is None or at_us < self.ends_at)


def read_price_file(path: Path, lists: Sequence[ListPrice] | None = None) -> tuple[str, list[PriceRow]]:
    """Return the currency and the rows of a price file.

    Raises:
        ConfigError: the file cannot be read, or a row is incomplete, overlaps another or names no list price.
    """
    return _priced(read_toml(path, _KEYS), lists)


def priced(where: str, content: bytes, lists: Sequence[ListPrice] | None = None) -> tuple[str, list[PriceRow]]:
    """Return the same of a price file's content; `where` names it in messages.

    Raises:
        ConfigError: it is no TOML, or a row is incomplete, overlaps another or names no list price.
    """
    return _priced(toml_of(where, content, _KEYS), lists)


def _priced(file: Entry, lists: Sequence[ListPrice] | None) -> tuple[str, list[PriceRow]]:
    currency = _currency(file)
    amount = f"{currency.lower()}_per_gpu_hour"
    rows = [_price(entry, amount) for entry in file.entries("price", (*_PRICE_KEYS, amount))]
    listed = file.entries("list_price", _LIST_KEYS)
    if listed and currency != "USD":
        raise ConfigError(
            f"{file.where}: list prices are in USD and this ledger is in {currency}; write a [[price]] instead"
        )
    rows += [_listed(entry, list_prices() if lists is None else lists) for entry in listed]
    _refuse_overlaps(file.where, rows)
    return currency, rows


def _currency(file: Entry) -> str:
    currency = file.text_or_none("currency") or "USD"
    if not (len(currency) == 3 and currency.isascii() and currency.isupper() and currency.isalpha()):
        raise ConfigError(f"{file.where}: 'currency' must be an ISO 4217 code such as USD, not {currency!r}")
    return currency


def _price(entry: Entry, amount: str) -> PriceRow:
    starts_at, ends_at = entry.period()
    return PriceRow(
        sku=entry.text("sku"),
        purchase_option=_option(entry),
        node_group=entry.text_or_none("node_group"),
        micros_per_gpu_hour=entry.micros(amount),
        starts_at=starts_at,
        ends_at=ends_at,
        source=entry.text("source"),
        as_of=entry.day("as_of"),
    )


def _option(entry: Entry) -> str | None:
    option = entry.text("purchase_option")
    if option == ANY:
        return None
    if option not in PURCHASE_OPTIONS:
        raise ConfigError(
            f"{entry.where}: 'purchase_option' must be one of {', '.join((*PURCHASE_OPTIONS, ANY))}, not {option!r}"
        )
    return option


def _listed(entry: Entry, lists: Sequence[ListPrice]) -> PriceRow:
    wanted = tuple(entry.text(key) for key in ("provider", "region", "instance_type", "purchase_option"))
    found = [row for row in lists if (row.provider, row.region, row.instance_type, row.purchase_option) == wanted]
    if len(found) != 1:
        raise ConfigError(
            f"{entry.where}: {len(found)} list prices for {' '.join(wanted)}; gpuledger prices --all lists them"
        )
    row = found[0]
    if row.objection is not None:
        raise ConfigError(
            f"{entry.where}: this row {row.objection} ({row.note or row.source}); write a [[price]] instead"
        )
    starts_at, ends_at = entry.period()
    return PriceRow(
        sku=row.sku,
        purchase_option=row.purchase_option,
        node_group=entry.text_or_none("node_group"),
        micros_per_gpu_hour=row.micros_per_gpu_hour,
        starts_at=starts_at,
        ends_at=ends_at,
        source=f"list price of {' '.join(wanted[:3])}: {row.source}@{row.source_version}",
        as_of=_date_or_none(row.as_of),
    )


def _date_or_none(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None  # "undated (…)": the source has no date, and we invent none


def _refuse_overlaps(where: str, rows: Sequence[PriceRow]) -> None:
    """Two prices of one thing at one time would make the ledger depend on the order of lines."""
    for number, row in enumerate(rows):
        for other in rows[:number]:
            same = (row.sku, row.purchase_option, row.node_group) == (
                other.sku,
                other.purchase_option,
                other.node_group,
            )
            if same and (other.covers(row.starts_at) or row.covers(other.starts_at)):
                raise ConfigError(
                    f"{where}: two prices of {row.sku} ({row.purchase_option or ANY}) at the same time, "
                    f"{row.source!r} and {other.source!r}; end one with 'until'"
                )
