"""The collector's own /metrics. One registry an app, so that two in one process do not add up."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from collector.metrics.freshness import Freshness, FreshnessPage
from collector.metrics.sealing_counts import SealCounts

_IGNORED = "gpuledger_collector_ignored_columns_total"
_COMMIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What the collector counts about itself."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for every counter, that nobody reads
        self.registry = CollectorRegistry()
        self.agents = Freshness()
        self.agents_page = FreshnessPage(self.registry)
        self.batches = Counter(
            "gpuledger_collector_batches",
            "Batches answered, by result: accepted, repeated, or the reason of the refusal.",
            ["result"],
            registry=self.registry,
        )
        self.rows = Counter("gpuledger_collector_rows", "Rows committed, by table.", ["table"], registry=self.registry)
        self.received_bytes = Counter(
            "gpuledger_collector_received_bytes", "Bytes of bodies that were read in full.", registry=self.registry
        )
        self.ignored = Counter(
            "gpuledger_collector_ignored_columns",
            "Columns, and tables, of newer agents that this release does not know.",
            ["kind"],
            registry=self.registry,
        )
        self.quarantined = Counter(
            "gpuledger_collector_quarantined_rows",
            "Rows that cannot be true and were put aside, by table.",
            ["table"],
            registry=self.registry,
        )
        self.quarantine_dropped = Counter(
            "gpuledger_collector_quarantine_dropped_rows",
            "Rows put aside of which nothing is kept any more but their count.",
            registry=self.registry,
        )
        self.decoder_ends = Counter(
            "gpuledger_collector_decoder_ends",
            "Processes that decode batches and ended without being told to.",
            registry=self.registry,
        )
        self._add_commits()
        self._add_schedulers()
        self.sealing = SealCounts(self.registry)

    def _add_commits(self) -> None:
        self.commit_seconds = Histogram(
            "gpuledger_collector_commit_seconds",
            "Time from the start of a transaction until it was durable.",
            buckets=_COMMIT_BUCKETS,
            registry=self.registry,
        )
        self.commit_failures = Counter(
            "gpuledger_collector_commit_failures", "Transactions that the store refused.", registry=self.registry
        )
        self.last_commit = Gauge(
            "gpuledger_collector_last_commit_timestamp_seconds", "When the last commit ended.", registry=self.registry
        )

    def _add_schedulers(self) -> None:
        self.scheduler_failures = Counter(
            "gpuledger_collector_scheduler_failures",
            "Polls of a scheduler that failed.",
            ["scheduler"],
            registry=self.registry,
        )
        self.scheduler_age = Gauge(
            "gpuledger_collector_scheduler_age_seconds",
            "How long ago the scheduler last answered in full.",
            ["scheduler"],
            registry=self.registry,
        )
        self.scheduler_unplaced = Gauge(
            "gpuledger_collector_scheduler_unplaced_runs",
            "Runs that hold GPUs which are not known by name.",
            ["scheduler"],
            registry=self.registry,
        )

    def watch(self, name: str, help: str, value: Callable[[], float]) -> None:  # noqa: A002 - prometheus_client's word
        """Add a gauge that is read when it is scraped."""
        Gauge(f"gpuledger_collector_{name}", help, registry=self.registry).set_function(value)

    def ignored_counts(self) -> dict[str, int]:
        """Return how many columns and tables of newer agents were not read, since the start."""
        kinds = ("column", "table")
        return {kind: int(self.registry.get_sample_value(_IGNORED, {"kind": kind}) or 0) for kind in kinds}
