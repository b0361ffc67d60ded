"""The page of the fleet, made beside the requests: when the ledger has changed, and never by a scrape."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.wire.units import HOUR_MS, MICROS
from analyzer.errors import AnalyzerError
from analyzer.interfaces.metrics.fleet_query import (
    FINDINGS_SHOWN,
    RUNS_SHOWN,
    TEAMS_SHOWN,
    FinopsFigures,
    FleetReading,
    read_beside,
    read_fleet,
)
from analyzer.period import WINDOW_MS
from analyzer.queries.generation import Generations
from analyzer.reports.reader import Reader
from collector.errors import CollectorError

PREFIX = "gpuledger_fleet"
_SECOND_MS = 1000
_STATE = ("class", "state", "cause")
_TEAM = ("team", "class")
_KIND = ("kind", "confidence")
_RUN = ("run_id", "name", "team", "class", "state", "cause")
_FINDING = ("finding", "kind", "confidence", "team", "run_id")
_BEARER = ("bearer", "scope")
_FIELDS = {"class": "klass", "kind": "rule", "finding": "id", "bearer": "name"}  # of labels that are named otherwise
_DEAREST = f"The {FINDINGS_SHOWN} most expensive findings of the week that are still open"


@dataclass(frozen=True, slots=True)
class Family:
    """One family. `{unit}` in its name is the ledger's currency.

    `source` is where its value stands in what was read; with labels there are rows, or a value by the label. `value` is
    the field of a row, divided by `per`. It is left out while what it `needs` is not known.
    """

    name: str
    about: str
    source: str
    value: str = ""
    per: int = 1
    labels: Sequence[str] = ()
    needs: str = "known_until"


FLEET = (
    Family("hour_timestamp_seconds", "Start of the last complete hour.", "hour", per=MICROS, needs="hour"),
    Family(
        "gpus", "GPUs by state in the last complete hour, on average.",
        "hour_parts", "milliseconds", HOUR_MS, _STATE, "hour",
    ),
    Family(
        "hour_cost_{unit}", "What the last complete hour cost, by state.",
        "hour_parts", "cost_micros", MICROS, _STATE, "hour",
    ),
    Family(
        "unpriced_gpus", "GPUs without a price in the last complete hour, on average.",
        "unpriced_milliseconds", per=HOUR_MS, needs="hour",
    ),
    Family("runs", "Runs that held a GPU in the last complete hour.", "runs", needs="hour"),
    Family("week_timestamp_seconds", "Start of the week that is summed.", "week.start", per=MICROS),
    Family(
        "week_gpu_seconds", "GPU time of the week so far, by state.", "week_parts", "milliseconds", _SECOND_MS, _STATE
    ),
    Family("week_cost_{unit}", "What the week cost so far, by state.", "week_parts", "cost_micros", MICROS, _STATE),
    Family(
        "team_week_gpu_seconds",
        "GPU time of the week so far, by team: the most expensive teams, all others, unmapped runs, and unallocated.",
        "week_teams", "milliseconds", _SECOND_MS, _TEAM,
    ),
    Family("team_week_cost_{unit}", "What the week cost so far, by team.", "week_teams", "cost_micros", MICROS, _TEAM),
    Family(
        "open_findings", "Findings of the week that are still open.", "open_findings", "findings", labels=_KIND
    ),
    Family(
        "open_findings_gpu_seconds", "Estimated wasted GPU time of these findings.", "open_findings",
        "milliseconds", _SECOND_MS, _KIND,
    ),
    Family(
        "open_findings_at_stake_{unit}", "Estimated waste of these findings.", "open_findings",
        "at_stake_micros", MICROS, _KIND,
    ),
    Family(
        "run_gpus", f"GPUs by state of the {RUNS_SHOWN} runs that lost most in the last complete hour, on average.",
        "losing_runs", "milliseconds", HOUR_MS, _RUN,
    ),
    Family(
        "team_avoidable_hour_cost_{unit}",
        f"What the {TEAMS_SHOWN} teams that lost most could have saved in the last complete hour, by state.",
        "losing_teams", "cost_micros", MICROS, ("team", "state"),
    ),
    Family(
        "finding_gpu_seconds", f"{_DEAREST}: estimated wasted GPU time.",
        "dearest_findings", "milliseconds", _SECOND_MS, _FINDING,
    ),
    Family(
        "finding_at_stake_{unit}", f"{_DEAREST}: estimated waste.",
        "dearest_findings", "at_stake_micros", MICROS, _FINDING,
    ),
    Family(
        "recent_until_timestamp_seconds", "End of the newest fully accounted ten minutes.",
        "recent.until", per=MICROS,
    ),
    Family(
        "recent_gpus", "GPUs that runs held in these ten minutes, by state, on average; preliminary.",
        "recent.held", "milliseconds", WINDOW_MS, _STATE,
    ),
    Family(
        "run_recent_gpus",
        f"GPUs by state of the {RUNS_SHOWN} runs that lost most in these ten minutes, on average; preliminary.",
        "recent.runs", "milliseconds", WINDOW_MS, _RUN,
    ),
    Family("known_until_timestamp_seconds", "End of the newest hour of the ledger.", "known_until", per=MICROS),
    Family(
        "week_known_seconds", "Time of the week by status of its hours (provisional, closed, final).", "known_seconds",
        labels=("status",),
    ),
)  # fmt: skip
FINOPS = (
    Family(
        "hour_traffic_bytes",
        "Bytes that runs moved in the last complete hour, by distance; GPU links are within a host or pod.",
        "traffic", "bytes", labels=("locality",), needs="traffic",
    ),
    Family("month_timestamp_seconds", "Start of the month that is summed.", "month.start", per=MICROS, needs="month"),
    Family("month_end_timestamp_seconds", "End of the month that is summed.", "month.end", per=MICROS, needs="month"),
    Family(
        "month_spent_{unit}",
        "What the month cost so far: the most expensive teams, those with a budget, and the fleet.",
        "bearers", "spent_micros", MICROS, _BEARER, "month",
    ),
    Family(
        "month_budget_{unit}", "Budget of the month.",
        "bearers", "budget_micros", MICROS, _BEARER, "month",
    ),
    Family(
        "month_expected_{unit}", "Forecast cost at the end of the month.",
        "bearers", "expected_micros", MICROS, _BEARER, "month",
    ),
    Family(
        "month_expected_high_{unit}", "Forecast cost at the end of the month, 90th percentile.",
        "bearers", "high_micros", MICROS, _BEARER, "month",
    ),
    Family(
        "price_faults", "Faults of the price list by kind, as `gpuledger bill prices check` counts them.",
        "faults", labels=("kind",), needs="traffic",
    ),
    Family(
        "file_unreadable", "Whether a file of the settings cannot be read, so that its figures are missing.",
        "unreadable", labels=("file",), needs="traffic",
    ),
)  # fmt: skip


def families(
    rows: Sequence[Family], reading: FleetReading | FinopsFigures, currency: str
) -> Iterator[GaugeMetricFamily]:
    """Yield the families of what was read, in the order of their rows; a value that is not known is left out."""
    for row in rows:
        if attrgetter(row.needs)(reading) is None:
            continue
        name = f"{PREFIX}_{row.name.format(unit=currency.lower())}"
        family = GaugeMetricFamily(name, row.about, labels=list(row.labels))
        for labels, value in _series(row, attrgetter(row.source)(reading)):
            if value is not None:
                family.add_metric(labels, value / row.per)
        yield family


def _series(row: Family, source: object) -> Iterator[tuple[list[str], float | None]]:
    """Yield the values of the labels, and the figure beside them."""
    if isinstance(source, Mapping):
        yield from (([key], value) for key, value in source.items())
    elif isinstance(source, tuple):
        fields = [_FIELDS.get(label, label) for label in row.labels]
        yield from (([getattr(one, field) for field in fields], getattr(one, row.value)) for one in source)
    elif isinstance(source, int):
        yield [], source


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
