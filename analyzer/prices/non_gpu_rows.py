"""Read what a price file says of other costs than GPUs. Each row is dated and has its source, as prices have.

[[energy]]
node_group = "h100"               # optional: of these nodes, before the general row
usd_per_kwh = 0.11                # optional: without it energy and carbon have no price
pue = 1.30                        # what the hall adds to what machines draw, applied once
carbon = "DEU"                    # a country, or a cloud's region such as "gcp europe-west4"
from = 2026-01-01                 # (or grams_per_kwh = 381, by this row's own source)
source = "power contract 12"
as_of = 2026-11-01

[[storage]]
name = "scratch"
gib = 512_000                     # what is paid for, full or empty
usd_per_gib_month = 0.02          # a month is a twelfth of 8,760 hours
from = 2026-01-01
source = "storage contract"
as_of = 2026-11-01

[[checkpoints]]
usd_per_gib_written = 0.005       # what writing costs beside keeping, such as requests of an object store
from, until, source, as_of

[[host]]                          # only where CPU and memory are not in the GPUs' price
node_group = "h100"               # optional
usd_per_core_hour = 0.01
usd_per_gib_hour = 0.001
from, until, source, as_of

How much carbon dioxide a kilowatt-hour stands for is of tables that ship. Both tables are data of the package
codecarbon 3.3.2 (https://github.com/mlco2/codecarbon, MIT licence), columns picked: `carbon_countries.csv`, the mean of
a country's grid over a year, compiled there from Our World in Data; and `carbon_cloud_regions.csv`, what Google
publishes of its regions. Means of a year say nothing of an hour, and nothing of contracts for green power: whoever
knows better writes grams_per_kwh.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TypeVar

from analyzer.errors import ConfigError
from analyzer.prices.derived import read_pue
from analyzer.prices.rows import Dated, refuse_overlaps
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import Mistakes, fixed, read_rows, since, toml_key, until

_SOURCE = "codecarbon 3.3.2"
COUNTRIES = Path(__file__).with_name("carbon_countries.csv")
CLOUD_REGIONS = Path(__file__).with_name("carbon_cloud_regions.csv")


@dataclass(frozen=True, slots=True)
class Intensity:
    """Milligrams of CO2 equivalent for a kilowatt-hour, of what and by whom: "Germany, 2023; codecarbon 3.3.2"."""

    milligrams_per_kwh: Fraction
    told: str


def intensity(name: str) -> Intensity | None:
    """Return the intensity of a country ("DEU") or a cloud's region ("gcp europe-west4"); None: not in the tables."""
    return _table().get(name)


def near(name: str) -> str | None:
    """Return the name in the tables that is most like this one, or None."""
    found = get_close_matches(name, _table(), n=1) or get_close_matches(name.upper(), _table(), n=1)
    by_country = {one.told.partition(",")[0].casefold(): key for key, one in _table().items()}
    return by_country.get(name.casefold()) or (found[0] if found else None)


@cache
def _table() -> dict[str, Intensity]:
    found = {}
    with COUNTRIES.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            told = f"{line['country']}, {line['year']}; {_SOURCE}"
            found[line["iso3"]] = Intensity(_milligrams(line), told)
    with CLOUD_REGIONS.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            name = f"{line['provider']} {line['region']}"
            found[name] = Intensity(_milligrams(line), f"{name} ({line['place']}); {line['source']}, by {_SOURCE}")
    return found


def _milligrams(line: dict[str, str]) -> Fraction:
    return Fraction(Decimal(line["carbon_intensity_g_per_kwh"])) * 1000


BESIDE_KEYS = ("energy", "storage", "checkpoints", "host")


@dataclass(frozen=True, slots=True)
class Tariff(Dated):
    """One dated row. `name` is the node group (None: all others) or, of storage, its name."""

    kind: str
    name: str | None
    starts_at: int = field(metadata=since())
    ends_at: int | None = field(metadata=until())
    source: str
    as_of: date

    @property
    def subject(self) -> tuple[str | None, ...]:
        """What it is about."""
        return (self.kind, self.name)

    @property
    def told(self) -> str:
        """The same in words."""
        return f"{self.kind} {self.name}" if self.name else self.kind


