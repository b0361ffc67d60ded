"""Two hosts of four GPUs whose telemetry was imported, and Slurm's word on who held them."""

from dataclasses import dataclass, field, replace
from typing import Any

from collector.importing.history import Brought, bring
from collector.importing.known_allocations import Sighting
from collector.importing.slurm_history import SlurmAnswer, history
from collector.schedulers.slurm.jobs import Job
from collector.schedulers.slurm.nodes import Event
from collector.store.database import Store
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, SECOND, Fleet

T = MONDAY
HOSTS = ("n1", "n2")
GPUS = 4


@dataclass
class Site:
    """A store, what its GPUs did, and an import of what Slurm says."""

    fleet: Fleet = field(default_factory=Fleet)
    accounted: list[Job] = field(default_factory=list)
    queued: list[Job] | None = None
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = [
            {"node": node, "started_at": T, "ended_at": T + SECOND, "gpu_uuid": f"{node}-{index}", "gpu_index": index}
            for node in HOSTS
            for index in range(GPUS)
        ]
        self.fleet.add("inventory", [row | {"sku": "H100-80GB"} for row in rows])

    @property
    def store(self) -> Store:
        """The store."""
        return self.fleet.store

    def watch(self, busy: dict[str, list[tuple[float, float]]], until: int = T + DAY) -> None:
        """Sample every GPU; busy says of some between which hours they worked."""
        for node in HOSTS:
            for index in range(GPUS):
                uuid, now = f"{node}-{index}", T
                for start, end in busy.get(uuid, []):
                    self._sample(node, uuid, now, T + round(start * HOUR), False)
                    self._sample(node, uuid, T + round(start * HOUR), T + round(end * HOUR), True)
                    now = T + round(end * HOUR)
                self._sample(node, uuid, now, until, False)

    def _sample(self, node: str, uuid: str, start: int, end: int, works: bool) -> None:
        if end > start:
            values = {"utilization_ratio": 0.9 * works, "memory_used_bytes": 500_000_000 + 40_000_000_000 * works}
            absent = {"sm_active_ratio": None, "utilization_zero_ratio": None}
            self.fleet.sample(node, uuid, start, end, 30 * SECOND, **absent, **values)

    def bring(self, since: int = T, until: int = T + DAY, sightings: tuple[Sighting, ...] = ()) -> Brought:
        """Import what Slurm says of a span."""
        told = SlurmAnswer(self.accounted, self.queued, self.events)
        with self.store.session() as session:
            found = history(session, told, "alpha", since, until)
        return bring(self.store, found, sightings)

    def allocations(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return the last word on each allocation that still stands, as the analyzer reads it, in order."""
        with self.store.session() as session:
            return session.rows(
                f"""
                SELECT {", ".join(columns)} FROM (
                    SELECT * FROM allocations QUALIFY row_number() OVER (
                        PARTITION BY run_id, coalesce(attempt, 0), coalesce(gpu_uuid, node), started_at
                        ORDER BY batch DESC
                    ) = 1) WHERE gpu_fraction IS DISTINCT FROM 0.0
                ORDER BY run_id, attempt, started_at NULLS FIRST, node, gpu_uuid
                """
            )


def job(raw_id: int, start: float, end: float | None, count: int, *nodes: str, **more: Any) -> Job:
    """Return a job as accounting tells of it; times in hours of the day."""
    made = Job(
        raw_id,
        "holding" if end is None else "ended",
        "RUNNING" if end is None else "COMPLETED",
        cluster="alpha",
        user="ada",
        account="vision",
        name=f"job{raw_id}",
        partition="gpu",
        submitted_at=T + round(start * HOUR) - HOUR,
        started_at=T + round(start * HOUR),
        ended_at=None if end is None else T + round(end * HOUR),
        requested_gpus=count,
        allocated_gpus=count,
        nodes=nodes or ("n1",),
        gpus=(None,) * len(nodes or ("n1",)),
    )
    return replace(made, **more)
