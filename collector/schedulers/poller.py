"""The thread that asks a scheduler every so often, off the path of every batch and every page."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from collector.errors import CollectorError, SchedulerError
from collector.schedulers.poll import ClusterSource
from collector.schedulers.poll_batch import PollBatches

if TYPE_CHECKING:
    from collector.pipeline.writer import Writer
    from collector.store.database import Store
    from collector.store.session import Session

_LOG = logging.getLogger(__name__)
_STOPPING_SECONDS = 30.0  # for the command that is under way


class Poller:
    """Asks one scheduler, from `start` until `stop`. A failure is counted, logged once, and asked again next time.

    `open_source` makes the source from what the store already knows; it is called in the poller's own thread.
    """

    def __init__(
        self,
        name: str,
        open_source: "Callable[[Session, int], ClusterSource]",
        store: "Store",
        writer: "Writer",
        every_seconds: float,
    ) -> None:
        self._name = name
        self._open = open_source
        self._store = store
        self._every = every_seconds
        self._landing = PollBatches(name, writer)
        self._source: ClusterSource | None = None
        self._failing: str | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"scheduler {name}", daemon=True)
        self._good_at = time.monotonic()
        self._failures = writer.metrics.scheduler_failures
        self._failures.labels(name)  # a series from the start, so that its first failure is seen as a rise
        writer.metrics.scheduler_age.labels(name).set_function(self.age_seconds)
        writer.metrics.scheduler_unplaced.labels(name).set_function(lambda: self.unplaced)

    def start(self) -> None:
        """Begin; the first poll runs at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the poll that is under way, and tell what was not told yet."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(_STOPPING_SECONDS)

    def age_seconds(self) -> float:
        """Return how long ago the scheduler last answered; since the start where it never has."""
        return time.monotonic() - self._good_at

    @property
    def unplaced(self) -> int:
        """Runs that hold GPUs which are not known by name."""
        return self._source.unplaced if self._source else 0

    def once(self, session: "Session") -> bool:
        """Ask once, land what is new, and return whether that went well."""
        try:
            now = time.time_ns() // 1000
            self._source = source = self._source or self._open(session, now)
            found = source.poll(session, now)
            self._landing.land(found)
            source.landed(found)
        except (CollectorError, TimeoutError) as error:
            self._failed(error)
            return False
        if self._failing:
            _LOG.warning("%s answers again", self._name)
        self._failing, self._good_at = None, time.monotonic()
        return True

    def _run(self) -> None:
        with self._store.session() as session:
            while True:
                try:
                    self.once(session)
                except Exception as error:  # noqa: BLE001  a mistake of ours in one answer must not end all polling
                    self._failed(SchedulerError(f"BUG: {error!r}"))
                    _LOG.debug("the mistake", exc_info=True)
                if self._ending.wait(self._every):
                    break
            self._close()

    def _close(self) -> None:
        if self._source is None:
            return
        try:
            self._landing.land(self._source.closing(time.time_ns() // 1000))
        except (CollectorError, TimeoutError) as error:
            _LOG.warning("%s: the last of it could not be told: %s", self._name, error)

    def _failed(self, error: Exception) -> None:
        self._failures.labels(self._name).inc()
        if self._failing is None:
            _LOG.warning("%s is not read: %s; asked again every %g s", self._name, error, self._every)
        self._failing = str(error)
