"""A source of `service_samples`: each service's page, fetched on a thread of its own, and told at the next reading."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from agent.errors import SourceError
from agent.source import Reading, Row
from agent.sources.services.declared import Service
from agent.sources.services.engines import Page, read_page
from agent.sources.services.rows import row
from agent.watchdog_thread import WatchdogThread

_LOG = logging.getLogger(__name__)
_PERIOD_SECONDS = 10.0
_PATIENCE_SECONDS = 0.05  # with all services; a slower one is told with the next reading
_PERIODS_OF_AMOUNTS = 2.5  # older than so many, a page is no beginning of what is told as one interval


class Followed:
    """One service: the page that was told last, and the question that is under way.

    `run_of` says whose run it is; `failures` counts the pages that could not be had.
    """

    def __init__(self, service: Service, fetch: Callable[[Service], str], run_of: Callable[[Service], str]) -> None:
        self.service = service
        self.failures = 0
        self._run_of = run_of
        self._thread: WatchdogThread[tuple[str, Page]] = WatchdogThread(
            f"service-{service.port}", partial(self._ask, fetch)
        )
        self._is_asked = False
        self._failing = False
        self._last: tuple[float, Page] | None = None

    def begin(self) -> None:
        """Ask for the page, unless that is still under way."""
        if not self._is_asked:
            self._thread.begin()
            self._is_asked = True

    def row(self, timeout_seconds: float, now: float, oldest: float) -> Row | None:
        """Return what came within so long, or None; amounts only since a page that is no older than `oldest`."""
        if not self._is_asked or not self._thread.ready(timeout_seconds):
            return None
        self._is_asked = False
        try:
            run_id, page = self._thread.answer(0)
        except SourceError as error:
            self._fails(str(error))
            return None
        if self._failing:
            _LOG.info("%s is read again", self.service.url)
        self._failing = False
        before = self._last[1] if self._last is not None and self._last[0] >= oldest else None
        self._last = now, page
        return row(run_id, before, page, self.service.slo_seconds)

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    def _ask(self, fetch: Callable[[Service], str]) -> tuple[str, Page]:
        page = read_page(fetch(self.service))
        if page is None:
            raise SourceError(f"{self.service.url} is not a page of vLLM, Triton or TGI")
        return self.service.run_id or self._run_of(self.service), page

    def _fails(self, why: str) -> None:
        self.failures += 1
        if not self._failing:
            _LOG.warning("%s; it is tried again every %g s", why, _PERIOD_SECONDS)
        self._failing = True


class ServiceSource:
    """Reads the services that the settings name. None of them can delay the beat by more than PATIENCE_SECONDS.

    `run_of` is asked for the run of a service whose run is not declared. A service that cannot be read has no row.
    """

    name = "service"
    period_seconds = _PERIOD_SECONDS

    def __init__(
        self,
        services: Iterable[Service],
        fetch: Callable[[Service], str],
        run_of: Callable[[Service], str],
        monotonic: Callable[[], float] = time.monotonic,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self.followed: Sequence[Followed] = [Followed(service, fetch, run_of) for service in services]
        self._monotonic = monotonic
        self._patience = patience_seconds

    def read(self) -> Reading:
        """Return a row for every service that answered since the last reading."""
        now = self._monotonic()
        oldest = now - _PERIODS_OF_AMOUNTS * self.period_seconds
        late = {each.service: each.row(0, now, oldest) for each in self.followed}
        for each in self.followed:
            if late[each.service] is None:
                each.begin()
        deadline = now + self._patience
        rows = [late[each.service] or each.row(deadline - self._monotonic(), now, oldest) for each in self.followed]
        for each in self.followed:
            each.begin()
        return {"service_samples": [said for said in rows if said is not None]}

    def close(self) -> None:
        """End the threads."""
        for each in self.followed:
            each.close()
