"""The week as batches: what every agent of the site would have sent, hour by hour, and nothing of what is true."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.wire.units import HOUR_MS
from simulator.columns import Array, Block, Columns, of_rows, of_wire
from simulator.fleet import Fleet
from simulator.plan import Plan, Seat
from simulator.readings import GpuReadings, HostReadings, run_id, workloads
from simulator.site import Chunk, Host, Site

# What the scheduler and the fleet file say: who owns which GPU, who holds it, and the state of every host.
_STATES = {"down": "down", "drained": "drained"}  # of an outage: what the scheduler calls it

Row = dict[str, Any]


def ownership(site: Site) -> list[Row]:
    """Return a row for every GPU: owned from the start of the span on, until further notice."""
    return [
        {
            "node": host.name,
            "gpu_uuid": site.gpu_uuid(host, gpu),
            "slot": gpu,
            "owned_from": site.started_at,
            "sku": host.sku.name,
            "purchase_option": host.sku.purchase_option,
            "source": "fleet file",
        }
        for host in site.hosts
        for gpu in range(host.gpus)
    ]


def allocations(fleet: Fleet) -> list[Row]:
    """Return a row for every GPU of every attempt that touches the span, and one for every run that waits."""
    rows = [
        _allocation(fleet.site, run.plan, seat)
        for run in fleet.runs
        if run.plan.started < fleet.site.span and (run.plan.ended is None or run.plan.ended > 0)
        for seat in run.plan.seats
    ]
    return rows + [_plan(fleet.site, plan) | {"node": None, "pending_reason": "Resources"} for plan in fleet.pending]


def node_states(fleet: Fleet) -> list[Row]:
    """Return the states of every host over the whole span, intervals abutting."""
    return [row for host in fleet.site.hosts for row in _states(fleet, host)]


def inventory(site: Site, host: Host) -> list[Row]:
    """Return what a host's agent finds when it starts: the host, then its GPUs."""
    return [_host(site, host)] + [_gpu(site, host, gpu) for gpu in range(host.gpus)]


def _plan(site: Site, plan: Plan) -> Row:
    return {
        "submitted_at": site.microseconds(plan.submitted),
        "run_id": run_id(site, plan),
        "attempt": plan.attempt,
        "requested_gpus": len(plan.seats),
        "time_limit_seconds": plan.limit_seconds,
        "priority": plan.priority,
        "scheduler": "slurm",
        "user": f"{plan.account}-batch",
        "account": plan.account,
        "name": plan.name,
        "queue": plan.queue,
        "labels": json.dumps({"launcher": "torchrun", "model": plan.name} | plan.labels, sort_keys=True),
    }


def _allocation(site: Site, plan: Plan, seat: Seat) -> Row:
    return _plan(site, plan) | {
        "node": seat.node,
        "gpu_uuid": site.gpu_uuid(site.host(seat.node), seat.gpu),
        "rank": seat.rank,
        "started_at": site.microseconds(plan.started),
        "ended_at": None if plan.ended is None else site.microseconds(plan.ended),
        "exit_status": plan.exit_status,
    }


def _states(fleet: Fleet, host: Host) -> list[Row]:
    told = [outage for outage in fleet.outages if outage.node == host.name and outage.kind in _STATES]
    rows, now = [], 0
    for outage in sorted(told, key=lambda outage: outage.start):
        if now < outage.start:
            rows.append(_state(fleet.site, host, now, outage.start, "up", ""))
        rows.append(_state(fleet.site, host, outage.start, outage.end, _STATES[outage.kind], outage.reason))
        now = outage.end
    if now < fleet.site.span:
        rows.append(_state(fleet.site, host, now, fleet.site.span, "up", ""))
    return rows


def _state(site: Site, host: Host, start: int, end: int, state: str, reason: str) -> Row:
    return {
        "node": host.name,
        "started_at": site.microseconds(start),
        "ended_at": site.microseconds(end),
        "state": state,
        "reason": reason or None,
    }


def _found(site: Site, host: Host) -> Row:
    return {
        "node": host.name,
        "started_at": site.started_at,
        "ended_at": site.started_at + site.every_seconds * 1_000_000,
        "rack": host.rack,
        "block": "spine-1",
        "zone": "hall-1",
        "topology_source": "topology.conf",
        "node_group": host.sku.name.split("-")[0].lower(),
    }


def _host(site: Site, host: Host) -> Row:
    return _found(site, host) | {
        "cpu_cores": host.cores,
        "host_memory_bytes": host.memory_bytes,
        "local_nvme_bytes": host.nvme_bytes,
        "driver_version": "570.86.15",
    }


def _gpu(site: Site, host: Host, gpu: int) -> Row:
    sku = host.sku
    return _found(site, host) | {
        "gpu_uuid": site.gpu_uuid(host, gpu),
        "gpu_index": gpu,
        "pci_bus_id": f"00000000:{0x18 + 0x11 * gpu:02X}:00.0",
        "sku": sku.name,
        "memory_bytes": sku.memory_bytes,
        "power_limit_watts": sku.limit_watts,
        "sm_clock_max_hertz": sku.clock_hertz,
        "numa_node": gpu * 2 // host.gpus,
        "pcie_generation": sku.pcie_generation,
        "pcie_generation_max": sku.pcie_generation,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "nvlink_peers": sku.nvlink_peers,
        "driver_version": "570.86.15",
    }


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
