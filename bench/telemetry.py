"""What an agent on a host of eight H100s says, beat by beat, as numpy columns: values that vary as a host's do.

The GPUs' signals are the simulated fleet's (simulator). The columns that version 2 of the contract added, which
the simulator leaves out, follow from them as a driver's would. All other tables are walks between plausible ends.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from agent.wire.contract import Column
from agent.wire.tables import TABLES
from agent.wire.units import DAY_MS, HOUR_MS
from simulator.fleet import Fleet
from simulator.readings import GpuReadings
from simulator.site import SECOND, Chunk, Host, alpha_site

GPUS = 8
BEATS_A_SLOW_ROW = 10  # processes, cgroups, flows and services are read every ten seconds
NODE = "b00000"  # placeholders, which bodies.py writes over: every name of their kind is as long
UUID = "GPU-00000000-0000-5000-8000-000000000000"
MIDWEEK = 2 * DAY_MS + 10 * HOUR_MS
HBM_HERTZ = 2.619e9

Values: TypeAlias = Any  # a numpy array of numbers, or a list of texts or flags
Array: TypeAlias = npt.NDArray[Any]

# What an agent leaves null on an H100: bench_agent.py's host, asked for 45 s over the fake driver.
NEVER = {
    "gpu_samples": {"parent_uuid", "throttle_sync_boost_seconds", "xid_last", "xid_numbers"}
    | {"xid_last_timestamp_seconds", "ecc_uncorrected_events", "ecc_corrected_events", "pcie_replay_events"},
    "network_samples": {"speed_bytes_per_second"},
    "agent_samples": {"dropped_from", "dropped_until", "attribution_age_seconds"},
}
# Rows a beat, or every ten beats: a training run on four GPUs with seven peers, and a service on the other four.
BEATEN = {"gpu_samples": GPUS, "host_samples": 1, "disk_samples": 2, "network_samples": 9, "agent_samples": 1}
SLOW = {"process_samples": GPUS, "run_samples": 2, "flow_samples": 14, "service_samples": 1, "progress": 1}
TEXTS: dict[str, tuple[str, ...]] = {
    "gpu_uuid": (UUID,),
    "run_id": ("slurm/bench/81234", "slurm/bench/79902"),
    "peer": tuple(f"b{number:05}" for number in range(7)),
    "owner": ("ada",),
    "link_kind": ("ethernet", *(["infiniband"] * 8)),
    "mount_kind": ("block", "nfs"),
    "transport": ("rdma",),
    "engine": ("vllm",),
    "checkpoint": ("step-1200",),
    "recovery_action": ("none",),
    "parent_uuid": (UUID,),
}
DEVICES = {"disk_samples": ("nvme0n1", "/data"), "network_samples": ("eth0", *(f"mlx5_{n}" for n in range(8)))}
# Where a walk stays, by unit: lowest, highest, digits.
WANDERS = {
    "ratio": (0.0, 1.0, 4),
    "bytes": (0.0, 2.0**34, 0),
    "seconds": (0.0, 10.0, 3),
    "count": (0.0, 4000.0, 0),
    "events": (0.0, 0.0, 0),
    "celsius": (30.0, 80.0, 0),
    "watts": (70.0, 700.0, 1),
    "joules": (700.0, 7000.0, 1),
    "hertz": (1.0e9, 2.0e9, 0),
    "unix_seconds": (1.7e9, 1.8e9, 0),
    "bytes_per_second": (5.0e10, 5.0e10, 0),
}


@dataclass(frozen=True, slots=True)
class Rows:
    """One table over a stretch: `per_step` rows, then those of the next step; a step is `beats` beats."""

    per_step: int
    beats: int
    columns: dict[str, Values]

    def between(self, first_beat: int, last_beat: int) -> dict[str, Values]:
        """Return the columns of the steps within these beats, half-open."""
        start, end = (beat // self.beats * self.per_step for beat in (first_beat, last_beat))
        return {name: values[start:end] for name, values in self.columns.items()}


class Simulation:
    """The fleet that the hosts' signals are taken from; made once, since it takes seconds."""

    @cached_property
    def fleet(self) -> Fleet:
        """A week of 24 hosts, of which the first sixteen have H100s."""
        return Fleet(alpha_site(seed=1, every_seconds=1))

    @property
    def hosts(self) -> list[Host]:
        """The hosts with H100s."""
        return [host for host in self.fleet.site.hosts if host.has_fabric]

    def tables(
        self, host: Host, beats: int, names: tuple[str, ...], *, every_column: bool = False, start: int = MIDWEEK
    ) -> dict[str, Rows]:
        """Return the tables of one host over so many seconds, from a time of the simulated week on (milliseconds).

        `every_column` also fills what an agent leaves null.
        """
        rng = self.fleet.site.generator("bench", host.name, start)
        found = {}
        for name in names:
            per_step, step = (BEATEN[name], 1) if name in BEATEN else (SLOW[name], BEATS_A_SLOW_ROW)
            count = beats // step * per_step
            known = self._gpus(host, start, beats, rng) if name == "gpu_samples" else {}
            columns = _columns(name, count, per_step, known, rng, every_column=every_column)
            found[name] = Rows(per_step, step, columns | _times(count, per_step, step))
        return found

    def _gpus(self, host: Host, start: int, beats: int, rng: np.random.Generator) -> dict[str, Values]:
        readings = GpuReadings(self.fleet, host, Chunk(start // SECOND, start, start + beats * SECOND, SECOND))
        made = readings.columns()
        made |= _as_a_driver_would(made, rng)
        return {name: values.T.ravel() for name, values in made.items()}


def _as_a_driver_would(made: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Return what NVML and GPM tell beside what the simulator knows."""
    zero, power, clock = np.zeros_like(made["power_watts"]), made["power_watts"], made["sm_clock_hertz"]
    swing = np.abs(rng.standard_normal(power.shape)) * 0.03 * power
    sm = made["sm_active_ratio"]
    return {
        "memory_utilization_ratio": made["dram_active_ratio"].round(2),
        "encoder_utilization_ratio": zero,
        "decoder_utilization_ratio": zero,
        "graphics_active_ratio": np.minimum(sm * 1.04, 1).round(3),
        "fp64_active_ratio": zero,
        "fp32_active_ratio": (sm * 0.11).round(3),
        "fp16_active_ratio": (sm * 0.06).round(3),
        "power_watts_min": (power - swing).round(1),
        "power_watts_max": (power + swing).round(1),
        "sm_clock_hertz_min": np.minimum(clock, clock - rng.integers(0, 3, clock.shape) * 15e6),
        "memory_clock_hertz": np.full_like(power, HBM_HERTZ),
        "memory_temperature_celsius": made["temperature_celsius"] + 9,
        "xid_events": zero,
        **{name: np.full_like(power, 5) for name in ("pcie_generation", "pcie_generation_max")},
        **{name: np.full_like(power, 16) for name in ("pcie_width", "pcie_width_max")},
        **{f"remapped_rows_{kind}": zero for kind in ("corrected", "uncorrected")},
    }


def _columns(
    table: str, count: int, per_step: int, known: dict[str, Values], rng: np.random.Generator, *, every_column: bool
) -> dict[str, Values]:
    left_out = {"started_at", "ended_at", *(() if every_column else NEVER.get(table, ()))}
    return {
        column.name: _column(table, column, count, per_step, known.get(column.name), rng)
        for column in TABLES[table].columns
        if column.name not in left_out
    }


def _column(
    table: str, column: Column, count: int, per_step: int, known: Array | None, rng: np.random.Generator
) -> Values:
    if column.name == "node":
        return [NODE] * count
    if column.type == "string":
        texts = DEVICES.get(table, ("device",)) if column.name == "device" else TEXTS.get(column.name, ("text",))
        return (list(texts) * count)[:count]
    if column.type == "bool":
        return [column.name == "up"] * count
    values = _walk(column, count, per_step, rng) if known is None else known
    return np.ascontiguousarray(values, dtype=np.int64 if column.type == "int64" else np.float64)


def _walk(column: Column, count: int, per_step: int, rng: np.random.Generator) -> Array:
    """Return a value that wanders, one walk for each row of a step."""
    low, high, digits = WANDERS.get(column.unit, (0.0, 1.0, 3))
    strides = (high - low) * (0.0 if column.kind == "fact" else 0.01)
    steps = rng.standard_normal((count // per_step, per_step)) * strides
    path = np.cumsum(steps, axis=0) + rng.uniform(low, high, per_step)
    reflected = low + np.abs((path - low + (high - low)) % (2 * (high - low) or 1) - (high - low))
    values: Array = np.clip(reflected, low, high).round(digits).ravel()
    return values


def _times(count: int, per_step: int, beats: int) -> dict[str, Array]:
    """Return microseconds from 0: bodies.py shifts them."""
    starts = np.arange(count, dtype=np.int64) // per_step * beats * 1_000_000
    return {"started_at": starts, "ended_at": starts + beats * 1_000_000}
