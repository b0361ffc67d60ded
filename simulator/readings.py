"""What the driver and the host would have said: GPUs beat by beat, the host minute by minute, and the runs on it."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agent.wire.units import MINUTE_MS
from simulator.activity import SIGNALS, BoolArray, FloatArray, IntArray
from simulator.columns import Block, joined
from simulator.fleet import Fleet, Stay
from simulator.plan import Plan, Run
from simulator.site import Chunk, Host, Site
from simulator.timeline import Timeline

# What the driver would have said of one host's GPUs, beat by beat: the measured columns of gpu_samples.
_SAMPLED = tuple(name for name in SIGNALS if SIGNALS[name] <= SIGNALS["lost"])
_SAMPLED_AT = {name: at for at, name in enumerate(_SAMPLED)}

_GPM_COLUMNS = {
    "sm_active_ratio": "sm",
    "sm_occupancy_ratio": "occupancy",
    "tensor_active_ratio": "tensor",
    "dram_active_ratio": "dram",
}
_TRAFFIC_COLUMNS = {
    "pcie_receive_bytes": "pcie_in",
    "pcie_transmit_bytes": "pcie_out",
    "nvlink_receive_bytes": "nvlink",
    "nvlink_transmit_bytes": "nvlink",
}
_RESERVED_BYTES = 588 * 2**20
_TRAFFIC_STEP = 2**20  # GPM tells MiB a second
_CELSIUS_AMBIENT = 29.0
_CELSIUS_PER_LIMIT = 36.0  # what drawing the power limit adds
_CELSIUS_IN_HEAT = 32.0
_CLOCK_STEP_HERTZ = 15e6


class GpuReadings:
    """One host's GPUs over one chunk; arrays are GPU by beat."""

    def __init__(self, fleet: Fleet, host: Host, chunk: Chunk) -> None:
        self.site, self.host = fleet.site, host
        self.edges: IntArray = np.arange(chunk.start, chunk.end + 1, chunk.beat, dtype=np.int64)
        self.seconds = chunk.beat / 1_000
        self.heard = fleet.heard(host, self.edges[:-1], self.edges[1:])
        self._rng = fleet.site.generator("gpus", host.name, chunk.index)
        timelines = [fleet.timeline(host, gpu) for gpu in range(host.gpus)]
        self._means = np.stack([self._averaged(timeline) for timeline in timelines])
        self._joules = np.stack([self._counter(gpu, timeline) for gpu, timeline in enumerate(timelines)])
        self._restarts = [self._restarted(fleet, gpu, timeline) for gpu, timeline in enumerate(timelines)]

    @property
    def up(self) -> BoolArray:
        """Whether the driver answered for the GPU."""
        return self._mean("lost") < 0.5

    @property
    def fell(self) -> BoolArray:
        """Whether the GPU fell off the bus in this beat; at the start of a chunk that cannot be told."""
        before = np.concatenate([self.up[:, :1], self.up[:, :-1]], axis=1)
        fallen: BoolArray = before & ~self.up
        return fallen

    @property
    def counted(self) -> BoolArray:
        """Whether the energy counter can be compared with the beat before."""
        fresh = np.array([np.isin(self.edges[:-1], [at for at, _ in restarts]) for restarts in self._restarts])
        comparable: BoolArray = self.up & ~fresh
        return comparable

    def columns(self) -> dict[str, FloatArray]:
        """Return every measured column; those that this GPU type does not report are missing."""
        activity, traffic = 1 + 0.018 * self._noise(), 1 + 0.03 * self._noise()
        made = self._utilization(activity)
        if self.host.sku.has_gpm:
            for column, signal in _GPM_COLUMNS.items():
                made[column] = _gpu_ratio(self._mean(signal) * activity)
        for column, signal in _TRAFFIC_COLUMNS.items():
            made[column] = np.rint(self._mean(signal) * traffic * self.seconds / _TRAFFIC_STEP) * _TRAFFIC_STEP
        return made | self._memory() | self._electrical() | self._clocks()

    def _averaged(self, timeline: Timeline) -> FloatArray:
        sums = timeline.cumulated(_SAMPLED, self.edges)
        means: FloatArray = np.diff(sums, axis=0) / self.seconds
        return means

    def _counter(self, gpu: int, timeline: Timeline) -> FloatArray:
        """Return the joules that a GPU has drawn since the span began, at every edge.

        A board draws a little more or less than its phase says. That wobble moves energy between neighbouring beats
        and is zero at the edges of a chunk, so that chunks agree in whatever order they are made.
        """
        total = self._drawn(gpu, timeline, self.edges)
        spent = np.diff(total)
        wobble = np.clip(self._rng.standard_normal(len(spent) - 1), -2.5, 2.5)
        total[1:-1] += 0.012 * wobble * np.minimum(spent[:-1], spent[1:])
        return np.round(total, 1)

    def _drawn(self, gpu: int, timeline: Timeline, until: IntArray) -> FloatArray:
        """Return the joules from the start of the span until these times, without wobble."""
        watts = np.maximum(self.host.sku.idle_watts, timeline.repertoire.values(("power",)) * self.host.sku.limit_watts)
        total: FloatArray = timeline.integrated(watts, np.concatenate([[0], until]))[1:, 0]
        return total * (1 + 0.03 * self._board(gpu))

    def _restarted(self, fleet: Fleet, gpu: int, timeline: Timeline) -> list[tuple[int, float]]:
        """Return when the driver started anew, and the joules drawn until then."""
        times = np.array(fleet.restarts(self.host, gpu), dtype=np.int64)
        return list(zip(times.tolist(), self._drawn(gpu, timeline, times).tolist(), strict=True))

    def _board(self, gpu: int) -> float:
        """Return how this board differs from others of its type, from -1 to 1."""
        return float(self.site.generator("board", self.host.name, gpu).uniform(-1, 1))

    def _mean(self, signal: str) -> FloatArray:
        values: FloatArray = self._means[:, :, _SAMPLED_AT[signal]]
        return values

    def _noise(self) -> FloatArray:
        return np.clip(self._rng.standard_normal(self._means.shape[:2]), -3, 3)

    def _utilization(self, activity: FloatArray) -> dict[str, FloatArray]:
        zero = np.clip(self._mean("zero") * (2 - activity), 0, 1)
        low = np.clip(self._mean("low") * (2 - activity), zero, 1)
        high = np.clip(self._mean("high") * activity, 0, 1 - low)
        used = np.clip(self._mean("utilization") * activity, 0, 1)
        named = {"utilization": used, "utilization_zero": zero, "utilization_low": low, "utilization_high": high}
        return {f"{name}_ratio": _gpu_ratio(values) for name, values in named.items()}

    def _memory(self) -> dict[str, FloatArray]:
        used = np.rint(self._mean("memory") / 2**21) * 2**21
        return {"memory_used_bytes": used, "memory_reserved_bytes": np.full_like(used, _RESERVED_BYTES)}

    def _electrical(self) -> dict[str, FloatArray]:
        spent = np.diff(self._joules, axis=1)
        watts = spent / self.seconds
        warm = _CELSIUS_AMBIENT + _CELSIUS_PER_LIMIT * watts / self.host.sku.limit_watts
        warm += 2.5 * np.array([[self._board(gpu)] for gpu in range(self.host.gpus)])
        total, epoch = self._counters()
        return {
            "power_watts": np.round(watts, 1),
            "energy_joules": np.round(spent, 1),
            "energy_joules_total": np.round(total, 1),
            "energy_epoch": epoch,
            "temperature_celsius": np.rint(warm + _CELSIUS_IN_HEAT * self._mean("limited_by_heat")),
        }

    def _counters(self) -> tuple[FloatArray, FloatArray]:
        """Return the energy counter at the end of every beat and its epoch: both start anew with the driver."""
        total, epoch = self._joules[:, 1:].copy(), np.zeros_like(self._joules[:, 1:])
        for gpu, restarts in enumerate(self._restarts):
            for restart, drawn in restarts:
                since = self.edges[1:] > restart
                epoch[gpu, since] += 1
                total[gpu, since] = self._joules[gpu, 1:][since] - drawn
        return np.maximum(total, 0.0), epoch

    def _clocks(self) -> dict[str, FloatArray]:
        reference = self.host.sku.clock_hertz
        shaken = self._mean("clock") * (1 - 0.002 * np.abs(self._noise()))
        return {
            "sm_clock_hertz": np.rint(shaken * reference / _CLOCK_STEP_HERTZ) * _CLOCK_STEP_HERTZ,
            "sm_clock_reference_hertz": np.full_like(shaken, reference),
            "throttle_power_seconds": np.round(self._mean("limited_by_power") * self.seconds, 2),
            "throttle_thermal_seconds": np.round(self._mean("limited_by_heat") * self.seconds, 2),
            "throttle_hardware_seconds": np.zeros_like(shaken),
        }


