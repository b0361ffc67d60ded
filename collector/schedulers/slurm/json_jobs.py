"""Jobs from the JSON of squeue and sacct, of releases 21.08 to 25.11."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from collector.errors import SchedulerError
from collector.schedulers.slurm import gres, hostlist
from collector.schedulers.slurm.fields import limit_seconds, microseconds, number, text, whole_number, words
from collector.schedulers.slurm.job import Job, phase_of

_MOST_JOBS = 500_000  # of one answer


def queued(said: bytes) -> list[Job]:
    """Return the jobs of `squeue --json`: those that wait, hold, and have lately ended.

    Raises:
        SchedulerError: it is not the JSON of squeue.
    """
    return [job for record in _records(said, "squeue") if (job := _queued(record)) is not None]


def accounted(said: bytes) -> list[Job]:
    """Return the jobs of `sacct --json`; accounting knows no GPU by its number.

    Raises:
        SchedulerError: it is not the JSON of sacct.
    """
    return [job for record in _records(said, "sacct") if (job := _accounted(record)) is not None]


def printed_jobs(said: bytes) -> tuple[list[Job] | None, list[Job]]:
    """Return the jobs of a file that squeue or sacct printed with --json: the queue's (None: it is not squeue's), and
    accounting's.

    Raises:
        SchedulerError: it is the JSON of neither, or too long to be read at once.
    """
    records = document(said, "the file's command").get("jobs")
    if not isinstance(records, list):
        raise SchedulerError("it is JSON without jobs, and so of neither sacct nor squeue")
    if len(records) > _MOST_JOBS:
        raise SchedulerError(f"it has {len(records):,} jobs, and {_MOST_JOBS:,} are read at once; make it in parts")
    known = [record for record in records if isinstance(record, Mapping)]
    if any("job_state" in record for record in known):
        return [job for record in known if (job := _queued(record)) is not None], []
    return None, [job for record in known if (job := _accounted(record)) is not None]


def document(said: bytes, command: str) -> Mapping[str, Any]:
    """Return the object that a command printed.

    Raises:
        SchedulerError: it is no JSON, or no object.
    """
    try:
        found = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise SchedulerError(f"{command} printed no JSON: {str(error)[:200]}") from error
    if not isinstance(found, Mapping):
        raise SchedulerError(f"{command} printed JSON of another kind than a release of Slurm that is known")
    return found


def _records(said: bytes, command: str) -> Iterable[Mapping[str, Any]]:
    jobs = document(said, command).get("jobs")
    if not isinstance(jobs, list):
        raise SchedulerError(f"{command} printed JSON without jobs; is its release one that is known?")
    return (job for job in jobs[:_MOST_JOBS] if isinstance(job, Mapping))


def _queued(record: Mapping[str, Any]) -> Job | None:
    raw_id, (phase, state) = whole_number(record.get("job_id")), phase_of(words(record.get("job_state")))
    if raw_id is None:
        return None
    nodes = _nodes(record.get("nodes"))
    begun = phase != "waiting" and bool(nodes)  # the start of a job that waits is a forecast
    array_id, task_id = _part(record.get("array_job_id"), record.get("array_task_id"))
    het_id, het_offset = _part(record.get("het_job_id"), record.get("het_job_offset"))
    return Job(
        raw_id=raw_id,
        phase=phase,
        state=state,
        cluster=text(record.get("cluster")),
        array_id=array_id,
        task_id=task_id,
        waiting_tasks=text(record.get("array_task_string")),
        het_id=het_id,
        het_offset=het_offset,
        restarts=whole_number(record.get("restart_cnt")),
        user=text(record.get("user_name")),
        account=text(record.get("account")),
        name=text(record.get("name")),
        partition=text(record.get("partition")),
        qos=text(record.get("qos")),
        reservation=text(record.get("resv_name")),
        project=text(record.get("wckey")),
        dependency=text(record.get("dependency")),
        reason=text(record.get("state_reason")),
        priority=number(record.get("priority")),
        time_limit_seconds=limit_seconds(record.get("time_limit")),
        submitted_at=microseconds(record.get("submit_time")),
        started_at=microseconds(record.get("start_time")) if begun else None,
        ended_at=microseconds(record.get("end_time")) if phase == "ended" else None,
        requested_gpus=gres.gpus(record.get("tres_req_str")),
        allocated_gpus=gres.gpus(record.get("tres_alloc_str")) if begun else None,
        nodes=nodes,
        gpus=_held(record.get("gres_detail"), len(nodes)),
    )


def _accounted(record: Mapping[str, Any]) -> Job | None:
    within = {name: record[name] if isinstance(record.get(name), Mapping) else {} for name in _WITHIN}
    raw_id, (phase, state) = whole_number(record.get("job_id")), phase_of(words(within["state"].get("current")))
    if raw_id is None:
        return None
    nodes, times = _nodes(record.get("nodes")), within["time"]
    array_id, task_id = _part(within["array"].get("job_id"), within["array"].get("task_id"))
    het_id, het_offset = _part(within["het"].get("job_id"), within["het"].get("job_offset"))
    return Job(
        raw_id=raw_id,
        phase=phase,
        state=state,
        cluster=text(record.get("cluster")),
        array_id=array_id,
        task_id=task_id,
        waiting_tasks=text(within["array"].get("task")),
        het_id=het_id,
        het_offset=het_offset,
        restarts=whole_number(record.get("restart_cnt")),
        user=text(record.get("user")),
        account=text(record.get("account")),
        name=text(record.get("name")),
        partition=text(record.get("partition")),
        qos=text(record.get("qos")),
        reservation=text(within["reservation"].get("name")),
        project=text(within["wckey"].get("wckey")),
        priority=number(record.get("priority")),
        time_limit_seconds=limit_seconds(times.get("limit")),
        submitted_at=microseconds(times.get("submission")),
        started_at=microseconds(times.get("start")) if phase != "waiting" and nodes else None,
        ended_at=microseconds(times.get("end")) if phase == "ended" else None,
        requested_gpus=gres.gpus(within["tres"].get("requested")),
        allocated_gpus=gres.gpus(within["tres"].get("allocated")),
        nodes=nodes,
        gpus=(None,) * len(nodes),
    )


_WITHIN = ("state", "time", "array", "het", "reservation", "wckey", "tres")


def _part(whole_id: object, part: object) -> tuple[int | None, int | None]:
    """Return the id of the whole and the number of the part; the whole's id is 0 for a job that is no part."""
    found = whole_number(whole_id)
    return (found, whole_number(part)) if found else (None, None)


def _nodes(value: object) -> tuple[str, ...]:
    listed = text(value)
    return hostlist.names(listed) if listed else ()


def _held(details: object, nodes: int) -> tuple[tuple[int, ...] | None, ...]:
    """Return the GPUs on each node; one detail a node, in the order of the nodes, or it is not to be believed."""
    if not isinstance(details, list) or len(details) != nodes:
        return (None,) * nodes
    return tuple(gres.indices(str(detail)) for detail in details)
