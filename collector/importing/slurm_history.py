"""A month of Slurm's accounting as a history: jobs become claims on hosts, with the names that hosts have for them.

What Slurm says is gathered from its commands here, day by day, or from files that its commands printed elsewhere.
"""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from agent.wire.units import DAY_US, SECOND_US
from collector.errors import FileRefusedError, SchedulerError
from collector.importing.history import History
from collector.importing.known_allocations import Hosts, KnownAllocations
from collector.importing.placing import Claim, gpus_by_host
from collector.schedulers.poller import Row, Value
from collector.schedulers.slurm.jobs import Job, held_gpus, printed_jobs, shown_jobs, titled_jobs
from collector.schedulers.slurm.nodes import Event, is_of_events, node_events
from collector.schedulers.slurm.reader import SlurmReader
from collector.schedulers.slurm.rows import HEAD_LINES, RowCount, decoded, lines_of, moments
from collector.schedulers.slurm.source import JobGpu, alias, holding, run_of, waiting_row
from collector.store.session import Session

_PIECE_US = 30 * 86_400 * SECOND_US  # of a host's state; no row may be longer than 32 days
_OVERDUE_US = 3600 * SECOND_US  # how long after its limit a job may be called running before nobody believes it
_MARKS = ("\t", ";", ",")  # between fields, beside bars
_TITLES = ({"jobid", "state"}, {"nodename", "timestart"})  # of accounting, and of events
_PLACES = ("run_id", "attempt", "started_at", "ended_at")  # a claim's own, as are its host and GPUs


@dataclass(frozen=True, slots=True)
class SlurmAnswer:
    """What Slurm told of a span: accounting's jobs, the queue's (None: nobody was asked), hosts out of service.

    `counts` says by file or command what became of each of its rows.
    """

    accounted: Sequence[Job]
    queued: Sequence[Job] | None = None
    events: Sequence[Event] = ()
    counts: Mapping[str, RowCount] = field(default_factory=dict)
    notes: Sequence[str] = ()  # sentences about all of it

    @property
    def unread(self) -> int:
        """How many rows could not be read."""
        return sum(count.unread for count in self.counts.values())

    def sentences(self) -> Iterable[str]:
        """Yield what became of the rows of each file or command."""
        for source, count in self.counts.items():
            yield from count.sentences(source)
        yield from self.notes


def history(session: Session, told: SlurmAnswer, cluster: str, since: int, until: int) -> History:
    """Return what Slurm says of a span, as it was at its end; microseconds UTC."""
    prefix, notes = f"slurm/{cluster}/", _Notes()
    jobs = _merged(told, since, until, notes)
    hosts = Hosts.read(session)
    known = KnownAllocations.read(session, (Claim(f"{prefix}{job.id}", 0, "", since, None, 0) for job in jobs), until)
    rows: dict[str, list[Row]] = {}
    claims: list[Claim] = []
    aliases: list[Row] = []
    for job in jobs:
        of_number = rows.setdefault(job.id, list(known.of_number(f"{prefix}{job.id}")))
        run_id, attempt = run_of(job, prefix, of_number)
        found = _claims(job, run_id, prefix, attempt, hosts)
        of_number += [dict(claim.facts) | {name: getattr(claim, name) for name in _PLACES} for claim in found[:1]]
        claims += found
        aliases += [row for row in [alias(job, prefix)] if row and run_id == row["run_id"]]
    return History(
        name=f"slurm/{cluster}",
        until=until,
        claims=claims,
        waiting=[
            waiting_row(job, prefix, job.restarts or 0)
            for job in told.queued or ()
            if job.uses_gpus and job.phase == "waiting"
        ],
        queue=None if told.queued is None else prefix,
        aliases=aliases,
        states=[row for event in told.events for row in _states(event, hosts, since, until)],
        notes=tuple(notes.sentences()),
    )


