"""A site of three GPU nodes and one without, on which a job recurs and others hold what they hold."""

from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

GB = 10**9
SIX = tuple(range(1, 7))  # runs of nightly, each as many times ten minutes long


def fill(fleet: Fleet, settings: Settings | None = None) -> None:
    """Make a ledger of one day: six nightly runs, one that failed, three of another size, and what is held then."""
    for node, group, gpus in (("g0", "train", 2), ("g1", "train", 2), ("g2", "other", 1)):
        names = [f"{node}-{index}" for index in range(gpus)]
        fleet.own(node, names)
        host = {"node": node, "started_at": MONDAY, "ended_at": MONDAY + 1, "rack": "r1", "node_group": group}
        fleet.add("inventory", [host | {"cpu_cores": 32, "host_memory_bytes": 256 * GB, "local_nvme_bytes": 4000 * GB}])
        chip = {"node": node, "started_at": MONDAY, "ended_at": MONDAY + 1, "sku": "H100-80GB", "memory_bytes": 80 * GB}
        fleet.add("inventory", [chip | {"gpu_uuid": name} for name in names])
        for name in names:
            fleet.sample(node, name, MONDAY, MONDAY + DAY, every=10 * MINUTE, memory_used_bytes=30 * GB)
    _nightly(fleet)
    fleet.hold("slurm/a/long", "g1", ["g1-0", "g1-1"], MONDAY + 20 * HOUR, name="long", time_limit_seconds=108_000.0)
    fleet.hold("slurm/a/open", "g2", ["g2-0"], MONDAY + 20 * HOUR, name="open")
    cpu = {"node": "c0", "started_at": MONDAY, "ended_at": MONDAY + 1, "cpu_cores": 16, "host_memory_bytes": 64 * GB}
    fleet.add("inventory", [cpu])
    heard = {"node": "c0", "started_at": MONDAY + DAY - MINUTE, "ended_at": MONDAY + DAY, "cpu_busy_ratio": 0.25}
    fleet.add("host_samples", [heard | {"memory_used_bytes": 10 * GB}])
    fleet.analyze(settings=settings)


def _nightly(fleet: Fleet) -> None:
    at = MONDAY
    for tens in SIX:
        end, run = at + 10 * tens * MINUTE, f"slurm/a/{tens}"
        fleet.hold(run, "g0", ["g0-0"], at, end, name="nightly", exit_status="completed")
        spans = range(at, end, 10 * MINUTE)
        used = {"node": "g0", "run_id": run, "cpu_seconds": 60.0 * 10 * tens, "memory_used_bytes": tens * GB}
        fleet.add("run_samples", [used | {"started_at": one, "ended_at": one + 10 * MINUTE} for one in spans])
        at = end + 10 * MINUTE
    fleet.hold("slurm/a/7", "g0", ["g0-0"], at, at + MINUTE, name="nightly", exit_status="failed")
    for number in range(3):
        start = MONDAY + (6 + number) * HOUR
        fleet.hold(
            f"slurm/a/b{number}", "g0", ["g0-0", "g0-1"], start, start + HOUR, name="nightly", exit_status="completed"
        )
