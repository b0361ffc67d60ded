"""The price book: what a GPU-hour costs here, at a time. No price is ever guessed: what is not known is None.

A price belongs to the GPU, not to who holds it: otherwise the parts of an hour would not sum to the price of the hour.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.errors import ConfigError
from analyzer.period import Period
from analyzer.prices.derived import DerivedRow, PricePart
from analyzer.prices.non_gpu_rows import NonGpuPrices, Tariff
from analyzer.prices.rows import Charge, Regions
from analyzer.prices.site import Derived, PriceRow, SitePrices, price_books, read_price_file
from analyzer.settings.settings import Settings
from analyzer.text.words import counted

if TYPE_CHECKING:
    from collector.store.session import Session

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
        """Read a price file; ConfigError says in one sentence what is wrong with it."""
        return cls._of(read_price_file(path))

    @classmethod
    def parse(cls, where: str, content: bytes, folder: Path | None = None) -> "PriceBook":
        """Read a price file's content; ConfigError names it as `where`. `folder` is where its series lie."""
        return cls._of(price_books(where, content, folder=folder))

    @classmethod
    def _of(cls, said: SitePrices) -> "PriceBook":
        lines = [_line(row) for row in (*said.rows, *said.derived)]
        lines += [f"regions {json.dumps(said.regions.providers)}"] if said.regions else []
        version = _digest(said.currency, lines)
        return cls(said.rows, said.currency, version, said.derived, said.charges, said.beside, said.regions)

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
            f"{settings.prices} counts in {book.currency}, the ledger in {settings.currency}; make them agree"
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


def repriced(session: "Session", period: Period, settings: Settings) -> Repriced | None:
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
    before = f"book {', '.join(one.booked)}" if one.booked else "no price"
    were = f"{counted(many, 'hour')} {'was' if many == 1 else 'were'}"
    said = f"prices changed after {were} booked ({before}, now {one.now}): {_CURE}"
    if not one.closed_hours:
        return [said]
    which = "closed hours" if one.closed_hours == many else f"{one.closed_hours:,} of them are closed,"
    return [f"{said}; {which} keep their figures and get corrections"]
