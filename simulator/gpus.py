"""What the driver would have said of one host's GPUs, beat by beat: the measured columns of gpu_samples."""

import numpy as np

from simulator.activity import SIGNALS, BoolArray, FloatArray, IntArray
from simulator.fleet import Fleet
from simulator.site import Chunk, Host
from simulator.timeline import Timeline

_SAMPLED = tuple(name for name in SIGNALS if SIGNALS[name] <= SIGNALS["lost"])
_AT = {name: at for at, name in enumerate(_SAMPLED)}

_GPM_COLUMNS = {
    "sm_active_ratio": "sm",
    "sm_occupancy_ratio": "occupancy",
    "tensor_active_ratio": "tensor",
    "dram_active_ratio": "dram",
}
_TRAFFIC_COLUMNS = {
    "pcie_receive_bytes": "pcie_in",
    "pcie_transmit_bytes": "pcie_out",
    "nvlink_receive_bytes": "nvlink",
    "nvlink_transmit_bytes": "nvlink",
}
_RESERVED_BYTES = 588 * 2**20
_TRAFFIC_STEP = 2**20  # GPM tells MiB a second
_CELSIUS_AMBIENT = 29.0
_CELSIUS_PER_LIMIT = 36.0  # what drawing the power limit adds
_CELSIUS_IN_HEAT = 32.0
_CLOCK_STEP_HERTZ = 15e6


