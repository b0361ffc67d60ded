"""One reading of this host, for a person or for a program: two readings a while apart, since amounts need two."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from agent.clock import Clock
from agent.config import AgentConfig
from agent.daemon.agent import AgentSource, AgentState
from agent.sampling.sampler import UNHURRIED_SECONDS, Sampler, tables_of
from agent.sampling.wiring import HostSources, open_stamper
from agent.source import Tables, Value
from agent.wire.units import GB, SECOND_US

Row = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class IntervalReading:
    """What the host said of one interval; `failing` names the sources that could not be read, and why."""

    node: str
    interval_seconds: float
    tables: Tables
    failing: dict[str, str]
    no_gpu: str

    def document(self) -> dict[str, object]:
        """Return it as JSON's types, in the contract's names and units."""
        return {
            "node": self.node,
            "interval_seconds": self.interval_seconds,
            "no_gpu": self.no_gpu or None,
            "failing": self.failing,
            "tables": {name: rows for name, rows in self.tables.items() if rows},
        }


def read_once(config: AgentConfig, host_sources: HostSources, clock: Clock, every_seconds: float) -> IntervalReading:
    """Read everything, wait, read everything again, and return what was said of the time between."""
    stamper = open_stamper(config)
    own = AgentSource(lambda: AgentState(sampler, None, None, host_sources), config.proc)
    sampler = Sampler(stamper, [*host_sources.sources, own], clock, every_seconds, hang_seconds=UNHURRIED_SECONDS)
    said = sampler.beat(everything=True)
    began = clock.monotonic()
    clock.wait_until(began + round(every_seconds * SECOND_US), threading.Event())
    said += sampler.beat(everything=True)
    sampler.close()
    elapsed_seconds = (clock.monotonic() - began) / SECOND_US
    silent = {one.name: one.failing for one in host_sources.providers() if one.failing}
    return IntervalReading(
        config.node_name,
        elapsed_seconds,
        tables_of(said),
        sampler.failing | silent | dict(host_sources.gpus.unreadable()),
        host_sources.gpus.no_gpu,
    )


def reading_lines(reading: IntervalReading) -> list[str]:
    """Return the reading as lines for a person; what was not reported is left out, never shown as 0."""
    inventory = {str(row.get("gpu_uuid")): row for row in reading.tables.get("inventory", [])}
    gpus = reading.tables.get("gpu_samples", [])
    seconds = reading.interval_seconds
    none = f"no GPU ({reading.no_gpu})" if reading.no_gpu else "no GPU responded"
    what = f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}" if gpus else none
    return [
        f"{reading.node}: {what}, over {seconds:.1f} s",
        *(_gpu(row, inventory.get(str(row["gpu_uuid"]), {})) for row in gpus),
        *map(_host, reading.tables.get("host_samples", [])),
        *(
            _moved("disk", row, "read_bytes", "written_bytes", seconds)
            for row in reading.tables.get("disk_samples", [])
        ),
        *(
            _moved("network", row, "receive_bytes", "transmit_bytes", seconds)
            for row in reading.tables.get("network_samples", [])
        ),
        *map(_run, reading.tables.get("process_samples", [])),
        *(f"{name} could not be read: {why}" for name, why in reading.failing.items()),
    ]


def _gpu(row: Row, found: Row) -> str:
    name = f"gpu {_or(found.get('gpu_index'), '?')}  {_or(found.get('sku'), 'GPU')}  {row['gpu_uuid']}"
    if row.get("up") is False:
        return f"{name}  not responding"
    return _joined(
        name,
        _percent("busy", row.get("utilization_ratio")),
        _percent("SM active", row.get("sm_active_ratio")),
        _gigabytes("memory", row.get("memory_used_bytes"), found.get("memory_bytes")),
        _unit(row.get("power_watts"), 1, "W"),
        _unit(row.get("temperature_celsius"), 1, "C"),
        _unit(row.get("sm_clock_hertz"), 10**6, "MHz"),
    )


def _host(row: Row) -> str:
    return _joined(
        "host",
        _percent("CPU busy", row.get("cpu_busy_ratio")),
        _percent("I/O wait", row.get("cpu_iowait_ratio")),
        _gigabytes("memory used", row.get("memory_used_bytes"), None),
    )


def _moved(what: str, row: Row, into: str, out: str, seconds: float) -> str:
    rates = [
        f"{column.removesuffix('_bytes')} {value / seconds / 10**6:.1f} MB/s"
        for column in (into, out)
        if isinstance(value := row.get(column), int | float)
    ]
    return _joined(f"{what} {row['device']}", *rates, _percent("busy", row.get("busy_ratio")))


def _run(row: Row) -> str:
    return _joined(
        f"run {row['run_id']}",
        f"on {row['gpu_uuid']}" if row.get("gpu_uuid") else "",
        _unit(row.get("cpu_seconds"), 1, "s of CPU"),
        f"{row['workers']} workers" if row.get("workers") else "",
    )


def _joined(name: str, *parts: str) -> str:
    return "  ".join(part for part in (name, *parts) if part)


def _percent(what: str, value: Value) -> str:
    return f"{what} {value * 100:.1f}%" if isinstance(value, int | float) else ""


def _gigabytes(what: str, used: Value, total: Value) -> str:
    if not isinstance(used, int | float):
        return ""
    of = f" of {total / GB:.1f}" if isinstance(total, int | float) else ""
    return f"{what} {used / GB:.1f}{of} GB"


def _unit(value: Value, scale: int, unit: str) -> str:
    return f"{value / scale:.0f} {unit}" if isinstance(value, int | float) else ""


def _or(value: Value, other: str) -> str:
    return other if value is None else str(value)
