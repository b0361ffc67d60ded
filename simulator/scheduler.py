"""What the scheduler and the fleet file say: who owns which GPU, who holds it, and the state of every host."""

import json
from typing import Any

from simulator.fleet import Fleet
from simulator.plan import Plan, Seat
from simulator.site import Host, Site
from simulator.workloads import run_id

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
    return rows + [_waiting(fleet.site, plan) for plan in fleet.pending]


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


def _waiting(site: Site, plan: Plan) -> Row:
    return _plan(site, plan) | {"node": None, "pending_reason": "Resources"}


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
