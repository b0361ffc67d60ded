"""The week as batches: what every agent of the site would have sent, hour by hour, and nothing of what is true."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agent.wire.units import HOUR_MS
from simulator.columns import Array, Block, Columns, of_rows, of_wire
from simulator.fleet import Fleet
from simulator.gpus import GpuReadings
from simulator.hosts import HostReadings
from simulator.scheduler import allocations, inventory, node_states, ownership
from simulator.site import Chunk, Host
from simulator.workloads import workloads

_AGENT_EVERY = 5  # minutes between two rows of an agent about itself


@dataclass(frozen=True, slots=True)
class Batch:
    """What one agent sends of one hour. `tables` holds columns as numpy arrays (masked where null) and lists."""

    agent: str
    stream: str
    sequence: int
    sent_at: int  # microseconds, UTC
    tables: dict[str, Columns]

    @property
    def rows(self) -> int:
        """How many rows of gpu_samples it holds; the scheduler's has none."""
        return len(self.tables.get("gpu_samples", {}).get("node", ()))


def batches(fleet: Fleet, hosts: tuple[str, ...] | None = None, every: int = HOUR_MS) -> Iterator[Batch]:
    """Yield the scheduler's batch, then the span day by day and host by host; `hosts` picks some hosts only.

    A batch holds `every` milliseconds: whole hours, of which a day's are a multiple.
    """
    if hosts is None:
        yield scheduler_batch(fleet)
    for chunk in fleet.site.chunks():
        for host in fleet.site.hosts:
            if hosts is None or host.name in hosts:
                yield from host_batches(fleet, host, chunk, every)


def batch_count(fleet: Fleet) -> int:
    """Return how many batches there are; hours in which an agent is silent make none."""
    hours = -(-fleet.site.span // HOUR_MS)
    return 1 + sum(hours - _silent_hours(fleet, host, fleet.site.span) for host in fleet.site.hosts)


def scheduler_batch(fleet: Fleet) -> Batch:
    """Return what the scheduler and the fleet file say of the whole span, every run as it finally was."""
    site = fleet.site
    rows = {"ownership": ownership(site), "allocations": allocations(fleet), "node_states": node_states(fleet)}
    agent = f"scheduler/{site.cluster}"
    sent_at = site.microseconds(site.span)
    return Batch(agent, site.stream(agent), 0, sent_at, {name: of_rows(name, listed) for name, listed in rows.items()})


def host_batches(fleet: Fleet, host: Host, chunk: Chunk, every: int = HOUR_MS) -> Iterator[Batch]:
    """Yield a batch for every hour (or so many milliseconds) of a chunk in which the host's agent was heard."""
    site = fleet.site
    blocks = host_blocks(fleet, host, chunk)
    for start in range(chunk.start, chunk.end, every):
        end = min(start + every, chunk.end)
        parts = {table: block.between(start, end) for table, block in blocks}
        tables = {table: of_wire(site, table, host.name, part) for table, part in parts.items() if len(part.starts)}
        if not tables:
            continue
        if start == 0:
            tables["inventory"] = of_rows("inventory", inventory(site, host))
        sequence = start // HOUR_MS - _silent_hours(fleet, host, start)
        yield Batch(host.name, site.stream(host.name), sequence, site.microseconds(end), tables)


def host_blocks(fleet: Fleet, host: Host, chunk: Chunk) -> list[tuple[str, Block]]:
    """Return the rows of one host and chunk by table; a table may have several blocks."""
    readings = HostReadings(fleet, host, chunk)
    disks = [("nvme0n1", "block", readings.drive()), ("/data", "nfs", readings.mount())]
    links = [("eth0", "ethernet", readings.ethernet())]
    links += [("rdma0", "infiniband", readings.fabric())] if host.has_fabric else []
    whole = {
        "gpu_samples": _gpu_block(fleet, host, chunk),
        "host_samples": _minutes(readings, [readings.processors()]),
        "disk_samples": _devices(readings, "mount_kind", disks),
        "network_samples": _devices(readings, "link_kind", links),
        "agent_samples": _agent(readings),
        **workloads(fleet, host, chunk),
    }
    return [(table, block.where(fleet.heard(host, block.starts, block.ends))) for table, block in whole.items()]


def _silent_hours(fleet: Fleet, host: Host, before: int) -> int:
    """Return in how many hours before this one the host's agent sent nothing."""
    starts = np.arange(0, before, HOUR_MS, dtype=np.int64)
    silences = [outage for outage in fleet.outages if outage.node == host.name and outage.silences]
    return sum(int(((starts >= gap.start) & (starts + HOUR_MS <= gap.end)).sum()) for gap in silences)


def _gpu_block(fleet: Fleet, host: Host, chunk: Chunk) -> Block:
    """Return gpu_samples: all GPUs of a beat, then the next beat."""
    readings = GpuReadings(fleet, host, chunk)
    up, beats = readings.up, len(readings.edges) - 1
    measured = {
        name: np.where(readings.counted if name == "energy_joules" else up, values, np.nan)
        for name, values in readings.columns().items()
    }
    measured["xid_events"] = readings.fell.astype(np.float64)
    measured["ecc_uncorrected_events"] = np.where(up, 0.0, np.nan)
    columns: dict[str, Array] = {name: values.T.ravel() for name, values in measured.items()}
    uuids = [fleet.site.gpu_uuid(host, gpu) for gpu in range(host.gpus)]
    columns["gpu_uuid"] = np.tile(np.array(uuids, dtype=object), beats)
    columns["up"] = up.T.ravel()
    starts, ends = np.repeat(readings.edges[:-1], host.gpus), np.repeat(readings.edges[1:], host.gpus)
    return Block(starts, ends, columns)


def _minutes(readings: HostReadings, parts: list[dict[str, Array]]) -> Block:
    """Return rows minute by minute, one for each part in every minute."""
    names = {name: None for part in parts for name in part}
    columns = {name: np.stack([_or_null(part, name) for part in parts], axis=1).ravel() for name in names}
    starts, ends = np.repeat(readings.edges[:-1], len(parts)), np.repeat(readings.edges[1:], len(parts))
    return Block(starts, ends, columns)


def _or_null(part: dict[str, Array], name: str) -> Array:
    return part[name] if name in part else np.full(len(next(iter(part.values()))), np.nan)


def _devices(readings: HostReadings, kind: str, devices: list[tuple[str, str, dict[str, Array]]]) -> Block:
    block = _minutes(readings, [measured for _, _, measured in devices])
    minutes = len(readings.edges) - 1
    names = np.tile(np.array([name for name, _, _ in devices], dtype=object), minutes)
    kinds = np.tile(np.array([kind_of for _, kind_of, _ in devices], dtype=object), minutes)
    return Block(block.starts, block.ends, block.columns | {"device": names, kind: kinds})


def _agent(readings: HostReadings) -> Block:
    """Return agent_samples: an agent in order, every few minutes."""
    starts, ends = readings.edges[:-1:_AGENT_EVERY], readings.edges[_AGENT_EVERY::_AGENT_EVERY]
    steady = {"beats_late": 0.0, "gaps": 0.0, "dropped_batches": 0.0, "spool_bytes": 0.0, "rss_bytes": 44.0 * 2**20}
    spent = {"cpu_seconds": 0.012 * _AGENT_EVERY * 60, "clock_offset_seconds": 0.001}
    return Block(starts, ends, {name: np.full(len(starts), value) for name, value in (steady | spent).items()})
