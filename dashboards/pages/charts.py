"""The charts of the pages: the fleet by what it did, and one run over its life."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

from agent.wire.units import HOUR_US
from analyzer.charts.series import Chart, Trace, chart
from analyzer.ledger.timeline import Point
from analyzer.period import Period
from analyzer.queries.ledger_query import within
from analyzer.states import CLASSES, Class, booking
from collector.store.session import Session

_BARS = 56  # at most so many; a week gives bars of three hours
_MS_PER_MICROSECOND_TOP = 1000


def fleet_chart(session: Session, period: Period) -> Chart:
    """Return how many GPUs, on average, were in each class over the period."""
    width = max(1, -(-period.hours // _BARS)) * HOUR_US
    where, values = within(period)
    counted = session.rows(
        "SELECT (hour - ?) // ? AS bar, state, cause, sum(milliseconds), count(DISTINCT hour) FROM ledger "
        f"WHERE {where} GROUP BY ALL ORDER BY bar",
        [period.start, width, *values],
    )
    bars = -(-(period.end - period.start) // width)
    sums: dict[Class, list[float]] = {klass: [0.0] * bars for klass in CLASSES}
    for bar, state, cause, milliseconds, _ in counted:
        span = min(width, period.end - period.start - bar * width) // _MS_PER_MICROSECOND_TOP
        sums[booking(state, cause).klass][bar] += milliseconds / span
    starts = [period.start + bar * width for bar in range(bars)]
    traces = tuple(Trace(klass, klass, tuple(round(value, 2) for value in sums[klass])) for klass in CLASSES)
    return chart("GPUs by what they did", "GPUs", starts, period.timezone, traces)


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
    return chart("What its GPUs did", "% of its GPUs", [at for at, _ in buckets], timezone, traces)
