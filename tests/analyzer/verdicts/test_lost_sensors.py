"""Runs that wait for input, of whose hosts sensors are missing: starved all the same, and of no wrong cause for sure.

Each is what hosts of eight GPUs show: NFS, Lustre and object stores, drives and block volumes, workers and main threads
that are full, quotas, queues that are too short. A cause of which the witness is missing may be left open.
"""

from typing import Any

import pytest

from analyzer.ledger.causes.input_starvation import UNKNOWN, InputJudgement, detect, sign
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import WINDOW_MS
from tests.analyzer.windows import GPUS, stalled

M = 1_000_000
LIMITS = Thresholds()
HOST: dict[str, Any] = {
    "nodes": 1, "cpu_busy": 200, "host_pressure_io": 10, "host_pressure_cpu": 5, "host_pressure_memory": 0,
    "host_memory_spare": 700, "disk_busy": 20, "block_read": 2 * M, "mount_read": 0, "disk_waited": 10,
    "mount_waited": 0, "written": 8 * M, "network_in": 5 * M, "workers": 8, "busiest": 150, "waiting": 0,
    "cores_used_milli": 14_000, "cores_milli": 96_000, "cpu_throttled": 0, "pressure_io": 10, "pressure_cpu": 5,
    "pressure_memory": 0, "pcie_in_kb": GPUS * WINDOW_MS * 60, "pcie_out_kb": GPUS * WINDOW_MS * 10,
}  # fmt: skip
_OWN = {"workers": 0, "busiest": None, "waiting": None}
_BLOCKED = {"pressure_io": 700, "host_pressure_io": 700}
STORAGE, NETWORK, LOADER = "storage", "network_storage", "loader_software"
# What is seen, and the causes that it may rightly be told as: the first where nothing is missing.
SHOWN: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "NFS at its bandwidth": (
        _BLOCKED | {"mount_read": 1_100 * M, "mount_waited": 30_000, "network_in": 1_150 * M, "waiting": 700},
        (NETWORK,),
    ),
    "NFS of small files": (
        _BLOCKED | {"mount_read": 120 * M, "mount_waited": 6_000, "network_in": 130 * M, "waiting": 550},
        (NETWORK,),
    ),
    "Lustre, past ethernet": (
        _BLOCKED | {"mount_read": 600 * M, "mount_waited": 3_000, "waiting": 350, "busiest": 300},
        (NETWORK,),
    ),
    "a drive": (
        _BLOCKED | {"block_read": 3_000 * M, "disk_busy": 970, "disk_waited": 40_000, "waiting": 600},
        (STORAGE,),
    ),
    "a block volume": (
        _BLOCKED | {"block_read": 240 * M, "disk_busy": 990, "disk_waited": 20_000, "waiting": 700},
        (STORAGE,),
    ),
    "a block volume, read by the main thread": (
        _OWN | _BLOCKED | {"block_read": 120 * M, "disk_busy": 990, "disk_waited": 3_000, "cores_used_milli": 9_000},
        (STORAGE,),
    ),
    "NFS, read by the main thread": (
        _OWN | _BLOCKED | {"mount_read": 200 * M, "mount_waited": 4_000, "network_in": 210 * M}
        | {"cores_used_milli": 9_000},
        (UNKNOWN, NETWORK, "preprocessing"),
    ),
    "an object store": ({"network_in": 900 * M, "busiest": 350, "block_read": M}, (NETWORK,)),
    "full workers": (
        {"busiest": 970, "cores_used_milli": 60_000, "block_read": 150 * M, "cpu_busy": 650},
        ("preprocessing",),
    ),
    "full workers over NFS": (
        {"busiest": 960, "cores_used_milli": 60_000, "mount_read": 150 * M, "mount_waited": 400, "network_in": 160 * M}
        | {"waiting": 80, "pressure_io": 150, "host_pressure_io": 150},
        ("preprocessing", NETWORK),
    ),
    "workers that are nearly full": (
        {"busiest": 760, "block_read": 80 * M, "cores_used_milli": 30_000},
        ("preprocessing", LOADER),
    ),
    "a quota": (
        {"busiest": 600, "cpu_throttled": 350, "cores_used_milli": 15_900, "cores_milli": 16_000, "pressure_cpu": 700}
        | {"block_read": 100 * M},
        ("preprocessing", LOADER),
    ),
    "full cores": (
        {"busiest": 550, "cores_used_milli": 46_500, "cores_milli": 48_000, "cpu_busy": 975, "pressure_cpu": 700}
        | {"host_pressure_cpu": 700, "block_read": 100 * M},
        ("preprocessing",),
    ),
    "the main thread": (
        _OWN | {"cores_used_milli": 8_200, "block_read": 160 * M, "disk_busy": 150},
        ("preprocessing",),
    ),
    "the main thread, which waits for its files now and then": (
        _OWN | {"cores_used_milli": 6_200, "block_read": 160 * M, "disk_busy": 350, "pressure_io": 60},
        ("preprocessing",),
    ),
    "too few workers": ({"busiest": 420, "block_read": 80 * M}, (LOADER, "preprocessing")),
    "another host's preprocessing": (
        _OWN | {"network_in": 1_500 * M, "cores_used_milli": 9_000},
        (UNKNOWN, NETWORK),
    ),
}  # fmt: skip
MISSING: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "its cgroup": ("cores_milli", "cpu_throttled", "pressure_io", "pressure_cpu", "pressure_memory"),
    "the host's pressure": ("host_pressure_io", "host_pressure_cpu", "host_pressure_memory"),
    "mounts": ("mount_read", "mount_waited"),
    "latency of mounts": ("mount_waited",),
    "the network": ("network_in",),
    "copies": ("pcie_in_kb", "pcie_out_kb"),
    "its workers": ("workers", "busiest", "waiting"),
    "disks and mounts": ("disk_busy", "block_read", "disk_waited", "mount_read", "mount_waited", "written"),
}
# Where what is missing is all that would have told it.
UNTOLD = {
    ("Lustre, past ethernet", "mounts"),
    ("a block volume, read by the main thread", "disks and mounts"),
    ("the main thread", "disks and mounts"),
    ("the main thread, which waits for its files now and then", "disks and mounts"),
    ("another host's preprocessing", "the network"),
}


