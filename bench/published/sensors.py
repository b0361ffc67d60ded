"""What the sensors of a host tell of its lanes, with what they get wrong; each function returns a table's columns.

NVML's utilization: whole percents of windows of 1/6 s or 1 s, from a ring that reaches 16 s back (docs/gpu.md). Power:
means of a second, half a second late (NVML API reference; on A100 and H100 of a quarter of the time, arXiv 2312.02741).
PCIe without GPM: windows of 20 ms. PSI "some": 1 while any one task waits, so of n tasks 1 - (1 - p)^n (kernel,
Documentation/accounting/psi.rst). A NaN is what was not read.
"""

from collections.abc import Sequence

import numpy as np

from bench.published.boards import Board
from bench.published.lanes import Floats, Lane
from bench.published.setting import Disk, Setting

RING_SECONDS = 16.0
Columns = dict[str, Floats]
# What kernels do not count (docs/flows.md): NFS has no busy time, Lustre's clients no counts and waits, FUSE nothing.
_UNREAD = {
    "nfs": ("busy_ratio",),
    "lustre": ("busy_ratio", "reads", "writes", "read_wait_seconds"),
    "fuse": ("read_bytes", "written_bytes", "reads", "writes", "busy_ratio", "read_wait_seconds"),
}


def gpu(setting: Setting, board: Board, lane: Lane, edges: Floats, limit: float) -> Columns:
    """Return what the driver tells of one GPU between these edges."""
    rng, count = setting.rng, len(edges) - 1
    unknown = np.full(count, np.nan)
    step = np.diff(edges)

    def share(channel: str, spread: float = 0.012) -> Floats:
        told: Floats = np.clip(lane.mean(channel, edges) * rng.normal(1, spread, count), 0, 1)
        return told

    utils = _windows(lane, "util", edges, setting.window)
    inside = setting.rings and setting.interval <= RING_SECONDS
    watts = np.diff(lane.running("watts", edges - 0.5)) / step * rng.normal(1, 0.012, count)
    seconds = _windows(lane, "watts", edges, 1.0)
    heat = (lane.running("watts", edges[1:]) - lane.running("watts", edges[1:] - 90)) / 90
    warm = 31 + 38 * heat / board.limit_watts + lane.mean("hot", edges)
    profiled = setting.profiled(board)
    counters = board.sku not in ("RTX-3090-24GB", "RTX-4090-24GB")  # of GeForce the driver tells none
    clock = np.round(lane.at("mhz", edges[1:] - 0.03 * step) * rng.normal(1, 0.004, count) / 15) * 15e6
    receive, transmit = (_pcie(setting, lane, way, edges, exact=profiled) for way in ("h2d", "d2h"))
    link = np.round(lane.total("nvlink", edges))
    return {
        "up": np.ones(count),
        "utilization_ratio": _rounded(utils.mean(1) if setting.rings else utils[:, -1], 3),
        "utilization_zero_ratio": (utils < 0.005).mean(1) if inside else unknown,
        "utilization_low_ratio": (utils < 0.2).mean(1) if inside else unknown,
        "utilization_high_ratio": (utils > 0.8).mean(1) if inside else unknown,
        "memory_used_bytes": _rounded(lane.mean("hbm", edges) * 2**30),
        "memory_reserved_bytes": np.full(count, 5e8),
        "sm_active_ratio": share("sm") if profiled else unknown,
        "sm_occupancy_ratio": share("occ") if profiled else unknown,
        "tensor_active_ratio": share("tensor") if profiled else unknown,
        "dram_active_ratio": share("dram") if profiled else unknown,
        "memory_utilization_ratio": np.round(share("memutil"), 2),
        "decoder_utilization_ratio": np.round(share("dec"), 2),
        "pcie_receive_bytes": receive,
        "pcie_transmit_bytes": transmit,
        "nvlink_receive_bytes": link if board.nvlink else unknown,
        "nvlink_transmit_bytes": link if board.nvlink else unknown,
        "power_watts": _rounded(np.minimum(watts, 1.02 * limit), 1),
        "power_watts_min": np.round(seconds.min(1), 1) if inside else unknown,
        "power_watts_max": np.round(np.minimum(seconds.max(1), 1.02 * limit), 1) if inside else unknown,
        "energy_joules": np.round(lane.total("watts", edges) * 0.99, 1) if counters else unknown,
        "temperature_celsius": np.round(warm + rng.normal(0, 0.7, count)),
        "sm_clock_hertz": clock,
        "sm_clock_hertz_min": np.minimum(clock, lane.at("mhz", edges[:-1] + 0.5 * step) * 1e6) if inside else unknown,
        "sm_clock_reference_hertz": np.full(count, board.max_mhz * 1e6),
        "throttle_power_seconds": np.round(lane.total("capped", edges), 3) if counters else unknown,
        "throttle_thermal_seconds": np.round(lane.total("heated", edges), 3) if counters else unknown,
        "throttle_hardware_seconds": np.zeros(count) if counters else unknown,
        "xid_events": np.zeros(count),
        "ecc_uncorrected_events": np.zeros(count),
        "pcie_generation": np.full(count, float(board.pcie_generation)),
        "pcie_generation_max": np.full(count, float(board.pcie_generation)),
        "pcie_width": np.full(count, 16.0),
        "pcie_width_max": np.full(count, 16.0),
    }