def _gpu_ratio(values: FloatArray) -> FloatArray:
    return values.clip(0, 1).round(3)


# What one host would have said of its processors, drives and links, minute by minute.
# Summed over the host's GPUs; of pressures and busy workers the largest counts.
_SUMMED = (
    "cores", "iowait_cores", "nvme_read", "nvme_written", "nvme_busy", "nvme_waited", "nfs_read", "nfs_written",
    "nfs_waited", "fabric", "ethernet_in", "ethernet_out", "host_memory",
)  # fmt: skip
_LARGEST = ("cpu_pressure", "io_pressure")

# Of 128: the quarter of Seren's hosts that rests uses under 0.64% of its processors, half of it under 0.33% (Acme,
# NSDI'24).
_SYSTEM_CORES = 0.45
_SYSTEM_MEMORY = 21 * 2**30
_SYSTEM_BYTES_WRITTEN = 9e5  # a second: logs
_HEARTBEAT_BYTES = 6e4  # a second, each way
_NFS_OVERHEAD = 1.04  # of headers on the wire
_BUSIEST_DRIVE = 0.995

_READ_BYTES = {"nvme0n1": 256 * 2**10, "/data": 2**20}
_WRITE_BYTES = {"nvme0n1": 512 * 2**10, "/data": 2**20}


