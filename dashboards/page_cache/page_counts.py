"""What /metrics tells of the pages that a server keeps: how many bytes, and what the next start finds of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from dashboards.page_cache.cache import PageCache
    from dashboards.page_cache.disk_cache import DiskCache

_PREFIX = "gpuledger_pages"


class PageCounts(Collector):
    """The counts of one server. `shelf` is None where its store is in memory; nothing is told of a disk then."""

    def __init__(self, cache: "PageCache", disk_cache: "DiskCache | None") -> None:
        self._cache = cache
        self._shelf = disk_cache

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the families, as prometheus_client asks for them."""
        kept = GaugeMetricFamily(f"{_PREFIX}_kept_bytes", "Of pages that are kept, by where.", labels=["place"])
        kept.add_metric(["memory"], self._cache.bytes)
        if self._shelf is not None:
            kept.add_metric(["disk"], self._shelf.bytes)
        yield kept
        yield CounterMetricFamily(
            f"{_PREFIX}_made", "Pages and parts that were made from the ledger.", self._cache.made
        )
        if self._shelf is not None:
            yield CounterMetricFamily(f"{_PREFIX}_found", "Of the server before, as it left them.", self._shelf.found)
            about = "What the disk refused to keep, or gave back damaged."
            yield CounterMetricFamily(f"{_PREFIX}_disk_failures", about, self._shelf.failed)
