"""What one host would have said of the runs on it: process trees, cgroups, services, and the runs' own word."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agent.wire.units import MINUTE_MS
from simulator.activity import FloatArray, IntArray
from simulator.columns import Block, joined
from simulator.fleet import Fleet, Stay
from simulator.plan import Plan, Run
from simulator.site import Chunk, Host, Site

_EVERY = 5 * MINUTE_MS  # process trees, cgroups and progress are dear to read
_SERVICE_EVERY = MINUTE_MS

_SIGNALS = (
    "memory",
    "utilization",
    "cores",
    "workers",
    "busiest_worker",
    "waiting_workers",
    "refused_cores",
    "cpu_pressure",
    "io_pressure",
    "nvme_read",
    "nvme_written",
    "host_memory",
    "requests",
    "tokens_in",
    "tokens_out",
    "running",
    "waiting",
    "kv_cache",
    "first_token_seconds",
    "steps",
    "samples",
    "tokens",
)
_AT = {name: at for at, name in enumerate(_SIGNALS)}
_STEADY = ("memory", "workers", "host_memory", "kv_cache", "waiting")  # read without wobble
_RATIOS = ("busiest_worker", "waiting_workers", "cpu_pressure", "io_pressure", "kv_cache", "first_token_seconds")
_FIRST_PID, _PIDS = 20_000, 60_000
_WORST_OF_MEDIAN = 3.1  # the 99th percentile of an answer's time over its median, at this service's variance


def run_id(site: Site, plan: Plan) -> str:
    """Return the run's id as the contract spells it."""
    return f"slurm/{site.cluster}/{plan.number}"


@dataclass(frozen=True, slots=True)
class Usage:
    """One run on one GPU or host over the intervals of a grid in which it was there at all."""

    edges: IntArray
    present: FloatArray  # seconds of each interval
    sums: FloatArray  # interval by signal: integrals over time

    def total(self, signal: str) -> FloatArray:
        """Return what was spent or moved in each interval."""
        values: FloatArray = self.sums[:, _AT[signal]]
        return values

    def mean(self, signal: str) -> FloatArray:
        """Return the mean over the time that the run was there; NaN where it was not."""
        with np.errstate(invalid="ignore", divide="ignore"):
            values: FloatArray = self.total(signal) / np.where(self.present > 0, self.present, np.nan)
        return values

    def block(self, columns: dict[str, FloatArray], **texts: object) -> Block:
        """Return the intervals with the run as rows."""
        rows = len(self.present)
        every = columns | {name: np.full(rows, text, dtype=object) for name, text in texts.items()}
        made = Block(self.edges[:-1], self.edges[1:], every)
        return made.where(self.present > 0)


def _usage(stay: Stay, grid: IntArray, rng: np.random.Generator) -> Usage:
    """Return what one run did on one GPU, a little shaken as readings are; of a shared GPU it did an equal part."""
    sums = stay.timeline.cumulated(_SIGNALS, grid)
    inside: IntArray = np.clip(grid, stay.timeline.start, stay.timeline.end)
    present: FloatArray = (inside[1:] - inside[:-1]) / 1_000
    part = np.where(np.isin(_SIGNALS, _RATIOS), 1, stay.run.plan.shared)
    spent = np.diff(sums, axis=0) / part
    wobble = np.where(np.isin(_SIGNALS, _STEADY), 0.0, 0.012)
    return Usage(grid, present, spent * (1 + wobble * np.clip(rng.standard_normal(spent.shape), -3, 3)))


def _together(parts: list[Usage]) -> Usage:
    """Return the sum over the GPUs of one run on one host; they are there at the same time."""
    return Usage(parts[0].edges, parts[0].present, np.sum([part.sums for part in parts], axis=0))


def workloads(fleet: Fleet, host: Host, chunk: Chunk) -> dict[str, Block]:
    """Return the rows about runs of one host and chunk, by table; tables without rows are left out."""
    slow = np.arange(chunk.start, chunk.end + 1, _EVERY, dtype=np.int64)
    quick = np.arange(chunk.start, chunk.end + 1, _SERVICE_EVERY, dtype=np.int64)
    rng = fleet.site.generator("workloads", host.name, chunk.index)
    found: dict[str, list[Block]] = {"process_samples": [], "run_samples": [], "service_samples": [], "progress": []}
    for stays in _by_run(fleet, host, chunk):
        plan = stays[0][1].run.plan
        parts = [(gpu, _usage(stay, slow, rng)) for gpu, stay in stays]
        whole = _together([part for _, part in parts])
        found["process_samples"] += _processes(fleet.site, host, plan, parts, whole)
        found["run_samples"].append(_cgroup(fleet.site, plan, whole, len(parts)))
        if plan.promised_seconds is not None:
            served = _together([_usage(stay, quick, rng) for _, stay in stays])
            found["service_samples"].append(_service(fleet.site, plan, served, len(parts)))
        if plan.reports_progress and plan.seats[0].node == host.name:
            found["progress"].append(_progress(fleet.site, stays[0][1].run, parts[0][1]))
    made = {table: joined(blocks) for table, blocks in found.items()}
    return {table: block for table, block in made.items() if block is not None}


