"""Tariffs: what bytes cost that leave a zone, a region or the fleet. Crossing racks has none, and none is made up.

What crossing racks costs is GPU time, which the ledger has; a byte has a tariff or cost GPU time, and the two are never
added: one is on a bill, the other is capacity that was paid for anyway.

provider = "aws"              # nothing is priced without it; its public tariffs (list_tariffs.toml) then hold
currency = "USD"              # the default

[[tariff]]                    # the site's own go first
between = "zones"             # zones, regions or internet
usd_per_gb = 0.005            # or usd_per_gib; the key names the currency
charged_to = "both"           # sender, or both: each side pays
from = 2026-01-01
until = 2027-01-01            # optional, exclusive
as_of = 2026-11-01            # when somebody last looked
source = "contract 4711"
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from agent.wire.units import GB, GIB
from analyzer.errors import ConfigError
from analyzer.measures.traffic.matrix import Cell, HostLocation, Locality, locality
from analyzer.settings.settings import Settings
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import Mistakes, one_of, read_rows, since, toml_file, toml_key, until

_LIST = Path(__file__).with_name("list_tariffs.toml")
_BETWEEN: dict[str, Locality] = {"zones": "across_zones", "regions": "across_regions", "internet": "internet"}
_SIDES = {"sender": 1, "both": 2}


def _micros(entry: TomlEntry, per_gb: str) -> int:
    """Return an amount that is said of a GB or of a GiB, by what the first of the two keys is called."""
    per_gib = per_gb.replace("_per_gb", "_per_gib")
    if entry.has(per_gb) == entry.has(per_gib):
        raise ConfigError(f"{entry.where}: give one of {per_gb!r} and {per_gib!r}")
    return entry.micros(per_gb if entry.has(per_gb) else per_gib)


_AMOUNTS = ("{money}_per_gb", "{money}_per_gib")


@dataclass(frozen=True, slots=True)
class Tariff:
    """What crossing one border costs over one period: millionths for each `per_bytes`, from each of `sides`."""

    provider: str  # in a site's file it is said once, above the rows
    between: str = field(metadata=toml_key(read=one_of(_BETWEEN)))
    micros: int = field(metadata=toml_key(*_AMOUNTS, read=_micros))
    per_bytes: int = field(metadata=toml_key(*_AMOUNTS, read=lambda entry, per_gb: GB if entry.has(per_gb) else GIB))
    sides: int = field(metadata=toml_key("charged_to", read=lambda entry, key: _SIDES[one_of(_SIDES)(entry, key)]))
    starts_at: int = field(metadata=since())
    ends_at: int | None = field(metadata=until())
    as_of: date
    source: str

    def cost_micros(self, amount: int) -> int:
        """Return what so many bytes cost, in millionths, rounded down."""
        return amount * self.micros * self.sides // self.per_bytes


@dataclass(frozen=True, slots=True)
class _Unset:
    """Why no public tariff of a provider is listed for one border."""

    provider: str
    between: str = field(metadata=toml_key(read=one_of(_BETWEEN)))
    why: str


@dataclass(frozen=True, slots=True)
class Bill:
    """Bytes that crossed one border, and what they cost; None with the reason in `source` where it has no price."""

    locality: Locality
    bytes: int
    cost_micros: int | None
    source: str
    as_of: date | None = None


@dataclass(frozen=True, slots=True)
class Prices:
    """The tariffs in effect at one time, by border; `unset` says why there is none for some."""

    provider: str | None
    tariffs: Mapping[Locality, Tariff]
    unset: Mapping[Locality, str]

    def bills(self, cells: Iterable[Cell], places: Mapping[str, HostLocation]) -> tuple[Bill, ...]:
        """Return a bill for each border with a tariff that bytes crossed; what comes in from the internet is free."""
        sums: dict[Locality, int] = {}
        for cell in cells:
            where = locality(cell.from_, cell.to, places)
            if where in _BETWEEN.values() and (where != "internet" or cell.from_ in places):
                sums[where] = sums.get(where, 0) + cell.bytes
        return tuple(self._bill(where, sums[where]) for where in _BETWEEN.values() if where in sums)

    def _bill(self, where: Locality, amount: int) -> Bill:
        tariff = self.tariffs.get(where)
        if tariff is not None:
            return Bill(where, amount, tariff.cost_micros(amount), tariff.source, tariff.as_of)
        if self.provider is None:
            return Bill(where, amount, None, "no tariff: the tariffs file names no provider")
        return Bill(where, amount, None, self.unset.get(where, f"{self.provider} has no known tariff"))


@dataclass(frozen=True, slots=True)
class TariffBook:
    """The site's tariffs, then its provider's public ones; without a provider nothing has a price."""

    provider: str | None = None
    currency: str = "USD"
    own: tuple[Tariff, ...] = ()
    listed: tuple[Tariff, ...] = ()
    unset: tuple[tuple[str, str, str], ...] = ()  # provider, between, why

    @classmethod
    def read(cls, path: Path, listed: Path = _LIST) -> "TariffBook":
        """Read a site's file and the public list beside this module.

        Raises:
            ConfigError: the file cannot be read, or a row is incomplete, wrong or overlaps another.
        """
        with toml_file(listed, ("tariff", "unset")) as (public, mistakes):
            rows = _rows(public, "USD", mistakes)
            unset = read_rows(public, "unset", _Unset, mistakes)
        with toml_file(path, ("provider", "currency", "tariff")) as (file, mistakes):
            provider, currency = file.text_or_none("provider"), file.text_or_none("currency") or "USD"
            own = _rows(file, currency, mistakes, provider)
        if own and provider is None:
            raise ConfigError(f'{path}: name the provider, such as provider = "aws": nothing is priced without it')
        providers = {row.provider for row in rows} | {row.provider for row in unset}
        if provider is not None and not own and provider not in providers:
            raise ConfigError(
                f"{path}: {provider!r} has no known tariff; write a [[tariff]], or name one of "
                f"{', '.join(sorted(providers))}"
            )
        why = tuple((row.provider, row.between, row.why) for row in unset)
        return cls(provider, currency, own, rows if currency == "USD" else (), why)

    def at(self, at_us: int) -> Prices:
        """Return the tariffs in effect at an instant, microseconds UTC."""
        found: dict[Locality, Tariff] = {}
        for row in (*self.listed, *self.own):  # the site's own come last, and stay
            if (
                row.provider == self.provider
                and row.starts_at <= at_us
                and (row.ends_at is None or at_us < row.ends_at)
            ):
                found[_BETWEEN[row.between]] = row
        why = {_BETWEEN[between]: why for provider, between, why in self.unset if provider == self.provider}
        return Prices(self.provider, found, why)


def _rows(file: TomlEntry, currency: str, mistakes: Mistakes, provider: str | None = None) -> tuple[Tariff, ...]:
    once = {} if provider is None else {"provider": provider}
    rows = read_rows(file, "tariff", Tariff, mistakes, currency.lower(), once)
    with mistakes.gathered():
        _refuse_overlaps(file.where, rows)
    return rows


def _refuse_overlaps(where: str, rows: Sequence[Tariff]) -> None:
    for number, row in enumerate(rows):
        for other in rows[:number]:
            apart = (row.ends_at is not None and row.ends_at <= other.starts_at) or (
                other.ends_at is not None and other.ends_at <= row.starts_at
            )
            if (row.provider, row.between) == (other.provider, other.between) and not apart:
                raise ConfigError(
                    f"{where}: two tariffs between {row.between} overlap; end the earlier one with 'until'"
                )


def tariff_book(settings: Settings) -> TariffBook:
    """Read the tariffs file of a site's settings; without one, no traffic has a price.

    Raises:
        ConfigError: the file cannot be read, or is of another currency than the ledger.
    """
    if settings.tariffs is None:
        return TariffBook()
    book = TariffBook.read(settings.tariffs)
    if book.currency != settings.currency:
        raise ConfigError(
            f"{settings.tariffs} is in {book.currency}, the ledger in {settings.currency}; use the same currency in "
            "both"
        )
    return book