def _carbon(entry: TomlEntry, _: str) -> Intensity | None:
    if entry.has("carbon") and entry.has("grams_per_kwh"):
        raise ConfigError(f"{entry.where}: give one of 'carbon' and 'grams_per_kwh', not both")
    if entry.has("grams_per_kwh"):
        return Intensity(Fraction(entry.micros("grams_per_kwh"), 1000), entry.text("source"))
    name = entry.text_or_none("carbon")
    if name is None:
        return None
    found = intensity(name)
    if found is None:
        hint = f"did you mean {like!r}?" if (like := near(name)) else "write grams_per_kwh with your own source"
        raise ConfigError(f"{entry.where}: 'carbon' {name!r} is not a known country code or cloud region; {hint}")
    return found


@dataclass(frozen=True, slots=True)
class Energy(Tariff):
    """What a kilowatt-hour costs, in millionths, what the hall adds, and its carbon; None was not told."""

    kind: str = field(metadata=fixed("energy"))
    name: str | None = field(metadata=toml_key("node_group"))
    micros_per_kwh: int | None = field(metadata=toml_key("{money}_per_kwh", read=TomlEntry.micros_or_none))
    pue_millionths: int = field(metadata=toml_key("pue", read=read_pue))
    carbon: Intensity | None = field(metadata=toml_key("carbon", "grams_per_kwh", read=_carbon))


@dataclass(frozen=True, slots=True)
class Storage(Tariff):
    """So many GiB (in millionths) are paid for by the month."""

    kind: str = field(metadata=fixed("storage"))
    name: str | None = field(metadata=toml_key(read=TomlEntry.text))
    gib_millionths: int = field(metadata=toml_key("gib", read=TomlEntry.micros))
    micros_per_gib_month: int = field(metadata=toml_key("{money}_per_gib_month", read=TomlEntry.micros))


@dataclass(frozen=True, slots=True)
class Checkpoints(Tariff):
    """What a GiB costs that checkpoints write."""

    kind: str = field(metadata=fixed("checkpoints"))
    name: str | None = field(metadata=fixed(None))
    micros_per_gib: int = field(metadata=toml_key("{money}_per_gib_written", read=TomlEntry.micros))


@dataclass(frozen=True, slots=True)
class Host(Tariff):
    """What a core and a GiB of memory cost an hour, where they are priced apart from the GPUs."""

    kind: str = field(metadata=fixed("host"))
    name: str | None = field(metadata=toml_key("node_group"))
    micros_per_core_hour: int = field(metadata=toml_key("{money}_per_core_hour", read=TomlEntry.micros))
    micros_per_gib_hour: int = field(metadata=toml_key("{money}_per_gib_hour", read=TomlEntry.micros))


@dataclass(frozen=True, slots=True)
class NonGpuPrices:
    """Everything of a price file that is not the price of a GPU."""

    energy: tuple[Energy, ...] = ()
    storage: tuple[Storage, ...] = ()
    checkpoints: tuple[Checkpoints, ...] = ()
    hosts: tuple[Host, ...] = ()

    @property
    def rows(self) -> tuple[Tariff, ...]:
        """All rows, in the order in which they are told."""
        return (*self.energy, *self.storage, *self.checkpoints, *self.hosts)


_Row = TypeVar("_Row", bound=Tariff)


def row_of(rows: Sequence[_Row], name: str | None, at_us: int) -> _Row | None:
    """Return the row that holds for this node group (or of this name), its own before the general one."""
    fitting = [row for row in rows if row.covers(at_us) and row.name in (None, name)]
    return max(fitting, key=lambda row: row.name is not None, default=None)


def read_beside(file: TomlEntry, money: str, mistakes: Mistakes) -> NonGpuPrices:
    """Return the rows that are right; `money` is the currency as keys begin: usd. No two of one thing hold at once."""
    found = NonGpuPrices(
        read_rows(file, "energy", Energy, mistakes, money),
        read_rows(file, "storage", Storage, mistakes, money),
        read_rows(file, "checkpoints", Checkpoints, mistakes, money),
        read_rows(file, "host", Host, mistakes, money),
    )
    with mistakes.gathered():
        refuse_overlaps(file.where, found.rows, "rows")
    return found