def _rounded(values: Floats, digits: int = 0) -> Floats:
    told: Floats = np.round(values, digits)
    return told


def _windows(lane: Lane, channel: str, edges: Floats, width: float) -> Floats:
    """Return a channel's mean in the windows of each interval that the ring still has; of shares, whole percents."""
    step = float(edges[1] - edges[0])
    count = max(1, round(min(step, RING_SECONDS) / width))
    moments = edges[1:, None] - width * np.arange(count, -1, -1)
    means = np.diff(lane.running(channel, moments), axis=1) / width
    return _rounded(np.clip(means, 0, 1), 2) if channel == "util" else means


def _pcie(setting: Setting, lane: Lane, way: str, edges: Floats, *, exact: bool) -> Floats:
    count = len(edges) - 1
    if not exact and not setting.slow_pcie:
        return np.full(count, np.nan)
    if exact:
        return np.round(lane.total(way, edges) * setting.rng.normal(1, 0.02, count) + 2e6 * setting.rng.random(count))
    windows = max(1, int(setting.interval / 2))
    moments = edges[:-1, None] + setting.rng.random((count, windows)) * setting.interval
    means = (lane.running(way, moments) - lane.running(way, moments - 0.02)).mean(1) / 0.02
    told: Floats = np.round((means + 1e5 * setting.rng.random(count)) * setting.interval)
    return told


def _summed(lanes: Sequence[Lane], channel: str, edges: Floats) -> Floats:
    """Return what the ranks of a host add up to, a second."""
    cache: dict[int, Floats] = {}
    for lane in lanes:
        if id(lane) not in cache:
            cache[id(lane)] = lane.mean(channel, edges)
    told: Floats = np.sum([cache[id(lane)] for lane in lanes], axis=0)
    return told


def _greatest(lanes: Sequence[Lane], channel: str, edges: Floats) -> Floats:
    means = [lane.mean(channel, edges) for lane in {id(lane): lane for lane in lanes}.values()]
    told: Floats = np.stack(means).max(axis=0)
    return told


def some(lanes: Sequence[Lane], channel: str, edges: Floats) -> Floats:
    """Return the kernel's "some" of a pressure: of the ranks' workers and main processes any one waits."""
    tasks = _summed(lanes, "workers", edges) + len(lanes)
    told: Floats = 1 - (1 - np.clip(_greatest(lanes, channel, edges), 0, 1)) ** tasks
    return told


def host(setting: Setting, lanes: Sequence[Lane], edges: Floats) -> Columns:
    """Return what /proc tells of a host."""
    rng, count, cores = setting.rng, len(edges) - 1, setting.cores
    used = _summed(lanes, "cpu", edges) + 0.3 * rng.gamma(2, 0.5, count)
    blocked = _greatest(lanes, "blocked", edges) * (_summed(lanes, "workers", edges) + len(lanes))
    memory = setting.memory_gib * 2**30
    told: Columns
    held = np.minimum((_summed(lanes, "mem", edges) + 6) * 2**30, 0.985 * memory)
    told = {
        "cpu_busy_ratio": np.clip(used / cores, 0, 1),
        "cpu_iowait_ratio": np.clip(0.7 * np.minimum(blocked, np.maximum(cores - used, 0)) / cores, 0, 1),
        "memory_used_bytes": _rounded(held),
        "memory_available_bytes": np.round(memory - held),
    }
    for what, channel, floor in (("cpu", "runq", 0.01), ("io", "blocked", 0.006), ("memory", "swapped", 0.0002)):
        noise = floor * np.abs(rng.normal(1, 0.6, count))
        seen = np.clip(some(lanes, channel, edges) * rng.normal(1, 0.05, count) + noise, 0, 1)
        told[f"pressure_{what}_some_ratio"] = seen if setting.pressure else np.full(count, np.nan)
    return told


