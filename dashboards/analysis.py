"""The analysis beside the server: a thread that brings the ledger up to date, off the path of every request.

What /metrics tells of it stands here too. It loads nothing of the analysis itself: a command asks how often it runs.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from analyzer.errors import AnalyzerError
from collector.errors import CollectorError, HeldElsewhereError, RegistryError, TakenError
from collector.registry.tenant import BookingLease

if TYPE_CHECKING:
    from analyzer.ledger.booking import Analysis

_LOG = logging.getLogger(__name__)
ANALYZE_SECONDS = 300.0  # from one pass to the next at most, where nobody says
_LEAST_PAUSE_SECONDS = 30.0
_PAUSES = 20  # as long as a pass takes: of a small site the running hour is then half a minute old
_STOPPING_SECONDS = 60  # for a day that is being written; a day is written whole or not at all

_REASONS: dict[type[Exception], str] = {TakenError: "taken", RegistryError: "registry"}
REASONS = ("held", "taken", "registry", "failed")


@dataclass(frozen=True, slots=True)
class Pass:
    """How the newest analysis went. `generation` counts those that changed the ledger; `error` is None on success.

    `held` says which other analyzer books into the lake, None where none does; `unbooked` counts passes by why
    nothing of them was booked.
    """

    generation: int = 0
    passes: int = 0
    failures: int = 0
    finished_at: int | None = None  # microseconds UTC
    seconds: float | None = None
    error: str | None = None
    held: str | None = None
    unbooked: Mapping[str, int] = field(default_factory=dict)


class AnalysisJob:
    """Runs `analyze` again and again, one pass at a time, at least every so many seconds."""

    def __init__(
        self,
        analyze: "Callable[[int], Analysis]",
        every_seconds: float,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._analyze = analyze
        self._now_us = now_us  # by which hours close
        self._every = every_seconds
        self.after: Callable[[], None] = lambda: None  # called after each pass that the thread makes
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="analysis", daemon=True)
        self.last = Pass()

    def start(self) -> None:
        """Begin; the first pass runs at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pass that is under way."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(_STOPPING_SECONDS)

    @property
    def is_passing(self) -> bool:
        """Whether a pass is under way."""
        return self._lock.locked()

    def once(self) -> Pass:
        """Run one pass now and return how it went; a failure is told, never raised."""
        with self._lock:
            began = time.monotonic()
            try:
                done = self._analyze(self._now_us())
            except HeldElsewhereError as error:
                self._stood_by(str(error))
            except (AnalyzerError, CollectorError) as error:
                self._failed(error)
            else:
                self._succeeded(done.rows + done.adjustments > 0)
            taken = time.monotonic() - began
            self.last = replace(
                self.last, passes=self.last.passes + 1, finished_at=time.time_ns() // 1000, seconds=taken
            )
            return self.last

    def _stood_by(self, sentence: str) -> None:
        if self.last.held != sentence:
            _LOG.info("%s", sentence)
        self.last = replace(self.last, error=None, held=sentence, unbooked=self._counted("held"))

    def _counted(self, reason: str) -> Mapping[str, int]:
        return {**self.last.unbooked, reason: self.last.unbooked.get(reason, 0) + 1}

    def _failed(self, error: AnalyzerError | CollectorError) -> None:
        sentence = str(error)
        reason = next((word for kind, word in _REASONS.items() if isinstance(error, kind)), "failed")
        if self.last.error != sentence:  # a change of state is logged once
            _LOG.error("the analysis failed: %s", sentence)
        failures, unbooked = self.last.failures + 1, self._counted(reason)
        self.last = replace(self.last, error=sentence, held=None, failures=failures, unbooked=unbooked)

    def _succeeded(self, changed: bool) -> None:
        if self.last.error is not None:
            _LOG.warning("the analysis works again")
        self.last = replace(self.last, error=None, held=None, generation=self.last.generation + changed)

    def _run(self) -> None:
        while not self._ending.is_set():
            self.once()
            self.after()
            self._ending.wait(pause_seconds(self._every, self.last.seconds))


def pause_seconds(most: float, taken: float | None) -> float:
    """Return how long to rest after a pass that took so many seconds: a large site keeps its processors for the rest.

    `most` is what the site allows.
    """
    return min(most, max(_LEAST_PAUSE_SECONDS, _PAUSES * (taken or 0.0)))


_PREFIX = "gpuledger_analysis"


class JobPage(Collector):
    """The page of one job. `lease` is None where nobody else could book into the lake; nothing is told of it then."""

    def __init__(self, job: AnalysisJob, lease: BookingLease | None) -> None:
        self._job = job
        self._lease = lease

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the families, as prometheus_client asks for them."""
        last = self._job.last
        yield CounterMetricFamily(f"{_PREFIX}_passes", "Passes of the analysis.", last.passes)
        about = "Of them those of which nothing was booked, by why: held or taken by another, the registry, or failed."
        unbooked = CounterMetricFamily(f"{_PREFIX}_unbooked_passes", about, labels=["reason"])
        for reason in REASONS:
            unbooked.add_metric([reason], last.unbooked.get(reason, 0))
        yield unbooked
        if self._lease is not None:
            yield from _lease(self._lease)


def _lease(lease: BookingLease) -> Iterator[GaugeMetricFamily]:
    holder = lease.holder
    is_mine = holder is not None and holder.is_mine
    yield GaugeMetricFamily(f"{_PREFIX}_lease_held", "Whether this process books into the lake.", float(is_mine))
    named = GaugeMetricFamily(
        f"{_PREFIX}_lease_info", "Who does; no series while that is not known.", labels=["holder", "url"]
    )
    if holder is not None:
        named.add_metric([holder.name, holder.url], 1)
    yield named