class HostReadings:
    """One host over one chunk, minute by minute."""

    def __init__(self, fleet: Fleet, host: Host, chunk: Chunk) -> None:
        self.host = host
        self.edges: IntArray = np.arange(chunk.start, chunk.end + 1, MINUTE_MS, dtype=np.int64)
        self.heard = fleet.heard(host, self.edges[:-1], self.edges[1:])
        self._rng = fleet.site.generator("host", host.name, chunk.index)
        means = [self._means(fleet, gpu) for gpu in range(host.gpus)]
        total, largest = np.sum(means, axis=0), np.max(means, axis=0)
        self._total = {name: total[:, at] for at, name in enumerate(_SUMMED)}
        self._largest = {name: largest[:, len(_SUMMED) + at] for at, name in enumerate(_LARGEST)}

    def processors(self) -> dict[str, FloatArray]:
        """Return the measured columns of host_samples."""
        cores = (self._total["cores"] + _SYSTEM_CORES) * self._shake(0.02)
        used = np.rint((self._total["host_memory"] + _SYSTEM_MEMORY) * self._shake(0.002) / 2**20) * 2**20
        return {
            "cpu_busy_ratio": _host_ratio(cores / self.host.cores),
            "cpu_iowait_ratio": _host_ratio((self._total["iowait_cores"] + 0.02) * self._shake(0.1) / self.host.cores),
            "pressure_cpu_some_ratio": _host_ratio((self._largest["cpu_pressure"] + 0.002) * self._shake(0.05)),
            "pressure_io_some_ratio": _host_ratio((self._largest["io_pressure"] + 0.001) * self._shake(0.05)),
            "pressure_memory_some_ratio": np.zeros_like(cores),
            "memory_used_bytes": used,
            "memory_available_bytes": np.maximum(0, self.host.memory_bytes - used),
        }

    def drive(self) -> dict[str, FloatArray]:
        """Return the measured columns of disk_samples for the local drives."""
        shake = self._shake(0.015)
        written = (self._total["nvme_written"] + _SYSTEM_BYTES_WRITTEN) * self._shake(0.04)
        made = self._storage("nvme0n1", self._total["nvme_read"] * shake, written, self._total["nvme_waited"])
        made["busy_ratio"] = np.minimum(
            _host_ratio((self._total["nvme_busy"] + 0.001) * self._shake(0.008)), _BUSIEST_DRIVE
        )
        return made

    def mount(self) -> dict[str, FloatArray]:
        """Return the measured columns of disk_samples for /data; a network mount knows no busy time."""
        read, written = self._total["nfs_read"] * self._shake(0.015), self._total["nfs_written"] * self._shake(0.04)
        return self._storage("/data", read, written, self._total["nfs_waited"])

    def ethernet(self) -> dict[str, FloatArray]:
        """Return the measured columns of network_samples for eth0, which carries NFS as well."""
        arriving = self._total["ethernet_in"] + self._total["nfs_read"] * _NFS_OVERHEAD + _HEARTBEAT_BYTES
        leaving = self._total["ethernet_out"] + self._total["nfs_written"] * _NFS_OVERHEAD + _HEARTBEAT_BYTES
        return self._link(arriving, leaving)

    def fabric(self) -> dict[str, FloatArray]:
        """Return the measured columns of network_samples for rdma0."""
        return self._link(self._total["fabric"], self._total["fabric"])

    def _means(self, fleet: Fleet, gpu: int) -> FloatArray:
        timeline = fleet.timeline(self.host, gpu)
        sums = timeline.cumulated(_SUMMED + _LARGEST, self.edges)
        means: FloatArray = np.diff(sums, axis=0) / (MINUTE_MS / 1_000)
        return means

    def _shake(self, sigma: float) -> FloatArray:
        return 1 + sigma * np.clip(self._rng.standard_normal(len(self.edges) - 1), -3, 3)

    def _storage(self, device: str, read: FloatArray, written: FloatArray, waited: FloatArray) -> dict[str, FloatArray]:
        seconds = MINUTE_MS / 1_000
        return {
            "read_bytes": np.rint(read * seconds / 4096) * 4096,
            "written_bytes": np.rint(written * seconds / 4096) * 4096,
            "reads": np.rint(read * seconds / _READ_BYTES[device]),
            "writes": np.rint(written * seconds / _WRITE_BYTES[device]),
            "read_wait_seconds": np.round(waited * self._shake(0.06) * seconds, 3),
        }

    def _link(self, arriving: FloatArray, leaving: FloatArray) -> dict[str, FloatArray]:
        seconds = MINUTE_MS / 1_000
        return {
            "receive_bytes": np.rint(arriving * self._shake(0.02) * seconds),
            "transmit_bytes": np.rint(leaving * self._shake(0.02) * seconds),
            "errors": np.zeros_like(arriving),
        }


