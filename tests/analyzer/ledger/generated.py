"""Fleets of the worst kind, made by a seed: gaps, overlaps, sharers, MIG, late arrivals, odd edges, lost GPUs."""

import random
from typing import Any

from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, SECOND, Fleet

SPAN = 3 * HOUR
SKUS = ("H100-80GB", "A100-80GB", "V100-16GB")
EXITS = (None, "completed", "failed", "cancelled", "preempted", "node_failed", "timeout", "out_of_memory")


def generate(fleet: Fleet, seed: int, hosts: int) -> None:
    """Add hosts whose every row is drawn by the seed; one host is a fleet of its own, with one to three GPUs."""
    draw = random.Random(seed)
    rows: dict[str, list[dict[str, Any]]] = {
        name: []
        for name in (
            "ownership",
            "inventory",
            "gpu_samples",
            "allocations",
            "node_states",
            "process_samples",
            "run_samples",
            "disk_samples",
        )
    }
    for host in range(hosts):
        _host(draw, f"s{seed}n{host}", rows)
        if host % 2:  # of the others nobody knows whether anything was saved
            written = {"node": f"s{seed}n{host}", "device": "nvme0n1", "written_bytes": 0}
            spans = range(MONDAY, MONDAY + 2 * SPAN, 5 * MINUTE)
            rows["disk_samples"] += [written | {"started_at": at, "ended_at": at + MINUTE} for at in spans]
    with fleet.together():
        for table, values in rows.items():
            if values:
                fleet.add(table, values)


def _host(draw: random.Random, node: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    gpus = [f"{node}g{index}" for index in range(draw.randint(1, 3))]
    for gpu in gpus:
        _own(draw, node, gpu, rows)
        units = _mig(draw, node, gpu, rows) if draw.random() < 0.2 else [gpu]
        for unit in units:
            _samples(draw, node, unit, None if unit == gpu else gpu, rows)
        held = len(rows["allocations"])
        _allocations(draw, node, units, rows)
        _shares(random.Random(f"{node}{gpu}"), rows["allocations"][held:], rows)
    if draw.random() < 0.3:
        start, end = _span(draw)
        state = draw.choice(("up", "drained", "reserved", "down"))
        rows["node_states"].append({"node": node, "started_at": start, "ended_at": end, "state": state})


def _span(draw: random.Random) -> tuple[int, int]:
    start = MONDAY + draw.randrange(0, SPAN - MINUTE, draw.choice((1, 1000, SECOND, MINUTE)))
    return start, start + draw.randrange(1000, SPAN, draw.choice((1, 1000, SECOND)))


def _own(draw: random.Random, node: str, gpu: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    fate = draw.random()
    if fate < 0.1:  # nobody declared it: its agent is the last resort
        return
    row: dict[str, Any] = {
        "node": node,
        "gpu_uuid": gpu,
        "sku": draw.choice(SKUS),
        "purchase_option": "owned",
        "owned_from": MONDAY,
    }
    if fate < 0.4:  # it arrives mid-hour
        row["owned_from"] = MONDAY + draw.randrange(0, SPAN)
    if fate > 0.9:  # it leaves mid-hour, and is bought again in another way
        middle = row["owned_from"] + draw.randrange(1, SPAN)
        rows["ownership"].append(row | {"owned_from": middle, "purchase_option": "reserved"})
    rows["ownership"].append(row)


def _mig(draw: random.Random, node: str, gpu: str, rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    at = {"node": node, "started_at": MONDAY, "ended_at": MONDAY + SECOND}
    rows["inventory"].append(at | {"gpu_uuid": gpu, "mig_slices_max": 7})
    instances = []
    left = 7
    while left and draw.random() < 0.8:
        slices = draw.randint(1, min(4, left))
        left -= slices
        instances.append(f"MIG-{gpu}-{left}")
        rows["inventory"].append(at | {"gpu_uuid": instances[-1], "parent_uuid": gpu, "mig_slices": slices})
    return instances or [gpu]


def _samples(
    draw: random.Random, node: str, unit: str, parent: str | None, rows: dict[str, list[dict[str, Any]]]
) -> None:
    at = MONDAY + draw.randrange(0, HOUR)
    while at < MONDAY + SPAN and draw.random() > 0.01:
        every = draw.choice((10 * SECOND, MINUTE, 5 * MINUTE, 700_001, 95 * MINUTE)) + draw.randrange(0, 5000)
        at += draw.choice((0, 0, 0, 0, 12 * MINUTE, -30 * SECOND))  # gaps, and overlaps of two agents
        rows["gpu_samples"].append(_sample(draw, node, unit, parent, at, at + every))
        at += every


def _sample(draw: random.Random, node: str, unit: str, parent: str | None, start: int, end: int) -> dict[str, Any]:
    row: dict[str, Any] = {"node": node, "gpu_uuid": unit, "parent_uuid": parent, "started_at": start, "ended_at": end}
    if draw.random() < 0.05:
        return row | {"up": False}
    if draw.random() < 0.1:
        return row | {"up": True}  # the driver says nothing of use
    busy = draw.choice((0.0, 0.0, 0.3, 1.0, draw.random()))
    row |= {"up": True, "utilization_ratio": busy, "utilization_zero_ratio": draw.choice((None, 1 - busy))}
    row |= {"sm_active_ratio": draw.choice((None, busy * draw.random()))}
    row |= {"memory_used_bytes": draw.choice((None, 0, 10**9))}
    row |= {"sm_clock_hertz": 1.5e9, "sm_clock_reference_hertz": draw.choice((1.5e9, 1.9e9))}
    return row | {"throttle_thermal_seconds": draw.choice((0.0, 1.0)), "nvlink_receive_bytes": draw.choice((0, 10**11))}


def _allocations(draw: random.Random, node: str, units: list[str], rows: dict[str, list[dict[str, Any]]]) -> None:
    for number in range(draw.randint(0, 4)):
        start, end = _span(draw)
        ended = draw.random() < 0.8
        row = {
            "run_id": f"{draw.choice(('slurm', 'declared', 'process', 'kubernetes'))}/{node}/{number}",
            "node": node,
            "gpu_uuid": draw.choice(units),
            "started_at": start,
            "ended_at": end if ended else None,
            "exit_status": draw.choice(EXITS) if ended else None,
            "attempt": draw.choice((None, 0, 1)),
            "name": draw.choice(("train", "notebook", "vllm")),
        }
        rows["allocations"].append(row)
        if draw.random() < 0.5:  # its processes, or what it unpacks, were seen some time later
            seen = {"node": node, "run_id": row["run_id"], "memory_used_bytes": 10**9, "written_bytes": 2 * 10**9}
            life = start + draw.randrange(0, 10 * MINUTE)
            rows["run_samples"].append(seen | {"started_at": life, "ended_at": life + MINUTE})


def _shares(draw: random.Random, allocations: list[dict[str, Any]], rows: dict[str, list[dict[str, Any]]]) -> None:
    """Tell of some runs' processes what SM time they took, now and then more of it than there is."""
    for number, row in enumerate(allocations):
        at = row["started_at"]
        while draw.random() < 0.9 and row["gpu_uuid"] is not None:
            told = {"sm_utilization_ratio": draw.choice((None, 0.0, draw.random(), 1.0)), "pid": number}
            every = draw.choice((10 * SECOND, MINUTE, 30 * MINUTE + 7))
            seen = {name: row[name] for name in ("run_id", "node", "gpu_uuid")}
            rows["process_samples"].append(seen | told | {"started_at": at, "ended_at": at + every})
            at += every
