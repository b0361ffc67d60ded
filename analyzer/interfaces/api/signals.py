"""What was measured of runs, from the ten-minute windows that the analysis keeps; no sample is read."""

from typing import Any

from pydantic import Field

from analyzer.interfaces.api.selection import Selection
from analyzer.period import Period
from analyzer.reports.document import Model
from collector.store.session import Session

# The name here, the name in a window, and by what its whole numbers are divided.
_SIGNALS = (
    ("activity_ratio", "activity", 1000),
    ("utilization_ratio", "utilization", 1000),
    ("tensor_active_ratio", "tensor", 1000),
    ("dram_active_ratio", "dram", 1000),
    ("still_ratio", "still", 1000),
    ("power_limit_ratio", "power", 1000),
    ("clock_lost_ratio", "slowed_most", 1000),
    ("host_cpu_busy_ratio", "cpu_busy", 1000),
    ("cores_used", "cores_used_milli", 1000),
    ("cores_allotted", "cores_milli", 1000),
    ("disk_busy_ratio", "disk_busy", 1000),
    ("disk_read_bytes_per_second", "block_read", 1),
    ("mount_read_bytes_per_second", "mount_read", 1),
    ("rdma_transmit_bytes_per_second", "rdma_out", 600),
    ("worker_busiest_cpu_ratio", "busiest", 1000),
    ("worker_waiting_ratio", "waiting", 1000),
)
_QUANTILES = (10, 50, 90, 99)


class Signal(Model):
    """One signal over the windows in which it was measured: its mean by GPU time, its median, ninth tenth and peak."""

    name: str
    windows: int = Field(description="Ten-minute windows in which it was measured.")
    mean: float
    p50: float
    p90: float
    peak: float


class Activity(Model):
    """How busy the GPUs were while held, by GPU time: SM activity where it is measured, else NVML's utilization."""

    p10_ratio: float
    p50_ratio: float
    p90_ratio: float
    p99_ratio: float


def signals(session: Session, chosen: Selection, period: Period) -> list[Signal]:
    """Return what was measured of the selected runs; a signal that nobody reported is left out."""
    extracted = ", ".join(f"(counts->>'$.{field}')::BIGINT AS v{place}" for place, (_, field, _) in enumerate(_SIGNALS))
    counted = ", ".join(
        f"count(v{place}), sum(v{place}::HUGEINT * ms) FILTER (v{place} IS NOT NULL), "
        f"sum(ms) FILTER (v{place} IS NOT NULL), quantile_disc(v{place}, 0.5), quantile_disc(v{place}, 0.9), "
        f"max(v{place})"
        for place in range(len(_SIGNALS))
    )
    row = session.row(
        f"""
        WITH windows AS (
            SELECT greatest((counts->>'$.ms')::BIGINT, 1) AS ms, {extracted} FROM run_windows
            WHERE window_start >= $from AND window_start < $until AND run_id IN (SELECT l.run_id {chosen.source()})
        )
        SELECT {counted} FROM windows
        """,
        chosen.values | {"from": period.start, "until": period.end},
    )
    found = (_signal(name, row[6 * place : 6 * place + 6], per) for place, (name, _, per) in enumerate(_SIGNALS))
    return [signal for signal in found if signal is not None]


def _signal(name: str, figures: tuple[Any, ...], per: int) -> Signal | None:
    windows, weighted, weight, median, tenth, peak = figures
    if not windows:
        return None
    p50, p90, most = (_ratio(value, per) for value in (median, tenth, peak))
    return Signal(name=name, windows=windows, mean=_ratio(weighted, weight * per), p50=p50, p90=p90, peak=most)


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6)


def activity(session: Session, chosen: Selection, period: Period) -> Activity | None:
    """Return the exact distribution of activity, by GPU time; None where none was measured."""
    wanted = ", ".join(f"min(permille) FILTER (upto * 100 >= whole * {each})" for each in _QUANTILES)
    row = session.row(
        f"""
        WITH busy AS (
            SELECT permille, sum(milliseconds) AS ms FROM run_activity
            WHERE hour >= $from AND hour < $until AND run_id IN (SELECT l.run_id {chosen.source()}) GROUP BY permille
        ), upto AS (
            SELECT permille, sum(ms) OVER (ORDER BY permille) AS upto, sum(ms) OVER () AS whole FROM busy
        )
        SELECT {wanted} FROM upto
        """,
        chosen.values | {"from": period.start, "until": period.end},
    )
    if row[0] is None:
        return None
    return Activity(**{f"p{each}_ratio": value / 1000 for each, value in zip(_QUANTILES, row, strict=True)})