def _host_ratio(values: FloatArray) -> FloatArray:
    return values.clip(0, 1).round(4)


# What one host would have said of the runs on it: process trees, cgroups, services, and the runs' own word.
_EVERY = 5 * MINUTE_MS  # process trees, cgroups and progress are dear to read
_SERVICE_EVERY = MINUTE_MS

_RUN_SIGNALS = (
    "memory", "utilization", "cores", "workers", "busiest_worker", "waiting_workers", "refused_cores", "cpu_pressure",
    "io_pressure", "nvme_read", "nvme_written", "host_memory", "requests", "tokens_in", "tokens_out", "running",
    "waiting", "kv_cache", "first_token_seconds", "steps", "samples", "tokens",
)  # fmt: skip
_RUN_SIGNALS_AT = {name: at for at, name in enumerate(_RUN_SIGNALS)}
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
        values: FloatArray = self.sums[:, _RUN_SIGNALS_AT[signal]]
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
    sums = stay.timeline.cumulated(_RUN_SIGNALS, grid)
    inside: IntArray = np.clip(grid, stay.timeline.start, stay.timeline.end)
    present: FloatArray = (inside[1:] - inside[:-1]) / 1_000
    part = np.where(np.isin(_RUN_SIGNALS, _RATIOS), 1, stay.run.plan.shared)
    spent = np.diff(sums, axis=0) / part
    wobble = np.where(np.isin(_RUN_SIGNALS, _STEADY), 0.0, 0.012)
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
