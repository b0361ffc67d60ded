"""One Slurm cluster, asked as often as it is told to: what is new of its jobs and hosts, as rows of the contract."""

import re
from collections.abc import Callable, Iterable, Iterator

from agent.wire.units import SECOND_US
from collector.errors import SchedulerError
from collector.schedulers.books import AllocationBook, ClusterState, is_withdrawn, withdrawn
from collector.schedulers.poller import Poll, Row, moment_of
from collector.schedulers.slurm.jobs import Job
from collector.schedulers.slurm.reader import SlurmReader
from collector.schedulers.slurm.rows import Inventory, JobGpu, alias, attempt_of, holding, places, waiting_row
from collector.store.session import Session

_OVERLAP_US = 600 * SECOND_US  # accounting is asked for more than was missed: its daemon may lag behind the controller
_PATIENCE_US = 600 * SECOND_US  # how long accounting may take to say how a job ended that the controller has forgotten
_FIRST_US = 3600 * SECOND_US  # how far back the very first poll looks
_FARTHEST_US = 14 * 86_400 * SECOND_US  # and a later one, after the collector was away
_AFTER = re.compile(r"(?:afterany|afternotok):(\d+(?:_\d+)?)")


class SlurmSource:
    """Asks a cluster for what is new. Use it in one thread; land what `poll` returns, then call `landed`."""

    def __init__(self, cluster: str, reader: SlurmReader, state: ClusterState) -> None:
        self.name = f"slurm/{cluster}"
        self.prefix = f"{self.name}/"
        self.unplaced = 0  # jobs that hold GPUs which are not known by name
        self._reader = reader
        self._state = state
        self._seen: dict[tuple[str, int | None], int] = {}  # run and start to when it was last there

    def poll(self, session: Session, now: int) -> Poll:
        """Return what is new since the last poll.

        Raises:
            SchedulerError: the controller did not answer; nothing is known then of this minute.
        """
        queued = [job for job in self._reader.queued() if job.uses_gpus]
        ended, accounted = self._ended(now)
        rows = list(self._rows([*queued, *ended], Inventory.read(session)))
        rows += self._vanished(rows, now, accounted)
        states = self._state.nodes.news(self._reader.nodes(), now)
        tables = {
            "allocations": self._state.book.news(rows, now),
            "run_aliases": self._aliases(queued),
            "node_states": states,
        }
        return Poll(now, {name: found for name, found in tables.items() if found}, accounted)

    def landed(self, poll: Poll) -> None:
        """Note that a poll's rows are in the store."""
        self._state.landed(poll)
        open_now = {(str(row["run_id"]), moment_of(row, "started_at")) for row in self._state.book.open()}
        self._seen = {key: at for key, at in self._seen.items() if key in open_now}
        if poll.complete:  # accounting has told of all that ended before
            self._state.asked_until = poll.found_at

    def closing(self, now: int) -> Poll:
        """Return what was seen and not told yet, for the end."""
        return self._state.closing(now)

    def _ended(self, now: int) -> tuple[list[Job], bool]:
        """Return what accounting says has ended, oldest first, and whether it answered.

        Its running jobs are left aside: those of a controller that was lost stay so for ever.
        """
        since = max(self._state.asked_until - _OVERLAP_US, now - _FARTHEST_US)
        try:
            jobs = self._reader.accounted(since)
        except SchedulerError as error:
            self._reader.without_accounting(error)
            return [], False
        ended = [job for job in jobs if job.phase == "ended" and job.uses_gpus]
        return sorted(ended, key=lambda job: (job.started_at or 0, job.raw_id)), True

    def _rows(self, jobs: Iterable[Job], inventory: Inventory) -> Iterator[Row]:
        self.unplaced = 0
        said: dict[str, list[Row]] = {}  # in this poll: of a requeued job, accounting has a record for each attempt
        for job in jobs:
            run_id = f"{self.prefix}{job.id}"
            known = [*self._state.book.of(run_id), *said.get(run_id, ())]
            rows = list(self._of(job, known, inventory))
            said.setdefault(run_id, []).extend(rows)
            yield from rows

    def _of(self, job: Job, known: list[Row], inventory: Inventory) -> Iterator[Row]:
        attempt = attempt_of(job, known)
        if job.started_at is None:
            yield from self._waiting(job, attempt, known)
            return
        found = _found(job, known, inventory)
        self.unplaced += job.phase == "holding" and any(place.gpu_uuid is None for place in found)
        rows = holding(job, self.prefix, attempt, found)
        inherited = next((row["restarts_of"] for row in known if row.get("restarts_of")), None)
        yield from (row | {"restarts_of": inherited} if inherited else row for row in rows)
        yield from _withdrawn(known, rows, job.started_at)
        yield from _no_longer_waiting(known, job.started_at)

    def _waiting(self, job: Job, attempt: int, known: list[Row]) -> Iterator[Row]:
        if job.phase == "ended" and not any(row.get("started_at") is None for row in known):
            return  # it gave up before anybody here had heard of it
        row = waiting_row(job, self.prefix, attempt)
        earlier = _predecessor(job, self.prefix, self._state.book)
        yield row | {"restarts_of": earlier} if earlier else row

    def _vanished(self, rows: list[Row], now: int, accounted: bool) -> Iterator[Row]:
        """Yield the end of what is open in the book and was told of by nobody.

        Accounting is given some time to say how it ended; then it ended when it was last seen, nobody knows how.
        """
        present = {(str(row["run_id"]), moment_of(row, "started_at")) for row in rows}
        self._seen.update(dict.fromkeys(present, now))
        for row in self._state.book.open():
            key = (str(row["run_id"]), moment_of(row, "started_at"))
            last = self._seen.setdefault(key, self._state.asked_until)
            if key not in present and (key[1] is None or not accounted or now - last > _PATIENCE_US):
                yield row | {"ended_at": max(last, key[1] or last)}

    def _aliases(self, jobs: Iterable[Job]) -> list[Row]:
        found = (alias(job, self.prefix) for job in jobs if job.phase == "holding")
        return self._state.aliases.news(row for row in found if row)


