"""The price book: what a GPU-hour costs here, at a time, by the site's own price file. No price is ever guessed.

A price belongs to the GPU, not to who holds it: otherwise the parts of an hour would not sum to the price of the hour.
What is not known is None. The file says what this site pays, from when, and who says so:

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

Prices made of other figures are [[reserved]], [[owned]] and [[spot]] (derived.py); what teams are charged is
[[charge]] (rows.py); what costs besides GPUs is [[energy]], [[storage]], [[checkpoints]], [[host]] (non_gpu_rows.py).
While a server runs another file takes its place whole or not at all; what that changes in closed hours is adjustments.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from pathlib import Path

from analyzer.errors import ConfigError, LedgerError, StaleError
from analyzer.period import Period
from analyzer.prices.derived import PRICE_MOST_MICROS, DerivedRow, Owned, PricePart, Reserved, Spot, read_spot
from analyzer.prices.list_prices import list_prices
from analyzer.prices.non_gpu_rows import BESIDE_KEYS, NonGpuPrices, Tariff, read_beside
from analyzer.prices.rows import ANY, Charge, GpuPrice, Regions, option_of, read_regions, refuse_overlaps
from analyzer.settings.settings import Settings
from analyzer.settings.toml_entry import TomlEntry, read_toml, toml_of
from analyzer.settings.toml_model import Mistakes, read_rows, since, toml_key, until
from analyzer.text.words import counted, dollars
from collector.store.power import sync
from collector.store.session import Session

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


def _book(file: TomlEntry, folder: Path | None) -> "PriceBook":
    currency, mistakes = _currency(file), Mistakes()
    money = currency.lower()
    rows = [
        *read_rows(file, "price", PriceRow, mistakes, money),
        *_listed_rows(file, currency, mistakes),
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
    lines = [_line(row) for row in (*rows, *derived)]
    lines += [f"regions {json.dumps(regions.providers)}"] if regions else []
    return PriceBook(tuple(rows), currency, _digest(currency, lines), derived, charges, beside, regions)


def _listed_rows(file: TomlEntry, currency: str, mistakes: Mistakes) -> list[PriceRow]:
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
                found.append(_listed(entry, is_placed=file.has("regions")))
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
            f"{where}: {row.sku} ({row.purchase_option}) comes to more than {dollars(PRICE_MOST_MICROS)} per"
            " GPU-hour; is it the figure of a whole node?"
        )


def _currency(file: TomlEntry) -> str:
    currency = file.text_or_none("currency") or "USD"
    if not (len(currency) == 3 and currency.isascii() and currency.isupper() and currency.isalpha()):
        raise ConfigError(f"{file.where}: 'currency' must be an ISO 4217 code such as USD, not {currency!r}")
    return currency


def _listed(entry: TomlEntry, *, is_placed: bool) -> PriceRow:
    wanted = tuple(entry.text(key) for key in _LIST_KEYS[:4])
    found = [row for row in list_prices() if tuple(getattr(row, key) for key in _LIST_KEYS[:4]) == wanted]
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


_LATER = ("provider", "region")  # keys that rows did not always have: where they are not used, the version is the same


@dataclass(frozen=True, slots=True)
class Price:
    """What one GPU-hour costs, who says so, as of when, and by which version of the book."""

    micros_per_gpu_hour: int
    source: str
    option: str | None  # None: the row holds for every purchase option
    as_of: date | None
    version: str


@dataclass(frozen=True, slots=True)
class PriceBook:
    """The site's prices, in the ledger's one currency. `version` is a digest of the content, whatever its order.

    `rows` are prices as they were written, `derived` those made of other figures. `version` is of these two alone:
    the ledger books with nothing else. `beside_version` is of what teams are charged, and of what is no GPU's price.
    """

    rows: tuple[PriceRow, ...] = ()
    currency: str = "USD"
    version: str = ""
    derived: tuple[Derived, ...] = ()
    charges: tuple[Charge, ...] = ()
    beside: NonGpuPrices = field(default_factory=NonGpuPrices)
    regions: Regions = field(default_factory=Regions)

    @classmethod
    def of(cls, rows: Sequence[PriceRow], currency: str = "USD") -> "PriceBook":
        """Make a book of rows that do not overlap."""
        return cls(tuple(rows), currency, _digest(currency, (_line(row) for row in rows)))

    @classmethod
    def read(cls, path: Path) -> "PriceBook":
        """Read a price file.

        Raises:
            ConfigError: it cannot be read, or rows are incomplete, overlap or name no list price; it tells all of them.
        """
        return _book(read_toml(path, _KEYS), path.parent)

    @classmethod
    def parse(cls, where: str, content: bytes, folder: Path | None = None) -> "PriceBook":
        """Read a price file's content; ConfigError names it as `where`. `folder` is where its series lie."""
        return _book(toml_of(where, content, _KEYS), folder)

    @classmethod
    def flat(cls, micros_per_gpu_hour: int, source: str = "--price", currency: str = "USD") -> "PriceBook":
        """Make a book of one price for every GPU at all times, as `gpuledger run --price` names it."""
        return cls.of([PriceRow(None, None, None, micros_per_gpu_hour, 0, None, source, None)], currency)

    def price(
        self,
        sku: str | None,
        purchase_option: str | None,
        at_us: int,
        node_group: str | None = None,
        region: str | None = None,
    ) -> Price | None:
        """Return the price of one GPU-hour at a time, or None where nobody has said it.

        A price of the node group goes before a general one, then one of the region, then one of the provider, then a
        price of the very purchase option before "any".
        """
        row = self.row(sku, purchase_option, at_us, node_group, region)
        micros = None if row is None else row.micros_at(at_us)
        if row is None or micros is None:
            return None
        return Price(micros, row.source, row.purchase_option, row.as_of, self.version)

    def parts(self, sku: str | None, purchase_option: str | None, at_us: int) -> tuple[tuple[PricePart, int], ...]:
        """Return what the price at a time consists of, each part with its millionths; nothing where it has no parts."""
        row = self.row(sku, purchase_option, at_us)
        return tuple((part, part.micros_at(at_us)) for part in row.parts()) if row else ()

    @property
    def beside_version(self) -> str:
        """A digest of the charges and of what costs besides GPUs; empty where the file has none."""
        rows: tuple[Charge | Tariff, ...] = (*self.charges, *self.beside.rows)
        return _digest(self.currency, (_line(row) for row in rows)) if rows else ""

    @property
    def charges_version(self) -> str:
        """A digest of the charges alone."""
        return _digest(self.currency, map(_line, self.charges))

    def row(
        self,
        sku: str | None,
        purchase_option: str | None,
        at_us: int,
        node_group: str | None = None,
        region: str | None = None,
    ) -> PriceRow | Derived | None:
        """Return the most particular row that speaks of this time, be it a series that has a gap then."""
        asked = (sku, purchase_option, node_group)
        fitting = [
            row
            for row in (*self.rows, *self.derived)
            if row.covers(at_us) and _fits(row, asked) and self.regions.fits(row, region)
        ]
        return max(fitting, key=self._particular, default=None)

    def row_in_place_of(self, row: PriceRow | Derived, at_us: int) -> PriceRow | Derived | None:
        """Return the row that prices at another time what this one prices in its own."""
        sku, purchase_option, node_group = row.subject
        return self.row(sku, purchase_option, at_us, node_group, self.regions.standing(row))

    def _particular(self, row: PriceRow | Derived) -> tuple[bool, bool, bool, bool]:
        _, purchase_option, node_group = row.subject
        provider, region = self.regions.wanted(row)
        return node_group is not None, region is not None, provider is not None, purchase_option is not None


