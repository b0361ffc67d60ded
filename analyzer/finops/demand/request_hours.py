"""Read how much GPU time was asked for, hour by hour, and what waits now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session

SkuAndOption = tuple[str | None, str]  # SKU, stage


@dataclass(frozen=True, slots=True)
class Waiting:
    """Runs that wait for GPUs of one kind now."""

    sku: str | None
    runs: int
    gpus: int


def asked_for(session: "Session", start: int, end: int) -> dict[SkuAndOption, dict[int, int]]:
    """Return GPU milliseconds by kind and hour that were asked for."""
    (query,) = statements("finops/demand/asked.sql")
    found: dict[SkuAndOption, dict[int, int]] = {}
    for sku, stage, hour, milliseconds in session.rows(query, {"start": start, "end": end}):
        found.setdefault((sku, stage), {})[hour] = milliseconds
    return found


def waiting_runs(session: "Session", now: int) -> tuple[Waiting, ...]:
    """Return what waits at the end of the newest hour, most GPUs first."""
    rows = session.rows(
        "SELECT sku, count(*), sum(gpus)::BIGINT FROM runs WHERE submitted_at < ? AND started_at IS NULL "
        "AND ended_at IS NULL GROUP BY ALL ORDER BY 3 DESC, 1",
        [now],
    )
    return tuple(Waiting(*row) for row in rows)


def summed_hours(demand: Mapping[SkuAndOption, Mapping[int, int]], wanted: "list[SkuAndOption]") -> dict[int, int]:
    """Return GPU milliseconds by hour of several kinds."""
    found: dict[int, int] = {}
    for kind in wanted:
        for hour, milliseconds in demand[kind].items():
            found[hour] = found.get(hour, 0) + milliseconds
    return found
