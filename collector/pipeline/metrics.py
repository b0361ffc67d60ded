"""What the collector tells of itself on /metrics. One registry an app, so that two in one process do not add up.

When each agent was last heard is part of it: who is silent is the first thing to know of a fleet, and costs no query.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily

from agent.wire.units import DAY_US
from collector.background import OWN_SENDERS
from collector.store.session import Session

_MOST_AGENTS = 200_000  # the one that was heard longest ago is forgotten first
FORGOTTEN_SECONDS = 7 * 86_400  # a host that has been silent for a week has left
SILENT_SECONDS = 300
NAMED = 20  # of those that are silent; their number is told whole
WITHIN = (15, 30, 60, 120, 300, 900, 3600, 86_400)
_PREFIX = "gpuledger_collector"


@dataclass(frozen=True, slots=True)
class Ages:
    """How long ago agents were heard, in seconds: how many within each bound, how many longer, and the most silent."""

    known: int
    within: dict[int, int]
    silent: int
    longest: tuple[tuple[str, float], ...]


class Freshness:
    """The agents of one collector; any thread may tell and ask."""

    def __init__(self, most: int = _MOST_AGENTS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._heard: OrderedDict[str, int] = OrderedDict()

    def heard(self, agent: str, at_us: int) -> None:
        """Note that a batch of an agent came; what this server writes itself is no agent's."""
        if agent.startswith(OWN_SENDERS):
            return
        with self._lock:
            self._heard[agent] = max(at_us, self._heard.get(agent, 0))
            self._heard.move_to_end(agent)
            while len(self._heard) > self._most:
                self._heard.popitem(last=False)

    def remember(self, session: Session, now_us: int) -> None:
        """Learn from the receipts who was heard within a day: after a restart the silent ones are still known."""
        rows = session.rows(
            "SELECT agent, max(received_at) AS heard FROM receipts WHERE received_at > ? GROUP BY agent ORDER BY heard",
            [now_us - DAY_US],
        )
        for agent, at_us in rows:
            self.heard(agent, at_us)

    def ages(self, now_us: int) -> Ages:
        """Return how long ago agents were heard; those silent for a week are forgotten."""
        with self._lock:
            gone = [agent for agent, at in self._heard.items() if now_us - at > FORGOTTEN_SECONDS * 1_000_000]
            for agent in gone:
                del self._heard[agent]
            known = list(self._heard.items())
        ages = [((now_us - at) / 1e6, agent) for agent, at in known]
        silent = sorted(
            ((age, agent) for age, agent in ages if age > SILENT_SECONDS), key=lambda each: (-each[0], each)
        )
        within = {bound: sum(age <= bound for age, _ in ages) for bound in WITHIN}
        return Ages(len(ages), within, len(silent), tuple((agent, age) for age, agent in silent[:NAMED]))


class _FreshnessPage:
    """The families of /metrics; of silent agents only the most silent are named, so that the page has an end."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ages = Ages(0, dict.fromkeys(WITHIN, 0), 0, ())
        registry.register(self)

    def show(self, ages: Ages) -> None:
        """Show these from now on."""
        self._ages = ages

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return what prometheus_client asks for."""
        return list(self._families(self._ages))

    def _families(self, ages: Ages) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(f"{_PREFIX}_agents", "Agents last seen within a week.", ages.known)
        yield GaugeMetricFamily(
            f"{_PREFIX}_agents_silent", f"Of them not seen for {SILENT_SECONDS} seconds.", ages.silent
        )
        heard = GaugeMetricFamily(
            f"{_PREFIX}_agents_heard", "Agents last seen within this many seconds.", labels=["within_seconds"]
        )
        for bound, count in ages.within.items():
            heard.add_metric([str(bound)], count)
        yield heard
        longest = GaugeMetricFamily(
            f"{_PREFIX}_silent_agent_age_seconds",
            f"When the {NAMED} agents silent for the longest were last seen.",
            labels=["agent"],
        )
        for agent, age in ages.longest:
            longest.add_metric([agent], age)
        yield longest


