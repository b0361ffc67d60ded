"""Which attempt of a requeued job this is: the controller counts restarts, accounting only keeps a record for each."""

from collections.abc import Iterable

from collector.schedulers.poll import Row, moment_of
from collector.schedulers.slurm.job import Job


def attempt_of(job: Job, known: Iterable[Row]) -> int:
    """Return the attempt, from 0. What was told of the same start before stays true, whoever told it.

    Where nobody counts, it is the one after the latest that began earlier.
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
