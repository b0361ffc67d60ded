"""The maintenance thread: one job at a time, each when it is due, none longer than it may be.

A job that fails is counted, told to the log once and tried again; what it did before stays done. Where several
collectors share a lake, each has this thread, and each job's turn goes to whoever takes it first: it is a row a job,
where all collectors of a lake see it, and who writes it first has the turn.

Only one job of one collector runs at a time. Two that delete the same rows would have to conflict, and DuckLake lets
both commit where one deletes few rows and the other many (its issue 1215): an hour that is rolled up again while its
day is compacted would be there twice. Who takes a turn therefore also writes one row that all share, `_ALL`, and it is
there from the beginning, since deleting nothing conflicts with nobody (issue 1393). A collector that dies within a turn
has said how long it would take at most; after that another may take one.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from prometheus_client import CollectorRegistry

from agent.wire.units import DAY_US, SECOND_US
from collector.background import MAINTENANCE, Background, let_others_go_first
from collector.config import CollectorConfig
from collector.errors import StoreError
from collector.lake.compaction import compact, merge_recent
from collector.lake.damage import note_written, snapshot_of
from collector.lake.lake_files import Outcome, writing
from collector.lake.retention import Dropped, Keeping, drop
from collector.lake.tidying import check_files, expire, forget_receipts, remove_orphans, shrink
from collector.lake.tiers import roll_up
from collector.pipeline.metrics import Families, Metrics
from collector.store.database import Store
from collector.store.schemas import make_tier_tables
from collector.store.session import Session


class Counters:
    """One set for a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made = Families(registry, "gpuledger_upkeep")
        turns = "Runs of a maintenance job by outcome: done, failed, interrupted by a server stop, or run elsewhere."
        self.runs = made.counter("runs", turns, "job", "outcome")
        self.seconds = made.counter("seconds", "Time that maintenance jobs took.", "job")
        self.done = made.counter(
            "done", "Work done by a maintenance job, in its own unit: hours, files, rows, bytes.", "job"
        )
        self.last_success = made.gauge(
            "last_success_timestamp_seconds", "When a maintenance job last succeeded.", "job"
        )
        self.due = made.gauge("due_timestamp_seconds", "When a maintenance job is next due.", "job")
        self.dropped = made.counter("dropped_rows", "Rows that retention dropped, by table.", "table")
        lost = "Samples dropped for lack of space before they were in the ledger: they are lost. Must stay 0."
        self.unjudged = made.counter("dropped_unjudged_rows", lost)
        held = "Days past their retention that are kept because they are not rolled up or not in the ledger."
        self.held_days = made.gauge("held_back", held)  # promtool: a name that ends in _days is no base unit


_BEGUN = "begun"
_AHEAD_US = 2 * DAY_US  # twice the longest pause of a job
_ALL = "*"  # the name of the row that every turn writes


@dataclass(frozen=True, slots=True)
class JobState:
    """What is known of a job across collectors and restarts. Times are microseconds UTC; 0 is never."""

    job: str
    outcome: str = ""
    said: str = ""
    finished_at: int = 0
    succeeded_at: int = 0
    due_at: int = 0

    def is_later(self, now_us: int) -> bool:
        """Whether it is due later; what lies beyond any job's pause was written by a clock that was ahead."""
        return now_us < self.due_at <= now_us + _AHEAD_US


def states(session: Session) -> dict[str, JobState]:
    """Return the jobs that have ever had a turn; of two rows of one, the later."""
    rows = session.rows(
        "SELECT job, outcome, said, finished_at, succeeded_at, due_at FROM upkeep ORDER BY finished_at, due_at"
    )
    return {row[0]: JobState(*row) for row in rows if row[0] != _ALL}


def take(store: Store, job: str, now_us: int, until_us: int) -> bool:
    """Take a job's turn until then, and say whether it was ours to take: it is due, and no other job has its turn.

    Raises:
        StoreError: another took it at the same moment, or the store refused.
    """
    with writing(store) as session:
        known = states(session)
        state = known.get(job, JobState(job))
        if state.is_later(now_us) or any(s.outcome == _BEGUN and s.is_later(now_us) for s in known.values()):
            return False
        _write(session, JobState(_ALL))
        _write(session, JobState(job, _BEGUN, "", state.finished_at, state.succeeded_at, until_us))
    return True


def prolong(store: Store, job: str, until_us: int, longer_us: int) -> None:
    """Take the turn that ends at `until_us` for longer.

    Raises:
        StoreError: another has taken it over, or the store refused.
    """
    with writing(store) as session:
        state = _own(session, job, until_us)
        _write(session, JobState(_ALL))
        _write(session, replace(state, due_at=longer_us))


def give(store: Store, state: JobState, until_us: int) -> None:
    """Write down how the turn that was taken until `until_us` ended, and when the next is due.

    Raises:
        StoreError: another has taken it over, or the store refused; the turn then ends by itself.
    """
    with writing(store) as session:
        before = _own(session, state.job, until_us)
        if state.succeeded_at < before.succeeded_at:
            state = JobState(state.job, state.outcome, state.said, state.finished_at, before.succeeded_at, state.due_at)
        _write(session, state)


def _own(session: Session, job: str, until_us: int) -> JobState:
    """Return the state of a job whose turn is still the one that was taken until then."""
    state = states(session).get(job, JobState(job))
    if (state.outcome, state.due_at) != (_BEGUN, until_us):
        raise StoreError(f"the turn of {job} has expired, and another collector has taken it")
    return state


