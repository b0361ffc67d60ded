"""One Slurm cluster, asked as often as it is told to: what is new of its jobs and hosts, as rows of the contract.

A job becomes a row of `allocations` for each GPU that it holds or held, and one while it waits. Slurm's numbers become
the ledger's names: GPU 2 of a host becomes a UUID, job 81236 the run slurm/alpha/81234_2.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.wire.bounded import json_said
from agent.wire.units import SECOND_US
from collector.errors import SchedulerError
from collector.schedulers.books import AllocationBook, ClusterState, is_withdrawn, withdrawn
from collector.schedulers.poller import Poll, Row, moment_of
from collector.schedulers.slurm.fields import tasks_in
from collector.schedulers.slurm.jobs import Job
from collector.schedulers.slurm.reader import SlurmReader
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class JobGpu:
    """One GPU of a job, or a host of it where its GPUs are not known by name; `rank` is its place among all."""

    node: str
    gpu_uuid: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """The GPUs of each host by their number, as the agents found them.

    Hosts with MIG instances are left out: how Slurm numbers those depends on its gres.conf, and the agents on them see
    which run holds which.

    Slurm counts the lines of gres.conf, and the driver its boards: mostly these are in one order. `sights` has what
    agents saw, by run and host; a host on which they saw another GPU than Slurm's number means in the driver's order is
    one of `reordered`, where numbers name nothing.
    """

    hosts: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    sights: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    reordered: frozenset[str] = frozenset()

    def seen_by(self, session: Session, jobs: Iterable[Job], prefix: str) -> "Inventory":
        """Return the inventory with what agents have seen of these jobs, which hold GPUs."""
        listed = [job for job in jobs if job.phase == "holding" and any(job.gpus)]
        rows = session.rows(
            """
            SELECT run_id, split_part(node, '.', 1), list(DISTINCT gpu_uuid) FROM allocations
            WHERE scheduler = 'cgroup' AND gpu_uuid IS NOT NULL AND run_id IN (SELECT unnest(?::VARCHAR[]))
            GROUP BY ALL
            """,
            [[f"{prefix}{name}" for job in listed for name in {str(job.raw_id), job.id}]],
        )
        sights = {(run_id, node): frozenset(uuids) for run_id, node, uuids in rows}
        found = replace(self, sights=sights)
        reordered = {
            node
            for job in listed
            for node, held in zip(job.nodes, job.gpus, strict=True)
            if (seen := found.sight(job, node, prefix)) and seen != set(found.numbered(node, held or ()) or seen)
        }
        return replace(found, reordered=frozenset(reordered))

    def sight(self, job: Job, node: str, prefix: str) -> frozenset[str]:
        """Return the GPUs of a host on which its agent saw a job: as many as the job has there, or none."""
        short, held = node.split(".", 1)[0], dict(zip(job.nodes, job.gpus, strict=True)).get(node) or ()
        names = (f"{prefix}{name}" for name in (job.raw_id, job.id))
        seen = next((found for name in names if (found := self.sights.get((name, short)))), frozenset[str]())
        return seen if len(seen) == len(held) else frozenset()

    def numbered(self, node: str, held: Iterable[int]) -> list[str]:
        """Return the GPUs that these numbers are in the driver's order; none where one of them is not known."""
        uuids = [self.gpus(node).get(index) for index in held]
        return [] if None in uuids else [uuid for uuid in uuids if uuid is not None]

    @classmethod
    def read(cls, session: Session) -> "Inventory":
        """Return what the store knows: the latest word on each number of each host."""
        rows = session.rows(
            """
            SELECT node, gpu_index, gpu_uuid FROM inventory
            WHERE gpu_uuid IS NOT NULL AND gpu_index IS NOT NULL AND parent_uuid IS NULL
                AND node NOT IN (SELECT node FROM inventory WHERE parent_uuid IS NOT NULL)
            QUALIFY row_number() OVER (PARTITION BY node, gpu_index ORDER BY started_at DESC, batch DESC) = 1
            """
        )
        return cls.of(rows)

    @classmethod
    def of(cls, rows: Iterable[tuple[str, int, str]]) -> "Inventory":
        """Return the inventory of rows of host, number and UUID."""
        hosts: dict[str, dict[int, str]] = {}
        for node, index, uuid in rows:
            hosts.setdefault(node, {})[index] = uuid
        short = {node.split(".", 1)[0]: gpus for node, gpus in hosts.items()}
        return cls(short | hosts)

    def gpus(self, node: str) -> Mapping[int, str]:
        """Return the GPUs of a host, whose name may be short here and long there."""
        return self.hosts.get(node) or self.hosts.get(node.split(".", 1)[0]) or {}


