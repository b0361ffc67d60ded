"""Which metric of which exporter says what: its name to a column of the contract, with unit and way of reading.

The names are declared elsewhere, once: our own by the contract, those of dcgm-exporter, before and since 4.9, in
agent/wire/dcgm.py. Here stand what only others export, and what a column makes of a sample. Columns that no exporter
serves as they are, are worked out of steps: names that a slot has and no table.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import pyarrow as pa

from agent.wire.contract import Column, Table, metric_name
from agent.wire.dcgm import COUNT, MEGAHERTZ, NANOSECONDS, WATTS, Field, Unit, fields
from agent.wire.serving import ENGINES, Series
from agent.wire.tables import GPU_SAMPLES, TABLES
from collector.pipeline.decoding.validation import Array, pc

_Exporter = Literal[
    "gpuledger", "dcgm-exporter", "dcgm-exporter 4.9", "nvidia_gpu_exporter", "node_exporter", "serving"
]

# value: as it is. growth: a counter, how far it moved. rate: a gauge a second, what it comes to over the interval.
# share: a counter of seconds, as a share of the interval. news: the number of the newest event, which changed or not.
# mean: as it is, and of parts their mean.
ValueReading = Literal["value", "growth", "rate", "share", "news", "mean"]
EVERY = "*"  # as `parts` of a slot: series that differ in any label

# Who is believed where several watch one GPU, the least first: rows of two would interleave, each with half of the
# columns. One dcgm-exporter may serve the names of both kinds.
RANK: dict[_Exporter, int] = {
    "gpuledger": 0, "dcgm-exporter": 1, "dcgm-exporter 4.9": 1, "nvidia_gpu_exporter": 2, "node_exporter": 3,
    "serving": 3,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the samples of a metric go. `column` is one of `table`, or a step to one (`finish`).

    A sample is raw * by / times in the column's unit. Series that differ in the label `parts`, and slots that differ
    in `part`, are parts of one column: amounts are added up, shares are averaged; of several `choice`s the first that
    is there counts. Of the series only those count that have `only` (label, values), and none of `unless` (label,
    values). `engine` is the serving stack whose word it is.
    """

    table: str
    column: str
    reading: ValueReading = "value"
    times: int = 1
    by: int = 1
    parts: str = ""
    part: str = ""
    only: tuple[str, tuple[str, ...]] | None = None
    unless: tuple[str, tuple[str, ...]] | None = None
    choice: int = 0
    engine: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """Table and column: what slots have in common that are parts of one."""
        return self.table, self.column


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of one exporter, and all that is read from it."""

    name: str
    exporter: _Exporter
    slots: tuple[Slot, ...]


@cache
def catalogue() -> dict[str, Metric]:
    """Return every metric that is read, by name."""
    found: dict[str, Metric] = {}
    for metric in (*_own(), *_dcgm(), *_nvidia_smi(), *_node(), *_serving()):
        if metric.name in found:
            raise AssertionError(f"BUG: {metric.name} is declared twice")
        found[metric.name] = metric
    return found


def _own() -> Iterator[Metric]:
    """Yield the names of our own exporter, which follow from the contract."""
    for table in TABLES.values():
        for column in table.columns:
            if (name := metric_name(table, column)) is not None:
                slots = [Slot(table.name, column.name, "growth" if column.kind == "amount" else "value")]
                stem = column.name.removesuffix("_total")
                if column.kind == "counter" and table.has(stem):
                    slots.append(Slot(table.name, stem, "growth"))
                yield Metric(name, "gpuledger", tuple(slots))
    yield Metric("gpuledger_gpu_info", "gpuledger", (Slot("gpu_samples", "known"),))


# Fields of DCGM that dcgm-exporter serves where its list of counters is extended, and that ours does not.
# Source: DCGM 4.7, dcgmlib/dcgm_fields.h.
_SECONDS, _HERTZ = Unit("s"), Unit("Hz")
_FURTHER = (
    Field("", "ecc_uncorrected_events", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", COUNT, "", COUNT, "counter"),
    Field("", "ecc_corrected_events", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", COUNT, "", COUNT, "counter"),
    Field("", "throttle_hardware_seconds", "DCGM_FI_DEV_RELIABILITY_VIOLATION", NANOSECONDS, "", _SECONDS, "counter"),
    Field("", "throttle_hardware_seconds", "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", NANOSECONDS, "", _SECONDS, "counter"),
    Field("", "sm_clock_reference_hertz", "DCGM_FI_DEV_MAX_SM_CLOCK", MEGAHERTZ, "", _HERTZ),
    Field("", "power_limit_watts", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", WATTS, "", WATTS),
)

# What the driver tells of a whole GPU, dcgm-exporter repeats for each of its MIG instances. These alone are theirs.
OF_INSTANCES = frozenset(
    column.name for column in GPU_SAMPLES.columns if column.source.startswith("GPM") and column.unit == "ratio"
) | {"memory_used_bytes", "memory_reserved_bytes", "memory_bytes", "memory_free_bytes"}

# Steps to a column that is worked out of several: `finish`.
STEPS = frozenset({"memory_bytes", "memory_free_bytes", "power_limit_watts", "known"})


def _dcgm() -> Iterator[Metric]:
    for field in (*fields(), *_FURTHER):
        legacy = _dcgm_slots(field, field.legacy_unit, field.legacy)
        if legacy:
            yield Metric(field.legacy, "dcgm-exporter", legacy)
            if field.current and field.current != field.legacy:
                current = _dcgm_slots(field, field.current_unit, field.current)
                yield Metric(field.current, "dcgm-exporter 4.9", current)


def _dcgm_slots(field: Field, unit: Unit, name: str) -> tuple[Slot, ...]:
    """Return what is read from a field of DCGM in this unit; nothing where the contract has no word for it."""

    def slot(column: str, reading: ValueReading = "value", part: str = "") -> Slot:
        return Slot("gpu_samples", column, reading, unit.times, unit.by, part=part)

    reading, of_a_second = field.reading, field.reading.removesuffix("_per_second")
    if reading == "energy_joules_total":
        return slot(reading), slot("energy_joules", "growth")
    if reading == "xid_last":
        return slot("xid_last", "news"), slot("xid_events", "news")
    if reading == "nvlink_bytes_per_second":
        return (slot("nvlink_bytes", "rate"),)
    if of_a_second != reading and GPU_SAMPLES.has(of_a_second):
        return (slot(of_a_second, "rate"),)
    if reading in STEPS:
        return (slot(reading),)
    if not GPU_SAMPLES.has(reading):
        return ()
    column = GPU_SAMPLES.column(reading)
    part = name if reading == "throttle_hardware_seconds" else ""
    return (slot(reading, "growth" if column.kind == "amount" else "value", part=part),)


# Source: utkuozdemir/nvidia_gpu_exporter, docs/METRICS.md; its values are in base units already.
_NVIDIA_SMI = {
    "utilization_gpu_ratio": "utilization_ratio",
    "utilization_memory_ratio": "memory_utilization_ratio",
    "memory_used_bytes": "memory_used_bytes",
    "memory_reserved_bytes": "memory_reserved_bytes",
    "memory_total_bytes": "memory_bytes",
    "power_draw_watts": "power_watts",
    "enforced_power_limit_watts": "power_limit_watts",
    "temperature_gpu": "temperature_celsius",
    "temperature_memory": "memory_temperature_celsius",
    "clocks_current_sm_clock_hz": "sm_clock_hertz",
    "clocks_current_memory_clock_hz": "memory_clock_hertz",
    "clocks_max_sm_clock_hz": "sm_clock_reference_hertz",
}


def _nvidia_smi() -> Iterator[Metric]:
    for name, column in _NVIDIA_SMI.items():
        yield Metric(f"nvidia_smi_{name}", "nvidia_gpu_exporter", (Slot("gpu_samples", column),))
    yield Metric("nvidia_smi_gpu_info", "nvidia_gpu_exporter", (Slot("gpu_samples", "known"),))


def _node() -> Iterator[Metric]:
    """Yield what is read of node_exporter. Source: prometheus/node_exporter, collector/."""

    def one(name: str, *slots: Slot) -> Metric:
        return Metric(f"node_{name}", "node_exporter", slots)

    idle = (
        Slot("host_samples", f"cpu_{mode}", "share", parts="cpu", only=("mode", (mode,))) for mode in ("idle", "iowait")
    )
    yield one("cpu_seconds_total", *idle)
    yield one("memory_MemTotal_bytes", Slot("host_samples", "memory_total"))
    yield one("memory_MemAvailable_bytes", Slot("host_samples", "memory_available_bytes"))
    for what in ("cpu", "io", "memory"):
        column = f"pressure_{what}_some_ratio"
        yield one(f"pressure_{what}_waiting_seconds_total", Slot("host_samples", column, "share"))
    for name, column in (
        ("read_bytes", "read_bytes"),
        ("written_bytes", "written_bytes"),
        ("reads_completed", "reads"),
        ("writes_completed", "writes"),
        ("read_time_seconds", "read_wait_seconds"),
    ):
        yield one(f"disk_{name}_total", Slot("disk_samples", column, "growth"))
    yield one("disk_io_time_seconds_total", Slot("disk_samples", "busy_ratio", "share"))
    for way in ("receive", "transmit"):
        yield one(f"network_{way}_bytes_total", Slot("network_samples", f"{way}_bytes", "growth"))
        for what in ("errs", "drop"):
            name = f"network_{way}_{what}_total"
            yield one(name, Slot("network_samples", "errors", "growth", part=f"{way}_{what}"))
    yield one("network_speed_bytes", Slot("network_samples", "speed_bytes_per_second"))
    for way, name in (("receive", "data_received"), ("transmit", "data_transmitted")):
        yield one(f"infiniband_port_{name}_bytes_total", Slot("network_samples", f"{way}_bytes", "growth"))
    for name in ("symbol_error", "port_receive_errors", "port_discards_transmitted"):
        yield one(f"infiniband_{name}_total", Slot("network_samples", "errors", "growth", part=name))


def _serving() -> Iterator[Metric]:
    """Yield what is read of serving engines. A name may be of two of them: Triton's vLLM backend keeps vLLM's.

    Names without a prefix may be anybody's among a whole site's metrics.
    """
    slots: dict[str, list[Slot]] = {}
    for engine in (engine for engine in ENGINES if not engine.is_bare):
        kinds: tuple[tuple[ValueReading, Mapping[str, tuple[Series, ...]]], ...] = (
            ("growth", engine.counters),
            ("value", engine.gauges),
            ("mean", engine.ratios),
        )
        for reading, columns in kinds:
            for column, names in columns.items():
                for choice, series in enumerate(names):
                    slot = Slot("service_samples", column, reading, parts=EVERY, only=series.only, unless=series.unless)
                    slots.setdefault(series.name, []).append(replace(slot, choice=choice, engine=engine.name))
    for name, found in slots.items():
        yield Metric(name, "serving", tuple(found))


def column_of(slot: Slot) -> Column | None:
    """Return the column of the contract that a slot fills, or None where it is a step to one."""
    table: Table = TABLES[slot.table]
    return table.column(slot.column) if table.has(slot.column) else None


_Columns = dict[str, Array]
MOST_BYTES = float(2**60)


def finish(table: str, columns: _Columns, rows: int) -> _Columns:
    """Return the columns of a table with those that follow from several; the steps are gone but for a GPU's memory."""
    step = _FINISH.get(table)
    return columns if step is None else step(dict(columns), rows)


