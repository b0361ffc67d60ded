"""The site as placement sees it: where each run's GPUs are, what stood free meanwhile, and what is free now."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyzer.findings.finding import Finding
from analyzer.findings.health.fragmentation import Wait
from analyzer.measures.efficiency.checkpoints import Checkpoints
from analyzer.prices.price_book import PriceBook
from analyzer.recommendations import site_query
from analyzer.recommendations.fleet_plan.move import Placement
from analyzer.recommendations.fleet_plan.places import Feed, Host, KindRate, Limited, Placed, Served

if TYPE_CHECKING:
    from collector.store.session import Session

__all__ = ["Host", "Placed", "Site", "read_site"]


@dataclass(frozen=True, slots=True)
class Site:
    """Hosts by name and runs by id; `slow_hosts` are those on which a run lost most of what heat or
    hardware took of its clocks.

    `waiting` are runs that still wait as the period ends, `feeds` what a run receives from other runs, `limited` GPUs
    below their clock for power. `prices` is the site's book, for what is not owned yet; empty where none was given.
    """

    hosts: dict[str, Host]
    runs: dict[str, Placed]
    slow_hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
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
    looks: frozenset[str] = site_query.SAMPLED  # what of samples was looked at: of the rest nothing may be said

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


def read_site(
    session: "Session",
    start_us: int,
    end_us: int,
    prices: PriceBook | None = None,
    *,
    with_samples: bool = True,
    about: Sequence[Finding] = (),
) -> Site:
    """Read what the store knows of the period; `prices` is the site's book, asked for what the fleet does not own.

    Without samples it is what the ledger and the facts tell, and quick: of gauges, services, flows between runs, power,
    checkpoints and what schedulers say of hosts it looks at what the findings that it is `about` ask for.

    Raises:
        StoreError: the store does not answer.
    """
    looks = site_query.SAMPLED if with_samples else _looks_for(session, about)
    reading = site_query.SiteQuery(session, start_us, end_us, looks)
    hosts, runs = reading.hosts(), reading.runs()
    return Site(
        hosts,
        runs,
        reading.slow_hosts(),
        reading.gpu_hosts(),
        reading.services(),
        reading.waiting(),
        reading.feeds(hosts, runs),
        reading.limited(),
        reading.rates(),
        reading.checkpoints(),
        prices or PriceBook(),
        start_us,
        end_us,
        looks,
    )


# What of samples a rule for a finding rests on: without it the rule would say that there is none.
_LOOKS = {
    ("starved", "network_storage"): "feeds",
    ("throttled", "power"): "power",
    **{("lost_work", cause): "checkpoints" for cause in ("failed", "preempted", "node_failed")},
}


def _looks_for(session: "Session", found: Sequence[Finding]) -> frozenset[str]:
    """Return what of samples to look at for these findings: of services always what they say of themselves."""
    looks = {_LOOKS[finding.state, finding.cause] for finding in found if (finding.state, finding.cause) in _LOOKS}
    runs = sorted({run for finding in found for run in finding.run_ids})
    if (
        runs
        and session.row("SELECT count(*) FROM runs WHERE stage = 'serving' AND run_id IN (SELECT unnest(?))", [runs])[0]
    ):
        looks.add("services")
    return frozenset(looks)
