"""Rendered pages, kept while the ledger has not changed: bounded, the least recently read goes first."""

import threading
from collections import OrderedDict
from collections.abc import Callable

PAGES = 64
PAGE_BYTES = 4 * 2**20  # larger ones are not kept


class PageCache:
    """At most PAGES pages of at most PAGE_BYTES each."""

    def __init__(self, pages: int = PAGES) -> None:
        self._pages = pages
        self._kept: OrderedDict[tuple[object, ...], str] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = self.misses = 0

    def get(self, key: tuple[object, ...], render: Callable[[], str]) -> str:
        """Return the page of this key, rendered where it is not kept."""
        with self._lock:
            if key in self._kept:
                self.hits += 1
                self._kept.move_to_end(key)
                return self._kept[key]
            self.misses += 1
        page = render()
        if len(page) <= PAGE_BYTES:
            with self._lock:
                self._kept[key] = page
                while len(self._kept) > self._pages:
                    self._kept.popitem(last=False)
        return page
