"""Keys that the derived prices share: an amount for a GPU or for its node, and what every row says of itself."""

from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Any, ClassVar

from analyzer.errors import ConfigError
from analyzer.prices.derived.parts import PricePart
from analyzer.prices.money import dollars
from analyzer.prices.options import GpuPrice
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import between, since, toml_key, until

GPUS_PER_NODE = "gpus_per_node"
_GPUS_MOST = 1024
PRICE_MOST_MICROS = 10**12  # a million an hour: what is more was meant per node, per year, or not at all


@dataclass(frozen=True, slots=True)
class Amount:
    """Millionths of the currency, said of one GPU or of a node of `gpus`."""

    micros: int
    gpus: int

    @property
    def per_gpu(self) -> Fraction:
        """One GPU's part of it, in millionths."""
        return Fraction(self.micros, self.gpus)

    @property
    def told(self) -> str:
        """As it was said: "200,000.00 a node of 8"."""
        return dollars(self.micros) + (f" a node of {self.gpus}" if self.gpus > 1 else " a GPU")


@dataclass(frozen=True, slots=True)
class DerivedRow(GpuPrice):
    """What all derived rows have: what they are the price of, over which period, and who says so."""

    sku: str
    node_group: str | None
    provider: str | None
    region: str | None
    starts_at: int = field(metadata=since())
    ends_at: int | None = field(metadata=until())
    source: str
    as_of: date

    stale_days: ClassVar[int] = 90  # as of prices that were written; books and tariffs are made by the year

    def parts(self) -> tuple[PricePart, ...]:
        """Return what a GPU-hour's price consists of; nothing where it has no parts."""
        raise NotImplementedError

    def micros_at(self, at_us: int) -> int | None:
        """Return what a GPU-hour costs at this microsecond; None where it does not say."""
        return sum(part.micros_at(at_us) for part in self.parts()) if self.covers(at_us) else None

    def faults(self, today: date) -> list[tuple[str, str]]:
        """Return what is to be asked of it besides its age, as (kind, sentence with the way out)."""
        raise NotImplementedError


def amount_keys(stem: str, unit: str = "", *, is_needed: bool = False) -> dict[str, Any]:
    """Return the metadata of an amount that is said of a GPU or of a node.

    Of usd_staff and _month these are the keys usd_staff_per_gpu_month and usd_staff_per_node_month.
    """
    keys = f"{stem}_per_gpu{unit}", f"{stem}_per_node{unit}", GPUS_PER_NODE
    return toml_key(*keys, read=_amount if is_needed else amount_or_none)


def amount_or_none(entry: TomlEntry, gpu: str) -> Amount | None:
    """Return an amount that is said of a GPU or of a node, or None where it is left out; `gpu` is the GPU's key.

    Raises:
        ConfigError: both are given, or a node's without its GPUs.
    """
    node = _of_node(gpu)
    if entry.has(gpu) and entry.has(node):
        raise ConfigError(f"{entry.where}: give one of {gpu!r} and {node!r}, not both")
    if entry.has(gpu):
        return Amount(entry.micros(gpu), 1)
    return Amount(entry.micros(node), _gpus_per_node(entry, node)) if entry.has(node) else None


def _amount(entry: TomlEntry, gpu: str) -> Amount:
    found = amount_or_none(entry, gpu)
    if found is None:
        raise ConfigError(f"{entry.where}: {gpu!r} is missing (or {_of_node(gpu)!r})")
    return found


def _of_node(gpu: str) -> str:
    return gpu.replace("_per_gpu", "_per_node")


def _gpus_per_node(entry: TomlEntry, key: str) -> int:
    """Return how many GPUs share what is said of a node."""
    if not entry.has(GPUS_PER_NODE):
        raise ConfigError(f"{entry.where}: {key!r} needs {GPUS_PER_NODE!r}, such as 8")
    gpus: int = between(1, _GPUS_MOST)(entry, GPUS_PER_NODE)
    return gpus