class _Notes:
    """What was left out, counted."""

    def __init__(self) -> None:
        self.gone: set[str] = set()  # running in accounting, and unknown to the controller
        self.overdue: set[str] = set()  # running in accounting, long past their limit
        self.bounded: set[str] = set()  # ended, nobody says when: taken to end at their limit
        self.endless: set[str] = set()  # ended, nobody says when, and no limit says until when at most
        self.unlimited: set[str] = set()  # running in accounting without a limit, and no queue was asked

    def bound(self, job: Job, until: int) -> Job | None:
        """Return a job that has an end if it has ended; None where nobody can say until when it held its GPUs."""
        if job.phase != "ended" or job.ended_at is not None or job.started_at is None:
            return job
        limit = job.time_limit_seconds
        end = None if limit is None else job.started_at + round(limit * SECOND_US)
        if end is None or end > until:
            self.endless.add(job.id)
            return None
        self.bounded.add(job.id)
        return replace(job, ended_at=end)

    def doubts(self, job: Job, present: Collection[str] | None, until: int) -> bool:
        """Say whether nobody believes that a job still holds its GPUs, and count it. `present`: those in the queue."""
        if job.phase != "holding" or job.ended_at is not None:
            return False
        if present is not None:
            is_gone = job.id not in present
            self.gone |= {job.id} if is_gone else set()
            return is_gone
        is_overdue = _is_overdue(job, until)
        self.overdue |= {job.id} if is_overdue else set()
        self.unlimited |= {job.id} if job.time_limit_seconds is None else set()
        return is_overdue

    def sentences(self) -> Iterable[str]:
        """Yield a sentence for each kind."""
        way_out = "left out; sacctmgr show runawayjobs corrects them"
        if self.gone:
            yield f"{len(self.gone):,} jobs run in accounting and are not in the queue: {way_out}"
        if self.overdue:
            yield f"{len(self.overdue):,} jobs run in accounting, past their time limit: {way_out}"
        if self.endless:
            yield f"{len(self.endless):,} jobs have ended and accounting does not know when: left out"
        if self.bounded:
            yield f"{len(self.bounded):,} jobs have ended and accounting does not know when: until their time limit"
        if self.unlimited:
            yield (
                f"{len(self.unlimited):,} jobs run in accounting without a time limit: held until the end of the "
                "import; squeue's answer would tell"
            )


def _merged(told: SlurmAnswer, since: int, until: int, notes: _Notes) -> list[Job]:
    """Return the jobs that held GPUs in the span, each once, as they were at its end; in the order of their starts."""
    queued = {(job.id, job.started_at): job for job in told.queued or ()}
    present = None if told.queued is None else {job.id for job in told.queued}
    found: dict[tuple[str, int | None], Job] = {}
    for one in [*(told.queued or ()), *told.accounted]:  # the later word is accounting's
        began = one.uses_gpus and one.started_at is not None and one.nodes
        job = notes.bound(one, until) if began and _touches(one, since, until) else None
        if job is not None and _touches(job, since, until) and not notes.doubts(job, present, until):
            key = job.id, job.started_at
            found[key] = _with_indices(_as_of(job, until), queued.get(key))
    return sorted(found.values(), key=lambda job: (job.started_at or 0, job.raw_id))


def _touches(job: Job, since: int, until: int) -> bool:
    started, ended = job.started_at or 0, job.ended_at
    return started < until and (ended is None or (ended > since and ended > started))


def _as_of(job: Job, until: int) -> Job:
    """Return a job as it was then: what ended later was still held."""
    if job.ended_at is None or job.ended_at <= until:
        return job
    return replace(job, phase="holding", state="RUNNING", ended_at=None)


def _with_indices(job: Job, queued: Job | None) -> Job:
    """Return a job with the numbers of its GPUs, which only the queue knows, and only while they are held."""
    if queued is None or queued.nodes != job.nodes or all(held is None for held in queued.gpus):
        return job
    return replace(job, gpus=queued.gpus)


def _is_overdue(job: Job, until: int) -> bool:
    limit = job.time_limit_seconds
    return limit is not None and (job.started_at or 0) + round(limit * SECOND_US) + _OVERDUE_US < until


