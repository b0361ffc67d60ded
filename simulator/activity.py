"""What one GPU and its share of the host do while one phase lasts: rates per second, and what it truly is."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.labels import FREE, Label, lost

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_Truth: TypeAlias = tuple[tuple[Label, float], ...]  # shares sum to 1

NVME_BYTES_PER_SECOND = 5.8e9  # what a host's drives can read
_NVME_READ_BYTES = 256 * 2**10  # of one request
_NFS_READ_BYTES = 2**20
_QUIET_NVME_SECONDS = 0.00012  # a read takes, while the drives have room
_QUIET_NFS_SECONDS = 0.0016

_IDLE_CLOCK = 0.175  # of the highest clock: where a GPU without any process rests


@dataclass(frozen=True, slots=True)
class Activity:
    """One phase of one GPU. Ratios are shares of time or of the chip; the host's figures are this GPU's part of them.

    Everything is linear in time, so that an interval's value is the mean of its phases by their length.
    """

    # The GPU. `power` is a share of the limit; the idle power is its floor.
    utilization: float = 0.0
    zero: float = 1.0  # shares of sub-second utilization samples at 0, under 20%, over 80%
    low: float = 1.0
    high: float = 0.0
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    pcie_in: float = 0.0  # bytes a second, host to GPU
    pcie_out: float = 0.0
    nvlink: float = 0.0  # bytes a second, each way
    power: float = 0.0
    memory: float = 0.0  # bytes
    clock: float = _IDLE_CLOCK  # of the reference clock
    limited_by_power: float = 0.0  # share of time below the wanted clock
    limited_by_heat: float = 0.0
    lost: float = 0.0  # 1 while the GPU is off the bus
    # The host, for the run on this GPU.
    cores: float = 0.0
    workers: float = 0.0
    busiest_worker: float = 0.0  # share of one core
    waiting_workers: float = 0.0  # share of workers in uninterruptible sleep
    refused_cores: float = 0.0  # CPU-seconds a second that a quota refused
    cpu_pressure: float = 0.0
    io_pressure: float = 0.0
    iowait_cores: float = 0.0
    nvme_read: float = 0.0  # bytes a second
    nvme_written: float = 0.0
    nvme_busy: float = 0.0  # share of time, this GPU's part
    nvme_waited: float = 0.0  # seconds a second, added up over reads
    nfs_read: float = 0.0
    nfs_written: float = 0.0
    nfs_waited: float = 0.0
    fabric: float = 0.0  # bytes a second, each way
    ethernet_in: float = 0.0  # beside what NFS moves
    ethernet_out: float = 0.0
    host_memory: float = 0.0  # bytes
    # What a service or the run itself counts.
    requests: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    kv_cache: float = 0.0
    first_token_seconds: float = 0.0
    steps: float = 0.0
    samples: float = 0.0
    tokens: float = 0.0
    truth: _Truth = ((FREE, 1.0),)

    def but(self, **changes: float) -> "Activity":
        """Return the same phase with some values changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def truly(self, truth: _Truth) -> "Activity":
        """Return the same phase, truly these labels in these shares."""
        return replace(self, truth=truth)

    def being(self, *labels: Label) -> "Activity":
        """Return the same phase, truly this and nothing else (or equal parts of these)."""
        return replace(self, truth=tuple((label, 1.0 / len(labels)) for label in labels))

    def reading_nvme(self, bytes_per_second: float, busy: float, slower: float = 1.0) -> "Activity":
        """Return the same phase while reading the local drives, each read `slower` times slower than when quiet."""
        waited = bytes_per_second / _NVME_READ_BYTES * _QUIET_NVME_SECONDS * slower
        return replace(self, nvme_read=bytes_per_second, nvme_busy=busy, nvme_waited=waited)

    def reading_nfs(self, bytes_per_second: float, slower: float = 1.0) -> "Activity":
        """Return the same phase while reading the network mount, each read `slower` times slower than when quiet."""
        waited = bytes_per_second / _NFS_READ_BYTES * _QUIET_NFS_SECONDS * slower
        return replace(self, nfs_read=bytes_per_second, nfs_waited=waited)


SIGNALS: dict[str, int] = {field.name: at for at, field in enumerate(fields(Activity)) if field.name != "truth"}
NOTHING = Activity()
OFF_THE_BUS = Activity(lost=1.0)


def blend(*parts: tuple[Activity, float]) -> Activity:
    """Return a phase made of others that alternate too fast to be told apart; the shares sum to 1."""
    values = {name: sum(getattr(activity, name) * share for activity, share in parts) for name in SIGNALS}
    shares: dict[Label, float] = {}
    for activity, share in parts:
        for label, part in activity.truth:
            shares[label] = shares.get(label, 0.0) + part * share
    return Activity(**values, truth=tuple(shares.items()))


def thrown_away(activity: Activity, cause: str) -> Activity:
    """Return the same phase, its work lost by a later failure."""
    return replace(activity, truth=tuple((lost(label, cause), share) for label, share in activity.truth))


class Repertoire:
    """The different activities of a timeline, and their values as one matrix."""

    def __init__(self, activities: Iterable[Activity]) -> None:
        self.activities = tuple(activities)

    def values(self, names: tuple[str, ...]) -> FloatArray:
        """Return the values of these signals, one row an activity."""
        return self._matrix[:, [SIGNALS[name] for name in names]]

    @cached_property
    def _matrix(self) -> FloatArray:
        return np.array([_signals(activity) for activity in self.activities], dtype=np.float64)


_signals = attrgetter(*SIGNALS)
