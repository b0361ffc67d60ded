"""The site as a store tells it: hosts, runs, and what of their samples the advice asked for stands on."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.wire.units import HOUR_MS
from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import rolled_until
from analyzer.findings.health.queues import Wait
from analyzer.findings.witness_signs import mark_of
from analyzer.ledger.boards import load_boards
from analyzer.ledger.thresholds import Thresholds
from analyzer.measures.efficiency import efficiency_query
from analyzer.measures.efficiency.checkpoints import Checkpoints, Failures, checkpoints
from analyzer.prices.price_book import PriceBook
from analyzer.queries.statements import statements
from analyzer.recommendations.site import SAMPLED, Feed, Host, KindRate, Limited, Placed, Served, Site
from collector.store.session import Session

_LIMITS = Thresholds()
# Memory is full where less than a tenth of it is available, at which earlyoom begins to end processes (its README,
# -m 10), or where processes wait for it as long as for disks that are full.
_SPARE_PERMILLE = 100
_FEED_LEAST_BYTES = 10**9  # ours: less in a whole period is chatter, not input


@dataclass(frozen=True, slots=True)
class SiteQuery:
    """A period of a store, [start_us, end_us) in microseconds UTC. Every method may raise StoreError.

    What of samples is not among `looks` is not known, and no table of it is asked.
    """

    session: Session
    start_us: int
    end_us: int
    looks: frozenset[str] = SAMPLED

    def hosts(self) -> dict[str, Host]:
        """Return the hosts of the ledger by name."""
        found = {}
        for node, rack, sku, cores, nvme, gpus, free_ms, hours, *more in self._rows("hosts"):
            found[node] = Host(node, rack, sku, cores, nvme, gpus, free_ms / (hours * HOUR_MS), *more)
        for node, state, reason in self._rows("states"):
            if node in found:
                free = found[node].gpus_free_now if state == "up" else 0
                found[node] = replace(found[node], state=state, reason=reason, gpus_free_now=free)
        return found

    def runs(self) -> dict[str, Placed]:
        """Return where runs are by id."""
        on_gpus, on_hosts = self.gpu_peaks(), self.host_peaks()
        found = {}
        for run_id, hosts, gpus, cores, on, uuids, is_open, *more in self._rows("runs"):
            placed = Placed(run_id, tuple(hosts), gpus, cores, tuple(on), tuple(uuids), is_open, *more)
            found[run_id] = replace(placed, gpu_bytes=on_gpus.get(run_id), host_bytes=on_hosts.get(run_id))
        return found

    def slow_hosts(self) -> dict[str, tuple[str, ...]]:
        """Return by run the hosts on which it lost most of what its clocks lost to heat or hardware."""
        return {run_id: tuple(nodes) for run_id, nodes in self._rows("slow_hosts")}

    def slowed(self) -> dict[str, dict[str, int]]:
        """Return by run what each of its GPUs lost of its clock, in milliseconds."""
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for run_id, gpu, milliseconds in self._rows("slowed"):
            found[run_id][gpu] = milliseconds
        return dict(found)

    def gpu_hosts(self) -> dict[str, str]:
        """Return where each GPU is."""
        wanted = "SELECT gpu_uuid, max(node) FROM ledger WHERE hour >= ? AND hour < ? GROUP BY gpu_uuid"
        rows: list[tuple[str, str]] = [
            (gpu, node) for gpu, node in self.session.rows(wanted, [self.start_us, self.end_us])
        ]
        return dict(rows)

    def services(self) -> dict[str, Served]:
        """Return what serving stacks said of themselves, by run."""
        return {run_id: Served(*said) for run_id, *said in self._rows("services")}

    def waiting(self) -> tuple[Wait, ...]:
        """Return the runs that still wait as the period ends, the one that waited longest first."""
        _, waits, *_ = statements("findings/health/fragmentation.sql")
        rows = self.session.rows(waits, {"start": self.start_us, "end": self.end_us, "wait_us": 1})
        wait = [Wait(*row) for row in rows]
        # who has begun has hosts, and who gave up did so before the end
        return tuple(sorted((w for w in wait if not w.nodes and w.until_us >= self.end_us), key=lambda w: w.from_us))

    def feeds(self, hosts: Mapping[str, Host], runs: Mapping[str, Placed]) -> dict[str, tuple[Feed, ...]]:
        """Return by run what it received from hosts on which one other run was, the most first."""
        on: dict[str, list[str]] = defaultdict(list)
        for placed in runs.values():
            for node in placed.hosts:
                on[node].append(placed.run_id)
        found: dict[str, list[Feed]] = defaultdict(list)
        for run_id, peer, amount in self._rows("feeds"):
            own = runs.get(run_id)
            if own is None or peer in own.hosts or peer not in hosts or amount < _FEED_LEAST_BYTES:
                continue
            if len(on[peer]) == 1:  # of several nobody can tell whose bytes they were
                found[run_id].append(Feed(on[peer][0], peer, amount))
        return {run_id: tuple(sorted(own, key=lambda one: (-one.bytes, one.node))) for run_id, own in found.items()}

    def limited(self) -> dict[str, Limited]:
        """Return the GPUs that lost clock for power."""
        load_boards(self.session, _LIMITS)
        return {row[0]: Limited(*row) for row in self._rows("power")}

    def rates(self) -> tuple[KindRate, ...]:
        """Return what GPU-hours came to, by kind and purchase option."""
        return tuple(KindRate(*row) for row in self._rows("rates"))

    def checkpoints(self) -> dict[str, Checkpoints]:
        """Return what is known of the checkpoints of runs that train, by run."""
        if "checkpoints" not in self.looks:
            return {}
        savings = efficiency_query.savings(self.session, self.start_us, self.end_us)
        failures = efficiency_query.failures(self.session, self.end_us) if savings else Failures(0, 0)
        known = {saving.run_id: checkpoints(saving, failures) for saving in savings}
        return {run_id: found for run_id, found in known.items() if found is not None}

    def conditions(self, runs: Mapping[str, Placed]) -> dict[str, Placed]:
        """Return runs with what forbids a change of them: ranks that wait, and saves that end it."""
        ranks = self._idle_ranks() if "ranks" in self.looks else {}
        in_saves = {run_id for (run_id,) in self._rows("broken_saves")} if "checkpoints" in self.looks else set()
        return {
            run_id: replace(placed, idle_ranks=ranks.get(run_id), ends_in_saves=run_id in in_saves)
            for run_id, placed in runs.items()
        }

    def _idle_ranks(self) -> dict[str, int | None]:
        """Return by run on how many GPUs it holds memory and never ran a kernel; None where not all are known."""
        (select,) = statements("recommendations/ranks.sql")
        hours = select.format(processes="process_hours", gpus="gpu_hours", most="memory_used_bytes_max")
        samples = select.format(processes="process_samples", gpus="gpu_samples", most="memory_used_bytes")
        found: dict[str, int | None] = {}
        for run_id, ranks in self._tiers("gpu_samples", hours, samples):
            before = found.get(run_id, 0)
            found[run_id] = None if ranks is None or before is None else max(ranks, before)
        return found

    def gpu_peaks(self) -> dict[str, int]:
        """Return the most memory that was in use on one GPU of each run, in bytes: a gauge, not a need."""
        if "gauges" not in self.looks:
            return {}
        hours, samples, *_ = statements("recommendations/gauges.sql")
        return self._peaks("gpu_samples", hours, samples)

    def host_peaks(self) -> dict[str, int]:
        """Return the most memory that was in use on one host by each run, in bytes: a gauge, not a need."""
        if "gauges" not in self.looks:
            return {}
        *_, hours, samples = statements("recommendations/gauges.sql")
        return self._peaks("run_samples", hours, samples)

    def _peaks(self, table: str, hours: str, samples: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for run_id, amount in self._tiers(table, hours, samples):
            found[run_id] = max(amount, found.get(run_id, 0))
        return found

    def _tiers(self, table: str, hours: str, samples: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of what is rolled up, then those of the samples after it."""
        edge = min(max(self.start_us, rolled_until(self.session, table)), self.end_us)
        for select, start, end in ((hours, self.start_us, edge), (samples, edge, self.end_us)):
            if end > start:
                yield from self._asked(select, start, end)

    def _rows(self, name: str) -> list[tuple[Any, ...]]:
        if name in SAMPLED - self.looks:
            return []
        *whether, select = statements(f"recommendations/{name}.sql")
        if not all(self._asked(each, self.start_us, self.end_us) for each in whether):
            return []
        return self._asked(select, self.start_us, self.end_us)

    def _asked(self, select: str, start_us: int, end_us: int) -> list[tuple[Any, ...]]:
        known: dict[str, object] = {
            "start": start_us,
            "end": end_us,
            "spare": _SPARE_PERMILLE,
            "waiting": mark_of("memory", "pressure_memory"),
            "held_mb": _LIMITS.held_mb,
            "small_state_bytes": _LIMITS.small_state_bytes,
            "spinning": _LIMITS.spinning_permille,
            "spinning_power": _LIMITS.spinning_power_permille,
        }
        return self.session.rows(
            select, {key: value for key, value in known.items() if re.search(rf"\${key}\b", select)}
        )


def read_site(
    session: Session,
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
    """
    looks = SAMPLED if with_samples else _looks_for(session, about)
    reading = SiteQuery(session, start_us, end_us, looks)
    hosts, runs = reading.hosts(), reading.conditions(reading.runs())
    return Site(
        hosts,
        runs,
        reading.slow_hosts(),
        reading.slowed(),
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
_LOOKS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("starved", "network_storage"): ("feeds",),
    ("throttled", "power"): ("power",),
    ("held_idle", "never_used"): ("ranks",),
    **{("lost_work", cause): ("checkpoints", "ranks") for cause in ("failed", "preempted", "node_failed")},
}


def _looks_for(session: Session, found: Sequence[Finding]) -> frozenset[str]:
    """Return what of samples to look at for these findings: of services always what they say of themselves."""
    looks = {look for finding in found for look in _LOOKS.get((finding.state, finding.cause), ())}
    runs = sorted({run for finding in found for run in finding.run_ids})
    if (
        runs
        and session.row("SELECT count(*) FROM runs WHERE stage = 'serving' AND run_id IN (SELECT unnest(?))", [runs])[0]
    ):
        looks.add("services")
    return frozenset(looks)
