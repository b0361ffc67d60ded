"""A cluster of our own making: what its Slurm would say is set by hand, and what is landed is read back."""

from dataclasses import dataclass, field, replace
from typing import Any

from collector.errors import SchedulerError
from collector.schedulers.books import NodeState
from collector.schedulers.poller import PollBatches
from collector.schedulers.slurm.jobs import Job
from collector.schedulers.slurm.source import open_slurm
from tests.analyzer.ledger.fleet import MINUTE, MONDAY
from tests.collector.schedulers.asked import Asked

T = MONDAY
EVERY_SECONDS = 60.0


@dataclass
class Said:
    """Stands for the reader: answers what it is told to."""

    jobs: list[Job] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
    hosts: list[NodeState] = field(default_factory=list)
    controller: bool = True
    accounting: bool = True
    asked_since: list[int] = field(default_factory=list)

    def queued(self) -> list[Job]:
        """Return the controller's jobs."""
        if not self.controller:
            raise SchedulerError("squeue failed with 1: Unable to contact slurm controller")
        return list(self.jobs)

    def accounted(self, since: int) -> list[Job]:
        """Return accounting's jobs."""
        self.asked_since.append(since)
        if not self.accounting:
            raise SchedulerError("sacct failed with 1: accounting storage is disabled")
        return list(self.ended)

    def nodes(self) -> list[NodeState]:
        """Return the hosts."""
        return list(self.hosts)

    def without_accounting(self, error: SchedulerError) -> None:
        """Take note."""


class SmallCluster(Asked):
    """A store with an inventory, a writer, and a source that is asked by hand."""

    def __init__(self, hosts: tuple[str, ...] = ("n1", "n2"), gpus: int = 4) -> None:
        super().__init__(T)
        self.said = Said()
        if hosts:
            self.find(*hosts, gpus=gpus)
        self.restart()

    def find(self, *hosts: str, gpus: int = 4) -> None:
        """Let agents find GPUs."""
        rows = [
            {"node": node, "started_at": T, "ended_at": T + 1, "gpu_uuid": f"{node}-{index}", "gpu_index": index}
            for node in hosts
            for index in range(gpus)
        ]
        names = ("node", "started_at", "ended_at", "gpu_uuid", "gpu_index", "batch")
        self.session.load("inventory", names, [[*row.values(), 0] for row in rows])

    def restart(self) -> None:
        """Forget all but the store, as a collector does that starts anew."""
        opened = open_slurm("alpha", self.said, EVERY_SECONDS)  # type: ignore[arg-type]
        self.source = opened(self.session, self.now)
        self.batch_commit = PollBatches("slurm/alpha", self.writer)

    def allocations(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return the last word on each allocation, as the analyzer reads it, in order."""
        return self.session.rows(
            f"""
            SELECT {", ".join(columns)} FROM allocations
            QUALIFY row_number() OVER (
                PARTITION BY run_id, coalesce(attempt, 0), coalesce(gpu_uuid, node), started_at ORDER BY batch DESC) = 1
            ORDER BY run_id, attempt, started_at NULLS FIRST, gpu_uuid
            """
        )


def waiting(raw_id: int = 7, **more: Any) -> Job:
    """Return a job of two GPUs that waits."""
    return replace(
        Job(
            raw_id, "waiting", "PENDING", user="ada", name="train", submitted_at=T, requested_gpus=2, reason="Priority"
        ),
        **more,
    )


def running(raw_id: int = 7, **more: Any) -> Job:
    """Return it on the first two GPUs of n1."""
    held = {"phase": "holding", "state": "RUNNING", "reason": None, "started_at": T + MINUTE, "allocated_gpus": 2}
    return waiting(raw_id, **({**held, "nodes": ("n1",), "gpus": ((0, 1),)} | more))


def over(raw_id: int = 7, state: str = "COMPLETED", ended_at: int = T + 10 * MINUTE, **more: Any) -> Job:
    """Return it after its end, when nobody says any more which GPUs it had."""
    return running(raw_id, **({"phase": "ended", "state": state, "ended_at": ended_at, "gpus": (None,)} | more))