def places(job: Job, inventory: Inventory, prefix: str = "") -> list[JobGpu]:
    """Return where a job runs: a place for each GPU that is known by its UUID, else one for each host.

    Accounting knows only how many GPUs; where they are all that a host has, it knows which. Where an agent saw other
    GPUs than Slurm's numbers mean, it is right.
    """
    found = [_on(node, held, job, inventory, prefix) for node, held in zip(job.nodes, job.gpus, strict=True)]
    ranked = all(uuids for _, uuids in found)
    known: list[JobGpu] = []
    for node, uuids in found:
        if not uuids:
            known.append(JobGpu(node))
        for uuid in uuids:
            known.append(JobGpu(node, uuid, len(known) if ranked else None))
    return known


def _on(
    node: str, held: tuple[int, ...] | None, job: Job, inventory: Inventory, prefix: str
) -> tuple[str, Sequence[str]]:
    gpus = inventory.gpus(node)
    if gpus and (job.allocated_gpus == len(gpus) * len(job.nodes) or len(held or ()) == len(gpus)):
        return node, inventory.numbered(node, sorted(gpus))
    if node in inventory.reordered:
        return node, sorted(inventory.sight(job, node, prefix))
    return node, inventory.numbered(node, held or ())


def attempt_of(job: Job, known: Iterable[Row]) -> int:
    """Return which attempt of a requeued job this is, from 0. What was told of the same start before stays true.

    The controller counts restarts, accounting only keeps a record for each: where nobody counts, it is the attempt
    after the latest that began earlier.
    """
    earlier: list[int] = []
    for row in known:
        attempt, started = moment_of(row, "attempt") or 0, moment_of(row, "started_at")
        if started is None or job.started_at is None:
            continue
        if started == job.started_at:
            return attempt
        if started < job.started_at:
            earlier.append(attempt)
    if job.restarts is not None:
        return job.restarts
    return max(earlier, default=-1) + 1


# Endings after which a job begins again only where somebody requeues it by hand, while the controller remembers it.
_FOR_GOOD = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY"})
_REQUEUED = frozenset({"REQUEUED", "RESIZING", "PREEMPTED"})
_REMEMBERED_US = 3600 * SECOND_US


def run_of(job: Job, prefix: str, known: Iterable[Row]) -> tuple[str, int]:
    """Return a job's run and which attempt of it this is, by what is known of its number. `prefix` is slurm/<cluster>/.

    A controller that has lost its counter gives numbers again, to the work of others: that is another run, which bears
    the second of its submission.
    """
    rows = list(known)
    plain = f"{prefix}{job.id}"
    begun = [row for row in rows if row.get("started_at") is not None]
    if job.started_at is None:
        same = [row for row in rows if row.get("submitted_at") == job.submitted_at and _same(row, job, "user")]
        earlier = begun
    else:
        same = [row for row in begun if row["started_at"] == job.started_at and _same(row, job, "user")]
        earlier = [row for row in begun if (moment_of(row, "started_at") or 0) < job.started_at]
    waiting = [row for row in rows if row.get("started_at") is None and _same(row, job, "user")]
    latest = max(earlier, key=lambda row: moment_of(row, "started_at") or 0, default=None)
    if same:
        run_id = str(same[0]["run_id"])
    elif latest is not None:
        run_id = str(latest["run_id"]) if _goes_on(latest, job) else ""
    else:  # what is known began later: the past is told after the present, or it waits no longer
        run_id = next((str(row["run_id"]) for row in [*begun, *waiting] if _same(row, job, "user", "name")), "")
        run_id = run_id or ("" if begun else plain)
    second = (job.submitted_at or job.started_at or 0) // SECOND_US
    run_id = run_id or f"{plain}@{second}"
    return run_id, attempt_of(job, (row for row in rows if row.get("run_id") == run_id))


