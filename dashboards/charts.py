"""What the charts draw, as plain data: the browser's script turns it into plotly, and a table shows its numbers."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from analyzer.argument.plot import Plot
from analyzer.period import HOUR, Period, local
from analyzer.report.readings import within
from analyzer.report.run import Point
from analyzer.report.words import day, plain
from analyzer.states import CLASSES, Class, booking
from collector.store.session import Session

BARS = 56  # at most so many; a week gives bars of three hours
MS_PER_MICROSECOND_TOP = 1000


@dataclass(frozen=True, slots=True)
class Trace:
    """One stacked band: its name, its class and one value a bar."""

    name: str
    klass: Class
    values: tuple[float | None, ...]  # None where nobody reported


@dataclass(frozen=True, slots=True)
class Chart:
    """Stacked bars over local time."""

    title: str
    unit: str
    times: tuple[str, ...]  # ISO local times
    labels: tuple[str, ...]  # the same, as people read them
    traces: tuple[Trace, ...]

    def data(self) -> dict[str, object]:
        """Return it as JSON-ready data for page.js."""
        traces = [{"name": each.name, "class": each.klass, "y": each.values} for each in self.traces]
        return {"title": self.title, "unit": self.unit, "x": self.times, "labels": self.labels, "traces": traces}

    @property
    def rows(self) -> list[tuple[str, list[str]]]:
        """Return its numbers as a table: a row a bar."""
        return [
            (label, [_shown(trace.values[place]) for trace in self.traces]) for place, label in enumerate(self.labels)
        ]


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def finding_charts(plot: Plot | None, timezone: str) -> tuple[Chart, ...]:
    """Return what a finding's verdict stands on: the states of its run, and below them the signal that decided."""
    if plot is None:
        return ()
    states = (Trace("working", "useful", plot.working), Trace(plot.label, "avoidable", plot.lost))
    name = f"What the GPUs of {plain(plot.run_id)} did"
    found = [_chart(name, "% of its GPUs", list(plot.times), timezone, states)]
    if (signal := plot.signal) is not None:
        mark = "" if signal.mark is None else f"; its mark is {signal.mark:g}"
        trace = Trace(signal.name, "overhead", signal.values)
        found.append(_chart(f"{signal.name}{mark}", signal.unit, list(plot.times), timezone, (trace,)))
    return tuple(found)


def fleet_chart(session: Session, period: Period) -> Chart:
    """Return how many GPUs, on average, were in each class over the period."""
    width = max(1, -(-period.hours // BARS)) * HOUR
    where, values = within(period)
    counted = session.rows(
        "SELECT (hour - ?) // ? AS bar, state, cause, sum(milliseconds), count(DISTINCT hour) FROM ledger "
        f"WHERE {where} GROUP BY ALL ORDER BY bar",
        [period.start, width, *values],
    )
    bars = -(-(period.end - period.start) // width)
    sums: dict[Class, list[float]] = {klass: [0.0] * bars for klass in CLASSES}
    for bar, state, cause, milliseconds, _ in counted:
        span = min(width, period.end - period.start - bar * width) // MS_PER_MICROSECOND_TOP
        sums[booking(state, cause).klass][bar] += milliseconds / span
    starts = [period.start + bar * width for bar in range(bars)]
    traces = tuple(Trace(klass, klass, tuple(round(value, 2) for value in sums[klass])) for klass in CLASSES)
    return _chart("GPUs by what they did", "GPUs", starts, period.timezone, traces)


def run_chart(timeline: Sequence[Point], timezone: str) -> Chart | None:
    """Return what share of a run's GPUs was in each state over its life; None where nothing is known of it."""
    buckets = [(at, list(points)) for at, points in groupby(timeline, key=lambda point: point.bucket_start)]
    if not buckets:
        return None
    shares: dict[tuple[Class, str], list[float]] = defaultdict(lambda: [0.0] * len(buckets))
    for place, (_, points) in enumerate(buckets):
        whole = sum(point.milliseconds for point in points) or 1
        for point in points:
            what = booking(point.state, point.cause)
            shares[what.klass, what.label][place] += 100 * point.milliseconds / whole
    keys = sorted(shares, key=lambda key: (CLASSES.index(key[0]), -sum(shares[key]), key[1]))
    traces = tuple(Trace(label, klass, tuple(round(v, 2) for v in shares[klass, label])) for klass, label in keys)
    return _chart("What its GPUs did", "% of its GPUs", [at for at, _ in buckets], timezone, traces)


def _chart(title: str, unit: str, starts: list[int], timezone: str, traces: tuple[Trace, ...]) -> Chart:
    moments = [local(start, timezone) for start in starts]
    times = tuple(moment.replace(tzinfo=None).isoformat() for moment in moments)
    return Chart(title, unit, times, tuple(f"{day(moment)} {moment:%H:%M}" for moment in moments), traces)