def _claims(job: Job, run_id: str, prefix: str, attempt: int, hosts: Hosts) -> list[Claim]:
    names = tuple(dict.fromkeys(f"{prefix}{name}" for name in (job.raw_id, job.id)))
    (row,) = holding(job, prefix, attempt, [JobGpu("")])
    own = (*_PLACES, "node", "gpu_uuid", "rank")
    facts: Mapping[str, Value] = {name: value for name, value in row.items() if name not in own}
    nodes = [hosts.name(node) for node in job.nodes]
    counts = gpus_by_host(job.allocated_gpus, [len(hosts.gpus.get(node, ())) for node in nodes])
    return [
        Claim(
            run_id=run_id,
            attempt=attempt,
            node=node,
            started_at=job.started_at or 0,
            ended_at=job.ended_at,
            gpus=count,
            position=position,
            names=names,
            named=hosts.numbered(node, held or ()),
            facts=facts,
        )
        for position, (node, count, held) in enumerate(zip(nodes, counts, job.gpus, strict=True))
        if count or not job.allocated_gpus
    ]


def _states(event: Event, hosts: Hosts, since: int, until: int) -> Iterable[Row]:
    start, end = max(event.started_at, since), min(event.ended_at or until, until)
    for at in range(start, end, _PIECE_US):
        yield {
            "node": hosts.name(event.node),
            "started_at": at,
            "ended_at": min(at + _PIECE_US, end),
            "state": event.state,
            "reason": event.reason,
        }


_MOST_BYTES = 2**30  # of one file
_BEFORE_CHARACTERS = 4096  # before a document of JSON, for what a login shell prints
_JSON = re.compile(r"\A\s*[{\[]|^\{\s*(?:\"|$)", re.MULTILINE)
_MOST_JOBS = 1_000_000  # with GPUs, of one import

T = TypeVar("T")
Progress = Callable[[int, int], None]  # days asked for, days in all


def from_commands(
    reader: SlurmReader,
    since: int,
    until: int,
    other: str | None = None,
    progress: Progress | None = None,
) -> tuple[SlurmAnswer, tuple[str, ...]]:
    """Return what Slurm's commands say of a span (microseconds UTC), and sentences about what they did not.

    `other` is another cluster of the same accounting database; its queue is not asked for.

    Raises:
        SchedulerError: accounting did not answer.
    """
    found: list[Job] = []
    counts = {"sacct": RowCount(), "sacctmgr": RowCount()}
    starts = range(since, until, DAY_US)
    for done, start in enumerate(starts, 1):
        found += _with_gpus(reader.history(start, min(start + DAY_US, until), other, counts["sacct"]))
        _check(len(found))
        if progress is not None:
            progress(done, len(starts))
    notes: list[str] = []
    queued = None if other else _or_note(reader.queued, "the queue", notes)
    out = _or_note(lambda: reader.events(since, other, counts["sacctmgr"]), "hosts out of service", notes)
    notes += _without_gpus(found, counts["sacct"].other)
    return SlurmAnswer(found, queued, out or (), counts), tuple(notes)


def _without_gpus(jobs: Collection[Job], other_rows: int) -> list[str]:
    """Return a sentence where accounting has rows and none is of a job with GPUs: it may not count them at all."""
    if jobs or not other_rows:
        return []
    return [
        f"none of {other_rows:,} rows of accounting is of a job with GPUs: it knows them only since "
        "AccountingStorageTRES of slurm.conf names gres/gpu, and only in rows of whole jobs (sacct -X)"
    ]


def from_files(paths: Sequence[Path], zone: ZoneInfo | None = None) -> SlurmAnswer:
    """Return what files say that sacct, squeue, scontrol or sacctmgr printed; each is known by its content.

    Raises:
        FileRefusedError: a file cannot be read, or is none of theirs.
    """
    accounted: list[Job] = []
    queued: list[Job] | None = None
    out: list[Event] = []
    counts: dict[str, RowCount] = {}
    other_rows = 0
    for path in paths:
        try:
            text, count = decoded(_read(path)), counts.setdefault(path.name, RowCount())
            said = _barred(text)
            if document := _JSON.search(said[:_BEFORE_CHARACTERS]):
                of_queue, of_accounting = printed_jobs(said[document.start() :], count)
                accounted += _with_gpus(of_accounting)
                queued = queued if of_queue is None else [*(queued or ()), *of_queue]
                other_rows += 0 if of_queue is not None else count.other
            elif _SHOWN.search(said[:_BEFORE_CHARACTERS]):
                queued = [*(queued or ()), *_shown(said, zone, count)]
            elif is_of_events(said):
                out += node_events(said, zone, count)
            else:
                accounted += _with_gpus(titled_jobs(said, zone, count))
                other_rows += count.other
                count.is_cut = not text.endswith("\n")
            _check(len(accounted))
        except SchedulerError as error:
            raise FileRefusedError(f"cannot import {path}: {error}") from error
    return SlurmAnswer(accounted, queued, out, counts, _without_gpus(accounted, other_rows))


