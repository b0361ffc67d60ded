"""What /metrics tells of the store, looked at every few seconds by a thread: no scrape asks the store anything."""

import logging
import threading
import time
from typing import TYPE_CHECKING

from prometheus_client import Gauge

from collector.errors import StoreError
from collector.store.seal_mark import Mark

if TYPE_CHECKING:
    from collector.metrics.metrics import Metrics
    from collector.store.database import Store
    from collector.store.session import Session

_LOG = logging.getLogger(__name__)
_EVERY_SECONDS = 15.0
_STOPPING_SECONDS = 5.0
_SPAN = 3_600_000_000 << 8  # an hour in the numbers of batches: microseconds, and the collector's number
_PREFIX = "gpuledger_collector"


class MetricsPoller:
    """Looks at one store on behalf of one page of /metrics."""

    def __init__(self, store: "Store", mark: Mark, metrics: "Metrics") -> None:
        self._store = store
        self._mark = mark
        self._metrics = metrics
        self._newest_us: int | None = None
        self._oldest_us: int | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._failing = False
        registry = metrics.registry
        self._waiting = Gauge(f"{_PREFIX}_arrivals_waiting", "Batches committed and not yet sealed.", registry=registry)
        metrics.watch(
            "ingest_lag_seconds",
            "Since the newest batch came that readers can see; before the first, and of a store at rest, it grows.",
            lambda: self._since(self._newest_us),
        )
        metrics.watch(
            "unsealed_age_seconds",
            "Since the oldest batch came that is not sealed; 0 where all are, or where there is no lake.",
            lambda: self._since(self._oldest_us),
        )

    def start(self) -> None:
        """Begin: what was heard before the start is learned first."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(_STOPPING_SECONDS)

    def once(self) -> None:
        """Look now; where the store does not answer, what was seen last stays, and the log says so once."""
        try:
            with self._store.hot_session() as session:
                self._look(session)
        except StoreError as error:
            if not self._failing:
                _LOG.error("/metrics shows what was so a while ago: %s", error)
            self._failing = True
            return
        self._failing = False
        self._metrics.agents_page.show(self._metrics.agents.ages(_now_us()))

    def _look(self, session: "Session") -> None:
        upto = self._mark.upto if self._store.lake is not None else 2**63 - 1
        waiting, oldest = session.row("SELECT count(*), min(received_at) FROM receipts WHERE batch > ?", [upto])
        (last,) = session.row("SELECT max(batch) FROM receipts")
        seen = min(upto, last or 0)
        (newest,) = session.row(
            "SELECT max(received_at) FROM receipts WHERE batch <= ? AND batch > ?", [seen, seen - _SPAN]
        )
        self._waiting.set(waiting)
        self._oldest_us = oldest
        self._newest_us = newest or self._newest_us

    def _since(self, at_us: int | None) -> float:
        return 0.0 if at_us is None else max(0.0, (_now_us() - at_us) / 1e6)

    def _run(self) -> None:
        try:
            with self._store.hot_session() as session:
                self._metrics.agents.remember(session, _now_us())
        except StoreError as error:
            _LOG.error("who was heard before the start is not known: %s", error)
        while True:
            self.once()
            if self._ending.wait(_EVERY_SECONDS):
                return


def _now_us() -> int:
    return time.time_ns() // 1000
