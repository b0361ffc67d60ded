"""The collector's own /metrics. One registry an app, so that two in one process do not add up."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

COMMIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What the collector counts about itself."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for every counter, that nobody reads
        self._registry = CollectorRegistry()
        self.batches = Counter(
            "gpuledger_collector_batches",
            "Batches answered, by result: accepted, repeated, or the reason of the refusal.",
            ["result"],
            registry=self._registry,
        )
        self.rows = Counter("gpuledger_collector_rows", "Rows committed, by table.", ["table"], registry=self._registry)
        self.received_bytes = Counter(
            "gpuledger_collector_received_bytes", "Bytes of bodies that were read in full.", registry=self._registry
        )
        self.ignored = Counter(
            "gpuledger_collector_ignored_columns",
            "Columns, and tables, of newer agents that this release does not know.",
            ["kind"],
            registry=self._registry,
        )
        self.commit_seconds = Histogram(
            "gpuledger_collector_commit_seconds",
            "Time from the start of a transaction until it was durable.",
            buckets=COMMIT_BUCKETS,
            registry=self._registry,
        )
        self.commit_failures = Counter(
            "gpuledger_collector_commit_failures", "Transactions that the store refused.", registry=self._registry
        )
        self.last_commit = Gauge(
            "gpuledger_collector_last_commit_timestamp_seconds", "When the last commit ended.", registry=self._registry
        )

    def watch(self, name: str, help: str, value: Callable[[], float]) -> None:  # noqa: A002 - prometheus_client's word
        """Add a gauge that is read when it is scraped."""
        Gauge(f"gpuledger_collector_{name}", help, registry=self._registry).set_function(value)

    def exposition(self) -> bytes:
        """Return the page of /metrics in Prometheus' text format."""
        return generate_latest(self._registry)
