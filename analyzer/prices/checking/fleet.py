"""Read from a store what needs a price: the GPUs of the fleet, and the hours that the ledger has of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session

_HOST = """
WITH host AS (
    SELECT node, arg_max(node_group, (started_at, batch)) FILTER (gpu_uuid IS NULL) AS node_group,
        arg_max(region, (started_at, batch)) FILTER (gpu_uuid IS NULL) AS region,
        quantile_disc(power_limit_watts, 0.5) AS watts
    FROM inventory GROUP BY node
)
"""


@dataclass(frozen=True, slots=True)
class Owned:
    """GPUs of one kind that the store's fleet owns, last seen owned at `at_us`; `watts` is their power limit."""

    sku: str | None
    purchase_option: str | None
    node_group: str | None
    gpus: int
    at_us: int
    region: str | None = None
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class KindHour:
    """GPU time of one kind in one hour of the ledger."""

    sku: str | None
    purchase_option: str | None
    node_group: str | None
    region: str | None
    hour: int
    milliseconds: int


def owned_kinds(session: "Session", now_us: int) -> list[Owned]:
    """Return what the store's fleet owns by kind; each with the latest moment at or before `now_us` it was owned."""
    rows = session.rows(
        f"""
        {_HOST}
        SELECT sku, purchase_option, node_group, count(DISTINCT (node, gpu_uuid, slot)),
               max(greatest(owned_from, least($now, coalesce(owned_until, $now + 1) - 1))), region,
               quantile_disc(watts, 0.5)
        FROM ownership LEFT JOIN host USING (node)
        GROUP BY sku, purchase_option, node_group, region ORDER BY ALL
        """,
        {"now": now_us},
    )
    return [Owned(*row) for row in rows]


def booked_kinds(session: "Session") -> list[KindHour]:
    """Return the hours of the ledger by kind of GPU: a row a kind and hour, however many GPUs there are."""
    rows = session.rows(
        f"""
        {_HOST}
        SELECT sku, purchase_option, node_group, region, hour, sum(milliseconds)::BIGINT
        FROM ledger LEFT JOIN host USING (node) GROUP BY ALL ORDER BY ALL
        """
    )
    return [KindHour(*row) for row in rows]
