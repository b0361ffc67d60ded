"""[regions] of a price file: which regions there are, by the names that hosts give them, and whose each of them is.

[regions]                         # optional: rows that name a provider or a region are then of GPUs there alone
us-east-1 = "aws"
eu-north1 = "nebius"
hall-2 = "own"

A host's region is the inventory's: `region` of its agent, or its label in Kubernetes. Without the table provider and
region are told beside a row's source and choose nothing, as they did before there was one. With it, a host that names
no region, or one that is not in the table, has the price of rows that name neither.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import Mistakes

GroupAndRegion = tuple[str | None, str | None]  # provider, region; None is any


class Placed(Protocol):
    """Anything that may name a provider and a region."""

    @property
    def place(self) -> GroupAndRegion:
        """What it names of them."""

    @property
    def told(self) -> str:
        """What it is, in words."""


@dataclass(frozen=True, slots=True)
class Regions:
    """The table, as pairs of region and provider; empty where the file has none, so that nothing is chosen by it."""

    providers: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.providers)

    def provider_of(self, region: str | None) -> str | None:
        """Return whose a region is; None where the table does not say."""
        return dict(self.providers).get(region) if region is not None else None

    def wanted(self, row: Placed) -> GroupAndRegion:
        """Return which GPUs a row is of by where they stand; a region's row is of its provider, named or not."""
        if not self:
            return None, None
        provider, region = row.place
        return self.provider_of(region) if region is not None else provider, region

    def standing(self, row: Placed) -> str | None:
        """Return a region in which a row holds; None where it holds in all."""
        provider, region = self.wanted(row)
        own = (name for name, whose in self.providers if whose == provider)
        return region if region is not None else next(own, None)

    def fits(self, row: Placed, region: str | None) -> bool:
        """Say whether a row is of GPUs in a region (None: they do not tell where they stand)."""
        provider, wanted = self.wanted(row)
        return wanted in (None, region) and provider in (None, self.provider_of(region))


def read_regions(file: TomlEntry, rows: Iterable[Placed], mistakes: Mistakes) -> Regions:
    """Return the table of a file; rows of a region or a provider that is not in it, or is another's, are wrong."""
    regions = Regions()
    with mistakes.gathered():
        regions = Regions(tuple(sorted(file.texts("regions").items())))
    for row in rows if regions else ():
        with mistakes.gathered():
            _check(file.where, row, regions)
    return regions


def _check(where: str, row: Placed, regions: Regions) -> None:
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
