"""A simulated site as a Prometheus and a Slurm accounting database would remember it: no agent was ever there.

The metrics are those of dcgm-exporter's default list, in its units, as OpenMetrics; a scrape tells of the time before
it. What Slurm remembers is the JSON of sacct, in the types of 23.11 and newer.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from simulator.fleet import Fleet
from simulator.plan import Plan
from simulator.readings import GpuReadings
from simulator.site import Chunk, Host, Site

MODELS = {"H100-80GB": "NVIDIA H100 80GB HBM3", "A100-80GB": "NVIDIA A100-SXM4-80GB"}
Array = Any


@dataclass(frozen=True, slots=True)
class Family:
    """One metric of dcgm-exporter: of which column, times what, and whether the exporter adds it up."""

    name: str
    column: str
    times: float
    is_counter: bool = False
    form: str = "%.0f"


FAMILIES = (
    Family("DCGM_FI_DEV_GPU_UTIL", "utilization_ratio", 100),
    Family("DCGM_FI_DEV_FB_USED", "memory_used_bytes", 2**-20),
    Family("DCGM_FI_DEV_POWER_USAGE", "power_watts", 1, form="%.1f"),
    Family("DCGM_FI_DEV_SM_CLOCK", "sm_clock_hertz", 1e-6),
    Family("DCGM_FI_DEV_MAX_SM_CLOCK", "sm_clock_reference_hertz", 1e-6),
    Family("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_joules_total", 1000, form="%.0f"),
    Family("DCGM_FI_DEV_POWER_VIOLATION", "throttle_power_seconds", 1e9, is_counter=True),
    Family("DCGM_FI_DEV_THERMAL_VIOLATION", "throttle_thermal_seconds", 1e9, is_counter=True),
    Family("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio", 1, form="%.3f"),
    Family("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_active_ratio", 1, form="%.3f"),
    Family("DCGM_FI_PROF_DRAM_ACTIVE", "dram_active_ratio", 1, form="%.3f"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One host's readings over one chunk: columns are GPU by beat, times the ends of the beats in seconds UTC."""

    host: Host
    times: Array
    heard: Array
    columns: dict[str, Array]


class Exporter:
    """Every host's dcgm-exporter: what was added up goes on from day to day."""

    def __init__(self, fleets: list[Fleet]) -> None:
        self._fleets = fleets
        self._totals: dict[str, float] = {}

    def days(self) -> Iterator[list[Part]]:
        """Yield the readings of all hosts, day by day."""
        for fleet in self._fleets:
            for chunk in fleet.site.chunks():
                yield [_part(fleet, host, chunk) for host in fleet.site.hosts]

    def write(self, parts: list[Part], file: IO[str], names: tuple[str, ...] | None = None) -> int:
        """Write a day as OpenMetrics; return the samples."""
        samples = 0
        for family in FAMILIES:
            if names is None or family.name in names:
                file.write(f"# TYPE {family.name} gauge\n")  # a counter would have to be called _total
                samples += sum(self._write(family, part, file) for part in parts if family.column in part.columns)
        file.write("# EOF\n")
        return samples

    def _write(self, family: Family, part: Part, file: IO[str]) -> int:
        site, samples = self._fleets[0].site, 0
        for gpu, values in enumerate(part.columns[family.column] * family.times):
            told, good = values, part.heard & ~np.isnan(values)
            head = f"{family.name}{{{_labels(site, part.host, gpu)}}}"
            if family.is_counter:
                told = self._totals.get(head, 0.0) + np.cumsum(np.nan_to_num(values))
                self._totals[head] = float(told[-1])
            pairs = zip(told[good].tolist(), part.times[good].tolist(), strict=True)
            file.writelines(map(f"{head} {family.form} %.3f\n".__mod__, pairs))
            samples += int(good.sum())
        return samples


def _part(fleet: Fleet, host: Host, chunk: Chunk) -> Part:
    readings = GpuReadings(fleet, host, chunk)
    times = (fleet.site.started_at + readings.edges[1:] * 1000) / 1e6
    columns = {
        name: np.where(readings.up, values, np.nan).astype(np.float64) for name, values in readings.columns().items()
    }
    return Part(host, times, readings.heard, columns)


def _labels(site: Site, host: Host, gpu: int) -> str:
    labels = {
        "gpu": gpu,
        "UUID": site.gpu_uuid(host, gpu),
        "pci_bus_id": f"00000000:{0x18 + 0x11 * gpu:02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": MODELS[host.sku.name],
        "Hostname": host.name,
    }
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


_STATES = {
    "completed": "COMPLETED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "preempted": "PREEMPTED",
    "node_failed": "NODE_FAIL",
    "timeout": "TIMEOUT",
    "out_of_memory": "OUT_OF_MEMORY",
}