class GpuReadings:
    """One host's GPUs over one chunk; arrays are GPU by beat."""

    def __init__(self, fleet: Fleet, host: Host, chunk: Chunk) -> None:
        self.site, self.host = fleet.site, host
        self.edges: IntArray = np.arange(chunk.start, chunk.end + 1, chunk.beat, dtype=np.int64)
        self.seconds = chunk.beat / 1_000
        self.heard = fleet.heard(host, self.edges[:-1], self.edges[1:])
        self._rng = fleet.site.generator("gpus", host.name, chunk.index)
        timelines = [fleet.timeline(host, gpu) for gpu in range(host.gpus)]
        self._means = np.stack([self._averaged(timeline) for timeline in timelines])
        self._joules = np.stack([self._counter(gpu, timeline) for gpu, timeline in enumerate(timelines)])
        self._restarts = [self._restarted(fleet, gpu, timeline) for gpu, timeline in enumerate(timelines)]

    @property
    def up(self) -> BoolArray:
        """Whether the driver answered for the GPU."""
        return self._mean("lost") < 0.5

    @property
    def fell(self) -> BoolArray:
        """Whether the GPU fell off the bus in this beat; at the start of a chunk that cannot be told."""
        before = np.concatenate([self.up[:, :1], self.up[:, :-1]], axis=1)
        fallen: BoolArray = before & ~self.up
        return fallen

    @property
    def counted(self) -> BoolArray:
        """Whether the energy counter can be compared with the beat before."""
        fresh = np.array([np.isin(self.edges[:-1], [at for at, _ in restarts]) for restarts in self._restarts])
        comparable: BoolArray = self.up & ~fresh
        return comparable

    def columns(self) -> dict[str, FloatArray]:
        """Return every measured column; those that this GPU type does not report are missing."""
        activity, traffic = 1 + 0.018 * self._noise(), 1 + 0.03 * self._noise()
        made = self._utilization(activity)
        if self.host.sku.has_gpm:
            for column, signal in _GPM_COLUMNS.items():
                made[column] = _ratio(self._mean(signal) * activity)
        for column, signal in _TRAFFIC_COLUMNS.items():
            made[column] = np.rint(self._mean(signal) * traffic * self.seconds / _TRAFFIC_STEP) * _TRAFFIC_STEP
        return made | self._memory() | self._electrical() | self._clocks()

    def _averaged(self, timeline: Timeline) -> FloatArray:
        sums = timeline.cumulated(_SAMPLED, self.edges)
        means: FloatArray = np.diff(sums, axis=0) / self.seconds
        return means

    def _counter(self, gpu: int, timeline: Timeline) -> FloatArray:
        """Return the joules that a GPU has drawn since the span began, at every edge.

        A board draws a little more or less than its phase says. That wobble moves energy between neighbouring beats
        and is zero at the edges of a chunk, so that chunks agree in whatever order they are made.
        """
        total = self._drawn(gpu, timeline, self.edges)
        spent = np.diff(total)
        wobble = np.clip(self._rng.standard_normal(len(spent) - 1), -2.5, 2.5)
        total[1:-1] += 0.012 * wobble * np.minimum(spent[:-1], spent[1:])
        return np.round(total, 1)

    def _drawn(self, gpu: int, timeline: Timeline, until: IntArray) -> FloatArray:
        """Return the joules from the start of the span until these times, without wobble."""
        watts = np.maximum(self.host.sku.idle_watts, timeline.repertoire.values(("power",)) * self.host.sku.limit_watts)
        total: FloatArray = timeline.integrated(watts, np.concatenate([[0], until]))[1:, 0]
        return total * (1 + 0.03 * self._board(gpu))

    def _restarted(self, fleet: Fleet, gpu: int, timeline: Timeline) -> list[tuple[int, float]]:
        """Return when the driver started anew, and the joules drawn until then."""
        times = np.array(fleet.restarts(self.host, gpu), dtype=np.int64)
        return list(zip(times.tolist(), self._drawn(gpu, timeline, times).tolist(), strict=True))

    def _board(self, gpu: int) -> float:
        """Return how this board differs from others of its type, from -1 to 1."""
        return float(self.site.generator("board", self.host.name, gpu).uniform(-1, 1))

    def _mean(self, signal: str) -> FloatArray:
        values: FloatArray = self._means[:, :, _AT[signal]]
        return values

    def _noise(self) -> FloatArray:
        return np.clip(self._rng.standard_normal(self._means.shape[:2]), -3, 3)

    def _utilization(self, activity: FloatArray) -> dict[str, FloatArray]:
        zero = np.clip(self._mean("zero") * (2 - activity), 0, 1)
        low = np.clip(self._mean("low") * (2 - activity), zero, 1)
        high = np.clip(self._mean("high") * activity, 0, 1 - low)
        used = np.clip(self._mean("utilization") * activity, 0, 1)
        named = {"utilization": used, "utilization_zero": zero, "utilization_low": low, "utilization_high": high}
        return {f"{name}_ratio": _ratio(values) for name, values in named.items()}

    def _memory(self) -> dict[str, FloatArray]:
        used = np.rint(self._mean("memory") / 2**21) * 2**21
        return {"memory_used_bytes": used, "memory_reserved_bytes": np.full_like(used, _RESERVED_BYTES)}

    def _electrical(self) -> dict[str, FloatArray]:
        spent = np.diff(self._joules, axis=1)
        watts = spent / self.seconds
        warm = _CELSIUS_AMBIENT + _CELSIUS_PER_LIMIT * watts / self.host.sku.limit_watts
        warm += 2.5 * np.array([[self._board(gpu)] for gpu in range(self.host.gpus)])
        total, epoch = self._counters()
        return {
            "power_watts": np.round(watts, 1),
            "energy_joules": np.round(spent, 1),
            "energy_joules_total": np.round(total, 1),
            "energy_epoch": epoch,
            "temperature_celsius": np.rint(warm + _CELSIUS_IN_HEAT * self._mean("limited_by_heat")),
        }

    def _counters(self) -> tuple[FloatArray, FloatArray]:
        """Return the energy counter at the end of every beat and its epoch: both start anew with the driver."""
        total, epoch = self._joules[:, 1:].copy(), np.zeros_like(self._joules[:, 1:])
        for gpu, restarts in enumerate(self._restarts):
            for restart, drawn in restarts:
                since = self.edges[1:] > restart
                epoch[gpu, since] += 1
                total[gpu, since] = self._joules[gpu, 1:][since] - drawn
        return np.maximum(total, 0.0), epoch

    def _clocks(self) -> dict[str, FloatArray]:
        reference = self.host.sku.clock_hertz
        shaken = self._mean("clock") * (1 - 0.002 * np.abs(self._noise()))
        return {
            "sm_clock_hertz": np.rint(shaken * reference / _CLOCK_STEP_HERTZ) * _CLOCK_STEP_HERTZ,
            "sm_clock_reference_hertz": np.full_like(shaken, reference),
            "throttle_power_seconds": np.round(self._mean("limited_by_power") * self.seconds, 2),
            "throttle_thermal_seconds": np.round(self._mean("limited_by_heat") * self.seconds, 2),
            "throttle_hardware_seconds": np.zeros_like(shaken),
        }


def _ratio(values: FloatArray) -> FloatArray:
    return values.clip(0, 1).round(3)