def open_slurm(cluster: str, reader: SlurmReader, every_seconds: float) -> Callable[[Session, int], SlurmSource]:
    """Return what makes the source of a cluster from what the store knows, so that a restart tells nothing twice."""

    def opened(session: Session, now: int) -> SlurmSource:
        state = ClusterState.read(session, f"slurm/{cluster}", every_seconds, now, now - _FIRST_US)
        return SlurmSource(cluster, reader, state)

    return opened


def _found(job: Job, known: list[Row], inventory: Inventory) -> list[JobGpu]:
    """Return where a job runs; the GPUs that it was seen on count after its end, when Slurm no longer names them."""
    found = places(job, inventory)
    if all(place.gpu_uuid for place in found):
        return found
    seen = [row for row in known if row.get("started_at") == job.started_at and not is_withdrawn(row)]
    named = [
        JobGpu(str(row["node"]), str(row["gpu_uuid"]), moment_of(row, "rank")) for row in seen if row.get("gpu_uuid")
    ]
    hosts = {place.node for place in named}
    return named + [place for place in found if place.node not in hosts]


def _withdrawn(known: list[Row], rows: list[Row], started_at: int) -> Iterator[Row]:
    """Take back those places of an attempt that turn out to be others."""
    told = {(row["node"], row["gpu_uuid"]) for row in rows}
    for row in known:
        is_same = row.get("started_at") == started_at and not is_withdrawn(row)
        if is_same and (row.get("node"), row.get("gpu_uuid")) not in told:
            yield withdrawn(row, started_at)


def _no_longer_waiting(known: list[Row], started_at: int) -> Iterator[Row]:
    for row in known:
        if row.get("started_at") is None and row.get("ended_at") is None:
            submitted = moment_of(row, "submitted_at")
            if submitted is None or submitted <= started_at:  # of a requeue, the row is the next attempt's
                yield row | {"ended_at": started_at}


def _predecessor(job: Job, prefix: str, book: AllocationBook) -> str | None:
    """Return the run that a job continues, or None: a chain of jobs, each of which waits for the last, is one work.

    It waits for exactly one other to end, however that ends, and bears its name and its user: so do jobs that submit
    their own continuation. Slurm forgets a dependency once it is met, so that this is learned while the job waits.
    """
    after = _AFTER.findall(job.dependency or "")
    if len(after) != 1 or job.name is None:
        return None
    run_id = f"{prefix}{after[0]}"
    same = any(row.get("name") == job.name and row.get("user") == job.user for row in book.of(run_id))
    return run_id if same else None
