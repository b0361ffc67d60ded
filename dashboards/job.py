"""The analysis beside the server: a thread that brings the ledger up to date, off the path of every request."""

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analyzer.errors import AnalyzerError
from collector.errors import CollectorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from analyzer.analysis import Analysis

LOG = logging.getLogger(__name__)
STOPPING_SECONDS = 60  # for a day that is being written; a day is written whole or not at all


@dataclass(frozen=True, slots=True)
class Pass:
    """How the newest analysis went. `generation` counts those that changed the ledger; `error` is None on success."""

    generation: int = 0
    passes: int = 0
    failures: int = 0
    finished_at: int | None = None  # microseconds UTC
    seconds: float | None = None
    error: str | None = None


class AnalysisJob:
    """Runs `analyze` every so often, one pass at a time."""

    def __init__(self, analyze: "Callable[[int], Analysis]", every_seconds: float) -> None:
        self._analyze = analyze
        self._every = every_seconds
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
            self._thread.join(STOPPING_SECONDS)

    def once(self) -> Pass:
        """Run one pass now and return how it went; a failure is told, never raised."""
        with self._lock:
            began = time.monotonic()
            now = time.time_ns() // 1000
            try:
                done = self._analyze(now)
            except (AnalyzerError, CollectorError) as error:
                self._failed(str(error))
            else:
                self._succeeded(done.rows + done.adjustments > 0)
            taken = time.monotonic() - began
            self.last = replace(
                self.last, passes=self.last.passes + 1, finished_at=time.time_ns() // 1000, seconds=taken
            )
            return self.last

    def _failed(self, sentence: str) -> None:
        if self.last.error != sentence:  # a change of state is logged once
            LOG.error("the analysis failed: %s", sentence)
        self.last = replace(self.last, error=sentence, failures=self.last.failures + 1)

    def _succeeded(self, changed: bool) -> None:
        if self.last.error is not None:
            LOG.warning("the analysis works again")
        self.last = replace(self.last, error=None, generation=self.last.generation + changed)

    def _run(self) -> None:
        while not self._ending.is_set():
            self.once()
            self._ending.wait(self._every)
