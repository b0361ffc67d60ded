"""What the driver says of a GPU over each sampling interval, from its phases.

Utilization is what the driver's own samples say, six a second, each the share of its period with a kernel resident
(NVML API reference, nvmlDeviceGetSamples; a ring of some 100). An idle GPU may add no samples: the agent then has a
snapshot and no shares. Power is that of the last moment, which follows the load with some tenths of a second; the
energy counter misses nothing. GPM averages over the interval, to a MiB a second for links. Without GPM, PCIe is the
mean of the snapshots of 20 ms that a slow thread took, one every two seconds, or the newest (NVML API reference,
nvmlDeviceGetPcieThroughput), where it is asked at all.
"""

from dataclasses import dataclass

import numpy as np

from bench.truth.draw import Draw
from bench.truth.tape import Floats, Timeline

DRIVER_HZ = 6
MIB = 2**20
SNAPSHOT_SECONDS = 0.02
SNAPSHOT_EVERY = 2.0
CLOCK_STEP_HERTZ = 15e6
AVERAGED = ("sm", "occupancy", "tensor", "dram", "pcie_in", "pcie_out", "nvlink", "limited_by_power")
MEANS = (*AVERAGED, "limited_by_heat", "memory")
GPM = {
    "sm_active_ratio": "sm",
    "sm_occupancy_ratio": "occupancy",
    "tensor_active_ratio": "tensor",
    "dram_active_ratio": "dram",
}
LAG = (0.6, 0.3, 0.1)  # of the power now, a sixth and two sixths of a second ago


@dataclass(frozen=True, slots=True)
class Habits:
    """What differs from one driver and agent to the next."""

    silent_when_idle: bool
    asks_pcie: bool


def habits(draw: Draw) -> Habits:
    """Draw them."""
    return Habits(draw.chance(0.5), draw.cell.gpm or draw.chance(0.5))


def gpu_columns(draw: Draw, line: Timeline, habit: Habits, ranks: int) -> dict[str, Floats]:
    """Return the measured columns of gpu_samples for so many ranks that do the same, rank by interval; NaN is null."""
    times = np.arange(0, line.edges[-1] + 1e-6, draw.cell.every, dtype=np.float64)
    means = line.means(MEANS, times)
    shape = (ranks, len(times) - 1)
    noise = _Noise(draw.rng, shape)
    activity = noise.around(0.015) * (1 + 0.012 * draw.rng.standard_normal((ranks, 1)))
    made: dict[str, Floats] = {}
    if draw.cell.gpm:
        made |= {column: np.clip(means[signal] * activity, 0, 1).round(4) for column, signal in GPM.items()}
    made |= _driver_samples(draw, line, habit, ranks)
    made |= _links(draw, line, times, means, noise, habit)
    made["memory_used_bytes"] = np.rint(np.broadcast_to(means["memory"], shape) / 2**21) * 2**21
    every = draw.cell.every
    made["throttle_power_seconds"] = np.broadcast_to(np.round(means["limited_by_power"] * every, 2), shape)
    made["throttle_thermal_seconds"] = np.broadcast_to(np.round(means["limited_by_heat"] * every, 2), shape)
    return made


class _Noise:
    def __init__(self, rng: np.random.Generator, shape: tuple[int, int]) -> None:
        self._rng, self._shape = rng, shape

    def around(self, sigma: float) -> Floats:
        """Return factors about 1, within three sigmas."""
        drawn = self._rng.standard_normal(self._shape, dtype=np.float32).astype(np.float64)
        shaken: Floats = 1 + sigma * np.clip(drawn, -3, 3)
        return shaken