def _goes_on(row: Row, job: Job) -> bool:
    """Whether a job that begins after a row of its number is the same work, once more."""
    if not _same(row, job, "user"):
        return False
    if job.restarts or (job.submitted_at is not None and row.get("submitted_at") == job.submitted_at):
        return True
    ended, state = moment_of(row, "ended_at"), _state_in(row)
    if state in _REQUEUED:
        return True
    is_late = ended is not None and (job.submitted_at or job.started_at or 0) - ended > _REMEMBERED_US
    return _same(row, job, "name", "account") and not (state in _FOR_GOOD and is_late)


def _same(row: Row, job: Job, *names: str) -> bool:
    """Whether a row says nothing else of a job, as far as both say anything."""
    return all(row.get(name) in (None, getattr(job, name)) or getattr(job, name) is None for name in names)


def holding(job: Job, prefix: str, attempt: int, places: Sequence[JobGpu]) -> list[Row]:
    """Return a row for each place of a job that has begun. `prefix` is slurm/<cluster>/."""
    facts = _facts(job, prefix) | {
        "attempt": attempt,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at if job.phase == "ended" else None,
        "exit_status": job.exit_status,
    }
    return [facts | {"node": place.node, "gpu_uuid": place.gpu_uuid, "rank": place.rank} for place in places]


def waiting_row(job: Job, prefix: str, attempt: int) -> Row:
    """Return the row of a job that has no GPU yet, or gave up before it had any.

    The tasks of an array that wait have no numbers of their own: they are one row, under the array's id.
    """
    row = _facts(job, prefix) | {
        "attempt": attempt,
        "submitted_at": job.submitted_at,
        "ended_at": job.ended_at if job.phase == "ended" else None,
        "exit_status": job.exit_status,
        "pending_reason": job.reason,
    }
    if job.array_id is not None and job.task_id is None and job.waiting_tasks and job.requested_gpus is not None:
        tasks = tasks_in(job.waiting_tasks)
        row["requested_gpus"] = None if tasks is None else tasks * job.requested_gpus
    return row


def alias(job: Job, prefix: str) -> Row | None:
    """Return the name under which hosts may know a job: they see its raw number in the cgroup, not the array's task."""
    if str(job.raw_id) == job.id:
        return None
    return {"alias_run_id": f"{prefix}{job.raw_id}", "run_id": f"{prefix}{job.id}"}


def _facts(job: Job, prefix: str) -> Row:
    requested = job.requested_gpus if job.requested_gpus is not None else job.allocated_gpus
    labels = {"qos": job.qos, "reservation": job.reservation}
    if job.phase == "ended" and job.state != (job.exit_status or "").upper():
        labels["slurm_state"] = job.state
    known = {name: value for name, value in sorted(labels.items()) if value}
    return {
        "run_id": f"{prefix}{job.id}",
        "parent_run_id": f"{prefix}{job.parent_id}" if job.parent_id else None,
        "requested_gpus": 0 if job.allocated_gpus == 0 else requested,  # an instance of MIG is asked for as a GPU
        "time_limit_seconds": job.time_limit_seconds,
        "priority": job.priority,
        "scheduler": "slurm",
        "user": job.user,
        "account": job.account,
        "project": job.project,
        "name": job.name,
        "queue": job.partition,
        "labels": json.dumps(known) if known else None,
    }


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
        self._reordered: set[str] = set()  # hosts whose GPUs Slurm numbers in another order than the driver

    def poll(self, session: Session, now: int) -> Poll:
        """Return what is new since the last poll.

        Raises:
            SchedulerError: the controller did not answer; nothing is known then of this minute.
        """
        queued = [job for job in self._reader.queued() if job.uses_gpus]
        ended, accounted = self._ended(now)
        present = {(job.id, job.started_at) for job in queued if job.phase == "holding"}
        # A job that was resized goes on in the queue; accounting's record of how it was until then has ended.
        ended = [job for job in ended if job.state != _RESIZED or (job.id, job.started_at) not in present]
        inventory = Inventory.read(session).seen_by(session, queued, self.prefix)
        self._reordered |= inventory.reordered  # who was seen may have ended, and the order is still another
        inventory = replace(inventory, reordered=frozenset(self._reordered))
        rows = list(self._rows([*queued, *ended], inventory, now))
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
        # What has ended nobody knows when is taken for vanished: it ended when it was last seen.
        ended = [job for job in jobs if job.phase == "ended" and job.uses_gpus and job.ended_at is not None]
        return sorted(ended, key=lambda job: (job.started_at or 0, job.raw_id)), True

    def _rows(self, jobs: Iterable[Job], inventory: Inventory, now: int) -> Iterator[Row]:
        self.unplaced = 0
        said: dict[str, list[Row]] = {}  # in this poll: of a requeued job, accounting has a record for each attempt
        for job in jobs:
            number = f"{self.prefix}{job.id}"
            of_number = [*self._state.book.of(number), *said.get(number, ())]
            run_id, attempt = run_of(job, self.prefix, of_number)
            known = [row for row in of_number if row["run_id"] == run_id]
            rows = [row | {"run_id": run_id} for row in self._of(job, attempt, known, inventory, now)]
            said.setdefault(number, []).extend(rows)
            yield from rows

    def _of(self, job: Job, attempt: int, known: list[Row], inventory: Inventory, now: int) -> Iterator[Row]:
        if job.started_at is None:
            yield from self._waiting(job, attempt, known)
            return
        found = _found(job, known, inventory, self.prefix)
        self.unplaced += job.phase == "holding" and any(place.gpu_uuid is None for place in found)
        rows = holding(job, self.prefix, attempt, found)
        inherited = next((row["restarts_of"] for row in known if row.get("restarts_of")), None)
        yield from (row | {"restarts_of": inherited} if inherited else row for row in rows)
        yield from _withdrawn(known, rows, job, now)
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


