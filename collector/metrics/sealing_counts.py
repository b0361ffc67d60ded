"""What is counted of sealing, on the collector's /metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class SealCounts:
    """The families of sealing."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.seconds = Histogram(
            "gpuledger_collector_seal_seconds",
            "Time to bring what had arrived into the lake.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.rows = Counter("gpuledger_collector_sealed_rows", "Rows brought into the lake.", registry=registry)
        self.failures = Counter(
            "gpuledger_collector_seal_failures",
            "Sealings that failed; what they held stays in the hot file.",
            registry=registry,
        )
        self.broken = Counter(
            "gpuledger_collector_broken_batches",
            "Batches that were whole when they came and could not be read when they were sealed.",
            registry=registry,
        )
        self.last = Gauge(
            "gpuledger_collector_last_seal_timestamp_seconds", "When the last sealing ended.", registry=registry
        )
