"""What a host says over each ten seconds of its processors, drives, links, and of the run's processes on it.

Counters of the kernel are sums over the interval. What is read once, as the state of the workers, is a mean here, a
little shaken. Bytes read by a process need a right that an agent may lack: half of the hosts tell them.
"""

from dataclasses import dataclass

import numpy as np

from bench.truth.draw import GIB, Draw
from bench.truth.kinds import HOST_SIGNALS
from bench.truth.tape import Floats, Timeline

EVERY = 10
HOST_MEMORY = 2048 * GIB
SYSTEM_CORES = 0.8
BLOCK = 131_072  # bytes of one read
NFS_OVERHEAD = 1.04
LINK_BYTES = 1.25e10  # 100 Gbit/s


@dataclass(frozen=True, slots=True)
class HostReadings:
    """One host of a run: columns by table. Several devices of a table are several entries."""

    host: dict[str, Floats]
    disks: dict[tuple[str, str], dict[str, Floats]]
    links: dict[tuple[str, str], dict[str, Floats]]
    run: dict[str, Floats]
    processes: list[dict[str, Floats]]  # one a rank of this host
    service: dict[str, Floats] | None


def host_readings(draw: Draw, line: Timeline) -> HostReadings:
    """Return what one host of the run would have said; hosts of one run differ by noise."""
    times = np.arange(0, line.edges[-1] + 1e-6, EVERY, dtype=np.float64)
    made = _Host(draw, line.means(HOST_SIGNALS, times))
    return HostReadings(made.host(), made.disks(), made.links(), made.run(), made.processes(), made.service())


