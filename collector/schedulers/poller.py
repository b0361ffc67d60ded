"""The thread that asks a scheduler every so often, off the path of every batch and every page.

What a poll found becomes a batch like any agent's: the same rules, the same writer, a receipt of its own.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from agent.wire.tables import TABLES
from collector.background import Background
from collector.errors import CollectorError, SchedulerError
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.batch import encoded_batch
from collector.pipeline.decoding.validation import Clock, plausible
from collector.pipeline.writer import Writer
from collector.store.database import Store
from collector.store.session import Session

Value: TypeAlias = str | int | float | None
Row: TypeAlias = dict[str, Value]
_Tables: TypeAlias = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Poll:
    """Rows of the contract that are new, found at a moment (microseconds UTC).

    `complete` is False where a part of the scheduler did not answer, so that the next poll must look further back.
    """

    found_at: int
    tables: _Tables
    complete: bool = True


class ClusterSource(Protocol):
    """One cluster's scheduler. Used in one thread: what `poll` returns is landed, and then `landed` is called."""

    name: str  # slurm/alpha: how its rows are signed
    unplaced: int  # runs that hold GPUs which are not known by name

    def poll(self, session: Session, now: int) -> Poll:
        """Return what is new.

        Raises:
            SchedulerError: the scheduler did not answer.
        """
        ...

    def landed(self, poll: Poll) -> None:
        """Note that a poll's rows are in the store."""
        ...

    def closing(self, now: int) -> Poll:
        """Return what was seen and not told yet, for the end."""
        ...


def moment_of(row: Mapping[str, Value], name: str) -> int | None:
    """Return a row's time or count by name, or None where it has none."""
    value = row.get(name)
    return value if isinstance(value, int) else None


_LOG = logging.getLogger(__name__)
_LANDING_SECONDS = (
    120.0  # for the writer's answer; what is late may land after all, and is then told twice, once counted
)


class PollBatches:
    """Lands the polls of one scheduler, each once. `refused` counts rows that could not be believed."""

    def __init__(self, name: str, writer: Writer) -> None:
        self.refused = 0
        self._name = name
        self._writer = writer
        self._stream = f"{sender(name)}/{uuid.uuid4()}"
        self._sequence = 0

    def land(self, poll: Poll) -> None:
        """Return once the poll's rows are durable.

        Raises:
            BatchError: the writer is full or stopping, or the store refused them.
            TimeoutError: it did not answer in time.
        """
        tables = {name: self._believed(name, poll) for name, rows in poll.tables.items() if rows}
        if not any(rows.num_rows for rows in tables.values()):
            return
        batch = encoded_batch(
            agent=sender(self._name),
            stream=self._stream,
            sequence=self._sequence,
            tables=tables,
            sent_at=poll.found_at,
        )
        self._sequence += 1
        self._writer.submit(batch).result(_LANDING_SECONDS)

    def _believed(self, name: str, poll: Poll) -> pa.RecordBatch:
        table = TABLES[name]
        rows = pa.RecordBatch.from_pylist([dict(row) for row in poll.tables[name]], schema=arrow_schema(table))
        good, broken = plausible(table, rows, Clock(poll.found_at, poll.found_at))
        for rule in broken:
            _LOG.warning("%s: rows of %s left out, since %s: %s", self._name, name, rule.column, rule.says)
        self.refused += rows.num_rows - good.num_rows
        return good


def sender(name: str) -> str:
    """Return under which name the rows of a scheduler like slurm/alpha are received."""
    return f"scheduler:{name}"


_STOPPING_SECONDS = 30.0  # for the command that is under way


class Poller(Background):
    """Asks one scheduler, from `start` until `stop`, and tells at the end what was not told yet.

    A failure is counted, logged once, and asked again next time.

    `open_source` makes the source from what the store already knows; it is called in the poller's own thread.
    """

    def __init__(
        self,
        name: str,
        open_source: Callable[[Session, int], ClusterSource],
        store: Store,
        writer: Writer,
        every_seconds: float,
    ) -> None:
        super().__init__(f"scheduler {name}", _STOPPING_SECONDS)
        self._name = name
        self._open = open_source
        self._store = store
        self._every = every_seconds
        self._landing = PollBatches(name, writer)
        self._source: ClusterSource | None = None
        self._failing: str | None = None
        self._good_at = time.monotonic()
        self._failures = writer.metrics.scheduler_failures
        self._failures.labels(name)  # a series from the start, so that its first failure is seen as a rise
        writer.metrics.scheduler_age.labels(name).set_function(self.age_seconds)
        writer.metrics.scheduler_unplaced.labels(name).set_function(lambda: self.unplaced)

    def age_seconds(self) -> float:
        """Return how long ago the scheduler last answered; since the start where it never has."""
        return time.monotonic() - self._good_at

    @property
    def unplaced(self) -> int:
        """Runs holding GPUs that are not known by name."""
        return self._source.unplaced if self._source else 0

    def once(self, session: Session) -> bool:
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
            _LOG.warning("%s: its last rows could not be written: %s", self._name, error)

    def _failed(self, error: Exception) -> None:
        self._failures.labels(self._name).inc()
        if self._failing is None:
            _LOG.warning("%s cannot be read: %s; retried every %g s", self._name, error, self._every)
        self._failing = str(error)
