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
provider = "aws"                  # optional, as is region: where the file has [regions], of GPUs there alone

[[list_price]]                    # pay a row of the list prices, named in full
provider = "aws"
region = "us-east-1"
instance_type = "p5.48xlarge"
purchase_option = "on_demand"
from = 2026-07-20

Prices made of other figures are [[reserved]], [[owned]] and [[spot]] (derived.py, spot.py); what teams are charged is
[[charge]] (rows.py); what costs besides GPUs is [[energy]], [[storage]], [[checkpoints]] and [[host]]
(non_gpu_rows.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.prices.derived import PRICE_MOST_MICROS, Owned, PricePart, Reserved
from analyzer.prices.list_prices import ListPrice, list_prices
from analyzer.prices.non_gpu_rows import BESIDE_KEYS, NonGpuPrices, read_beside
from analyzer.prices.rows import ANY, Charge, GpuPrice, Regions, option_of, read_regions, refuse_overlaps
from analyzer.prices.spot import Spot, read_spot
from analyzer.settings.toml_entry import TomlEntry, read_toml, toml_of
from analyzer.settings.toml_model import Mistakes, read_rows, since, toml_key, until
from analyzer.text.words import dollars

_KEYS = ("currency", "regions", "price", "list_price", "reserved", "owned", "spot", "charge", *BESIDE_KEYS)
_LIST_KEYS = ("provider", "region", "instance_type", "purchase_option", "from", "until", "node_group")

Derived = Reserved | Owned | Spot


@dataclass(frozen=True, slots=True)
class PriceRow(GpuPrice):
    """One price of this site over one period. None in `sku`, `purchase_option` or `node_group` means any.

    `starts_at` and `ends_at` are whole UTC hours in microseconds; `as_of` is None where the source has no date.
    """

    sku: str | None = field(metadata=toml_key(read=TomlEntry.text))
    purchase_option: str | None = field(metadata=toml_key(read=option_of))
    node_group: str | None
    micros_per_gpu_hour: int = field(metadata=toml_key("{money}_per_gpu_hour", read=TomlEntry.micros))
    starts_at: int = field(metadata=since())
    ends_at: int | None = field(metadata=until())
    source: str
    as_of: date | None = field(metadata=toml_key(read=TomlEntry.day))
    provider: str | None = None
    region: str | None = None

    def micros_at(self, at_us: int) -> int | None:
        """Return what a GPU-hour costs at this microsecond; None where the price is not in effect."""
        return self.micros_per_gpu_hour if self.covers(at_us) else None

    def parts(self) -> tuple[PricePart, ...]:
        """Return none: it was written as it is."""
        return ()


@dataclass(frozen=True, slots=True)
class SitePrices:
    """What a price file says: prices as written, prices made of other figures, and what is no GPU's price."""

    currency: str = "USD"
    rows: tuple[PriceRow, ...] = ()
    derived: tuple[Derived, ...] = ()
    charges: tuple[Charge, ...] = ()
    beside: NonGpuPrices = field(default_factory=NonGpuPrices)
    regions: Regions = field(default_factory=Regions)


def read_price_file(path: Path, lists: Sequence[ListPrice] | None = None) -> SitePrices:
    """Return what a price file says.

    Raises:
        ConfigError: the file cannot be read, or a row is incomplete, overlaps another or names no list price.
    """
    return _priced(read_toml(path, _KEYS), lists, path.parent)


def price_books(
    where: str, content: bytes, lists: Sequence[ListPrice] | None = None, folder: Path | None = None
) -> SitePrices:
    """Return the same of a price file's content; `where` names it in messages, `folder` is where series lie.

    Raises:
        ConfigError: it is no TOML, or a row is incomplete, overlaps another or names no list price.
    """
    return _priced(toml_of(where, content, _KEYS), lists, folder)


def _priced(file: TomlEntry, lists: Sequence[ListPrice] | None, folder: Path | None) -> SitePrices:
    currency, mistakes = _currency(file), Mistakes()
    money = currency.lower()
    rows = [
        *read_rows(file, "price", PriceRow, mistakes, money),
        *_listed_rows(file, list_prices() if lists is None else lists, currency, mistakes),
    ]
    derived = _derived(file, money, folder, mistakes)
    regions = read_regions(file, [*rows, *derived], mistakes)
    charges = read_rows(file, "charge", Charge, mistakes, money)
    with mistakes.gathered():
        _refuse_overlaps(file.where, [*rows, *derived], regions)
    with mistakes.gathered():
        refuse_overlaps(file.where, charges)
    beside = read_beside(file, money, mistakes)
    mistakes.refuse()
    return SitePrices(currency, tuple(rows), derived, charges, beside, regions)


def _listed_rows(file: TomlEntry, lists: Sequence[ListPrice], currency: str, mistakes: Mistakes) -> list[PriceRow]:
    found: list[PriceRow] = []
    with mistakes.gathered():
        listed = file.rows("list_price")
        if listed and currency != "USD":
            raise ConfigError(
                f"{file.where}: list prices are in USD and this ledger is in {currency}; write a [[price]] instead"
            )
        for entry in listed:
            with mistakes.gathered():
                entry.refuse_unknown(_LIST_KEYS)
                found.append(_listed(entry, lists, is_placed=file.has("regions")))
    return found


def _refuse_overlaps(where: str, rows: Sequence[PriceRow | Derived], regions: Regions) -> None:
    """Refuse two prices of one thing at one time; where provider and region choose, they are part of the thing."""
    way_out = "end one with 'until'"
    if not regions and any(row.place != (None, None) for row in rows):
        way_out += ", or write [regions], so that provider and region choose (docs/prices.md)"
    refuse_overlaps(where, rows, subject=lambda row: (row.subject, regions.wanted(row)), way_out=way_out)


def _derived(file: TomlEntry, money: str, folder: Path | None, mistakes: Mistakes) -> tuple[Derived, ...]:
    found: list[Derived] = [*read_rows(file, "reserved", Reserved, mistakes, money)]
    found += read_rows(file, "owned", Owned, mistakes, money)
    with mistakes.gathered():
        for entry in file.rows("spot"):
            with mistakes.gathered():
                found.append(read_spot(entry, money, folder))
    for row in found:
        with mistakes.gathered():
            _refuse_dear(file.where, row)
    return tuple(found)


def _refuse_dear(where: str, row: Derived) -> None:
    if sum(part.micros for part in row.parts()) > PRICE_MOST_MICROS:
        raise ConfigError(
            f"{where}: {row.sku} ({row.purchase_option}) comes to more than {dollars(PRICE_MOST_MICROS)} a"
            " GPU-hour; is a figure of a node said of a GPU?"
        )


def _currency(file: TomlEntry) -> str:
    currency = file.text_or_none("currency") or "USD"
    if not (len(currency) == 3 and currency.isascii() and currency.isupper() and currency.isalpha()):
        raise ConfigError(f"{file.where}: 'currency' must be an ISO 4217 code such as USD, not {currency!r}")
    return currency


def _listed(entry: TomlEntry, lists: Sequence[ListPrice], *, is_placed: bool) -> PriceRow:
    wanted = tuple(entry.text(key) for key in ("provider", "region", "instance_type", "purchase_option"))
    found = [row for row in lists if (row.provider, row.region, row.instance_type, row.purchase_option) == wanted]
    if len(found) != 1:
        raise ConfigError(
            f"{entry.where}: {len(found)} list prices for {' '.join(wanted)}; gpuledger bill prices --all lists them"
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
        provider=row.provider if is_placed else None,
        region=row.standing if is_placed else None,
    )


def _date_or_none(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None  # "undated (…)": the source has no date, and we invent none


def place_of(row: PriceRow | Derived) -> str:
    """Return where a row says that it holds: "in rack-1, aws us-east-1"; empty where it does not."""
    *_, node_group = row.subject
    named = " ".join(part for part in row.place if part)
    told = ", ".join(part for part in (node_group, named) if part)
    return f"in {told}" if told else ""


def name_of(row: PriceRow | Derived, micros: int | None) -> str:
    """Return a row with its price: "H100-80GB (spot) in rack-1 at 2.60"; `micros` None leaves the price out."""
    sku, option, _ = row.subject
    where = f" {place}" if (place := place_of(row)) else ""
    return f"{sku or 'any GPU'} ({option or ANY}){where}" + (f" at {dollars(micros)}" if micros is not None else "")