_SHOWN = re.compile(r"^JobId=\d+ ", re.MULTILINE)
_IN_A_LINE = re.compile(r"^JobId=\d+ .* JobState=", re.MULTILINE)
_SHOWN_TIME = re.compile(r"\b((?:Submit|Start|End)Time)=(\d{4}-\d\d-\d\dT[\d:]+)")


def _shown(text: str, zone: ZoneInfo | None, count: RowCount) -> list[Job]:
    """Return the jobs that `scontrol show job` has printed, each counted.

    Raises:
        SchedulerError: it has a line a job, or times without a zone.
    """
    made_by = "make it with: SLURM_TIME_FORMAT=%s scontrol --all --details show job"
    if _IN_A_LINE.search(text):
        raise SchedulerError(f"it has a line a job, in which a name may look like a field; {made_by}")
    timed = _SHOWN_TIME.sub(lambda found: f"{found[1]}={moments(found[2], zone, made_by)[0]}", text)
    jobs = shown_jobs(timed.encode())
    for job in jobs:
        count.add(held_gpus(job) or (job.phase == "waiting" and job.uses_gpus))
    return jobs


def _barred(text: str) -> str:
    """Return rows with bars between their fields, where `--delimiter` or a sheet has put another mark there.

    Raises:
        SchedulerError: a field holds that mark too, without quotes, as lists of TRES hold commas.
    """
    head = text.split("\n", HEAD_LINES)[:HEAD_LINES]
    for mark in _MARKS:
        heads = [[cell.strip().lower() for cell in _fields(line, mark)] for line in head]
        place = next((at for at, head in enumerate(heads) if any(needed <= {*head} for needed in _TITLES)), None)
        if place is None:
            continue
        width, rows = len(heads[place]), [_fields(line, mark) for line in lines_of(text)]
        if long := next((at for at in range(place, len(rows)) if len(rows[at]) > width), None):
            raise SchedulerError(
                f"line {long + 1} has {len(rows[long])} fields apart by {mark!r} where {width} are named, so that one "
                "holds that mark too; make it with --parsable2 and without --delimiter"
            )
        return "\n".join(map("|".join, rows))
    return text


def _fields(line: str, mark: str) -> list[str]:
    return next(csv.reader([line], delimiter=mark), [])


def clusters(told: SlurmAnswer) -> list[str]:
    """Return the clusters that jobs name."""
    return sorted({job.cluster for job in (*told.accounted, *(told.queued or ())) if job.cluster})


def of_cluster(told: SlurmAnswer, cluster: str) -> SlurmAnswer:
    """Return what is of one cluster; what names none is taken to be."""
    return SlurmAnswer(
        [job for job in told.accounted if job.cluster in (None, cluster)],
        None if told.queued is None else [job for job in told.queued if job.cluster in (None, cluster)],
        [event for event in told.events if event.cluster in (None, cluster)],
        told.counts,
        told.notes,
    )


def _with_gpus(jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if job.uses_gpus]


def _check(count: int) -> None:
    if count > _MOST_JOBS:
        raise SchedulerError(
            f"there are more than {_MOST_JOBS:,} jobs with GPUs; import them in parts, with --since and --until"
        )


def _or_note(ask: Callable[[], T], what: str, notes: list[str]) -> T | None:
    try:
        return ask()
    except SchedulerError as error:
        notes.append(f"{what} unknown: {error}")
        return None


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise FileRefusedError(f"{path} is larger than {_MOST_BYTES >> 20} MiB; split it, month by month")
        return path.read_bytes()
    except OSError as error:
        raise FileRefusedError(f"cannot read {path}: {error.strerror}") from error
