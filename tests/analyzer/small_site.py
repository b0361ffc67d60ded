"""A small site that loses time in every way for which something can be done: one run and one host for each."""

from typing import Any

from analyzer.period import WINDOW_MS
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
END = T + 2 * HOUR
STALLED: dict[str, Any] = {"utilization_ratio": 0.5, "utilization_zero_ratio": 0.5, "sm_active_ratio": 0.45}
IDLE: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
SMALL: dict[str, Any] = {"sm_active_ratio": 0.1, "tensor_active_ratio": 0.01, "dram_active_ratio": 0.05}
# Every other minute short of the best by 75%: 225 s of each ten minutes.
EXCHANGING_SECONDS = WINDOW_MS * 375 // 1_000_000
CROSSING_HOSTS = tuple(f"x{number}" for number in range(8))  # of them every other in the other rack


def small_site(fleet: Fleet | None = None) -> Fleet:
    """Return a fleet that has not been analysed yet; in a store of its own, or in that of an empty one."""
    fleet = fleet or Fleet()
    with fleet.together():
        _exchanges(fleet)
        _inputs(fleet)
        _holding(fleet)
        _slow_gpu(fleet)
        (spare,) = _host(fleet, "z0", "rack-3")
        fleet.sample("z0", spare, T, END, **IDLE)
    return fleet


@made_once
def analysed_site() -> Fleet:
    """Return the site after a pass with the default settings."""
    fleet = small_site()
    fleet.analyze()
    return fleet


def _host(fleet: Fleet, node: str, rack: str | None = "rack-1", gpus: int = 1, **facts: object) -> list[str]:
    names = [f"{node}g{index}" for index in range(gpus)]
    fleet.own(node, names)
    at = {"node": node, "started_at": T, "ended_at": T + 1}
    fleet.add("inventory", [at | {"rack": rack, "cpu_cores": 64, **facts}])
    return names


def _exchanges(fleet: Fleet) -> None:
    """One run within a rack at 10 GB/s a node, and one over two racks at a quarter of that, its ranks alternating."""
    for node in ("r0", "r1"):
        _exchange(fleet, "slurm/alpha/inside", node, "rack-1", int(node[1:]), 10)
    for rank, node in enumerate(CROSSING_HOSTS):
        _exchange(fleet, "slurm/alpha/crossing", node, f"rack-{1 + rank % 2}", rank, 2.5)


def _exchange(fleet: Fleet, run: str, node: str, rack: str, rank: int, gigabytes_a_second: float) -> None:
    (gpu,) = _host(fleet, node, rack)
    fleet.hold(run, node, [gpu], T, END, rank=rank)
    _every_other_minute(fleet, node, gpu)
    port = {"node": node, "device": "mlx5_0", "link_kind": "infiniband"}
    moved = int(gigabytes_a_second * 10**9 * EXCHANGING_SECONDS)
    windows = range(T, END, 10 * MINUTE)
    fleet.add(
        "network_samples",
        [port | {"started_at": at, "ended_at": at + 10 * MINUTE, "transmit_bytes": moved} for at in windows],
    )


def _every_other_minute(fleet: Fleet, node: str, gpu: str, **values: object) -> None:
    """Sample a GPU that works at its best in one minute and spins for its peers in most of the next."""
    row = {
        "node": node,
        "gpu_uuid": gpu,
        "up": True,
        "utilization_ratio": 0.99,
        "utilization_zero_ratio": 0.0,
        **values,
    }
    fleet.add(
        "gpu_samples",
        [
            row | {"started_at": at, "ended_at": at + MINUTE, "sm_active_ratio": 0.36 if at // MINUTE % 2 else 0.9}
            for at in range(T, END, MINUTE)
        ],
    )


def _inputs(fleet: Fleet) -> None:
    """Five runs that wait for input, each for a reason of its own."""
    reasons: dict[str, tuple[str, dict[str, object]]] = {
        "preprocessing": ("process_samples", {"workers": 4, "workers_busiest_cpu_ratio": 0.98}),
        "loader_software": (
            "process_samples",
            {"workers": 4, "workers_busiest_cpu_ratio": 0.5, "workers_waiting_ratio": 0.0},
        ),
        "storage": ("run_samples", {"pressure_io_some_ratio": 0.4}),
        "network_storage": ("process_samples", {"workers": 4, "workers_waiting_ratio": 0.6}),
        "host_to_device": ("run_samples", {"pressure_io_some_ratio": 0.0}),
    }
    for number, (reason, (table, signs)) in enumerate(reasons.items()):
        node, run = f"i{number}", f"slurm/alpha/{reason}"
        (gpu,) = _host(fleet, node)
        fleet.hold(run, node, [gpu], T, END)
        copied = 60_000 * 3_200_000 if reason == "host_to_device" else 10**9
        fleet.sample(node, gpu, T, END, **(STALLED | {"pcie_receive_bytes": copied}))
        here = {"node": node, "run_id": run, "started_at": T, "ended_at": END, "cores_allotted": 8.0}
        if table == "process_samples":
            here = {"node": node, "run_id": run, "gpu_uuid": gpu}
        spans = range(T, END, 5 * MINUTE)
        fleet.add(table, [here | signs | {"started_at": at, "ended_at": at + 5 * MINUTE} for at in spans])
        kind = "nfs" if reason == "network_storage" else "block"
        busy = 0.97 if reason == "storage" else 0.3
        disk = {"node": node, "device": "d0", "mount_kind": kind, "read_bytes": 10**11, "busy_ratio": busy}
        fleet.add("disk_samples", [disk | {"started_at": at, "ended_at": at + 5 * MINUTE} for at in spans])


def _holding(fleet: Fleet) -> None:
    """Runs that hold what they do not use, use little of it, or lose what they did."""
    for number, (name, values, more) in enumerate(
        (
            ("never-used", IDLE, {}),
            ("notebook", SMALL, {}),
            ("trials", SMALL, {}),
            ("ranker-serve", SMALL, {}),
            ("failing", {}, {"exit_status": "failed"}),
        )
    ):
        (gpu,) = _host(fleet, f"h{number}")
        fleet.hold(f"slurm/alpha/{name}", f"h{number}", [gpu], T, END, name=name, **more)
        fleet.sample(f"h{number}", gpu, T, T + HOUR, memory_used_bytes=10**10, **values)
        if more:
            fleet.write(f"h{number}", T, END)
        later = IDLE if name == "notebook" else values
        fleet.sample(f"h{number}", gpu, T + HOUR, END, memory_used_bytes=10**10, **later)
    gpus = _host(fleet, "h9", gpus=2)
    fleet.hold("slurm/alpha/abandoned", "h9", gpus, T, END)
    for gpu in gpus:
        fleet.sample("h9", gpu, T, T + HOUR)
        fleet.sample("h9", gpu, T + HOUR, END, **IDLE)


def _slow_gpu(fleet: Fleet) -> None:
    """Two GPUs of one host, the first a little below its clock, the second far below it; and a peer on another host."""
    for node, clocks in (("s0", (1.9e9, 1.6e9)), ("s1", (2.0e9,))):
        gpus = _host(fleet, node, gpus=len(clocks))
        fleet.hold("slurm/alpha/straggling", node, gpus, T, END)
        for gpu, clock in zip(gpus, clocks, strict=True):
            slow = {"sm_clock_hertz": clock, "sm_clock_reference_hertz": 2.0e9, "throttle_thermal_seconds": 60.0}
            _every_other_minute(fleet, node, gpu, nvlink_receive_bytes=10**12, **slow)