def _fits(row: PriceRow | Derived, asked: tuple[str | None, ...]) -> bool:
    return all(ours in (None, theirs) for ours, theirs in zip(row.subject, asked, strict=True))


def _line(row: PriceRow | Derived | Charge | Tariff) -> str:
    """Return a row as it counts into the version: its content, and its kind where that was added later."""
    said = asdict(row)
    if isinstance(row, PriceRow):
        said = {key: value for key, value in said.items() if key not in _LATER or value is not None}
    else:
        said["row"] = type(row).__name__
    if isinstance(row, DerivedRow):
        del said["purchase_option"]
        said["of"] = {each.name: said.pop(each.name) for each in fields(DerivedRow)}
    return json.dumps(said, sort_keys=True, default=str)


def _digest(currency: str, lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join([currency, *sorted(lines)]).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class FlatPriced(Settings):
    """Settings in which every GPU has the one price that was said; None knows no price."""

    micros_per_gpu_hour: int | None = None


def price_book(settings: Settings) -> PriceBook:
    """Read the price file of a site's settings; without one, no price is known.

    Raises:
        ConfigError: the file cannot be read, or is of another currency than the ledger.
    """
    if isinstance(settings, FlatPriced) and settings.micros_per_gpu_hour is not None:
        return PriceBook.flat(settings.micros_per_gpu_hour)
    if settings.prices is None:
        return PriceBook()
    book = PriceBook.read(settings.prices)
    if book.currency != settings.currency:
        raise ConfigError(
            f"{settings.prices} is in {book.currency}, the ledger in {settings.currency}; make them agree"
        )
    return book


_SHUT = ("closed", "final")
_CURE = "run gpuledger admin analyze"


@dataclass(frozen=True, slots=True)
class Repriced:
    """How many hours of a period bear another version than `now`, of those that may still change and of the others."""

    open_hours: int
    closed_hours: int
    booked: tuple[str, ...]
    now: str


def repriced(session: Session, period: Period, settings: Settings) -> Repriced | None:
    """Return which hours of a period the present prices have not reached; None where all bear them.

    Also None where the settings name no price file: nobody says then that others hold now.

    Raises:
        ConfigError: the price file is wrong.
    """
    if settings.prices is None:
        return None
    now = price_book(settings).version
    rows = session.rows(
        "SELECT status, coalesce(price_version, ''), count(*) FROM ledger_hours "
        "WHERE hour >= $start AND hour < $end AND price_version IS DISTINCT FROM $now GROUP BY ALL",
        {"start": period.start, "end": period.end, "now": now},
    )
    if not rows:
        return None
    shut = sum(hours for status, _, hours in rows if status in _SHUT)
    versions = tuple(sorted({version for _, version, _ in rows if version}))
    return Repriced(sum(hours for *_, hours in rows) - shut, shut, versions, now)


def repriced_words(one: Repriced | None) -> list[str]:
    """Return the sentence for whoever reads the figures, without its full stop; nothing where there is none to say."""
    if one is None:
        return []
    many = one.open_hours + one.closed_hours
    before = f"price list {', '.join(one.booked)}" if one.booked else "no price"
    were = f"{counted(many, 'hour')} {'was' if many == 1 else 'were'}"
    said = f"prices changed after {were} booked ({before}, now {one.now}): {_CURE}"
    if not one.closed_hours:
        return [said]
    which = "closed hours" if one.closed_hours == many else f"{one.closed_hours:,} of them are closed,"
    return [f"{said}; {which} keep their figures and get corrections"]


MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class PriceFileState:
    """What the file says, the tag of these very bytes, and the version of the prices, which the ledger's hours bear."""

    content: bytes
    tag: str
    version: str


class PriceFile:
    """One price file. Safe to use from several threads of one process."""

    def __init__(self, path: Path, currency: str) -> None:
        self.path = path
        self._currency = currency
        self._lock = threading.Lock()

    def told(self) -> PriceFileState:
        """Return what it says now.

        Raises:
            ConfigError: it cannot be read, or is wrong.
        """
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {self.path}: {error.strerror}; fix its permissions") from error
        return self._understood(content)

    def put(self, content: bytes, tag: str, before: Callable[[PriceFileState, PriceFileState], None]) -> PriceFileState:
        """Put new content in the place of what has this tag, durably; return what it says then.

        `before` is called with what it says now and what it will say, once nothing is wrong with either.

        Raises:
            ConfigError: the new one is wrong, or counts in another currency than the ledger.
            StaleError: the file is not the one that has this tag any more.
            LedgerError: the server may not write there.
        """
        with self._lock:
            now = self.told()
            if now.tag != tag:
                raise StaleError(f"{self.path.name} changed since it was read; read it again, and edit that")
            then = self._understood(content)
            before(now, then)
            try:
                _replace(self.path, content)
            except OSError as error:
                raise LedgerError(
                    f"cannot write {self.path}: {error.strerror}; the server's user must own the file and its folder"
                    " (of the unit of systemd/: below /var/lib/gpuledger)"
                ) from error
            return then

    def _understood(self, content: bytes) -> PriceFileState:
        book = PriceBook.parse(self.path.name, content, self.path.parent)
        if book.currency != self._currency:
            raise ConfigError(f"{self.path.name} is in {book.currency}, the ledger in {self._currency}")
        return PriceFileState(content, hashlib.sha256(content).hexdigest()[:16], book.version)


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.new")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, path.stat().st_mode & 0o7777)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    aside.replace(path.resolve())
    sync(path.resolve().parent)
