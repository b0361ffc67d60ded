"""What the upkeep tells of itself on /metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge

_PREFIX = "gpuledger_upkeep"


class Counters:
    """One set for a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.runs = Counter(
            f"{_PREFIX}_runs",
            "Turns of a job, by how they ended: done, failed, interrupted as the server ended, or elsewhere.",
            ["job", "outcome"],
            registry=registry,
        )
        self.seconds = Counter(f"{_PREFIX}_seconds", "Time that a job took.", ["job"], registry=registry)
        self.done = Counter(
            f"{_PREFIX}_done", "What a job did, in its own unit: hours, files, rows, bytes.", ["job"], registry=registry
        )
        self.last_success = Gauge(
            f"{_PREFIX}_last_success_timestamp_seconds", "When a job last went well.", ["job"], registry=registry
        )
        self.due = Gauge(f"{_PREFIX}_due_timestamp_seconds", "When a job is next due.", ["job"], registry=registry)
        self.dropped = Counter(
            f"{_PREFIX}_dropped_rows", "Rows that retention dropped, by table.", ["table"], registry=registry
        )
        self.unjudged = Counter(
            f"{_PREFIX}_dropped_unjudged_rows",
            "Samples dropped for want of room before they were in the ledger: they are lost. Must stay 0.",
            registry=registry,
        )
        self.held_days = Gauge(
            f"{_PREFIX}_held_back",  # promtool: a name that ends in _days is no base unit
            "Days that are over their age and kept, because they are not rolled up or not in the ledger.",
            registry=registry,
        )