def judged(name: str, missing: str) -> InputJudgement:
    """Judge the middle one of nine windows in which a run shows this, without what is missing."""
    values = HOST | SHOWN[name][0] | dict.fromkeys(MISSING[missing])
    return detect([sign(stalled(number, **values), LIMITS) for number in range(9)], LIMITS)[4]


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("name", SHOWN)
def test_input_is_waited_for_whatever_the_host_leaves_out(name: str, missing: str) -> None:
    """Its time is starved, and only what is really full is told with high confidence."""
    found = judged(name, missing)
    assert found.is_booked is ((name, missing) not in UNTOLD)
    assert found.confidence != "high" or found.cause in SHOWN[name][1]


@pytest.mark.parametrize("name", SHOWN)
def test_with_all_sensors_the_cause_is_right(name: str) -> None:
    """Where nothing is missing the cause is what is full; where two are alike, it is left open."""
    assert judged(name, "nothing").cause == SHOWN[name][1][0]


OTHERWISE: dict[str, dict[str, Any]] = {
    "an optimizer on the CPU": _OWN | {"cores_used_milli": 30_000},
    "a thread that logs and evaluates": _OWN | {"cores_used_milli": 8_100},
    "a thread that logs and evaluates, and pauses": _OWN | {"cores_used_milli": 6_200},
    "a thread that sleeps, and writes": _OWN | {"cores_used_milli": 3_000, "block_read": 160 * M, "written": 90 * M},
    "nothing on the host": _OWN | {"cores_used_milli": 800},
    "workers that rest": {"busiest": 20},
    "the video decoder": {"decoder": 970, "busiest": 300, "block_read": 60 * M},
    "swapping": {"pressure_memory": 600, "host_memory_spare": 10} | _BLOCKED,
    "a checkpoint": {"written": 900 * M, "disk_busy": 990, "disk_waited": 20} | _BLOCKED,
}


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("name", OTHERWISE)
def test_what_waits_for_no_input_is_not_starved(name: str, missing: str) -> None:
    """However little the host tells of it."""
    values = HOST | OTHERWISE[name] | dict.fromkeys(MISSING[missing])
    assert not detect([sign(stalled(number, **values), LIMITS) for number in range(9)], LIMITS)[4].is_booked
