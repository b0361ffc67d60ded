"""Situations of a GPU host that a test can begin with; each returns a scenario that may be changed further."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.agent.gpu.fake.build import ACTIVITY, GIB, MIB, Scenario, healthy

LINKS = 18  # of an H100 and of a B200
FOREVER_SECONDS = 86_400.0


def sixteen(path: Path) -> Scenario:
    """Return the largest host there is: sixteen GPUs."""
    return healthy(path, gpus=16)


def mig(path: Path, gpus: int = 2) -> Scenario:
    """Return a host whose first GPU is cut into a 1g and a 3g instance, with an empty place between, and GPM on all."""
    scenario = healthy(path, gpus).every(gpm=1, **ACTIVITY)
    scenario.gpu(0, mig=1, mig_max=7, processes=None, **{"gpm_instance9.2": 90, "gpm_instance1.2": 10})
    small = {
        "slices": 1,
        "gpu_instance": 9,
        "compute_instance": 0,
        "memory_total": 9984 * MIB,
        "memory_used": 100 * MIB,
    }
    large = {
        "slices": 3,
        "gpu_instance": 1,
        "compute_instance": 0,
        "memory_total": 40448 * MIB,
        "memory_used": 5000 * MIB,
    }
    scenario.instance(0, 0, name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", **small)
    return scenario.instance(0, 2, name="NVIDIA H100 80GB HBM3 MIG 3g.40gb", processes="77:5000", **large)


def blackwell(path: Path, gpus: int = 8) -> Scenario:
    """Return B200s: NVLink is counted in bytes and per link (202 sent, 204 received); the sums in KiB are gone."""
    per_link = {f"field_{field}.{link}": 0 for field in (202, 204) for link in range(LINKS)}
    return healthy(path, gpus).every(
        name="NVIDIA B200",
        architecture=10,
        memory_total=183_359 * MIB,
        power_limit_mw=1_000_000,
        field_138=None,
        field_139=None,
        gpm=1,
        **ACTIVITY,
        **per_link,
    )


def lost(path: Path, index: int, gpus: int = 8) -> Scenario:
    """Return a host one of whose GPUs fell off the bus before anybody looked."""
    return healthy(path, gpus).gpu(index, lost=1)


def hung(path: Path, function: str, index: int, gpus: int = 2) -> Scenario:
    """Return a host where one call on one GPU does not come back until `hang(function, 0, index)`."""
    return healthy(path, gpus).hang(function, FOREVER_SECONDS, index)


def mismatched(path: Path) -> Scenario:
    """Return a host whose driver was upgraded under the library; `host(mismatch=1)` does it to one that runs."""
    return healthy(path).host(mismatch=1)


def storm(path: Path, per_second: int = 500, gpus: int = 2) -> Scenario:
    """Return a host whose first GPU tells XID errors without end, of four kinds in turn."""
    return healthy(path, gpus).gpu(0, xid="79,48,63,94", xids=0, xids_per_s=per_second)


def time_sliced(path: Path, holders: Mapping[int, int], gpus: int = 2) -> Scenario:
    """Return a host whose first GPU is shared by these processes, pid to bytes, of as many pods as there are.

    They took turns: the first is busy half of the time, the next half of that, and so on.
    """
    listed = ",".join(f"{pid}:{size}" for pid, size in holders.items())
    busy = ",".join(f"{pid}:{50 >> place}" for place, pid in enumerate(holders))
    return healthy(path, gpus).gpu(0, processes=listed, process_busy=busy)


def shared_out(scenario: Scenario, pids: Sequence[int], gpus: int) -> Scenario:
    """Let these processes hold the GPUs in turn, each 2 GiB and as busy as its GPU's other holders leave it."""
    for index in range(gpus):
        mine = pids[index::gpus]
        listed = ",".join(f"{pid}:{2 * GIB}" for pid in mine)
        scenario.gpu(index, processes=listed, process_busy=",".join(f"{pid}:{90 // len(mine)}" for pid in mine))
    return scenario
