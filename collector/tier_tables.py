"""Which tables have tiers, and how each of their columns is kept: by its kind, but for the exceptions named here.

A tier's row has the contract's names: a gauge's column holds its mean, an amount's its sum. Beside them stand what else
is kept (`_ms`, `_min`, `_max`, `_histogram`), and `measured_ms`: how much of the time was told of at all, so that
silence stays silence.
"""

from dataclasses import dataclass
from functools import cache, partial

from agent.wire.contract import Column, Table
from agent.wire.tables import TABLES
from agent.wire.units import HOUR_US, MINUTE_US
from collector.tier_measures import (
    Measure,
    Rule,
    TierColumn,
    amount,
    down,
    folded,
    histogram,
    last,
    mean,
    most,
    spread_column,
    united,
)

SIZES = {"minutes": MINUTE_US, "hours": HOUR_US}

# Tables that are charted, or that a rule reads, long after their samples are gone. Not agent_samples: what was missed
# is in the ledger, and of an agent only its last days matter. Not progress, allocations and what else a run or a
# scheduler says: that is little, and is kept as it came.
TIERED = (
    "gpu_samples",
    "host_samples",
    "disk_samples",
    "network_samples",
    "process_samples",
    "run_samples",
    "service_samples",
    "flow_samples",
)

# Two process trees of one run on one GPU, or two ways to count flows, are not two words on one thing.
_FURTHER_KEYS = {
    "process_samples": ("pid",),
    "service_samples": ("engine",),
    "flow_samples": ("transport",),
}
_HISTOGRAMS = {"gpu_samples": ("utilization_ratio", "sm_active_ratio")}

_EXCEPTIONS: dict[str, dict[str, Rule]] = {
    "gpu_samples": {
        "up": down,
        "utilization_zero_ratio": mean,  # already shares: their extremes say nothing
        "utilization_low_ratio": mean,
        "utilization_high_ratio": mean,
        "memory_reserved_bytes": last,
        "power_watts": partial(spread_column, least="power_watts_min", most="power_watts_max"),
        "power_watts_min": folded,
        "power_watts_max": folded,
        "sm_clock_hertz": partial(spread_column, least="sm_clock_hertz_min"),
        "sm_clock_hertz_min": folded,
        "sm_clock_reference_hertz": mean,
        "memory_clock_hertz": mean,
        "pcie_generation": most,  # a link that rests lowers it
        "pcie_generation_max": most,
        "pcie_width": most,
        "pcie_width_max": most,
        "xid_last_timestamp_seconds": most,
        "xid_numbers": united,
        "remapped_rows_corrected": most,
        "remapped_rows_uncorrected": most,
        "row_remap_pending": last,
        "row_remap_failure": most,
    },
    "network_samples": {"speed_bytes_per_second": last},
    "run_samples": {"cores_allotted": last},
    "service_samples": {"slo_seconds": last},
}
_BY_KIND: dict[str, Rule] = {"gauge": spread_column, "amount": amount, "counter": last, "fact": last}


@dataclass(frozen=True, slots=True)
class Tiered:
    """One table with its tiers. `keys` tell its series apart, besides the time."""

    source: Table
    keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    histograms: tuple[str, ...]

    @property
    def stem(self) -> str:
        """The subject's word: gpu, host, disk, …"""
        return self.source.name.removesuffix("_samples")

    def name(self, size: str) -> str:
        """Return the table of a tier: gpu_minutes, gpu_hours."""
        return f"{self.stem}_{size}"

    @property
    def kept(self) -> tuple[TierColumn, ...]:
        """Every column that is made by an aggregate, `measured_ms` first."""
        measured = TierColumn(
            "measured_ms", "BIGINT", "sum(ms)::BIGINT", "sum(measured_ms)::BIGINT", "milliseconds told of"
        )
        return (measured, *(kept for measure in self.measures for kept in measure.kept))

    @property
    def definitions(self) -> tuple[str, ...]:
        """The columns of a tier's table, as SQL defines them."""
        return (
            *(f"{key} {_KEY_TYPES[self.source.column(key).type]}" for key in self.keys),
            "started_at BIGINT NOT NULL",
            *(f"{kept.name} {kept.type}" for kept in self.kept),
            *(f"{histogram(name)} MAP(SMALLINT, INTEGER)" for name in self.histograms),
        )

    @property
    def order(self) -> str:
        """What rows are ordered by in a file: the host first, because the GPUs of a run share hosts and not UUIDs."""
        return ", ".join([*self.keys, "started_at"])


_KEY_TYPES = {"string": "VARCHAR", "int64": "BIGINT"}


@cache
def tiered(name: str) -> Tiered:
    """Return a table of the contract with its tiers; a KeyError is our own mistake."""
    table = TABLES[name]
    keys = tuple(column.name for column in table.columns if _is_key(table, column))
    measures = tuple(_measure(table, column) for column in table.columns if not _names_row(column, keys))
    return Tiered(table, keys, measures, _HISTOGRAMS.get(name, ()))


def _is_key(table: Table, column: Column) -> bool:
    names = column.kind == "key" and column.name not in ("started_at", "ended_at")
    return names or column.name in _FURTHER_KEYS.get(table.name, ())


def _names_row(column: Column, keys: tuple[str, ...]) -> bool:
    return column.name in (*keys, "started_at", "ended_at")


def _measure(table: Table, column: Column) -> Measure:
    rule = _EXCEPTIONS.get(table.name, {}).get(column.name, _BY_KIND[column.kind])
    return rule(column)


def tier_tables() -> dict[str, tuple[str, ...]]:
    """Return the columns of every tier's table, as SQL defines them."""
    return {tiered(name).name(size): tiered(name).definitions for name in TIERED for size in SIZES}
