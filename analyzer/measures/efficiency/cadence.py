"""How often to write a checkpoint: Young's interval, √(2 x MTBF x time to save), and what another one costs.

J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974. It holds where saving
takes much less time than passes between failures.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Literal

from analyzer.measures.efficiency.figure import Figure, withheld

Advice = Literal["more often", "less often", "right", "node"]

_OFF_BY = 2.0  # within a factor of two of the best interval the loss is a quarter above its least: not worth a change
FAILURES_LEAST = 3  # with fewer the mean says more about luck than about hosts
NODE_FAILURES_LEAST = 2  # of one host: once is chance


@dataclass(frozen=True, slots=True)
class Failures:
    """What ended attempts in the time that is looked back on: how many, and in how many microseconds of held hosts.

    `repeating` are hosts that were down when attempts ended for it, twice or more often, with how often.
    """

    failures: int
    node_us: int
    repeating: tuple[tuple[str, int], ...] = ()


def mtbf_seconds(failures: Failures, nodes: int) -> Figure:
    """Return the mean time between failures of a run on so many hosts, each failing for itself."""
    if failures.failures < FAILURES_LEAST:
        hours = failures.node_us // 3_600_000_000
        seen = f"{failures.failures} failure{'' if failures.failures == 1 else 's'} of training in {hours:,} host-hours"
        return withheld(f"{seen}: {FAILURES_LEAST} are needed for a mean")
    return Figure(failures.node_us / failures.failures / max(1, nodes) / 1_000_000)


def best_interval_seconds(mtbf: float, save: float) -> float:
    """Return the interval between checkpoints that loses least; both in seconds and above 0."""
    return sqrt(2 * mtbf * save)


def lost_ratio(interval: float, mtbf: float, save: float) -> float:
    """Return the share of time that saving takes and failures throw away, at this interval (seconds)."""
    return save / interval + interval / (2 * mtbf)


def advice(interval: float, best: float, worst_node: tuple[str, int] | None) -> Advice:
    """Return what to do with an interval; "node" says that it is right, and that one host keeps failing the run."""
    if interval > _OFF_BY * best:
        return "more often"
    if interval * _OFF_BY < best:
        return "less often"
    return "node" if worst_node is not None and worst_node[1] >= NODE_FAILURES_LEAST else "right"