def memory_bytes(columns: _Columns) -> Array | None:
    """Return the device memory of each row, or None where no exporter says enough."""
    if "memory_bytes" in columns:
        return _bytes(columns["memory_bytes"])
    if "memory_free_bytes" not in columns or "memory_used_bytes" not in columns:
        return None
    held = pc.add(columns["memory_free_bytes"], pc.cast(columns["memory_used_bytes"], pa.float64()))
    reserved = columns.get("memory_reserved_bytes")
    return _bytes(held if reserved is None else pc.add(held, pc.fill_null(pc.cast(reserved, pa.float64()), 0.0)))


def _gpu(columns: _Columns, _: int) -> _Columns:
    both = columns.pop("nvlink_bytes", None)
    if both is not None:
        # Both ways together, which is all that the ledger reads of them: half of it stands for each way.
        half = _bytes(pc.divide(both, 2.0))
        for way in ("nvlink_receive_bytes", "nvlink_transmit_bytes"):
            columns[way] = pc.coalesce(columns[way], half) if way in columns else half
    return columns


def _host(columns: _Columns, rows: int) -> _Columns:
    idle, iowait = columns.pop("cpu_idle", None), columns.pop("cpu_iowait", None)
    total = columns.pop("memory_total", None)
    if iowait is not None:
        columns["cpu_iowait_ratio"] = iowait
    if idle is not None:
        waiting = pa.nulls(rows, pa.float64()) if iowait is None else iowait
        rest = pc.subtract(pc.subtract(1.0, idle), pc.fill_null(waiting, 0.0))
        columns["cpu_busy_ratio"] = pc.max_element_wise(rest, 0.0, skip_nulls=False)
    available = columns.get("memory_available_bytes")
    if total is not None and available is not None:
        used = pc.subtract(_bytes(total), available)
        columns["memory_used_bytes"] = pc.if_else(pc.greater_equal(used, 0), used, pa.scalar(None, pa.int64()))
    return columns


def _bytes(values: Array) -> Array:
    """Return whole bytes, null where nobody can believe them."""
    inside = pc.and_(pc.greater_equal(values, 0.0), pc.less(values, MOST_BYTES))
    return pc.cast(pc.round(pc.if_else(inside, values, pa.scalar(None, pa.float64()))), pa.int64())


_FINISH: dict[str, Callable[[_Columns, int], _Columns]] = {"gpu_samples": _gpu, "host_samples": _host}
