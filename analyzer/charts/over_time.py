"""Bars over time: what GPUs did, what days cost, what is not known."""

from collections import Counter

import plotly.graph_objects as go

from analyzer.charts.series import Chart
from analyzer.charts.theme import bars, figure, literal, palette, times

_HEIGHT = 320
_FULL = 100.0
_DAYS_TOLD = 8  # on a phone there is room for no more


def stacked_bars(chart: Chart) -> dict[str, object]:
    """Return the chart as a figure; a bar that nobody reported is none."""
    seen: Counter[str] = Counter()
    traces = []
    for trace in chart.traces:
        marker = bars(trace.klass, seen[trace.klass])
        shown = "%{y:,.1f} " + literal(chart.unit)
        traces.append(
            go.Bar(name=literal(trace.name), x=chart.times, y=trace.values, marker=marker, hovertemplate=shown)
        )
        seen[trace.klass] += 1
    mark = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": chart.mark, "y1": chart.mark}
    line = {"color": palette()["ink"], "width": 1.5, "dash": "dash"}
    return figure(
        traces,
        _HEIGHT,
        barmode="stack",
        bargap=0.06,
        hovermode="x unified",
        showlegend=True,
        shapes=[] if chart.mark is None else [mark | {"line": line}],
        xaxis=_axis(chart),
        yaxis={"title": {"text": literal(chart.unit)}, "range": _range(chart), "rangemode": "tozero"},
    )


def _range(chart: Chart) -> list[float] | None:
    """Return the whole scale of shares, where more than a third of it is used; None leaves it to what there is."""
    highest = max(
        (sum(trace.values[bar] or 0.0 for trace in chart.traces) for bar in range(len(chart.times))), default=0
    )
    return [0.0, max(_FULL, highest)] if chart.unit.startswith("%") and highest > _FULL / 3 else None


def _axis(chart: Chart) -> dict[str, object]:
    """Return the axis of time; days stand below bars of days."""
    if not all(time.endswith("T00:00:00") for time in chart.times):
        return times("%a %-d %b %H:%M")
    every = max(1, -(-len(chart.times) // _DAYS_TOLD))
    return times("%a %-d %b", tickvals=chart.times[::every], tickformat="%-d %b", tickformatstops=[])
