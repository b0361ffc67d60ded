"""The plot that a verdict stands on: what the run's GPUs did over time, and below it what decided. Pure data."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.finding import Finding
from analyzer.ledger.causes.exchange import exchange_rate
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.timeline import timeline
from analyzer.ledger.windows import RunWindow
from analyzer.states import booking

if TYPE_CHECKING:
    from collector.store.session import Session

_POINTS = 60
_PERCENT = 10  # permille in one


@dataclass(frozen=True, slots=True)
class Signal:
    """One figure over time, on the times of its plot; None where it was not reported."""

    name: str
    unit: str
    values: tuple[float | None, ...]
    mark: float | None  # what it is held to


@dataclass(frozen=True, slots=True)
class Plot:
    """Shares of one run's GPU time, in percent: working, the finding's own label, all else; and a signal below."""

    run_id: str
    label: str
    times: tuple[int, ...]  # starts of the stretches, microseconds UTC
    working: tuple[float, ...]
    lost: tuple[float, ...]
    signal: Signal | None


def plot(
    session: "Session", finding: Finding, windows: Sequence[RunWindow], within: tuple[int, int], limits: Thresholds
) -> Plot | None:
    """Return the plot of the run that lost most, within a span; None where its timeline is not kept."""
    if not finding.run_ids:
        return None
    run_id, state, cause = finding.run_ids[0], finding.state, finding.cause
    points = timeline(session, run_id, _POINTS, within)
    if not points:
        return None
    label = booking(state, None if state == "unexplained" else cause).label
    whole: dict[int, int] = defaultdict(int)
    parts: dict[tuple[int, str], int] = defaultdict(int)
    for point in points:
        whole[point.bucket_start] += point.milliseconds
        parts[point.bucket_start, booking(point.state, point.cause).label] += point.milliseconds
    times = tuple(sorted(whole))

    def shares(name: str) -> tuple[float, ...]:
        return tuple(round(100 * parts[at, name] / whole[at], 2) if whole[at] else 0.0 for at in times)

    own = [window for window in windows if window.run_id == run_id]
    return Plot(run_id, label, times, shares("productive"), shares(label), signal(state, cause, own, times, limits))


def signal(
    state: str, cause: str, windows: Sequence[RunWindow], times: Sequence[int], limits: Thresholds
) -> Signal | None:
    """Return the figure that decided, averaged in each stretch; None where the rule has none or nobody reported it."""
    for name, unit, read, mark in _candidates(state, cause, limits):
        values = _averaged(windows, times, read)
        if any(value is not None for value in values):
            return Signal(name, unit, values, mark)
    return None


PlottedSeries = tuple[str, str, Callable[[RunWindow], float | None], float | None]


def _candidates(state: str, cause: str, limits: Thresholds) -> tuple[PlottedSeries, ...]:
    """Return the figures of a rule, the most telling first."""
    worker: PlottedSeries = (
        "busiest worker",
        "% of a core",
        lambda w: _share(w.busiest),
        _mark(limits.worker_full_permille),
    )
    disk: PlottedSeries = ("disk busy", "%", lambda w: _share(w.disk_busy), _mark(limits.disk_busy_permille))
    waiting: PlottedSeries = ("workers waiting", "%", lambda w: _share(w.waiting), _mark(limits.waiting_permille))
    copies: PlottedSeries = ("copies to GPUs", "GB/s", _copied, None)
    clock: PlottedSeries = ("clock lost", "%", lambda w: _share(w.slowed_most), _mark(limits.slowed_permille))
    fabric: PlottedSeries = ("exchange, a host", "GB/s", lambda w: _giga(exchange_rate(w, limits)), None)
    chip: PlottedSeries = ("SM activity", "%", lambda w: _share(w.activity) if w.sm_ms else None, None)
    if state == "communicating":
        return (clock,) if cause == "straggler" else (fabric, chip)
    by_cause: dict[str, tuple[PlottedSeries, ...]] = {
        "preprocessing": (worker,),
        "loader_software": (worker, disk),
        "storage": (disk, waiting),
        "network_storage": (waiting, disk),
        "host_to_device": (copies,),
        "thermal": (clock,),
        "power": (clock,),
        "hardware": (clock,),
    }
    return by_cause.get(cause, (chip,))


def _share(permille: int | None) -> float | None:
    return None if permille is None else permille / _PERCENT


def _mark(permille: int) -> float:
    return permille / _PERCENT


def _copied(window: RunWindow) -> float | None:
    return None if window.pcie_in_kb is None or not window.ms else window.pcie_in_kb * window.gpus / window.ms / 1000


def _giga(bytes_per_second: int | None) -> float | None:
    return None if bytes_per_second is None else bytes_per_second / 1e9


def _averaged(
    windows: Sequence[RunWindow], times: Sequence[int], read: Callable[[RunWindow], float | None]
) -> tuple[float | None, ...]:
    ends = (*times[1:], 2**62)
    sums: list[list[float]] = [[] for _ in times]
    place = 0
    for window in sorted(windows, key=lambda one: one.window_ms):
        at = window.window_ms * 1000
        while place < len(times) - 1 and at >= ends[place]:
            place += 1
        value = read(window)
        if value is not None and at >= times[0]:
            sums[place].append(value)
    return tuple(round(sum(own) / len(own), 3) if own else None for own in sums)
