"""Read the minutes as if they were samples, where the samples have expired.

A session gets temporary views of the contract's tables: what is kept of the samples, and before that the minutes, with
the contract's columns. Pages and old runs are then read by the same queries. What a minute cannot tell again: what
happened within it. A pause shorter than a minute has no edges any more, a sample's extremes are those of the mean, and
a histogram is not unfolded. The ledger is never made anew from minutes (analyzer/days.py); docs/storage.md says how far
it would move.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from collector.tiers.schema import place
from collector.tiers.tables import HOUR_US, MINUTE_US, TIERED, Tiered, tiered

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session


def add_views(
    store: "Store", session: "Session", tables: Iterable[str] = TIERED, samples_from: int | None = None
) -> None:
    """Lay views over tables of the contract, in this session alone. `samples_from` stands in for what was dropped.

    Raises:
        StoreError: the store has no tiers, or does not answer.
    """
    for name in tables:
        session.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {both_sql(place(store), tiered(name), samples_from)}")


def both_sql(where: str, table: Tiered, samples_from: int | None = None) -> str:
    """Return a query for samples, and before they begin, minutes; and before those, hours."""
    first = str(samples_from) if samples_from is not None else _kept(where, table.source.name)
    minutes_first = _kept(where, table.name("minutes"))
    columns = ", ".join([*table.source.names, "batch"])
    return f"""
        SELECT {columns} FROM {where}.{table.source.name} WHERE started_at >= {first}
        UNION ALL BY NAME {_as_samples(where, table, "minutes", MINUTE_US)}
            WHERE started_at < {first} AND started_at >= {minutes_first}
        UNION ALL BY NAME {_as_samples(where, table, "hours", HOUR_US)} WHERE started_at < {minutes_first}
    """


def _kept(where: str, name: str) -> str:
    return f"(SELECT coalesce(max(kept_from), 0) FROM {where}.retention WHERE table_name = '{name}')"


def _as_samples(where: str, table: Tiered, size: str, bucket_us: int) -> str:
    """Return a query for a tier's rows as samples, each as long as it was measured: the rest of it stays silence."""
    there = {kept.name for kept in table.kept}
    told = [
        f"{measure.sample} AS {measure.column.name}"
        for measure in table.measures
        if measure.kept or measure.column.name in there
    ]
    length = f"greatest(1, least({bucket_us}, measured_ms * 1000))"
    return f"""SELECT {", ".join([*table.keys, *told])}, started_at, started_at + {length} AS ended_at, 0 AS batch
        FROM {where}.{table.name(size)}"""
