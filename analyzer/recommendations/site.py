"""The site as placement sees it: hosts, runs and services, what stood free meanwhile, and what is free now."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from analyzer.findings.health.queues import Wait
from analyzer.measures.efficiency.checkpoints import Checkpoints
from analyzer.prices.price_book import PriceBook
from analyzer.recommendations.recommendation import Placement

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
    has_computed: bool | None = None  # any of its GPUs did more than spin for its peers
    memory_is_full: bool | None = None  # on any of its hosts, at any time
    idle_gpus: int | None = None  # that were idle at any time in the period
    gpu_bytes: int | None = None
    host_bytes: int | None = None
    idle_ranks: int | None = None  # GPUs that a process of it holds and on which no kernel of it ever ran
    ends_in_saves: bool = False  # half of its failed attempts or more were seen to break off a save

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
    """A GPU that lost clock for power: its limit and its kind's, and its draw meanwhile, in the median."""

    gpu_uuid: str
    node: str
    limit_watts: float | None
    usual_watts: float | None
    power_watts: float | None
    is_held_back: bool | None  # it drew far less than it may


@dataclass(frozen=True, slots=True)
class KindRate:
    """What a GPU-hour of one kind and purchase option came to, in millionths of the ledger's currency."""

    sku: str
    purchase_option: str | None
    micros_per_gpu_hour: int


# Readings of samples, as large as the fleet's history; all others are of the ledger and the facts.
SAMPLED = frozenset(("states", "services", "feeds", "power", "gauges", "checkpoints", "ranks"))


@dataclass(frozen=True, slots=True)
class Site:
    """Hosts by name and runs by id; `slow_hosts` are those on which a run lost most of what heat or
    hardware took of its clocks, `slowed` what each of its GPUs lost of its clock for any reason, in milliseconds.

    `waiting` are runs that still wait as the period ends, `feeds` what a run receives from other runs, `limited` GPUs
    below their clock for power. `prices` is the site's book, for what is not owned yet; empty where none was given.
    """

    hosts: dict[str, Host]
    runs: dict[str, Placed]
    slow_hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    slowed: dict[str, dict[str, int]] = field(default_factory=dict)
    gpu_hosts: dict[str, str] = field(default_factory=dict)  # where each GPU is
    services: dict[str, Served] = field(default_factory=dict)
    waiting: tuple[Wait, ...] = ()
    feeds: dict[str, tuple[Feed, ...]] = field(default_factory=dict)
    limited: dict[str, Limited] = field(default_factory=dict)
    rates: tuple[KindRate, ...] = ()
    checkpoints: dict[str, Checkpoints] = field(default_factory=dict)  # of runs that were seen to save
    prices: PriceBook = field(default_factory=PriceBook)
    start_us: int = 0
    end_us: int = 0
    looks: frozenset[str] = SAMPLED  # what of samples was looked at: of the rest nothing may be said

    def looks_at(self, what: str) -> bool:
        """Return whether this was looked at: if not, that there is none of it is not known."""
        return what in self.looks

    def first_run(self, run_ids: Sequence[str]) -> Placed | None:
        """Return where the first of these runs is, or None where there is none or it is not known."""
        return self.runs.get(run_ids[0]) if run_ids else None

    def placed(self, run_ids: Iterable[str]) -> list[Placed]:
        """Return where these runs are; those of which it is not known are left out."""
        return [self.runs[run_id] for run_id in run_ids if run_id in self.runs]

    def of_run(self, placed: Placed) -> list[Host]:
        """Return the hosts of a run that the ledger knows, in the order of ranks."""
        return [self.hosts[node] for node in placed.hosts if node in self.hosts]

    def racks_of(self, run_id: str) -> list[str | None]:
        """Return the rack of each of the run's hosts, in the order of ranks; None for those of which none is known."""
        placed = self.runs.get(run_id)
        return list(self.racks(placed.hosts)) if placed else []

    def racks(self, nodes: Iterable[str]) -> tuple[str | None, ...]:
        """Return the rack of each of these hosts; None where none is known."""
        return tuple(self.hosts[node].rack if node in self.hosts else None for node in nodes)

    def sku_of(self, placed: Placed) -> str | None:
        """Return the kind of GPU that a run has, as its first known host says, or None where none is known."""
        return next((self.hosts[node].sku for node in placed.hosts if node in self.hosts), None)

    def place(self, placed: Placed) -> Placement:
        """Return where a run is."""
        return self.place_on(placed.hosts, placed.gpus, self.sku_of(placed))

    def place_on(self, nodes: Iterable[str], gpus: int, sku: str | None = None) -> Placement:
        """Return so many GPUs on these hosts as a place."""
        there = tuple(nodes)
        return Placement(there, self.racks(there), gpus, sku)

    def whole_place(self, runs: Sequence[Placed]) -> Placement:
        """Return all that these runs hold as one place."""
        skus = {self.sku_of(run) for run in runs}
        nodes = sorted({node for run in runs for node in run.hosts})
        return self.place_on(nodes, distinct(runs), skus.pop() if len(skus) == 1 else None)

    @property
    def takers(self) -> str:
        """Who gains by GPUs that come free."""
        return "runs waiting for GPUs" if self.waiting else "the fleet: free GPUs"

    def beside(self, node: str, *runs: str) -> list[Placed]:
        """Return the runs that hold GPUs of a host, without these, by id."""
        return [one for one in self.runs.values() if one.is_open and node in one.hosts and one.run_id not in runs]

    def cores_left(self, node: str, *runs: str) -> float | None:
        """Return the cores of a host that no other run than these may use; None where that is not known."""
        host = self.hosts.get(node)
        others = self.beside(node, *runs)
        if host is None or host.cpu_cores is None or any(one.cores is None for one in others):
            return None
        return host.cpu_cores - sum((one.cores or 0) / len(one.hosts) for one in others)

    def free_in_rack(self, sku: str | None) -> dict[str, float]:
        """Return, by rack, how many GPUs of a kind stood free on average."""
        free: dict[str, float] = defaultdict(float)
        for host in self.hosts.values():
            if host.rack is not None and host.sku == sku:
                free[host.rack] += host.gpus_free
        return dict(free)

    def free_hosts(self, sku: str | None, gpus: int, without: Iterable[str] = ()) -> list[Host]:
        """Return the hosts of a kind on which so many GPUs are free now, the fullest first, so that gaps stay large."""
        left_out = set(without)
        fitting = [
            host
            for host in self.hosts.values()
            if host.sku == sku and host.node not in left_out and host.gpus_free_now >= gpus
        ]
        return sorted(fitting, key=lambda host: (host.gpus_free_now, host.node))

    def rate(self, sku: str | None, purchase_option: str | None = None) -> int | None:
        """Return what a GPU-hour of this kind comes to, in millionths; None where no price is known.

        Without a purchase option the dearest counts, so that no saving is promised on a cheaper one.
        """
        found = [
            rate.micros_per_gpu_hour
            for rate in self.rates
            if rate.sku == sku and purchase_option in (None, rate.purchase_option)
        ]
        return max(found, default=None)
