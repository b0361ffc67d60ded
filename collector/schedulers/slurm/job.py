"""One job, one task of an array or one part of a heterogeneous job: the same whichever command told it."""

from dataclasses import dataclass, field
from typing import Literal

# How a job ended, in the contract's words. A requeued attempt was stopped by somebody's word, and accuses nobody.
ENDINGS: dict[str, str] = {
    "BOOT_FAIL": "node_failed",
    "CANCELLED": "cancelled",
    "COMPLETED": "completed",
    "DEADLINE": "timeout",
    "FAILED": "failed",
    "NODE_FAIL": "node_failed",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
    "REQUEUED": "cancelled",
    "REVOKED": "cancelled",
    "TIMEOUT": "timeout",
}
_HOLDING = frozenset(
    {"RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"}
)
_Phase = Literal["waiting", "holding", "ended"]


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of a job. Times are microseconds UTC; None is what this command does not say.

    `gpus` holds, for each of `nodes`, which of its GPUs it has, by Slurm's number, or None where that is not said.
    """

    raw_id: int  # the number that cgroups and SLURM_JOB_ID bear
    phase: _Phase
    state: str
    cluster: str | None = field(default=None, compare=False)  # as Slurm calls it
    array_id: int | None = None
    task_id: int | None = None
    waiting_tasks: str | None = None  # of an array, those that have no number of their own yet: "5-99%4"
    het_id: int | None = None
    het_offset: int | None = None
    restarts: int | None = None
    user: str | None = None
    account: str | None = None
    name: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    project: str | None = None
    dependency: str | None = None
    reason: str | None = None
    priority: float | None = None
    time_limit_seconds: float | None = None
    submitted_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    requested_gpus: int | None = None
    allocated_gpus: int | None = None
    nodes: tuple[str, ...] = ()
    gpus: tuple[tuple[int, ...] | None, ...] = ()

    @property
    def id(self) -> str:
        """The id as people write it: 81234, 81234_7 of an array, 81234+1 of a heterogeneous job."""
        if self.array_id is not None:
            return str(self.array_id) if self.task_id is None else f"{self.array_id}_{self.task_id}"
        return str(self.raw_id) if self.het_id is None else f"{self.het_id}+{self.het_offset or 0}"

    @property
    def parent_id(self) -> str | None:
        """The array or heterogeneous job that this is a part of."""
        whole = self.array_id if self.task_id is not None else self.het_id
        return None if whole is None else str(whole)

    @property
    def exit_status(self) -> str | None:
        """How it ended, in the contract's words."""
        return ENDINGS.get(self.state) if self.phase == "ended" else None

    @property
    def uses_gpus(self) -> bool:
        """Whether it asks for GPUs or for parts of them; other jobs are none of the ledger's."""
        return self.requested_gpus is not None or self.allocated_gpus is not None


def phase_of(states: tuple[str, ...]) -> tuple[_Phase, str]:
    """Return where a job stands, and the one word that says it, from its state and flags.

    What is completing has ended for its owner, but its GPUs are given back only when the epilog has run.
    """
    held = [word for word in states if word in _HOLDING]
    if held:
        return "holding", held[0]
    waits = [word for word in states if word == "PENDING"]
    ended = [word for word in states if word in ENDINGS]
    if waits or not ended:
        return "waiting", "PENDING" if waits else next(iter(states), "UNKNOWN")
    return "ended", ended[0]


def tasks_in(waiting: str) -> int | None:
    """Return how many tasks "5-99:2%4" or "1,3,7" stands for; None where Slurm cut the list short."""
    count = 0
    for part in waiting.split("%", 1)[0].split(","):
        span, _, step = part.strip().partition(":")
        first, dash, last = span.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (step and not step.isdecimal()):
            return None
        count += len(range(int(first[:9]), int((last or first)[:9]) + 1, int(step[:9] or 1) or 1))
    return count
