"""The thread that keeps the store up: one job at a time, each when it is due, none longer than it may be.

A job that fails is counted, told to the log once and tried again; what it did before stays done. Where several
collectors share a lake, each has this thread, and each job's turn goes to whoever takes it first.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.wire.units import SECOND_US
from collector.errors import StoreError
from collector.lake.soundness.file_check import note_written, snapshot_of
from collector.lake.upkeep.counters import Counters
from collector.lake.upkeep.jobs import WRITE_FILES, Job, jobs
from collector.lake.upkeep.outcome import Outcome
from collector.lake.upkeep.retention import Dropped
from collector.lake.upkeep.turns import JobState, give, prolong, states, take
from collector.metrics.metrics import Metrics
from collector.store.tier_schema import make_tables
from collector.thread_priority import UPKEEP, let_others_go_first

if TYPE_CHECKING:
    from collector.config import CollectorConfig
    from collector.store.database import Store

_LOG = logging.getLogger(__name__)
LOOK_SECONDS = 30.0  # how often it is looked whether anything is due
_RETRY_SECONDS = 300.0  # after a failure
_AGAIN_SECONDS = 5.0  # after a turn that left some of its work
_STOPPING_SECONDS = 30.0
_TURNS = 6  # times its time, after which another collector takes a job over; it is prolonged when half of that is over
WAY_SECONDS = 0.5  # how often it is looked whether the sealing has caught up


class Upkeep:
    """The upkeep of one store by one collector."""

    def __init__(
        self,
        store: "Store",
        config: "CollectorConfig",
        metrics: Metrics,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        sealing_is_behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._turn_seconds = config.job_seconds
        self._longest_us = round(_TURNS * config.job_seconds * SECOND_US)
        self._turn_of, self._until_us = "", 0
        self._counters = Counters(metrics.registry)
        self._jobs = jobs(store, config, self._tell, self._give_way)
        self._now_us = now_us
        self._sealing_is_behind = sealing_is_behind
        self._failing: set[str] = set()
        self._is_made = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the transaction that is under way; what a job has left is done after the next start."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(_STOPPING_SECONDS)

    def _run(self) -> None:
        let_others_go_first(UPKEEP)
        while not self._ending.wait(LOOK_SECONDS):
            self.once()

    def once(self) -> list[str]:
        """Give every job that is due its turn, and return the names of those that went well."""
        try:
            if not self._is_made:
                make_tables(self._store)
                self._is_made = True
            with self._store.session() as session:
                known = states(session)
        except StoreError as error:
            self._failed("upkeep", error)
            return []
        self._failing.discard("upkeep")
        for job in self._jobs:
            self._show(known.get(job.name, JobState(job.name)))
        due = [job for job in self._jobs if known.get(job.name, JobState(job.name)).due_at <= self._now_us()]
        return [job.name for job in due if not self._ending.is_set() and self._turn(job)]

    def _turn(self, job: Job) -> bool:
        """Give a job its turn, and say whether it went well."""
        self._wait_for_sealing()
        began = time.monotonic()
        before = snapshot_of(self._store) if job.name in WRITE_FILES else None
        self._turn_of, self._until_us = job.name, self._longer_us()
        try:
            if not take(self._store, job.name, self._now_us(), self._until_us):
                self._counters.runs.labels(job.name, "elsewhere").inc()
                return False
        except StoreError:  # another wrote the row at the same moment: it has the turn
            self._counters.runs.labels(job.name, "elsewhere").inc()
            return False
        wrote = True  # what failed may have written files before
        try:
            outcome = job.run(began + self._turn_seconds, self._now_us())
        except StoreError as error:
            if self._ending.is_set():
                self._ended(job, "interrupted", str(error), _AGAIN_SECONDS)
            else:
                self._ended(job, "failed", str(error), _RETRY_SECONDS)
                self._failed(job.name, error)
            return False
        else:
            wrote = outcome.done > 0
        finally:
            self._counters.seconds.labels(job.name).inc(time.monotonic() - began)
            if before is not None and wrote:
                note_written(self._store, before)
        self._succeeded(job, outcome)
        return True

    def _give_way(self) -> None:
        """Let the sealing catch up between two transactions of a job, whose turn is prolonged where it gets long.

        Raises:
            StoreError: nothing more is to be begun, since the server ends; or the turn is another's.
        """
        self._wait_for_sealing()
        if self._ending.is_set():
            raise StoreError("the server ends; what is left is done after the next start")
        if self._until_us - self._now_us() < self._longest_us // 2:
            longer = self._longer_us()
            prolong(self._store, self._turn_of, self._until_us, longer)
            self._until_us = longer

    def _wait_for_sealing(self) -> None:
        """Wait while sealing is behind, so long at most.

        Both write to the lake, one at a time, and want all cores. Minutes may come late; what is not sealed cannot be
        asked for, and fills the hot file.
        """
        until = time.monotonic() + self._turn_seconds
        while self._sealing_is_behind() and time.monotonic() < until and not self._ending.wait(WAY_SECONDS):
            pass

    def _longer_us(self) -> int:
        return self._now_us() + self._longest_us

    def _succeeded(self, job: Job, outcome: Outcome) -> None:
        if job.name in self._failing:
            _LOG.warning("%s works again", job.name)
        self._failing.discard(job.name)
        self._counters.done.labels(job.name).inc(outcome.done)
        self._ended(job, "done", outcome.said, _AGAIN_SECONDS if outcome.again else job.every_seconds)

    def _ended(self, job: Job, word: str, said: str, next_seconds: float) -> None:
        now = self._now_us()
        state = JobState(job.name, word, said, now, now if word == "done" else 0, now + round(next_seconds * SECOND_US))
        self._counters.runs.labels(job.name, word).inc()
        self._show(state)
        try:
            give(self._store, state, self._until_us)
        except StoreError as error:  # the turn then ends by itself
            _LOG.warning("%s ended, and this could not be written down: %s", job.name, error)

    def _failed(self, name: str, error: StoreError) -> None:
        if name not in self._failing:
            _LOG.error("%s failed, and is tried again: %s", name, error)
        self._failing.add(name)

    def _show(self, state: JobState) -> None:
        self._counters.due.labels(state.job).set(state.due_at / SECOND_US)
        if state.succeeded_at:
            self._counters.last_success.labels(state.job).set(state.succeeded_at / SECOND_US)

    def _tell(self, dropped: Dropped) -> None:
        for table, rows in dropped.rows.items():
            self._counters.dropped.labels(table).inc(rows)
        self._counters.held_days.set(dropped.held_days)
        if dropped.unjudged:
            self._counters.unjudged.inc(dropped.unjudged)
            _LOG.error(
                "%d samples were dropped before they were in the ledger: raise keep_bytes, or the disk",
                dropped.unjudged,
            )