def _driver_samples(draw: Draw, line: Timeline, habit: Habits, ranks: int) -> dict[str, Floats]:
    """Return what is made of the driver's six samples a second: utilization, power, energy, clock and temperature."""
    fine = np.arange(int(line.edges[-1]) * DRIVER_HZ + 1) / DRIVER_HZ
    means = line.means(("utilization", "dram", "power", "clock", "limited_by_heat"), fine)
    per = draw.cell.every * DRIVER_HZ
    percent = np.rint(means["utilization"] * 100).clip(0, 100).reshape(-1, per)
    zero, low, high = (percent == 0).mean(1), (percent < 20).mean(1), (percent > 80).mean(1)
    if habit.silent_when_idle:
        zero, low, high = (np.where((percent == 0).all(1), np.nan, share) for share in (zero, low, high))
    made = {
        "utilization_ratio": percent.mean(1).round() / 100,
        "utilization_zero_ratio": zero.round(4),
        "utilization_low_ratio": low.round(4),
        "utilization_high_ratio": high.round(4),
        # Time in which memory was read or written, not how much of its bandwidth: nearly all of a dense kernel's.
        "memory_utilization_ratio": np.minimum(1.2 * means["dram"], means["utilization"]).reshape(-1, per).mean(1),
    }
    found = {name: np.broadcast_to(values, (ranks, len(values))) for name, values in made.items()}
    return found | _electrical(draw, means, per, ranks)


def _electrical(draw: Draw, means: dict[str, Floats], per: int, ranks: int) -> dict[str, Floats]:
    machine, rng = draw.machine, draw.rng
    watts = np.maximum(machine.idle_watts, means["power"] * machine.limit_watts)
    before = np.concatenate([[watts[0]] * 2, watts])
    lagged = (LAG[0] * before[2:] + LAG[1] * before[1:-1] + LAG[2] * before[:-2]).reshape(-1, per)
    board = 1 + 0.03 * rng.uniform(-1, 1, (ranks, 1))
    noise = _Noise(rng, (ranks, len(lagged)))
    energy = lagged.mean(1) * draw.cell.every * board
    clock = means["clock"].reshape(-1, per)[:, -1] * machine.clock_hertz * (1 - 0.002 * np.abs(noise.around(1) - 1))
    heat = means["limited_by_heat"].reshape(-1, per).mean(1)
    warm = 30 + 38 * lagged.mean(1) / machine.limit_watts + 24 * heat
    return {
        "power_watts": np.minimum(lagged[:, -1] * board * noise.around(0.01), 1.02 * machine.limit_watts).round(1),
        "power_watts_min": (lagged.min(1) * board).round(1),
        "power_watts_max": (lagged.max(1) * board).round(1),
        "energy_joules": energy.round(1),
        "temperature_celsius": np.rint(warm + 3 * rng.uniform(-1, 1, (ranks, 1))),
        "sm_clock_hertz": np.rint(clock / CLOCK_STEP_HERTZ) * CLOCK_STEP_HERTZ,
    }


def _links(
    draw: Draw, line: Timeline, times: Floats, means: dict[str, Floats], noise: _Noise, habit: Habits
) -> dict[str, Floats]:
    every = draw.cell.every
    made = {}
    if draw.cell.ranks > 1:
        moved = np.rint(means["nvlink"] * noise.around(0.02) * every / 1024) * 1024  # fields 138 and 139 count KiB
        made = {"nvlink_receive_bytes": moved, "nvlink_transmit_bytes": moved}
    if draw.cell.gpm:
        rates = {side: means[f"pcie_{side}"] * noise.around(0.02) for side in ("in", "out")}
        step = MIB
    elif habit.asks_pcie:
        rates = {side: _snapshots(draw, line, times, f"pcie_{side}") * noise.around(0.02) for side in ("in", "out")}
        step = 1000
    else:
        return made
    made["pcie_receive_bytes"] = np.rint(rates["in"] / step) * step * every
    made["pcie_transmit_bytes"] = np.rint(rates["out"] / step) * step * every
    return made


def _snapshots(draw: Draw, line: Timeline, times: Floats, signal: str) -> Floats:
    """Return the mean rate of the snapshots taken in each interval, or the newest where none was."""
    begun = np.arange(0.0, times[-1] - 0.1, SNAPSHOT_EVERY)
    begun = begun + draw.rng.uniform(0, 0.05, len(begun))
    both = np.column_stack([begun, begun + SNAPSHOT_SECONDS]).ravel()
    rates = np.diff(line.sums([signal], both), axis=0)[::2, 0] / SNAPSHOT_SECONDS
    if draw.cell.every < SNAPSHOT_EVERY:
        newest: Floats = rates[np.searchsorted(begun, times[1:] - SNAPSHOT_SECONDS, "right") - 1]
        return newest
    per = int(draw.cell.every / SNAPSHOT_EVERY)
    mean: Floats = rates[: (len(times) - 1) * per].reshape(-1, per).mean(1)
    return mean