def disk(setting: Setting, lanes: Sequence[Lane], at: Disk, edges: Floats) -> Columns:
    """Return what a device or mount tells. The wait for reads adds up over reads: many at once exceed the time."""
    rng, step, count = setting.rng, np.diff(edges), len(edges) - 1
    read = _summed(lanes, "read", edges) * step
    write = _summed(lanes, "write", edges) * step
    busy = np.clip(_greatest(lanes, "busy", edges) + 0.01 * rng.random(count), 0, 1)
    told = {
        "read_bytes": np.round(read * rng.normal(1, 0.01, count) + 1e5 * rng.random(count)),
        "written_bytes": np.round(write + 1e6 * rng.random(count)),
        "reads": np.round(read / at.io_bytes),
        "writes": np.round(write / 5e5 + 20),
        "busy_ratio": busy,
        "read_wait_seconds": np.round(_summed(lanes, "rwait", edges) * step, 3),
    }
    for name in _UNREAD.get(at.kind, ()):
        told[name] = np.full(count, np.nan)
    return told


def link(
    setting: Setting, lanes: Sequence[Lane], ways: tuple[Sequence[str], Sequence[str]], share: float, edges: Floats
) -> Columns:
    """Return what a port tells: the channels that come in and those that go out, of which it carries a share."""
    step, count = np.diff(edges), len(edges) - 1
    told = {}
    for name, channels in zip(("receive_bytes", "transmit_bytes"), ways, strict=True):
        moved = np.sum([_summed(lanes, channel, edges) for channel in channels], axis=0) * step * share
        told[name] = np.round(moved + 2e5 * setting.rng.random(count))
    return told | {"errors": np.zeros(count)}


def process(setting: Setting, lane: Lane, at: Disk, edges: Floats) -> Columns:
    """Return what the process tree of one rank tells; what comes through FUSE or a socket is no read to the kernel."""
    rng, step, count = setting.rng, np.diff(edges), len(edges) - 1
    workers = np.round(lane.mean("workers", edges))
    least = np.maximum(workers, 1)
    waiting = np.round(np.clip(lane.mean("waiting", edges) * rng.normal(1, 0.1, count), 0, 1) * least) / least
    unknown = np.full(count, np.nan)
    counted = step * (0.0 if at.kind in ("fuse", "object") else 1.0)
    return {
        "memory_used_bytes": _rounded(lane.mean("hbm", edges) * 2**30),
        "sm_utilization_ratio": _rounded(np.clip(lane.mean("util", edges), 0, 1), 2),
        "cpu_seconds": np.round(lane.total("cpu", edges), 2),
        "workers": workers,
        "workers_busiest_cpu_ratio": np.where(workers > 0, np.clip(lane.mean("busiest", edges), 0, 1), np.nan),
        "workers_waiting_ratio": np.where(workers > 0, waiting, np.nan),
        "read_bytes": np.round(lane.mean("read", edges) * counted) if setting.process_io else unknown,
        "written_bytes": np.round(lane.mean("write", edges) * counted) if setting.process_io else unknown,
    }


def progress(lane: Lane, edges: Floats) -> Columns:
    """Return what rank 0 tells: steps, each of which ends with its work, and how long they waited for data."""
    works = np.array([one.truth[-1][0].partition("/")[0] in ("productive", "underused") for one in lane.phases])
    moments = lane.ends[1:][works[lane.index]]
    steps = np.diff(np.searchsorted(moments, edges)).astype(float)
    return {"steps": steps, "data_wait_seconds": np.round(lane.total("data_wait", edges), 3)}


def cgroup(setting: Setting, lanes: Sequence[Lane], at: Disk, quota: float | None, edges: Floats) -> Columns:
    """Return what the cgroup of a run on one host tells; bytes of mounts are no block device's."""
    step, count = np.diff(edges), len(edges) - 1
    bytes_of = (0.0 if at.remote else 1.0) * step
    return {
        "read_bytes": np.round(_summed(lanes, "read", edges) * bytes_of),
        "written_bytes": np.round(_summed(lanes, "write", edges) * bytes_of),
        "cpu_seconds": np.round(_summed(lanes, "cpu", edges) * step, 2),
        "cpu_throttled_seconds": np.round(_summed(lanes, "throttled", edges) * step, 3),
        "pressure_cpu_some_ratio": np.clip(some(lanes, "runq", edges), 0, 1),
        "pressure_io_some_ratio": np.clip(some(lanes, "blocked", edges), 0, 1),
        "pressure_memory_some_ratio": np.clip(some(lanes, "swapped", edges), 0, 1),
        "memory_used_bytes": np.round(_summed(lanes, "mem", edges) * 2**30),
        "cores_allotted": np.full(count, float(quota or setting.cores)),
    }
