"""The thread that seals: every so often, and sooner where much has come."""

import logging
import math
import threading
import time
from typing import TYPE_CHECKING

from collector.errors import RegistryError, StoreError
from collector.lake.sealing.seal import Sealed, has_rows_of_no_lake, seal
from collector.store.seal_mark import Mark
from collector.thread_priority import SEALING, let_others_go_first

if TYPE_CHECKING:
    from collector.metrics.metrics import Metrics
    from collector.store.database import Store
    from collector.tenancy.tenant import Tenant

_LOG = logging.getLogger(__name__)
RETRY_SECONDS = 5.0  # after a first failure; twice as long after each further one
_LONGEST_WAIT_SECONDS = 300.0  # between tries, however long the lake has been away
MOST_ROWS = 2_000_000  # of one sealing, some ten seconds: what has gathered behind a lake that was away takes several
STOPPING_SECONDS = 45.0  # in which further sealings may begin
_PATIENCE_SECONDS = 90.0  # for the one that is under way then


class Sealer:
    """Seals one store, one sealing at a time. `failing` is the sentence of the last failure, None after a success."""

    def __init__(
        self,
        store: "Store",
        mark: Mark,
        metrics: "Metrics",
        every_seconds: float,
        rows: int,
        tenant: "Tenant | None" = None,
    ) -> None:
        self._tenant = tenant
        self._store = store
        self._mark = mark
        self._metrics = metrics
        self._every = every_seconds
        self._most_rows = rows
        self._waiting_rows = 0
        self._more = False
        self._failures = 0
        self._wake = threading.Event()
        self._ending = False
        self._until = math.inf
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="sealer", daemon=True)
        self.failing: str | None = None
        self.last_at: float | None = None  # seconds since 1970

    def start(self) -> None:
        """Begin, once a store that had no lake has been taken into it: half of it would be read as the whole.

        Pages that were made meanwhile would stay, since the ledger does not change by it.
        """
        if has_rows_of_no_lake(self._store):
            _LOG.warning("this store had no lake: what lies in the file is taken into one, once; it may take minutes")
            while (sealed := self.once()) is not None and sealed.more:
                pass
        self._thread.start()

    def stop(self) -> None:
        """Seal what is there and end; what is not sealed lies in the hot file and is sealed after the next start."""
        self._until = time.monotonic() + STOPPING_SECONDS
        self._ending = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_SECONDS)

    def committed(self, rows: int) -> None:
        """Note that rows have been committed; called by the writer."""
        self._waiting_rows += rows
        if self._waiting_rows >= self._most_rows and not self._failures:
            self._wake.set()

    @property
    def is_behind(self) -> bool:
        """Whether a sealing is under way, or another is due because of what has come."""
        due = self._more or self._waiting_rows >= self._most_rows
        return self._lock.locked() or (due and not self._failures)

    def once(self) -> Sealed | None:
        """Seal now, so much and no more; None where it failed, which is counted, logged once and told by `failing`."""
        with self._lock:
            began = time.monotonic()
            self._waiting_rows = 0
            try:
                sealed = seal(self._store, self._mark, self._tenant, MOST_ROWS)
            except (StoreError, RegistryError) as error:
                self._failed(str(error))
                return None
            self._succeeded(sealed, time.monotonic() - began)
            return sealed

    def _run(self) -> None:
        let_others_go_first(SEALING)
        ending = False
        while not ending:
            self._wake.wait(self._pause_seconds())
            self._wake.clear()
            ending = self._ending  # asked before: a stop that comes during a sealing is followed by one more
            while (sealed := self.once()) is not None and sealed.more and time.monotonic() < self._until:
                pass

    def _pause_seconds(self) -> float:
        if not self._failures:
            return self._every
        return min(RETRY_SECONDS * 2.0 ** (self._failures - 1), _LONGEST_WAIT_SECONDS)

    def _failed(self, sentence: str) -> None:
        self._failures = min(self._failures + 1, 16)
        self._metrics.sealing.failures.inc()
        if self.failing is None:
            _LOG.error("sealing failed, and is tried again; batches are kept in the hot file: %s", sentence)
        self.failing = sentence

    def _succeeded(self, sealed: Sealed, seconds: float) -> None:
        if self.failing is not None:
            _LOG.warning("sealing works again")
        self._failures, self.failing, self._more = 0, None, sealed.more
        self.last_at = time.time()
        self._metrics.sealing.last.set(self.last_at)
        if sealed.batches:
            self._metrics.sealing.seconds.observe(seconds)
            self._metrics.sealing.rows.inc(sealed.rows)
            self._metrics.sealing.broken.inc(sealed.broken)