_IGNORED = "gpuledger_collector_ignored_columns_total"
_COMMIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Families:
    """Makes families of one registry, whose names all begin alike."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        self._registry = registry
        self._prefix = prefix

    def counter(self, name: str, about: str, *labels: str) -> Counter:
        """Return a new counter; its name gets _total."""
        return Counter(f"{self._prefix}_{name}", about, labels, registry=self._registry)

    def gauge(self, name: str, about: str, *labels: str) -> Gauge:
        """Return a new gauge."""
        return Gauge(f"{self._prefix}_{name}", about, labels, registry=self._registry)

    def histogram(self, name: str, about: str, *labels: str, buckets: Sequence[float]) -> Histogram:
        """Return a new histogram."""
        return Histogram(f"{self._prefix}_{name}", about, labels, registry=self._registry, buckets=buckets)


class Metrics:
    """What the collector counts about itself."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for every counter, that nobody reads
        self.registry = CollectorRegistry()
        self.agents = Freshness()
        self.agents_page = _FreshnessPage(self.registry)
        self._families = made = Families(self.registry, _PREFIX)
        results = "Batches by result: accepted, repeated, or the reason for the refusal."
        self.batches = made.counter("batches", results, "result")
        self.rows = made.counter("rows", "Rows committed, by table.", "table")
        self.received_bytes = made.counter("received_bytes", "Bytes of bodies that were read in full.")
        ignored = "Columns and tables of newer agents that this release does not know."
        self.ignored = made.counter("ignored_columns", ignored, "kind")
        aside = "Rows with impossible values that were quarantined, by table."
        self.quarantined = made.counter("quarantined_rows", aside, "table")
        dropped = "Quarantined rows of which only the count is kept."
        self.quarantine_dropped = made.counter("quarantine_dropped_rows", dropped)
        ended = "Crashes of the processes that decode batches."
        self.decoder_ends = made.counter("decoder_ends", ended)
        durable = "Time from the start of a transaction until it was durable."
        self.commit_seconds = made.histogram("commit_seconds", durable, buckets=_COMMIT_BUCKETS)
        self.commit_failures = made.counter("commit_failures", "Transactions that the store refused.")
        self.last_commit = made.gauge("last_commit_timestamp_seconds", "When the last commit ended.")
        self.scheduler_failures = made.counter("scheduler_failures", "Polls of a scheduler that failed.", "scheduler")
        answered = "How long ago the scheduler last answered in full."
        self.scheduler_age = made.gauge("scheduler_age_seconds", answered, "scheduler")
        unplaced = "Runs holding GPUs that are not known by name."
        self.scheduler_unplaced = made.gauge("scheduler_unplaced_runs", unplaced, "scheduler")
        self.sealing = _SealCounts(made)

    def watch(self, name: str, help: str, value: Callable[[], float]) -> None:  # noqa: A002 - prometheus_client's word
        """Add a gauge that is read when it is scraped."""
        self._families.gauge(name, help).set_function(value)

    def ignored_counts(self) -> dict[str, int]:
        """Return how many columns and tables of newer agents were not read, since the start."""
        kinds = ("column", "table")
        return {kind: int(self.registry.get_sample_value(_IGNORED, {"kind": kind}) or 0) for kind in kinds}


_SEAL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class _SealCounts:
    """The families of sealing."""

    def __init__(self, made: Families) -> None:
        took = "Time to seal new data into the lake."
        self.seconds = made.histogram("seal_seconds", took, buckets=_SEAL_BUCKETS)
        self.rows = made.counter("sealed_rows", "Rows sealed into the lake.")
        self.failures = made.counter("seal_failures", "Sealings that failed; what they held stays in the hot file.")
        broken = "Batches that arrived intact and could not be read when they were sealed."
        self.broken = made.counter("broken_batches", broken)
        self.last = made.gauge("last_seal_timestamp_seconds", "When the last sealing ended.")
