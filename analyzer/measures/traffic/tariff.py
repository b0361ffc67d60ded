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
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from agent.wire.units import GB, GIB
from analyzer.errors import ConfigError
from analyzer.measures.traffic.locality import HostLocation, Locality, locality
from analyzer.measures.traffic.matrix import Cell
from analyzer.settings.settings import Settings
from analyzer.settings.toml_entry import TomlEntry, read_toml

_LIST = Path(__file__).with_name("list_tariffs.toml")
_BETWEEN: dict[str, Locality] = {"zones": "across_zones", "regions": "across_regions", "internet": "internet"}
_SIDES = {"sender": 1, "both": 2}
_ROW_KEYS = ("between", "charged_to", "from", "until", "as_of", "source")


@dataclass(frozen=True, slots=True)
class Tariff:
    """What crossing one border costs over one period: millionths for each `per_bytes`, from each of `sides`."""

    provider: str
    between: str
    micros: int
    per_bytes: int
    sides: int
    starts_at: int
    ends_at: int | None
    as_of: date
    source: str

    def cost_micros(self, amount: int) -> int:
        """Return what so many bytes cost, in millionths, rounded down."""
        return amount * self.micros * self.sides // self.per_bytes


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
        return Bill(where, amount, None, self.unset.get(where, f"no tariff of {self.provider} is known"))


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
        file = read_toml(path, ("provider", "currency", "tariff"))
        provider, currency = file.text_or_none("provider"), file.text_or_none("currency") or "USD"
        own = _rows(file, currency, provider)
        if own and provider is None:
            raise ConfigError(f'{path}: name the provider, such as provider = "aws": nothing is priced without it')
        public = read_toml(listed, ("tariff", "unset"))
        rows, unset = _rows(public, "USD", None), _unset(public)
        providers = {row.provider for row in rows} | {row[0] for row in unset}
        if provider is not None and not own and provider not in providers:
            raise ConfigError(
                f"{path}: no tariff of {provider!r} is known; write a [[tariff]], or name one of "
                f"{', '.join(sorted(providers))}"
            )
        return cls(provider, currency, own, rows if currency == "USD" else (), unset)

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


def _rows(file: TomlEntry, currency: str, provider: str | None) -> tuple[Tariff, ...]:
    amounts = (f"{currency.lower()}_per_gb", f"{currency.lower()}_per_gib")
    keys = (*_ROW_KEYS, *amounts, *(() if provider else ("provider",)))
    rows = tuple(_row(entry, amounts, provider) for entry in file.entries("tariff", keys))
    _refuse_overlaps(file.where, rows)
    return rows


def _row(entry: TomlEntry, amounts: tuple[str, str], provider: str | None) -> Tariff:
    given = [name for name in amounts if entry.has(name)]
    if len(given) != 1:
        raise ConfigError(f"{entry.where}: give one of {amounts[0]!r} and {amounts[1]!r}")
    starts_at, ends_at = entry.period()
    return Tariff(
        provider or entry.text("provider"),
        _one_of(entry, "between", tuple(_BETWEEN)),
        entry.micros(given[0]),
        GB if given[0] == amounts[0] else GIB,
        _SIDES[_one_of(entry, "charged_to", tuple(_SIDES))],
        starts_at,
        ends_at,
        entry.day("as_of"),
        entry.text("source"),
    )


def _one_of(entry: TomlEntry, key: str, known: Sequence[str]) -> str:
    value = entry.text(key)
    if value not in known:
        raise ConfigError(f"{entry.where}: {key!r} must be one of {', '.join(known)}, not {value!r}")
    return value


def _unset(file: TomlEntry) -> tuple[tuple[str, str, str], ...]:
    entries = file.entries("unset", ("provider", "between", "why"))
    return tuple(
        (entry.text("provider"), _one_of(entry, "between", tuple(_BETWEEN)), entry.text("why")) for entry in entries
    )


def _refuse_overlaps(where: str, rows: Sequence[Tariff]) -> None:
    for number, row in enumerate(rows):
        for other in rows[:number]:
            apart = (row.ends_at is not None and row.ends_at <= other.starts_at) or (
                other.ends_at is not None and other.ends_at <= row.starts_at
            )
            if (row.provider, row.between) == (other.provider, other.between) and not apart:
                raise ConfigError(
                    f"{where}: two tariffs between {row.between} hold at once; end the earlier by 'until'"
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
            f"{settings.tariffs} counts in {book.currency}, the ledger in {settings.currency}; make them agree"
        )
    return book
