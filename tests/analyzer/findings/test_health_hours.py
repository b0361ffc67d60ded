"""What is counted of each hour is the same from its samples and, once they are rolled up, from the tier of hours."""

import random

from analyzer.findings.health.notice import Span, gather
from collector.lake.tiers import roll_up
from collector.store.schemas import make_tier_tables
from tests.analyzer.ledger.fleet import HOUR, MONDAY, SECOND, Fleet

HOURS = 3
GIB = 2**30


def fleet_of(seed: int) -> Fleet:
    """Return two GPUs that are sampled every ten seconds and are never the same twice, dips between the minutes too."""
    fleet, dice = Fleet(), random.Random(seed)
    gpus = ("G0", "G1")
    fleet.own("n1", gpus)
    fleet.hold("slurm/a/1", "n1", gpus, MONDAY, name="train")
    with fleet.together():
        for gpu in gpus:
            for at in range(MONDAY, MONDAY + HOURS * HOUR, 10 * SECOND):
                drawn = {
                    "utilization_ratio": dice.randrange(1001) / 1000,
                    "sm_active_ratio": dice.randrange(1001) / 1000,
                    "tensor_active_ratio": dice.randrange(1001) / 1000,
                    "dram_active_ratio": dice.randrange(1001) / 1000,
                    "memory_used_bytes": dice.randrange(80 * GIB),
                    "pcie_width": dice.choice((8, 16)),
                }
                fleet.sample("n1", gpu, at, at + 10 * SECOND, every=10 * SECOND, **drawn)
        for at in range(MONDAY, MONDAY + HOURS * HOUR, 10 * SECOND):
            beat = {"node": "n1", "started_at": at, "ended_at": at + 10 * SECOND}
            cpu = {"cpu_seconds": dice.randrange(10**7) / 10**6}
            fleet.add("run_samples", [{**beat, "run_id": "slurm/a/1", "memory_used_bytes": dice.randrange(GIB), **cpu}])
            fleet.add("process_samples", [{**beat, "run_id": "slurm/a/2", "pid": 7, **cpu}])
            share = {"gpu_uuid": "G0", "sm_utilization_ratio": dice.randrange(1001) / 1000}
            held = {"memory_used_bytes": dice.randrange(80 * GIB)}
            fleet.add("process_samples", [{**beat, "run_id": "slurm/a/1", "pid": 8, **cpu, **share, **held}])
            fleet.add(
                "network_samples", [{**beat, "device": "ib0", "link_kind": "infiniband", "errors": dice.randrange(3)}]
            )
    return fleet


def counted(fleet: Fleet) -> dict[str, list[tuple[object, ...]]]:
    """Return what notices count of each GPU, run, port and process by the hour."""
    with fleet.store.session() as session:
        gather(session, Span(MONDAY, MONDAY + HOURS * HOUR))
        return {
            of: session.rows(f"SELECT COLUMNS(*) FROM notice_{of}_hours ORDER BY ALL")
            for of in ("gpu", "run", "port", "process")
        }


def test_what_is_counted_does_not_change_when_hours_are_rolled_up() -> None:
    """A list of findings said "from 42 GiB" until the upkeep had run, and "from 42.5 GiB" after it."""
    fleet = fleet_of(1)
    before = counted(fleet)
    make_tier_tables(fleet.store)
    roll_up(fleet.store, 1e12, now_us=MONDAY + 12 * HOUR)
    counts = {"gpu": 2 * HOURS, "run": 2 * HOURS, "port": HOURS, "process": HOURS}
    assert {of: len(rows) for of, rows in before.items()} == counts
    assert counted(fleet) == before
