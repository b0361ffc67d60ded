"""What /metrics tells of the analysis: how its passes went, and of several analyzers which one books into the lake."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from dashboards.analysis.job import REASONS, AnalysisJob

if TYPE_CHECKING:
    from collector.tenancy.analyzing import BookingLease

_PREFIX = "gpuledger_analysis"


class JobPage(Collector):
    """The page of one job. `lease` is None where nobody else could book into the lake; nothing is told of it then."""

    def __init__(self, job: AnalysisJob, lease: "BookingLease | None") -> None:
        self._job = job
        self._lease = lease

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the families, as prometheus_client asks for them."""
        last = self._job.last
        yield CounterMetricFamily(f"{_PREFIX}_passes", "Passes of the analysis.", last.passes)
        about = "Of them those of which nothing was booked, by why: held or taken by another, the registry, or failed."
        unbooked = CounterMetricFamily(f"{_PREFIX}_unbooked_passes", about, labels=["reason"])
        for reason in REASONS:
            unbooked.add_metric([reason], last.unbooked.get(reason, 0))
        yield unbooked
        if self._lease is not None:
            yield from _lease(self._lease)


def _lease(lease: "BookingLease") -> Iterator[GaugeMetricFamily]:
    holder = lease.holder
    is_mine = holder is not None and holder.is_mine
    yield GaugeMetricFamily(f"{_PREFIX}_lease_held", "Whether this process books into the lake.", float(is_mine))
    named = GaugeMetricFamily(
        f"{_PREFIX}_lease_info", "Who does; no series while that is not known.", labels=["holder", "url"]
    )
    if holder is not None:
        named.add_metric([holder.name, holder.url], 1)
    yield named
