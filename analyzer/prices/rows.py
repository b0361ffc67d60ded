"""Rows of a price file: what they have in common, where they hold ([regions]), and what teams are charged ([[charge]]).

[regions]                         # optional: rows that name a provider or a region are then of GPUs there alone
us-east-1 = "aws"
eu-north1 = "nebius"
hall-2 = "own"

A host's region is the inventory's: `region` of its agent, or its label in Kubernetes. Without the table provider and
region are told beside a row's source and choose nothing, as they did before there was one. With it, a host that names
no region, or one that is not in the table, has the price of rows that name neither.

What a team is charged for a GPU-hour; the ledger's cost stays what the GPU costs, whoever holds it:

[[charge]]
team = "team-nlp"
sku = "H100-80GB"                 # optional: of every SKU where it is left out
purchase_option = "any"           # optional: the same
usd_per_gpu_hour = 2.90
from = 2026-01-01
until = 2027-01-01                # optional, exclusive
source = "internal price list 2026"
as_of = 2025-12-01
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from typing import TypeVar

from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry, toml_value
from analyzer.settings.toml_model import Mistakes, optional, since, toml_key, until
from analyzer.text.words import dollars

PURCHASE_OPTIONS = ("on_demand", "reserved", "spot", "owned")
BY_USE = ("on_demand", "spot", "preemptible", "serverless")  # what nobody pays for any more once it is handed back
FIXED = ("reserved", "owned")  # paid for whether they are used or not
ANY = "any"


class Dated:
    """A row that holds over a period. Both ends are whole UTC hours in microseconds; None is for good."""

    __slots__ = ()
    starts_at: int
    ends_at: int | None
    source: str  # who says so

    @property
    def subject(self) -> tuple[str | None, ...]:
        """What it is about: two of one subject must not hold at once."""
        raise NotImplementedError

    @property
    def told(self) -> str:
        """The subject in words."""
        raise NotImplementedError

    def covers(self, at_us: int) -> bool:
        """Say whether it holds at this microsecond."""
        return self.starts_at <= at_us and (self.ends_at is None or at_us < self.ends_at)


class GpuPrice(Dated):
    """A price of GPUs, as it was written or made of other figures. None in what it is of means any."""

    __slots__ = ()
    sku: str | None
    purchase_option: str | None
    node_group: str | None
    provider: str | None
    region: str | None

    @property
    def subject(self) -> tuple[str | None, ...]:
        """Of what it is the price."""
        return (self.sku, self.purchase_option, self.node_group)

    @property
    def place(self) -> tuple[str | None, str | None]:
        """The provider and the region that it names."""
        return (self.provider, self.region)

    @property
    def told(self) -> str:
        """The same in words."""
        return f"{self.sku} ({self.purchase_option or ANY})"


def option_of(entry: TomlEntry, key: str = "purchase_option") -> str | None:
    """Return a row's purchase option, None for any.

    Raises:
        ConfigError: it is missing, or none of them.
    """
    option = entry.text(key)
    if option == ANY:
        return None
    if option not in PURCHASE_OPTIONS:
        raise ConfigError(
            f"{entry.where}: {key!r} must be one of {', '.join((*PURCHASE_OPTIONS, ANY))}, not {option!r}"
        )
    return option


DatedT = TypeVar("DatedT", bound=Dated)


def _subject(row: Dated) -> tuple[object, ...]:
    return row.subject


def refuse_overlaps(
    where: str,
    rows: Sequence[DatedT],
    what: str = "prices",
    subject: Callable[[DatedT], tuple[object, ...]] = _subject,
    way_out: str = "end one with 'until'",
) -> None:
    """Do nothing where no two rows of one subject hold at the same time.

    Raises:
        ConfigError: two do; the sentence names both.
    """
    for number, row in enumerate(rows):
        for other in rows[:number]:
            if subject(row) == subject(other) and _begins_in(row, other) | _begins_in(other, row):
                raise ConfigError(
                    f"{where}: two {what} of {row.told} at the same time, "
                    f"{row.source!r} and {other.source!r}; {way_out}"
                )


def _begins_in(row: Dated, other: Dated) -> bool:
    return other.starts_at <= row.starts_at and (other.ends_at is None or row.starts_at < other.ends_at)


GroupAndRegion = tuple[str | None, str | None]  # provider, region; None is any


@dataclass(frozen=True, slots=True)
class Regions:
    """The table, as pairs of region and provider; empty where the file has none, so that nothing is chosen by it."""

    providers: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.providers)

    def provider_of(self, region: str | None) -> str | None:
        """Return whose a region is; None where the table does not say."""
        return dict(self.providers).get(region) if region is not None else None

    def wanted(self, row: GpuPrice) -> GroupAndRegion:
        """Return which GPUs a row is of by where they stand; a region's row is of its provider, named or not."""
        if not self:
            return None, None
        provider, region = row.place
        return self.provider_of(region) if region is not None else provider, region

    def standing(self, row: GpuPrice) -> str | None:
        """Return a region in which a row holds; None where it holds in all."""
        provider, region = self.wanted(row)
        own = (name for name, whose in self.providers if whose == provider)
        return region if region is not None else next(own, None)

    def fits(self, row: GpuPrice, region: str | None) -> bool:
        """Say whether a row is of GPUs in a region (None: they do not tell where they stand)."""
        provider, wanted = self.wanted(row)
        return wanted in (None, region) and provider in (None, self.provider_of(region))