def sacct(fleets: list[Fleet]) -> str:
    """Return what `sacct --json` would print of these weeks. GPUs are counted, never named."""
    found = [record for fleet in fleets for run in fleet.runs if (record := _record(fleet, run.plan)) is not None]
    return json.dumps({"meta": {"Slurm": {"release": "24.11.5"}}, "errors": [], "jobs": found})


def _number(value: int | None) -> dict[str, object]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def _record(fleet: Fleet, plan: Plan) -> dict[str, object] | None:
    site = fleet.site
    if plan.started >= site.span or (plan.ended is not None and plan.ended <= 0):
        return None
    whole, _, task = plan.number.partition("_")
    nodes = list(dict.fromkeys(seat.node for seat in plan.seats))
    gres = "shard" if plan.shared > 1 else "gpu"
    tres = [
        {"type": "cpu", "name": "", "id": 1, "count": 8},
        {"type": "gres", "name": gres, "id": 1001, "count": len(plan.seats)},
    ]
    is_over = plan.ended is not None and plan.ended <= site.span

    def seconds(milliseconds: int | None) -> int:
        return 0 if milliseconds is None else site.microseconds(milliseconds) // 1_000_000

    return {
        "job_id": _raw(plan),
        "cluster": site.cluster,
        "account": plan.account,
        "user": f"{plan.account}-batch",
        "name": plan.name,
        "partition": plan.queue,
        "qos": "normal",
        "nodes": ",".join(nodes),
        "priority": _number(round(plan.priority)),
        "array": {"job_id": int(whole) if task else 0, "task_id": _number(int(task) if task else None), "task": ""},
        "het": {"job_id": 0, "job_offset": _number(None)},
        "reservation": {"id": 0, "name": ""},
        "wckey": {"wckey": "", "flags": []},
        "state": {"current": [_STATES[plan.exit_status or "completed"] if is_over else "RUNNING"], "reason": "None"},
        "time": {
            "submission": seconds(plan.submitted),
            "start": seconds(plan.started),
            "end": seconds(plan.ended) if is_over else 0,
            "limit": _number(round(plan.limit_seconds / 60)),
        },
        "tres": {"allocated": tres, "requested": tres},
        "steps": [],
    }


def _raw(plan: Plan) -> int:
    whole, _, task = plan.number.partition("_")
    return int(whole) * (1000 if task else 1) + int(task or 0)


def events(fleets: list[Fleet]) -> str:
    """Return what `sacctmgr --parsable2 show event` would print of hosts that were down or drained."""
    lines = ["Cluster|NodeName|TimeStart|TimeEnd|State|Reason"]
    words = {"down": "DOWN*", "drained": "DRAIN"}
    for fleet in fleets:
        for one in fleet.outages:
            if one.kind in words:
                start, end = (fleet.site.microseconds(at) // 1_000_000 for at in (one.start, one.end))
                lines.append(f"{fleet.site.cluster}|{one.node}|{start}|{end}|{words[one.kind]}|{one.reason}")
    return "\n".join(lines) + "\n"


def weeks(first: Site, count: int) -> list[Fleet]:
    """Return as many weeks of a site, one after the other, each with a schedule and numbers of jobs of its own."""
    span = first.span * 1000
    return [
        _Renumbered(replace(first, started_at=first.started_at + week * span, seed=first.seed + week), week)
        for week in range(count)
    ]


class _Renumbered(Fleet):
    """A week whose jobs bear other numbers than those of the week before, and end with it."""

    def __init__(self, site: Site, week: int) -> None:
        super().__init__(site)
        self.runs = tuple(replace(run, plan=self._moved(run.plan, site, week)) for run in self.runs)

    @staticmethod
    def _moved(plan: Plan, site: Site, week: int) -> Plan:
        whole, separator, task = plan.number.partition("_")
        number = f"{int(whole) + 10_000 * week}{separator}{task}"
        started = max(plan.started, 0) if week else plan.started
        ended = site.span if plan.ended is None else plan.ended
        return replace(plan, number=number, started=started, ended=ended, exit_status=plan.exit_status or "completed")


def write_blocks(fleets: list[Fleet], here: Path, make_blocks: Callable[[Path, Path], None]) -> int:
    """Write a Prometheus' data directory of these weeks; return the samples.

    A day at a time: promtool reads the whole text for every block of two hours that it makes.
    """
    exporter, samples = Exporter(fleets), 0
    for parts in exporter.days():
        text = here / "metrics.om"
        with text.open("w") as file:
            samples += exporter.write(parts, file)
        make_blocks(text, here / "data")
        text.unlink()
    return samples
