"""Slurm's numbers become the ledger's names: GPU 2 of a host becomes a UUID, job 81236 the run slurm/alpha/81234_2."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from collector.schedulers.slurm.job import Job

if TYPE_CHECKING:
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
    def read(cls, session: "Session") -> "Inventory":
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
