"""What one GPU and its host do during one phase of a step, and what that is called."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from analyzer.states import LOSABLE

Label: TypeAlias = tuple[str, str | None]  # state, cause: the names of the ledger's own table

WORKING: Label = ("productive", "compute")

# Of the GPU. Ratios are shares of time or of the chip, `power` of the board's limit, `clock` of its highest clock.
GPU_SIGNALS = (
    "utilization",  # 1 while any kernel is resident: a copy is none
    "sm",
    "occupancy",
    "tensor",
    "dram",
    "pcie_in",  # bytes a second, host to GPU
    "pcie_out",
    "nvlink",  # bytes a second, each way
    "power",
    "clock",
    "limited_by_power",
    "limited_by_heat",
    "memory",  # bytes held
)

# Of one host, for all ranks of the run on it. Bytes are a second.
HOST_SIGNALS = (
    "cores",
    "iowait_cores",
    "cpu_pressure",
    "io_pressure",
    "disk_read",
    "disk_written",
    "disk_busy",
    "disk_waited",  # seconds a second, added up over reads
    "mount_read",
    "mount_written",
    "mount_waited",
    "ethernet_in",  # beside what the mount moves
    "ethernet_out",
    "fabric",  # RDMA, each way
    "mount_fabric",  # of the mount's bytes, the share that comes over RDMA
    "others_disk_busy",  # what other programs of the host do to its drive
    "others_disk_written",
    "others_io_pressure",
    "busiest_worker",  # share of one core
    "waiting_workers",  # share of the workers in uninterruptible sleep
    "refused_cores",  # CPU-seconds a second that a quota refused
    "host_memory",
    "own_sm",  # the run's own share of SM time, where it shares its GPU and the driver tells sharers apart
    "requests",
    "tokens_in",
    "tokens_out",
    "running",
    "queued",
    "kv_cache",
    "first_token_seconds",
)
SIGNALS = GPU_SIGNALS + HOST_SIGNALS
AT = {name: at for at, name in enumerate(SIGNALS)}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of phase: rates that hold while it lasts, and its labels in shares that sum to 1."""

    values: Mapping[str, float] = field(default_factory=dict)
    labels: tuple[tuple[Label, float], ...] = ((WORKING, 1.0),)

    def but(self, **changes: float) -> "Kind":
        """Return the same phase with some values changed."""
        unknown = changes.keys() - AT.keys()
        assert not unknown, f"BUG: no signals {sorted(unknown)}"
        return Kind({**self.values, **changes}, self.labels)

    def being(self, state: str, cause: str | None) -> "Kind":
        """Return the same phase, truly this state for this cause."""
        return Kind(self.values, (((state, cause), 1.0),))

    def divided(self, *labels: tuple[Label, float]) -> "Kind":
        """Return the same phase with its first label's share divided: the rest keeps that label."""
        left = 1.0 - sum(share for _, share in labels)
        return Kind(self.values, (*labels, (self.labels[0][0], left)))

    def lost(self, cause: str) -> "Kind":
        """Return the same phase in an attempt that throws away what it works at: what stood still anyway stays that."""
        labels = ((("lost_work", cause) if label[0] in LOSABLE else label, share) for label, share in self.labels)
        return Kind(self.values, tuple(labels))

    def slowed(self, clock: float, cause: str) -> "Kind":
        """Return the same phase at this share of the clock: by the ledger's definition 1 - clock of it is lost."""
        slower = {"power": "limited_by_power", "thermal": "limited_by_heat"}[cause]
        changed = self.but(clock=clock, **{slower: 1.0})
        return Kind(changed.values, ((("throttled", cause), 1 - clock), (self.labels[0][0], clock)))
