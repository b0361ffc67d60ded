"""What sensors would have said of a GPU of which is recorded when it was busy.

Kinds that fleets have: `ring`, our agent on a driver that keeps its sub-second samples (six a second, whole percents;
agent/gpu/nvidia/activity.py, whose own function makes mean and shares of them); `ring_and_sm`, the same with SM
activity beside it, as on H100; `averaged`, one whole percent for the interval and no shares, as of an exporter;
`fraction`, the same unrounded, as of a profiling counter: what is lost between it and `averaged` is lost in the sensor.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from agent.gpu.nvidia.activity import Samples, of_samples

Row: TypeAlias = dict[str, object]
Times: TypeAlias = npt.NDArray[np.int64]
Shares: TypeAlias = npt.NDArray[np.float64]

SECOND = 1_000_000  # microseconds: the unit of time here
RING_HERTZ = (
    6  # nvml.h: a sample of utilization is 1/6 s to 1 s long, by product; agent/gpu/nvidia/activity.py saw six a second
)


@dataclass(frozen=True, slots=True)
class Activity:
    """Share of time with a kernel in each stretch; `edges` are microseconds, ascending, one more than `busy`."""

    edges: Times
    busy: Shares

    def means(self, starts: Times, ends: Times) -> Shares:
        """Return the mean over each interval; outside of what is recorded nothing ran."""
        total = np.concatenate([[0.0], np.cumsum(self.busy * np.diff(self.edges))])
        spent: Shares = np.interp(ends, self.edges, total) - np.interp(starts, self.edges, total)
        return spent / (ends - starts)

    @classmethod
    def of_stretches(cls, starts: Times, ends: Times) -> "Activity":
        """Return what was wholly busy in these stretches, which do not overlap, and idle between them."""
        edges = np.stack([starts, ends], axis=1).ravel()
        busy = np.zeros(len(edges) - 1)
        busy[::2] = 1.0
        return cls(edges, busy)


def beats(start: int, end: int, every: int) -> Times:
    """Return the edges of abutting intervals from start to end; a rest shorter than one is left out."""
    edges: Times = np.arange(start, end + 1, every, dtype=np.int64)
    return edges


def averaged(activity: Activity, edges: Times) -> list[Row]:
    """Return one whole percent an interval."""
    percents = np.rint(100 * activity.means(edges[:-1], edges[1:]))
    return [{**_interval(edges, at), "utilization_ratio": float(percent) / 100} for at, percent in enumerate(percents)]


def fraction(activity: Activity, edges: Times) -> list[Row]:
    """Return the share of each interval, unrounded."""
    means = activity.means(edges[:-1], edges[1:])
    return [{**_interval(edges, at), "utilization_ratio": float(mean)} for at, mean in enumerate(means)]


def ring(activity: Activity, edges: Times) -> list[Row]:
    """Return what our agent makes of the driver's samples: where none is new, the last again, and no shares."""
    count = int((edges[-1] - edges[0]) * RING_HERTZ // SECOND)
    ticks: Times = edges[0] + np.arange(count + 1, dtype=np.int64) * SECOND // RING_HERTZ
    percents = np.rint(100 * activity.means(ticks[:-1], ticks[1:])).astype(np.int64)
    upto = np.searchsorted(ticks[1:], edges, "right")
    rows = []
    for at in range(len(edges) - 1):
        new = percents[upto[at] : upto[at + 1]].tolist()
        row = _interval(edges, at)
        if new:
            found = of_samples(Samples(new, whole=True))
            row |= {
                "utilization_ratio": found.ratio,
                "utilization_zero_ratio": found.zero_ratio,
                "utilization_low_ratio": found.low_ratio,
                "utilization_high_ratio": found.high_ratio,
            }
        elif upto[at]:
            row["utilization_ratio"] = float(percents[upto[at] - 1]) / 100
        rows.append(row)
    return rows


def ring_and_sm(activity: Activity, edges: Times) -> list[Row]:
    """Return the ring's word with SM activity beside it: all SMs while busy, the most that a kernel can use."""
    means = activity.means(edges[:-1], edges[1:])
    return [row | {"sm_active_ratio": float(sm)} for row, sm in zip(ring(activity, edges), means, strict=True)]


SENSORS: Mapping[str, Callable[[Activity, Times], list[Row]]] = {
    "fraction": fraction,
    "averaged": averaged,
    "ring": ring,
    "ring and SM": ring_and_sm,
}


def _interval(edges: Times, at: int) -> Row:
    return {"started_at": int(edges[at]), "ended_at": int(edges[at + 1]), "up": True}
