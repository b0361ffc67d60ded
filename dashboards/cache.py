"""Rendered pages, kept while the ledger has not changed: bounded, the least recently read goes first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future

PAGES = 64
PAGE_BYTES = 4 * 2**20  # larger ones are not kept


class PageCache:
    """At most PAGES pages of at most PAGE_BYTES each; of those who ask for the same at once, one renders it."""

    def __init__(self, pages: int = PAGES) -> None:
        self._pages = pages
        self._kept: OrderedDict[Hashable, Future[str]] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = self.misses = 0

    def get(self, key: Hashable, render: Callable[[], str]) -> str:
        """Return the page of this key, rendered where it is not kept; one that fails is not kept."""
        with self._lock:
            promised = self._kept.get(key)
            mine = promised is None
            if promised is None:
                promised = self._kept[key] = Future()
                self.misses += 1
            else:
                self.hits += 1
            self._kept.move_to_end(key)
            while len(self._kept) > self._pages:
                self._kept.popitem(last=False)
        if mine:
            self._render(key, promised, render)
        return promised.result()

    def _render(self, key: Hashable, promised: "Future[str]", render: Callable[[], str]) -> None:
        try:
            page = render()
        except BaseException as error:  # noqa: BLE001 - whatever it is, those who wait are told
            self._forget(key)
            promised.set_exception(error)
            return
        promised.set_result(page)
        if len(page) > PAGE_BYTES:
            self._forget(key)

    def _forget(self, key: Hashable) -> None:
        with self._lock:
            self._kept.pop(key, None)
