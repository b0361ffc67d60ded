"""The list prices that ship with gpuledger: dated public rows, for hints and for comparison.

They price nothing by themselves: the site's file must name the row that it pays (site.py). Reserved rows are estimates:
a cloud-wide discount, no quote. Each source has a licence, which NOTICE names; rows of others are imported by the site.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from statistics import median_low

from agent.wire.sku import sku
from agent.wire.units import GIB

_ANYWHERE = "any"  # the region of a provider that asks the same in all of its own
_AS_WRITTEN = (
    "provider", "region", "instance_type", "purchase_option", "price_scope", "source", "source_version", "as_of",
)  # fmt: skip
LIST_PRICES = Path(__file__).with_name("list_prices.csv")


@dataclass(frozen=True, slots=True)
class ListPrice:
    """One public price. `as_of` is the source's date."""

    provider: str
    region: str
    instance_type: str
    sku: str
    purchase_option: str
    micros_per_gpu_hour: int
    price_scope: str
    is_estimate: bool
    source: str
    source_version: str
    as_of: str
    note: str
    gpus: int  # of the instance

    @property
    def standing(self) -> str | None:
        """Return the region that it is of; None for all of its provider's."""
        return None if self.region == _ANYWHERE else self.region

    @property
    def objection(self) -> str | None:
        """Why nobody may be charged by this row, or None where it is a price that is really asked."""
        if self.is_estimate:
            return "is an estimate, not a quote"
        if self.price_scope != "instance":
            return "leaves out the host"
        if self.purchase_option not in ("on_demand", "spot"):
            return "is of a doubtful purchase option"
        return None


@cache
def list_prices() -> tuple[ListPrice, ...]:
    """Return every row of the file; it ships with the release, so that a fault in it is our own mistake."""
    with LIST_PRICES.open(newline="", encoding="utf-8") as file:
        return tuple(_row(line) for line in csv.DictReader(file))


def _row(line: dict[str, str]) -> ListPrice:
    micros = Decimal(line["usd_per_gpu_hour"]) * 1_000_000
    if micros != int(micros):
        raise ValueError(f"BUG: a list price has more than six decimals: {line}")
    as_written = {name: line[name] for name in _AS_WRITTEN}
    return ListPrice(
        **as_written,
        sku=sku(line["gpu_sku"], int(line["gpu_mem_gib"]) * GIB),
        micros_per_gpu_hour=int(micros),
        is_estimate=line["is_estimate"] == "true",
        note=line["note"].strip(),
        gpus=int(line["gpu_count"]),
    )


def on_demand(sku: str, rows: Iterable[ListPrice]) -> list[int]:
    """Return the on-demand prices of a SKU in micros, ascending, without estimates, spot and doubtful rows."""
    return sorted(
        row.micros_per_gpu_hour
        for row in rows
        if row.sku == sku and row.purchase_option == "on_demand" and row.objection is None
    )


def range_of(sku: str) -> tuple[int, int] | None:
    """Return the lowest and the highest on-demand list price of a SKU in micros, or None where none is known."""
    prices = on_demand(sku, list_prices())
    return (prices[0], prices[-1]) if prices else None


def median_of(sku: str) -> int | None:
    """Return the (lower) median on-demand list price of a SKU in micros, or None where none is known."""
    prices = on_demand(sku, list_prices())
    return median_low(prices) if prices else None