def _found(job: Job, known: list[Row], inventory: Inventory, prefix: str) -> list[JobGpu]:
    """Return where a job runs; the GPUs that it was seen on count after its end, when Slurm no longer names them."""
    found = places(job, inventory, prefix)
    if all(place.gpu_uuid for place in found):
        return found
    seen = [row for row in known if _is_of(row, job) and row.get("gpu_uuid") and not is_withdrawn(row)]
    if job.phase == "holding":
        seen = [row for row in seen if row["node"] not in inventory.reordered]
    is_first = job.phase == "ended" and job.state == _RESIZED  # it says when what was given back was
    own = [row for row in seen if not _was_given_back(row) or is_first or row.get("ended_at") == job.started_at]
    named = {
        str(row["gpu_uuid"]): JobGpu(str(row["node"]), str(row["gpu_uuid"]), moment_of(row, "rank")) for row in own
    }
    hosts = {row["node"] for row in seen}
    return list(named.values()) + [place for place in found if place.node not in hosts]


def _is_of(row: Row, job: Job) -> bool:
    """Whether a row tells of this start of a job, or of the record that it goes on from with what it has kept."""
    is_before = _was_given_back(row) and row.get("ended_at") == job.started_at and row["node"] in job.nodes
    return row.get("started_at") == job.started_at or (row.get("started_at") is not None and is_before)


_RESIZED = "RESIZING"


def _was_given_back(row: Row) -> bool:
    return _state_in(row) == _RESIZED


def _state_in(row: Row) -> str:
    """Return Slurm's word for how a row has ended."""
    labels = json_said(str(row.get("labels") or "{}"))
    return str(labels.get("slurm_state") or str(row.get("exit_status") or "").upper())


def _withdrawn(known: list[Row], rows: list[Row], job: Job, now: int) -> Iterator[Row]:
    """Take back those places of an attempt that turn out to be others, and end what a job has given back.

    A GPU that it was told to have by number and has no longer, while it runs, was its own until now. So is what an
    earlier record of it holds beyond the beginning of this one, which takes its place.
    """
    told = {(row["node"], row["gpu_uuid"]) for row in rows}
    shrinks = job.phase == "holding" and all(row["gpu_uuid"] for row in rows)
    for row in known:
        started, ended = moment_of(row, "started_at"), moment_of(row, "ended_at")
        if started is None or job.started_at is None or is_withdrawn(row) or _was_given_back(row):
            continue
        if started < job.started_at and (ended is None or ended > job.started_at):
            yield row | {"ended_at": job.started_at}
        elif started == job.started_at and (row.get("node"), row.get("gpu_uuid")) not in told:
            if shrinks and row.get("gpu_uuid") and len(told) < sum(map(_is_named, known)):
                labels = json.dumps({"slurm_state": _RESIZED})
                yield row | {"ended_at": max(now, started), "labels": labels}
            else:
                yield withdrawn(row, started)


def _is_named(row: Row) -> bool:
    return bool(row.get("gpu_uuid")) and not is_withdrawn(row) and row.get("ended_at") is None


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
