"""The page of the fleet, made beside the requests: when the ledger has changed, and never by a scrape."""

import logging
import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from analyzer.errors import AnalyzerError
from analyzer.interfaces.metrics.families import FINOPS, FLEET, PREFIX, families
from analyzer.interfaces.metrics.fleet_query import FinopsFigures, FleetReading, read_beside, read_fleet
from analyzer.queries.generation import Generations
from analyzer.reports.reader import Reader
from collector.errors import CollectorError

_LOG = logging.getLogger(__name__)
_EVERY_SECONDS = 15.0
_STOPPING_SECONDS = 5.0


class FleetPage(Collector):
    """One site's page. `read` opens a reader, which is closed here; `url` is where people reach the pages."""

    def __init__(self, read: Callable[[], Reader], url: str = "", every_seconds: float = _EVERY_SECONDS) -> None:
        self._read = read
        self._url = url
        self._every = every_seconds
        self._generations: Generations | None = None
        self._generation: str | None = None
        self._families: list[GaugeMetricFamily] = []
        self._beside: tuple[int, FinopsFigures] | None = None  # the ledger's end, and what was read for it
        self._info: GaugeMetricFamily | None = None
        self._shown: list[CounterMetricFamily | GaugeMetricFamily] = []
        self._failures = 0
        self._failing = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet-page", daemon=True)

    def start(self) -> None:
        """Begin; the first page is made at once."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(_STOPPING_SECONDS)

    def collect(self) -> "list[CounterMetricFamily | GaugeMetricFamily]":
        """Return the families of the newest page, as prometheus_client asks for them."""
        return self._shown

    def once(self) -> None:
        """Make the page anew where the ledger has changed; where it cannot be read, keep the last and count it."""
        try:
            self._look()
        except (AnalyzerError, CollectorError) as error:
            if not self._failing:
                _LOG.error("/metrics shows an earlier state of the fleet: %s", error)
            self._failing = True
            self._failures += 1
        else:
            self._failing = False
        self._shown = self._written()

    def _look(self) -> None:
        reader = self._read()
        self._info = self._info or _info(reader, self._url)
        with reader.session:
            if self._generations is None:
                self._generations = Generations(reader.settings)
            generation = self._generations.of(reader.session)
            if generation == self._generation:
                return
            with reader.session.transaction():
                reading = read_fleet(reader)
            self._families = [] if reading is None else [*self._of_fleet(reader, reading)]
            self._generation = generation

    def _of_fleet(self, reader: Reader, reading: FleetReading) -> Iterator[GaugeMetricFamily]:
        if self._beside is None or self._beside[0] != reading.known_until:
            self._beside = (reading.known_until, read_beside(reader, reading.hour, reading.known_until))
        yield from families(FLEET, reading, reading.currency)
        yield from families(FINOPS, self._beside[1], reading.currency)

    def _written(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        about = "Failed reads of the ledger for this page; it then shows the previous values."
        failures = CounterMetricFamily(f"{PREFIX}_read_failures", about, self._failures)
        looked = GaugeMetricFamily(f"{PREFIX}_read_timestamp_seconds", "When the ledger was last read.", time.time())
        info = [] if self._info is None else [self._info]
        return [*info, *self._families, failures, looked]

    def _run(self) -> None:
        while True:
            self.once()
            if self._ending.wait(self._every):
                return


def _info(reader: Reader, url: str) -> GaugeMetricFamily:
    about = "Name of the fleet, its currency, and the address of its pages. Always 1."
    family = GaugeMetricFamily(f"{PREFIX}_info", about, labels=["fleet", "currency", "url"])
    family.add_metric([reader.settings.cluster, reader.settings.currency, url.rstrip("/")], 1)
    return family
