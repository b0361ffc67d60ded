"""Processes on GPUs, as the driver tells them and as the room of processes takes them; and who holds what."""

from collections.abc import Iterable
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
    is_listed: bool = True  # False: the list cannot be read now, and the figures are those of the last one


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds the GPUs of a host, as far as the driver says it.

    `known` are the GPUs and MIG instances whose list was read whole. Of any other nobody knows who else holds it: a
    process that is not told of it has not given it back.
    """

    processes: tuple[GpuProcess, ...] = ()
    known: frozenset[str] = frozenset()

    def unanswered(self, before: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
        """Return those of `before` of whom this says neither that they hold their GPU nor that they do not."""
        told = {(one.gpu_uuid, one.pid) for one in self.processes}
        return tuple(one for one in before if one.gpu_uuid not in self.known and (one.gpu_uuid, one.pid) not in told)


NOTHING_SAID = Holding()


def merged_holdings(parts: Iterable[Holding]) -> Holding:
    """Return what several parts of a host say as one."""
    told = list(parts)
    return Holding(
        tuple(process for one in told for process in one.processes), frozenset().union(*(one.known for one in told))
    )