def _by_run(fleet: Fleet, host: Host, chunk: Chunk) -> Iterator[list[tuple[int, Stay]]]:
    """Yield the stays of each run (and attempt) on this host that touch the chunk, with their GPUs."""
    runs: dict[tuple[str, int], list[tuple[int, Stay]]] = {}
    for gpu in range(host.gpus):
        for stay in fleet.stays(host, gpu):
            if stay.timeline.start < chunk.end and stay.timeline.end > chunk.start:
                plan = stay.run.plan
                runs.setdefault((plan.number, plan.attempt), []).append((gpu, stay))
    yield from runs.values()


def _processes(site: Site, host: Host, plan: Plan, parts: list[tuple[int, Usage]], whole: Usage) -> Iterator[Block]:
    """Yield a row for every GPU on which the run has memory; one without GPU where it has none on this host."""
    bare = whole.total("memory") <= 0
    for gpu, part in parts:
        used = part.block(_tree(part), **_names(site, plan, site.gpu_uuid(host, gpu), gpu))
        yield used.where(used.columns["memory_used_bytes"] > 0)
    columns = _tree(whole)
    columns["workers_busiest_cpu_ratio"] /= len(parts)
    columns["workers_waiting_ratio"] /= len(parts)
    columns["memory_used_bytes"] = np.full(len(bare), np.nan)
    alone = whole.block(columns | {"bare": bare.astype(np.float64)}, **_names(site, plan, None, 0))
    picked = alone.where(alone.columns["bare"] > 0)
    yield Block(picked.starts, picked.ends, {name: kept for name, kept in picked.columns.items() if name != "bare"})


def _tree(part: Usage) -> dict[str, FloatArray]:
    """Return the measured columns of process_samples. Bytes need a right that the agent does not have by default."""
    return {
        "memory_used_bytes": np.rint(part.mean("memory") / 2**21) * 2**21,
        "sm_utilization_ratio": np.round(np.clip(part.mean("utilization"), 0, 1), 3),
        "cpu_seconds": np.round(part.total("cores"), 2),
        "workers": np.rint(part.mean("workers")),
        "workers_busiest_cpu_ratio": np.round(np.clip(part.mean("busiest_worker"), 0, 1), 3),
        "workers_waiting_ratio": np.round(np.clip(part.mean("waiting_workers"), 0, 1), 3),
    }


def _names(site: Site, plan: Plan, gpu_uuid: str | None, gpu: int) -> dict[str, object]:
    pid = _FIRST_PID + (zlib.crc32(plan.number.encode()) + 101 * gpu) % _PIDS
    return {"run_id": run_id(site, plan), "gpu_uuid": gpu_uuid, "pid": pid}


def _cgroup(site: Site, plan: Plan, whole: Usage, gpus: int) -> Block:
    columns = {
        "read_bytes": np.rint(whole.total("nvme_read") / 4096) * 4096,
        "written_bytes": np.rint(whole.total("nvme_written") / 4096) * 4096,
        "cpu_seconds": np.round(whole.total("cores"), 2),
        "cpu_throttled_seconds": np.round(whole.total("refused_cores"), 2),
        "pressure_cpu_some_ratio": np.round(np.clip(whole.mean("cpu_pressure") / gpus, 0, 1), 4),
        "pressure_io_some_ratio": np.round(np.clip(whole.mean("io_pressure") / gpus, 0, 1), 4),
        "pressure_memory_some_ratio": np.zeros_like(whole.present),
        "memory_used_bytes": np.rint(whole.mean("host_memory") / 2**20) * 2**20,
        "cores_allotted": np.full_like(whole.present, plan.cores_per_gpu * gpus / plan.shared),
    }
    return whole.block(columns, run_id=run_id(site, plan))


def _service(site: Site, plan: Plan, whole: Usage, gpus: int) -> Block:
    answers = np.round(whole.mean("first_token_seconds") / gpus, 4)
    decodes = bool(whole.total("kv_cache").any())
    nothing = np.full_like(whole.present, np.nan)
    columns = {
        "requests": np.rint(whole.total("requests")),
        "tokens_in": np.rint(whole.total("tokens_in")),
        "tokens_out": np.rint(whole.total("tokens_out")) if decodes else nothing,
        "running": np.round(whole.mean("running"), 1),
        "waiting": np.round(whole.mean("waiting"), 1),
        "kv_cache_ratio": np.round(whole.mean("kv_cache") / gpus, 3) if decodes else nothing,
        "first_token_seconds_p50": answers,
        "first_token_seconds_p99": np.round(answers * _WORST_OF_MEDIAN, 4),
        "slo_seconds": np.full_like(whole.present, plan.promised_seconds),
    }
    return whole.block(columns, run_id=run_id(site, plan))


def _progress(site: Site, run: Run, leader: Usage) -> Block:
    """Return what the run says of itself: its leader's rate times its GPUs; what it does not count stays null."""
    columns = {}
    for name in ("steps", "samples", "tokens"):
        done = np.rint(leader.total(name) * (1 if name == "steps" else len(run.plan.seats)))
        columns[name] = done if done.any() else np.full_like(done, np.nan)
    return leader.block(columns, run_id=run_id(site, run.plan))
