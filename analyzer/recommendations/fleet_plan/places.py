"""What stands where: hosts, runs, services, flows between runs, and boards below their clock for power."""

from collections.abc import Iterable
from dataclasses import dataclass

_LABELS = "labels "  # how the source of a place begins where Kubernetes' labels of nodes told it


@dataclass(frozen=True, slots=True)
class Host:
    """One host: where it is, what it has, and how many of its GPUs stood free on average over the period.

    `gpus_free_now` nobody held in the period's last hour; `state` is what its scheduler says, if it says anything.
    """

    node: str
    rack: str | None
    sku: str | None
    cpu_cores: int | None
    local_nvme_bytes: int | None
    gpus: int
    gpus_free: float
    memory_bytes: int | None = None
    block: str | None = None
    zone: str | None = None
    node_group: str | None = None
    topology_source: str | None = None
    gpu_memory_bytes: int | None = None
    power_limit_watts: float | None = None
    purchase_option: str | None = None
    gpus_free_now: int = 0
    state: str | None = None
    reason: str | None = None
    is_always_free: bool = False  # all of its GPUs, all of the period, which is a day at least
    micros: int | None = None  # what it cost in the period
    free_ms: int = 0  # of its GPUs

    @property
    def rack_label(self) -> str | None:
        """The label of Kubernetes nodes by which its rack is known; None where something else told it."""
        if self.rack is None or not (self.topology_source or "").startswith(_LABELS):
            return None
        return (self.topology_source or "").removeprefix(_LABELS).split(",")[0].strip() or None


@dataclass(frozen=True, slots=True)
class Placed:
    """Where one run is: its hosts in the order of their ranks, with its GPUs on each, and the cores it may use.

    `kind` is what Kubernetes calls its owner, `account` its namespace there. Milliseconds are of GPUs, in the period;
    `gpu_bytes` and `host_bytes` are the most that was in use on one GPU and on one host: gauges, not needs. By the
    clock, its GPUs last did anything `active_seconds` after its start, and it idles for `idle_seconds` since.
    """

    run_id: str
    hosts: tuple[str, ...]
    gpus: int
    cores: float | None
    gpus_on: tuple[int, ...] = ()
    gpu_uuids: tuple[str, ...] = ()
    is_open: bool = True
    name: str | None = None
    team: str | None = None
    stage: str | None = None
    queue: str | None = None
    account: str | None = None
    kind: str | None = None
    members: int | None = None
    workers: int | None = None  # of its loader, on the GPU that has most
    held_ms: int | None = None
    held_micros: int | None = None
    productive_ms: int = 0
    productive_micros: int | None = None
    never_used_ms: int | None = None  # of GPUs on which it never worked, in the period
    exit_status: str | None = None
    model: str | None = None
    active_seconds: int | None = None
    idle_seconds: int | None = None
    gpu_bytes: int | None = None
    host_bytes: int | None = None

    @property
    def gpus_per_host(self) -> int:
        """GPUs on each host, rounded up."""
        return -(-self.gpus // max(1, len(self.hosts)))

    @property
    def cores_per_gpu(self) -> int | None:
        """Cores that it may use for each GPU, rounded; None where nobody said."""
        return round(self.cores / self.gpus) if self.cores and self.gpus else None

    @property
    def called(self) -> str:
        """What people call it."""
        return self.name or self.run_id


def distinct(runs: Iterable[Placed]) -> int:
    """Return how many GPUs these runs hold or held: one that they had one after another counts once."""
    known = list(runs)
    return len({gpu for one in known for gpu in one.gpu_uuids}) or sum(one.gpus for one in known)


@dataclass(frozen=True, slots=True)
class Served:
    """What a service said of itself: its stack, its promise, and the P99 of first tokens, typical and at its worst.

    `replicas` of the whole service there were last, `needed` by its policy at the most in the period; None without one.
    """

    engine: str | None
    slo_seconds: float | None
    p99_seconds: float | None
    worst_seconds: float | None
    replicas: int | None = None
    needed: int | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """What a run received over the network from a host on which one other run was, in the period."""

    producer: str
    node: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Limited:
    """A GPU that lost clock for power: its limit and its kind's, and its clock and draw meanwhile, in the median."""

    gpu_uuid: str
    node: str
    limit_watts: float | None
    usual_watts: float | None
    clock_hertz: float | None
    reference_hertz: float | None
    power_watts: float | None


@dataclass(frozen=True, slots=True)
class KindRate:
    """What a GPU-hour of one kind and purchase option came to, in millionths of the ledger's currency."""

    sku: str
    purchase_option: str | None
    micros_per_gpu_hour: int
