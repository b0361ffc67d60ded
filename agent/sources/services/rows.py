"""A row of `service_samples` from two pages of one service."""

from agent.procfs import difference
from agent.source import Row, Value
from agent.sources.services.engines import Page
from agent.sources.services.histogram import histogram_delta, quantile


def row(run_id: str, before: Page | None, now: Page, slo_seconds: float | None) -> Row:
    """Return what a service did between two pages; amounts and percentiles are unknown on the first.

    They are unknown, all of them, where any counter fell too: the service was started again, and what it had done
    until then is not known.
    """
    said: dict[str, Value] = {"run_id": run_id, "engine": now.engine, "model": now.model, "slo_seconds": slo_seconds}
    said |= now.now
    if before is None or before.engine != now.engine:
        return said
    # A counter that was not there yet stood at 0: some clients show it from the first event on.
    amounts = {
        column: difference(round(before.counters.get(column, 0)), round(value))
        for column, value in now.counters.items()
    }
    if None in amounts.values():
        return said
    said |= amounts
    if before.first_token and now.first_token and (buckets := histogram_delta(before.first_token, now.first_token)):
        said["first_token_seconds_p50"] = quantile(buckets, 0.5)
        said["first_token_seconds_p99"] = quantile(buckets, 0.99)
    return said