class _Host:
    def __init__(self, draw: Draw, means: dict[str, Floats]) -> None:
        self._draw, self._means = draw, means
        self._count = len(means["cores"])
        self._tells_bytes = draw.chance(0.5)

    def host(self) -> dict[str, Floats]:
        cores = (self._of("cores") + SYSTEM_CORES * self._shaken(0.2)) / self._draw.cores
        used = self._of("host_memory", 0.002) + 24 * GIB
        io = np.maximum(self._of("io_pressure"), self._of("others_io_pressure"))
        return {
            "cpu_busy_ratio": _ratio(cores),
            "cpu_iowait_ratio": _ratio(self._of("iowait_cores") / self._draw.cores),
            "pressure_cpu_some_ratio": _ratio(self._of("cpu_pressure") + 0.003 * self._shaken(0.3)),
            "pressure_io_some_ratio": _ratio(io + 0.002 * self._shaken(0.3)),
            "pressure_memory_some_ratio": np.zeros(self._count),
            "memory_used_bytes": np.rint(used),
            "memory_available_bytes": np.rint(np.maximum(GIB, HOST_MEMORY - used)),
        }

    def disks(self) -> dict[tuple[str, str], dict[str, Floats]]:
        busy = np.maximum(self._of("disk_busy", 0.01), self._of("others_disk_busy", 0.02))
        read, waited = self._of("disk_read"), self._of("disk_waited", 0.06)
        written = self._of("disk_written") + self._of("others_disk_written") + 8e5 * self._shaken(0.2)
        drive = _storage(read, written, waited) | {"busy_ratio": _ratio(busy + 0.001)}
        found = {("nvme0n1", "block"): drive}
        if self._draw.mount_kind is not None:
            moved = _storage(self._of("mount_read"), self._of("mount_written"), self._of("mount_waited", 0.06))
            found["/data", self._draw.mount_kind] = moved
        return found

    def links(self) -> dict[tuple[str, str], dict[str, Floats]]:
        over_fabric = self._of("mount_fabric", 0.0)
        mounted_in, mounted_out = self._of("mount_read") * NFS_OVERHEAD, self._of("mount_written") * NFS_OVERHEAD
        arriving = self._of("ethernet_in") + mounted_in * (1 - over_fabric) + 6e4 * self._shaken(0.3)
        leaving = self._of("ethernet_out") + mounted_out * (1 - over_fabric) + 6e4 * self._shaken(0.3)
        found = {("eth0", "ethernet"): _link(arriving, leaving)}
        if self._draw.nodes > 1 or self._draw.mount_kind == "lustre":
            fabric = self._of("fabric")
            found["mlx5_0", "infiniband"] = _link(
                fabric + mounted_in * over_fabric, fabric + mounted_out * over_fabric, 4
            )
        return found

    def run(self) -> dict[str, Floats]:
        return {
            "read_bytes": np.rint(self._of("disk_read") * EVERY),
            "written_bytes": np.rint(self._of("disk_written") * EVERY),
            "cpu_seconds": (self._of("cores") * EVERY).round(2),
            "cpu_throttled_seconds": (self._of("refused_cores") * EVERY).round(2),
            "pressure_cpu_some_ratio": _ratio(self._of("cpu_pressure")),
            "pressure_io_some_ratio": _ratio(self._of("io_pressure")),
            "pressure_memory_some_ratio": np.zeros(self._count),
            "memory_used_bytes": np.rint(self._of("host_memory", 0.002)),
            "cores_allotted": np.full(self._count, self._draw.cores_allotted),
        }

    def processes(self) -> list[dict[str, Floats]]:
        if self._draw.workers is None:
            return []
        return [self._process(self._draw.workers) for _ in range(self._draw.ranks_per_node)]

    def _process(self, workers: int) -> dict[str, Floats]:
        ranks = self._draw.ranks_per_node
        made = {
            "memory_used_bytes": np.zeros(self._count),  # filled in from the GPU by the caller
            "cpu_seconds": (self._of("cores", 0.05) / ranks * EVERY).round(2),
            "workers": np.full(self._count, float(workers)),
        }
        if workers:
            waiting = np.rint(self._of("waiting_workers", 0.3).clip(0, 1) * workers) / workers
            made["workers_busiest_cpu_ratio"] = _ratio(self._of("busiest_worker", 0.02))
            made["workers_waiting_ratio"] = waiting.round(3)
        if self._draw.tells_sharers:
            made["sm_utilization_ratio"] = _ratio(self._of("own_sm", 0.05))
        if self._tells_bytes:
            read = self._of("disk_read") + self._of("mount_read")
            made["read_bytes"] = np.rint(read / ranks * EVERY)
            made["written_bytes"] = np.rint((self._of("disk_written") + self._of("mount_written")) / ranks * EVERY)
        return made

    def service(self) -> dict[str, Floats] | None:
        if not self._draw.is_service:
            return None
        none = np.full(self._count, np.nan)
        asked = self._draw.rng.poisson(np.maximum(0, self._means["requests"] * EVERY)).astype(np.float64)
        of_one = asked / np.maximum(1e-9, self._means["requests"] * EVERY)
        first = float(self._means["first_token_seconds"].max()) * self._shaken(0.15)
        told = np.where(asked > 0, first, np.nan)
        return {
            "requests": asked,
            "tokens_in": np.rint(self._means["tokens_in"] * EVERY * np.where(asked > 0, of_one, 0)),
            "tokens_out": np.rint(self._means["tokens_out"] * EVERY * np.where(asked > 0, of_one, 0)),
            "running": np.rint(self._of("running", 0.05)),
            "waiting": np.rint(self._of("queued")),
            "kv_cache_ratio": _ratio(self._of("kv_cache", 0.05)),
            "first_token_seconds_p50": told.round(4),
            "first_token_seconds_p99": (3 * told).round(4),
            "slo_seconds": none if self._draw.slo_seconds is None else np.full(self._count, self._draw.slo_seconds),
        }

    def _of(self, signal: str, sigma: float = 0.02) -> Floats:
        values: Floats = self._means[signal] * self._shaken(sigma)
        return values

    def _shaken(self, sigma: float) -> Floats:
        shaken: Floats = 1 + sigma * np.clip(self._draw.rng.standard_normal(self._count), -3, 3)
        return shaken


def _ratio(values: Floats) -> Floats:
    cut: Floats = values.clip(0, 1).round(4)
    return cut


def _storage(read: Floats, written: Floats, waited: Floats) -> dict[str, Floats]:
    return {
        "read_bytes": np.rint(read * EVERY / 4096) * 4096,
        "written_bytes": np.rint(written * EVERY / 4096) * 4096,
        "reads": np.rint(read * EVERY / BLOCK),
        "writes": np.rint(written * EVERY / (4 * BLOCK)),
        "read_wait_seconds": (waited * EVERY).round(3),
    }


def _link(arriving: Floats, leaving: Floats, ports: int = 1) -> dict[str, Floats]:
    return {
        "receive_bytes": np.rint(arriving * EVERY),
        "transmit_bytes": np.rint(leaving * EVERY),
        "errors": np.zeros(len(arriving)),
        "speed_bytes_per_second": np.full(len(arriving), LINK_BYTES * 4 * ports if ports > 1 else LINK_BYTES),
    }
