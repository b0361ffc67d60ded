"""A process on a GPU, as the driver tells it and as the room of processes takes it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """One process on one GPU or MIG instance. None means that the driver did not say; it never stands for 0.

    `sm_utilization_ratio` is its share of SM time since the last reading. The driver lists only processes that were
    busy: one it leaves out while it lists others is at 0; where it lists none, or lists processes that it does not
    name as holders (another PID namespace, MPS), nothing can be told apart and all are None.
    """

    gpu_uuid: str
    pid: int  # as the host numbers it
    memory_used_bytes: int | None = None
    sm_utilization_ratio: float | None = None
