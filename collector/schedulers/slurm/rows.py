"""A job becomes rows of `allocations`: one for each GPU that it holds or held, one while it waits."""

import json
from collections.abc import Sequence

from collector.schedulers.poll import Row
from collector.schedulers.slurm.job import Job, tasks_in
from collector.schedulers.slurm.naming import JobGpu


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
    labels = {"qos": job.qos, "reservation": job.reservation}
    if job.phase == "ended" and job.state != (job.exit_status or "").upper():
        labels["slurm_state"] = job.state
    known = {name: value for name, value in sorted(labels.items()) if value}
    return {
        "run_id": f"{prefix}{job.id}",
        "parent_run_id": f"{prefix}{job.parent_id}" if job.parent_id else None,
        "requested_gpus": job.requested_gpus if job.requested_gpus is not None else job.allocated_gpus,
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
