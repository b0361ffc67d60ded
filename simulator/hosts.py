"""What one host would have said of its processors, drives and links, minute by minute."""

import numpy as np

from agent.wire.units import MINUTE_MS
from simulator.activity import FloatArray, IntArray
from simulator.fleet import Fleet
from simulator.site import Chunk, Host

# Summed over the host's GPUs; of pressures and busy workers the largest counts.
_SUMMED = (
    "cores",
    "iowait_cores",
    "nvme_read",
    "nvme_written",
    "nvme_busy",
    "nvme_waited",
    "nfs_read",
    "nfs_written",
    "nfs_waited",
    "fabric",
    "ethernet_in",
    "ethernet_out",
    "host_memory",
)
_LARGEST = ("cpu_pressure", "io_pressure")

# Of 128: the quarter of Seren's hosts that rests uses under 0.64 % of its processors, half of it under 0.33 % (Acme,
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
            "cpu_busy_ratio": _ratio(cores / self.host.cores),
            "cpu_iowait_ratio": _ratio((self._total["iowait_cores"] + 0.02) * self._shake(0.1) / self.host.cores),
            "pressure_cpu_some_ratio": _ratio((self._largest["cpu_pressure"] + 0.002) * self._shake(0.05)),
            "pressure_io_some_ratio": _ratio((self._largest["io_pressure"] + 0.001) * self._shake(0.05)),
            "pressure_memory_some_ratio": np.zeros_like(cores),
            "memory_used_bytes": used,
            "memory_available_bytes": np.maximum(0, self.host.memory_bytes - used),
        }

    def drive(self) -> dict[str, FloatArray]:
        """Return the measured columns of disk_samples for the local drives."""
        shake = self._shake(0.015)
        written = (self._total["nvme_written"] + _SYSTEM_BYTES_WRITTEN) * self._shake(0.04)
        made = self._storage("nvme0n1", self._total["nvme_read"] * shake, written, self._total["nvme_waited"])
        made["busy_ratio"] = np.minimum(_ratio((self._total["nvme_busy"] + 0.001) * self._shake(0.008)), _BUSIEST_DRIVE)
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


def _ratio(values: FloatArray) -> FloatArray:
    return values.clip(0, 1).round(4)
