"""A job becomes rows of `allocations`: one for each GPU that it holds or held, one while it waits.

Slurm's numbers become the ledger's names: GPU 2 of a host becomes a UUID, job 81236 the run slurm/alpha/81234_2.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.schedulers.poller import Row, moment_of
from collector.schedulers.slurm.jobs import Job, tasks_in
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
    """

    hosts: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

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


def places(job: Job, inventory: Inventory) -> list[JobGpu]:
    """Return where a job runs: a place for each GPU that is known by its UUID, else one for each host.

    Accounting knows only how many GPUs; where they are all that a host has, it knows which.
    """
    found = [_on(node, held, job, inventory) for node, held in zip(job.nodes, job.gpus, strict=True)]
    ranked = all(uuids for _, uuids in found)
    known: list[JobGpu] = []
    for node, uuids in found:
        if not uuids:
            known.append(JobGpu(node))
        for uuid in uuids:
            known.append(JobGpu(node, uuid, len(known) if ranked else None))
    return known


def _on(node: str, held: tuple[int, ...] | None, job: Job, inventory: Inventory) -> tuple[str, Sequence[str]]:
    gpus = inventory.gpus(node)
    if held is None and gpus and job.allocated_gpus == len(gpus) * len(job.nodes):
        held = tuple(sorted(gpus))
    uuids = [gpus.get(index) for index in held or ()]
    return node, [uuid for uuid in uuids if uuid is not None] if None not in uuids else []


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
