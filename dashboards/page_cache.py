"""Rendered pages, each with the state of the ledger that it is of: bounded, the least recently read goes first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from analyzer.interfaces.api.parameters import BusyError
from dashboards.disk_cache import BYTES, PAGES, DiskCache, PageRecord

PAGE_BYTES = 4 * 2**20  # larger ones are not kept
_AT_ONCE = 4  # pages that are made for those who do not wait for them
MAKING = 64  # and that are asked for at the same time
_TURNS = 3


class PageCache:
    """The newest page of each key. Of those who ask for the same at once, one makes it.

    A key names all that decides what a page shows but the ledger: the address, and who may see what. What `lasts` is
    kept on disk too, where there is a place, and found there by the server that starts next.
    """

    def __init__(self, pages: int = PAGES, size: int = BYTES, disk_cache: DiskCache | None = None) -> None:
        self._pages, self._size = pages, size
        self._disk_cache = disk_cache
        self._kept: OrderedDict[Hashable, PageRecord] = OrderedDict()
        self._making: dict[Hashable, Future[PageRecord]] = {}
        self._lock = threading.Lock()
        self.bytes = self.made = 0
        self._workers = ThreadPoolExecutor(_AT_ONCE, "page")

    def get(
        self,
        key: Hashable,
        state: Hashable,
        make: Callable[[], PageRecord],
        patience: float | None = None,
        *,
        lasts: bool = False,
    ) -> PageRecord | None:
        """Return the page of the ledger's present state, made where it is not kept.

        With patience, in seconds, it returns what is kept of an older state where that takes longer, or None; whoever
        asks again finds it. Whether a page is of an older state its `state` says.

        Raises:
            BusyError: as many pages are being made as may at once.
        """
        for _ in range(_TURNS):  # a page that somebody else is making may be of the state before
            kept = self.kept(key, state, lasts=lasts)
            if kept is not None and kept.state == state:
                return kept
            promised, is_mine = self._promised(key)
            if is_mine and patience is None:
                return self._make(key, promised, make, lasts=lasts)
            if is_mine:  # those who wait are told what fails; who comes later asks again
                self._workers.submit(self._make, key, promised, make, lasts=lasts)
            try:
                made = promised.result(patience)
            except NotYet:
                return kept
            if is_mine or made.state == state:
                return made
        return made

    def kept(self, key: Hashable, state: Hashable, *, lasts: bool = False) -> PageRecord | None:
        """Return what is kept of a page, of whatever state, or None; nothing is made."""
        return self._newest(key) or (self._of_before(key, state) if lasts else None)

    def close(self) -> None:
        """Make what is being made, and nothing more."""
        self._workers.shutdown(cancel_futures=True)

    def _newest(self, key: Hashable) -> PageRecord | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _of_before(self, key: Hashable, state: Hashable) -> PageRecord | None:
        """Return the page that the server before this one kept."""
        page = self._disk_cache.get(key, state) if self._disk_cache is not None else None
        if page is None:
            return None
        with self._lock:
            return self._kept.get(key) or self._keep(key, page)

    def _promised(self, key: Hashable) -> tuple[Future[PageRecord], bool]:
        """Return the page that is being made, and whether who asks is to make it."""
        with self._lock:
            if key in self._making:
                return self._making[key], False
            if len(self._making) >= MAKING:
                raise BusyError("too many concurrent requests: retry in a few seconds")
            promised: Future[PageRecord] = Future()
            self._making[key] = promised
            return promised, True

    def _make(
        self, key: Hashable, promised: Future[PageRecord], make: Callable[[], PageRecord], *, lasts: bool
    ) -> PageRecord:
        try:
            made = make()
        except BaseException as error:
            self._done(key, None)
            promised.set_exception(error)
            raise
        self._done(key, made)
        promised.set_result(made)
        if lasts and self._disk_cache is not None and len(made.text) <= PAGE_BYTES:
            self._disk_cache.put(key, made)
        return made

    def _done(self, key: Hashable, made: PageRecord | None) -> None:
        """Keep a page in the place of the one before; a page that could not be made leaves that where it is."""
        with self._lock:
            del self._making[key]
            if made is not None:
                self.made += 1
                self._keep(key, made)

    def _keep(self, key: Hashable, page: PageRecord) -> PageRecord:
        before = self._kept.pop(key, None)
        self.bytes -= len(before.text) if before is not None else 0
        if len(page.text) <= PAGE_BYTES:
            self._kept[key] = page
            self.bytes += len(page.text)
        while len(self._kept) > self._pages or self.bytes > self._size:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= len(oldest.text)
        return page


_PREFIX = "gpuledger_pages"


class PageCounts(Collector):
    """The counts of one server. `disk_cache` is None where its store is in memory; nothing is told of a disk then."""

    def __init__(self, cache: PageCache, disk_cache: DiskCache | None) -> None:
        self._cache = cache
        self._disk_cache = disk_cache

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the families, as prometheus_client asks for them."""
        kept = GaugeMetricFamily(f"{_PREFIX}_kept_bytes", "Of pages that are kept, by where.", labels=["place"])
        kept.add_metric(["memory"], self._cache.bytes)
        if self._disk_cache is not None:
            kept.add_metric(["disk"], self._disk_cache.bytes)
        yield kept
        yield CounterMetricFamily(
            f"{_PREFIX}_made", "Pages and parts that were made from the ledger.", self._cache.made
        )
        if self._disk_cache is not None:
            yield CounterMetricFamily(
                f"{_PREFIX}_found", "Of the server before, as it left them.", self._disk_cache.found
            )
            about = "What the disk refused to keep, or gave back damaged."
            yield CounterMetricFamily(f"{_PREFIX}_disk_failures", about, self._disk_cache.failed)
