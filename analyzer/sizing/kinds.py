"""Kinds of GPU that may be chosen: those that the fleet has, that the price file prices, that list prices name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent.wire.units import GIB
from analyzer.prices.list_prices import list_prices
from analyzer.prices.price_book import PriceBook

if TYPE_CHECKING:
    from collector.store.session import Session

_LIST_CURRENCY = "USD"
# What the fleet has in the ledger's newest hour: GPUs in all, the most on one host, the memory that drivers report.
_OWNED = """
    WITH owned AS (
        SELECT DISTINCT sku, node, gpu_uuid FROM ledger
        WHERE hour = (SELECT max(hour) FROM ledger) AND sku IS NOT NULL
    ), told AS (
        SELECT gpu_uuid, min(memory_bytes) AS memory_bytes FROM inventory
        WHERE gpu_uuid IS NOT NULL AND parent_uuid IS NULL GROUP BY gpu_uuid
    ), hosts AS (
        SELECT sku, node, count(*) AS gpus, min(memory_bytes) AS memory_bytes
        FROM owned LEFT JOIN told USING (gpu_uuid) GROUP BY sku, node
    )
    SELECT sku, sum(gpus)::BIGINT, max(gpus)::BIGINT, min(memory_bytes)::BIGINT FROM hosts GROUP BY sku ORDER BY sku
"""
_NAMED = re.compile(r"-(\d{1,4})GB$")


@dataclass(frozen=True, slots=True)
class Owned:
    """What a fleet has of a kind. `memory_bytes` as the driver reports it, None where nobody told."""

    gpus: int
    gpus_a_node: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class HourlyRate:
    """What a GPU-hour costs, in millionths: by the site's price file, or by one provider's list price on demand."""

    micros_per_gpu_hour: int
    source: Literal["site", "list"]
    option: str | None


@dataclass(frozen=True, slots=True)
class Offer:
    """What one provider asks on demand for a GPU-hour of an instance of so many GPUs, in millionths."""

    provider: str
    region: str
    instance_type: str
    gpus: int
    micros_per_gpu_hour: int


@dataclass(frozen=True, slots=True)
class GpuKind:
    """One kind of GPU. Without an inventory its memory is the size in its name, of which the driver keeps some.

    `offers` are list prices, the lowest first, of a kind that the site's file has no price for; `rate` is then the
    lowest.
    """

    sku: str
    memory_bytes: int | None
    gpus_a_node: int
    rate: HourlyRate | None
    owned_gpus: int | None  # None: no fleet was asked
    offers: tuple[Offer, ...] = ()

    def offer(self, gpus: int) -> Offer | None:
        """Return the offer of which whole instances cost least, of those with as many GPUs on a host as a node has.

        Fewer GPUs than that need a host with so many.
        """
        able = [one for one in self.offers if one.gpus >= min(gpus, self.gpus_a_node)]
        return min(able, key=lambda one: -(-gpus // one.gpus) * one.gpus * one.micros_per_gpu_hour, default=None)


def read_owned(session: "Session") -> dict[str, Owned]:
    """Return what the fleet has, by SKU.

    Raises:
        StoreError: the store does not answer.
    """
    return {sku: Owned(*rest) for sku, *rest in session.rows(_OWNED)}


def kinds(book: PriceBook, now_us: int, fleet: Mapping[str, Owned] | None = None) -> list[GpuKind]:
    """Return every kind that the fleet, the price file or the list prices name, by SKU; `fleet` None: none is known."""
    listed = {row.sku: 0 for row in list_prices()}
    for row in list_prices():
        listed[row.sku] = max(listed[row.sku], row.gpus)
    priced = {row.subject[0] for row in (*book.rows, *book.derived)} - {None}
    names = {*listed, *(fleet or {}), *(sku for sku in priced if sku is not None)}
    found = []
    for sku in sorted(names):
        owned = (fleet or {}).get(sku)
        told = owned.memory_bytes if owned and owned.memory_bytes else named_bytes(sku)
        on_node = owned.gpus_a_node if owned else listed.get(sku, 1)
        rate = site_rate(book, sku, now_us, is_owned=owned is not None)
        offers = list_offers(sku) if rate is None and book.currency == _LIST_CURRENCY else ()
        if offers:
            rate = HourlyRate(offers[0].micros_per_gpu_hour, "list", "on_demand")
        owned_gpus = None if fleet is None else (owned.gpus if owned else 0)
        found.append(GpuKind(sku, told, on_node, rate, owned_gpus, offers))
    return found


def named_bytes(sku: str) -> int | None:
    """Return the memory that a SKU's name says, in bytes: 80 GiB of an H100-80GB; None where it says none."""
    match = _NAMED.search(sku)
    return int(match[1]) * GIB if match else None


def site_rate(book: PriceBook, sku: str, now_us: int, *, is_owned: bool) -> HourlyRate | None:
    """Return the lowest price of a SKU that the site's file has now. A row for any GPU is for GPUs that it has."""
    wanted = (sku, None) if is_owned else (sku,)
    rows = [row for row in (*book.rows, *book.derived) if row.subject[0] in wanted and row.covers(now_us)]
    # What names the SKU goes before what is for any.
    rows = [row for row in rows if row.subject[0] == sku] or rows
    found = [(micros, row.purchase_option) for row in rows if (micros := row.micros_at(now_us)) is not None]
    if not found:
        return None
    micros, option = min(found, key=lambda one: (one[0], one[1] or ""))
    return HourlyRate(micros, "site", option)


def list_offers(sku: str) -> tuple[Offer, ...]:
    """Return what providers ask for a SKU on demand, the lowest first and of equals the smallest instance."""
    offers = [
        Offer(row.provider, row.region, row.instance_type, row.gpus, row.micros_per_gpu_hour)
        for row in list_prices()
        if row.sku == sku and row.purchase_option == "on_demand" and row.objection is None
    ]
    return tuple(sorted(offers, key=lambda one: (one.micros_per_gpu_hour, one.gpus, one.provider, one.region)))