def _write(session: Session, state: JobState) -> None:
    session.execute("DELETE FROM upkeep WHERE job = ?", [state.job])
    session.execute(
        "INSERT INTO upkeep (job, outcome, said, finished_at, succeeded_at, due_at) VALUES (?, ?, ?, ?, ?, ?)",
        [state.job, state.outcome, state.said, state.finished_at, state.succeeded_at, state.due_at],
    )


_HOUR_SECONDS = 3600.0
_DAY_SECONDS = 24 * _HOUR_SECONDS
# Those whose turn may leave new files in the lake, if it did anything: what they count as done are rows and files.
_WRITE_FILES = frozenset({"roll_up", "retention", "merge", "compaction"})


@dataclass(frozen=True, slots=True)
class Job:
    """One job (docs/storage.md). `run` gets its deadline (time.monotonic) and the time (microseconds UTC)."""

    name: str
    every_seconds: float
    run: Callable[[float, int], Outcome]


def jobs(
    store: Store, config: CollectorConfig, tell: Callable[[Dropped], None], give_way: Callable[[], None]
) -> tuple[Job, ...]:
    """Return the jobs of a store, in the order in which they are best done where several are due.

    Those of many transactions call `give_way` before each.
    """
    keeping = Keeping(config.raw_days, config.minute_days, config.hour_days, config.kept_tables, config.keep_bytes)
    receipts_us = config.receipt_days * DAY_US
    every = (
        Job("roll_up", _HOUR_SECONDS, lambda deadline, now: roll_up(store, deadline, give_way, now)),
        Job("retention", _HOUR_SECONDS, lambda _, now: drop(store, keeping, now, tell)),
        Job("receipts", _HOUR_SECONDS, lambda _, now: forget_receipts(store, now - receipts_us)),
    )
    of_lake = (
        Job("merge", _HOUR_SECONDS, lambda deadline, now: merge_recent(store, deadline, now, give_way)),
        Job("compaction", _DAY_SECONDS, lambda deadline, now: compact(store, deadline, now, give_way)),
        Job("expiry", _HOUR_SECONDS, lambda _, now: expire(store, now, config.snapshot_hours * _HOUR_SECONDS)),
        Job("files", _HOUR_SECONDS, lambda deadline, now: check_files(store, deadline, now)),
        Job("orphans", _DAY_SECONDS, lambda _, now: remove_orphans(store, now)),
        Job("catalogue", _DAY_SECONDS, lambda _deadline, _now: shrink(store)),
    )
    return (*every, *of_lake) if store.lake is not None else every


_LOG = logging.getLogger(__name__)
LOOK_SECONDS = 30.0  # how often it is looked whether anything is due
_RETRY_SECONDS = 300.0  # after a failure
_AGAIN_SECONDS = 5.0  # after a turn that left some of its work
_STOPPING_SECONDS = 30.0
_TURNS = 6  # times its time, after which another collector takes a job over; it is prolonged when half of that is over
WAY_SECONDS = 0.5  # how often it is looked whether the sealing has caught up


class Maintenance(Background):
    """The maintenance of one store by one collector. What a job has left at the end is done after the next start."""

    def __init__(
        self,
        store: Store,
        config: CollectorConfig,
        metrics: Metrics,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        sealing_is_behind: Callable[[], bool] = lambda: False,
        proven_us: Callable[[], int] | None = None,
    ) -> None:
        super().__init__("maintenance", _STOPPING_SECONDS)
        self._store = store
        self._turn_seconds = config.job_seconds
        self._longest_us = round(_TURNS * config.job_seconds * SECOND_US)
        self._turn_of, self._until_us = "", 0
        self._counters = Counters(metrics.registry)
        self._jobs = jobs(store, config, self._tell, self._give_way)
        self._now_us = now_us  # when a job is due, which collectors share; what it may drop goes by what is proven
        self._proven_us = proven_us or now_us
        self._sealing_is_behind = sealing_is_behind
        self._failing: set[str] = set()
        self._is_made = False

    def _run(self) -> None:
        let_others_go_first(MAINTENANCE)
        while not self._ending.wait(LOOK_SECONDS):
            self.once()

    def once(self) -> list[str]:
        """Give every job that is due its turn, and return the names of those that went well."""
        try:
            if not self._is_made:
                make_tier_tables(self._store)
                self._is_made = True
            with self._store.session() as session:
                known = states(session)
        except StoreError as error:
            self._failed("maintenance", error)
            return []
        self._failing.discard("maintenance")
        for job in self._jobs:
            self._show(known.get(job.name, JobState(job.name)))
        now = self._now_us()
        due = [job for job in self._jobs if not known.get(job.name, JobState(job.name)).is_later(now)]
        return [job.name for job in due if not self._ending.is_set() and self._turn(job)]

    def _turn(self, job: Job) -> bool:
        """Give a job its turn, and say whether it went well."""
        self._wait_for_sealing()
        began = time.monotonic()
        before = snapshot_of(self._store) if job.name in _WRITE_FILES else None
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
            outcome = job.run(began + self._turn_seconds, self._proven_us())
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
            raise StoreError("the server is stopping; the rest is done after the next start")
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
            _LOG.warning("%s ended, and its outcome could not be recorded: %s", job.name, error)

    def _failed(self, name: str, error: StoreError) -> None:
        if name not in self._failing:
            _LOG.error("%s failed and will be retried: %s", name, error)
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
                "%d samples were dropped before they were in the ledger: raise keep_bytes, or enlarge the disk",
                dropped.unjudged,
            )