def read_regions(file: TomlEntry, rows: Iterable[GpuPrice], mistakes: Mistakes) -> Regions:
    """Return the table of a file; rows of a region or a provider that is not in it, or is another's, are wrong."""
    regions = Regions()
    with mistakes.gathered():
        regions = Regions(tuple(sorted(file.texts("regions").items())))
    for row in rows if regions else ():
        with mistakes.gathered():
            _check(file.where, row, regions)
    return regions


def _check(where: str, row: GpuPrice, regions: Regions) -> None:
    provider, region = row.place
    whose = dict(regions.providers)
    if region is not None and region not in whose:
        raise ConfigError(f"{where}: {row.told}: region {region!r} is not in [regions]; {_hint(region, whose)}")
    if provider is not None and provider not in whose.values():
        hint = _hint(provider, whose.values())
        raise ConfigError(f"{where}: {row.told}: no region in [regions] is of provider {provider!r}; {hint}")
    if None not in (provider, region) and regions.provider_of(region) != provider:
        raise ConfigError(
            f"{where}: {row.told}: region {region!r} is of provider {regions.provider_of(region)!r} by [regions], and "
            f"the row says {provider!r}"
        )


def _hint(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(set(known)), n=1)
    return f"did you mean {near[0]!r}?" if near else "write it there, by the name that hosts give it"


@dataclass(frozen=True, slots=True)
class Charge(Dated):
    """What one team is charged over one period, in millionths a GPU-hour. None in `sku`, `purchase_option` is any."""

    team: str
    sku: str | None
    purchase_option: str | None = field(metadata=toml_key(read=optional(option_of)))
    micros_per_gpu_hour: int = field(metadata=toml_key("{money}_per_gpu_hour", read=TomlEntry.micros))
    starts_at: int = field(metadata=since())
    ends_at: int | None = field(metadata=until())
    source: str
    as_of: date

    @property
    def subject(self) -> tuple[str | None, ...]:
        """What is charged to whom."""
        return (self.team, self.sku, self.purchase_option)

    @property
    def told(self) -> str:
        """The same in words."""
        return f"{self.sku or 'any GPU'} ({self.purchase_option or ANY}) for {self.team}"

    def fits(self, team: str | None, sku: str | None, purchase_option: str | None, at_us: int) -> bool:
        """Say whether this is charged for GPU time of this kind, held by this team, at this microsecond."""
        return (
            team == self.team
            and self.sku in (None, sku)
            and self.purchase_option in (None, purchase_option)
            and self.covers(at_us)
        )


def rate_of(
    charges: Sequence[Charge], team: str | None, sku: str | None, purchase_option: str | None, at_us: int
) -> Charge | None:
    """Return the charge that holds, that of the very SKU first, then of the very option; None where none does."""
    fitting = [one for one in charges if one.fits(team, sku, purchase_option, at_us)]
    return max(fitting, key=lambda one: (one.sku is not None, one.purchase_option is not None), default=None)


def price_rows_toml(
    currency: str,
    rows: Iterable[Mapping[str, object]],
    head: Iterable[str] = (),
    regions: Mapping[str, str] | None = None,
) -> str:
    """Return rows as the text of a price file below these lines; a key whose value is None is left out.

    `regions` are the providers by region, where rows are of some.
    """
    lines = [*head, f"currency = {toml_value(currency)}"]
    if regions:
        lines += ["", "[regions]", *(f"{toml_value(name)} = {toml_value(regions[name])}" for name in sorted(regions))]
    for row in rows:
        lines += ["", "[[price]]", *(f"{key} = {toml_value(value)}" for key, value in row.items() if value is not None)]
    return "\n".join(lines) + "\n"


def price_digits(micros: int) -> Decimal:
    """Return a price as a price file has it: 2.60, with as many decimals as it needs."""
    return Decimal(dollars(micros).replace(",", ""))
