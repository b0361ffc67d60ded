"""Gather what Slurm told: from its commands here, day by day, or from files that its commands printed elsewhere."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from agent.wire.units import DAY_US
from collector.errors import FileRefusedError, SchedulerError
from collector.importing.slurm_history import SlurmAnswer
from collector.schedulers.slurm.jobs import Job, printed_jobs, titled_jobs
from collector.schedulers.slurm.nodes import Event, node_events
from collector.schedulers.slurm.reader import SlurmReader

_MOST_BYTES = 2**30  # of one file
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
    starts = range(since, until, DAY_US)
    for done, start in enumerate(starts, 1):
        found += _with_gpus(reader.history(start, min(start + DAY_US, until), other))
        _check(len(found))
        if progress is not None:
            progress(done, len(starts))
    notes: list[str] = []
    queued = None if other else _or_note(reader.queued, "the queue", notes)
    out = _or_note(lambda: reader.events(since, other), "hosts out of service", notes)
    return SlurmAnswer(found, queued, out or ()), tuple(notes)


def from_files(paths: Sequence[Path], zone: ZoneInfo | None = None) -> SlurmAnswer:
    """Return what files say that sacct, squeue or sacctmgr printed; each is known by its content.

    Raises:
        FileRefusedError: a file cannot be read, or is none of theirs.
    """
    accounted: list[Job] = []
    queued: list[Job] | None = None
    out: list[Event] = []
    for path in paths:
        try:
            said = _read(path)
            if _is_json(said):
                of_queue, of_accounting = printed_jobs(said)
                accounted += _with_gpus(of_accounting)
                queued = queued if of_queue is None else [*(queued or ()), *of_queue]
            elif said[:4096].split(b"\n", 1)[0].lower().find(b"timestart") >= 0:
                out += node_events(said)
            else:
                accounted += _with_gpus(titled_jobs(said, zone))
            _check(len(accounted))
        except SchedulerError as error:
            raise FileRefusedError(f"cannot import {path}: {error}") from error
    return SlurmAnswer(accounted, queued, out)


def clusters(told: SlurmAnswer) -> list[str]:
    """Return the clusters that jobs name."""
    return sorted({job.cluster for job in (*told.accounted, *(told.queued or ())) if job.cluster})


def of_cluster(told: SlurmAnswer, cluster: str) -> SlurmAnswer:
    """Return what is of one cluster; what names none is taken to be."""
    return SlurmAnswer(
        [job for job in told.accounted if job.cluster in (None, cluster)],
        None if told.queued is None else [job for job in told.queued if job.cluster in (None, cluster)],
        [event for event in told.events if event.cluster in (None, cluster)],
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
            raise FileRefusedError(f"{path} is larger than {_MOST_BYTES >> 20} MiB; make it in parts, month by month")
        return path.read_bytes()
    except OSError as error:
        raise FileRefusedError(f"cannot read {path}: {error.strerror}") from error


def _is_json(said: bytes) -> bool:
    return said[:256].lstrip()[:1] in (b"{", b"[")
