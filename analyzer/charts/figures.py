"""Figures of documents and pages: bars over time, the course of a month, a plan, a capacity profile."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from analyzer.charts.series import Chart
from analyzer.charts.theme import bars, figure, literal, round_end, times
from analyzer.states import Class
from analyzer.text.templating import palette

_HEIGHT, _CURVE_HEIGHT = 320, 240
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
        yaxis={"title": {"text": literal(chart.unit)}, "range": _range(chart)},
    )


def _range(chart: Chart, *, is_stacked: bool = True) -> list[float]:
    """Return the scale from 0 to a round end; of shares all of it, where more than a third of it is used."""
    bars_of = ([trace.values[bar] or 0.0 for trace in chart.traces] for bar in range(len(chart.times)))
    highest = max((sum(each) if is_stacked else max(each) for each in bars_of), default=0.0)
    highest = max(highest, chart.mark or 0.0)
    is_share = chart.unit.startswith("%") and _FULL / 3 < highest <= _FULL
    return [0.0, _FULL if is_share else round_end(highest)]


def _axis(chart: Chart) -> dict[str, object]:
    """Return the axis of time; days stand below bars of days."""
    if not all(time.endswith("T00:00:00") for time in chart.times):
        return times("%a %-d %b %H:%M")
    every = max(1, -(-len(chart.times) // _DAYS_TOLD))
    return times("%a %-d %b", tickvals=chart.times[::every], tickformat="%-d %b", tickformatstops=[])


def over_one_another(chart: Chart) -> dict[str, object]:
    """Return the first trace of a chart below the second, over the hours since each began, from 0 up."""
    hours = [float(time) for time in chart.times]
    shown = "%{y:,.1f} " + literal(chart.unit)
    lines = [
        go.Scatter(
            name=literal(trace.name), x=hours, y=trace.values, mode="lines", connectgaps=False, hovertemplate=shown,
            line={"color": palette()[ink], "width": 2, "dash": dash},
        )
        for trace, ink, dash in zip(chart.traces, ("quiet", "spare"), ("dash", "solid"), strict=True)
    ]  # fmt: skip
    return figure(
        lines,
        _CURVE_HEIGHT,
        hovermode="x unified",
        showlegend=True,
        xaxis={"title": {"text": "hours since it began"}, "rangemode": "tozero"},
        yaxis={"title": {"text": literal(chart.unit)}, "range": _range(chart, is_stacked=False)},
    )


_SURE = 0.25  # how strongly the cone is painted


@dataclass(frozen=True, slots=True)
class Course:
    """Amounts in whole units at ISO local times, the last of which is now; None for what is not known."""

    times: Sequence[str]
    spent: Sequence[float]
    begins: str
    ends: str
    expected: float | None
    low: float | None
    high: float | None
    budget: float | None
    sign: str


def month_course(course: Course) -> dict[str, object]:
    """Return the course as a figure."""
    now, spent = course.times[-1], course.spent[-1]
    told = [each for each in (*course.spent, course.expected, course.high, course.budget) if each is not None]
    shown = "%{y:,.0f} " + literal(course.sign)
    traces = []
    if course.low is not None and course.high is not None:
        cone = {"x": [now, course.ends, course.ends], "y": [spent, course.high, course.low]}
        traces.append(
            go.Scatter(
                cone, fill="toself", mode="none", fillcolor=palette()["spare"], opacity=_SURE,
                name="80% between", hoverinfo="skip",
            )
        )  # fmt: skip
    if course.expected is not None:
        traces.append(_line([now, course.ends], [spent, course.expected], "expected", "spare", "dash", shown))
    traces.append(_line(course.times, course.spent, "spent", "spare", "solid", shown))
    if course.budget is not None:
        traces.append(_line([course.begins, course.ends], [course.budget] * 2, "budget", "avoidable", "dot", shown))
    return figure(
        traces,
        _HEIGHT,
        hovermode="x unified",
        xaxis=times("%a %-d %b", range=[course.begins, course.ends]),
        yaxis={"title": {"text": literal(course.sign)}, "range": [0.0, round_end(max(told))]},
    )


def _line(x: Sequence[str], y: Sequence[float], name: str, ink: str, dash: str, shown: str) -> go.Scatter:
    line = {"color": palette()[ink], "width": 2, "dash": dash}
    return go.Scatter(x=x, y=y, name=name, mode="lines", line=line, hovertemplate=shown)


_GANTT_ROW, _GANTT_AROUND = 26, 80  # CSS pixels of a row, and of what stands above and below all of them
_NAME_LETTERS = 18  # on a phone there is room for no more; all of a name is told where one points
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class GanttRow:
    """One task, in seconds from the axis's start; None for nothing of it. `told` is said where one points at it."""

    name: str
    told: str
    is_critical: bool
    data: Span | None
    run: Span
    slack: Span | None


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a bar can be: its name, its colour, and how much of the row's height it takes."""

    name: str
    ink: str
    share: float


_KINDS = {
    "slack": _Kind("slack", "quiet", 0.1),
    "data": _Kind("data on its way", "unknown", 0.3),
    "other": _Kind("does not", "spare", 0.5),
    "critical": _Kind("decides the end", "overhead", 0.9),
}


def gantt(rows: Sequence[GanttRow], ticks: Sequence[tuple[float, str]], deadline: float | None) -> dict[str, object]:
    """Return the rows from top to bottom over an axis with these ticks; `deadline` is a place on it, or None."""
    spans: dict[str, list[tuple[int, Span]]] = {kind: [] for kind in _KINDS}
    for place, row in enumerate(rows):
        found = {"slack": row.slack, "data": row.data, "critical" if row.is_critical else "other": row.run}
        for kind, span in found.items():
            if span is not None:
                spans[kind].append((place, span))
    traces: list[go.Bar | go.Scatter] = [_bars(_KINDS[kind], spans[kind], rows) for kind in _KINDS if spans[kind]]
    if deadline is not None:
        line = {"color": palette()["avoidable"], "width": 2, "dash": "dash"}
        traces.append(go.Scatter(x=[deadline] * 2, y=[-0.5, len(rows) - 0.5], mode="lines", name="deadline", line=line))
    names = [literal(_short(row.name)) for row in rows]
    return figure(
        traces,
        _GANTT_AROUND + _GANTT_ROW * len(rows),
        barmode="overlay",
        showlegend=True,
        margin={"l": 8, "r": 12, "t": 8, "b": 36},
        xaxis={
            "range": [ticks[0][0], ticks[-1][0]],
            "tickvals": [at for at, _ in ticks],
            "ticktext": [w for _, w in ticks],
        },
        yaxis={"range": [len(rows) - 0.5, -0.5], "tickvals": [*range(len(rows))], "ticktext": names, "showgrid": False},
    )


def _bars(kind: _Kind, spans: Sequence[tuple[int, Span]], rows: Sequence[GanttRow]) -> go.Bar:
    return go.Bar(
        name=kind.name,
        orientation="h",
        y=[place for place, _ in spans],
        base=[start for _, (start, _) in spans],
        x=[end - start for _, (start, end) in spans],
        width=kind.share,
        marker={"color": palette()[kind.ink], "line": {"width": 0}},
        customdata=[literal(rows[place].told) for place, _ in spans],
        hovertemplate=f"%{{customdata}}<extra>{kind.name}</extra>",
    )


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LETTERS else f"{name[: _NAME_LETTERS - 1]}…"


_WHOLE_HEIGHT, _SCALING_HEIGHT = 84, 220
_SIGNAL_ROW, _SIGNALS_AROUND = 30, 24  # CSS pixels of a signal's row, and of what stands around all of them
_ROOM = 1.15  # of the scale, so that there is room for the figure of a signal that is always at its highest
_NONE = {"l": 0, "r": 0, "t": 0, "b": 0}


@dataclass(frozen=True, slots=True)
class Share:
    """One class: what it is called with its figure, and its share of the whole."""

    name: str
    klass: Class
    share: float


@dataclass(frozen=True, slots=True)
class Spread:
    """One signal: where its tenth, its half and nine tenths lie of its scale of 1, and the half in words."""

    name: str
    p10: float
    p50: float
    p90: float
    told: str


@dataclass(frozen=True, slots=True)
class Size:
    """One size: its name and what it came to in words, and how fast it was and could have been against the first."""

    name: str
    told: str
    speed: float
    ideal: float


def class_bar(shares: Sequence[Share]) -> dict[str, object]:
    """Return the classes as one bar."""
    traces = [
        go.Bar(
            name=literal(one.name), orientation="h", x=[one.share], y=[0], marker=bars(one.klass),
            hovertemplate=f"{literal(one.name)}<extra></extra>",
        )
        for one in shares
    ]  # fmt: skip
    hidden = {"visible": False, "fixedrange": True}
    length = {"range": [0, sum(one.share for one in shares)]}
    return figure(
        traces, _WHOLE_HEIGHT, barmode="stack", showlegend=True, margin=_NONE, xaxis=hidden | length, yaxis=hidden
    )


def spreads(signals: Sequence[Spread]) -> dict[str, object]:
    """Return a row a signal: from its tenth to nine tenths, with a line at the half."""
    places = [*range(len(signals))]
    ink = palette()
    span = go.Bar(
        orientation="h", y=places, width=0.45,
        base=[one.p10 for one in signals], x=[one.p90 - one.p10 for one in signals],
        marker={"color": ink["spare"], "line": {"width": 0}}, hoverinfo="skip",
    )  # fmt: skip
    half = go.Scatter(
        x=[one.p50 for one in signals], y=places, mode="markers", hoverinfo="skip",
        marker={"symbol": "line-ns", "size": 18, "line": {"width": 2, "color": ink["ink"]}},
    )  # fmt: skip
    told = go.Scatter(
        x=[one.p90 for one in signals], y=places, mode="text", text=[f" {literal(one.told)}" for one in signals],
        textposition="middle right", hoverinfo="skip",
    )  # fmt: skip
    return figure(
        [span, half, told],
        _SIGNALS_AROUND + _SIGNAL_ROW * len(signals),
        showlegend=False,
        margin={"l": 8, "r": 8, "t": 4, "b": 4},
        xaxis={"range": [0, _ROOM], "tickvals": [0, 0.5, 1], "showticklabels": False},
        yaxis={
            "range": [len(signals) - 0.5, -0.5], "tickvals": places,
            "ticktext": [literal(one.name) for one in signals], "showgrid": False,
        },
    )  # fmt: skip


def scaling(sizes: Sequence[Size]) -> dict[str, object]:
    """Return the speed of each size against the smallest; the dashed line is what nothing lost would give."""
    ink = palette()
    places = [*range(len(sizes))]
    told = [literal(one.told) for one in sizes]
    seen = go.Scatter(
        x=places, y=[one.speed for one in sizes], mode="lines+markers", name="seen", customdata=told,
        hovertemplate="%{customdata}<extra></extra>", line={"color": ink["useful"], "width": 2}, marker={"size": 8},
    )  # fmt: skip
    ideal = go.Scatter(
        x=places, y=[one.ideal for one in sizes], mode="lines", name="if nothing were lost", hoverinfo="skip",
        line={"color": ink["quiet"], "dash": "dash"},
    )  # fmt: skip
    names = [f"{literal(one.name)}<br>{words}" for one, words in zip(sizes, told, strict=True)]
    return figure(
        [ideal, seen],
        _SCALING_HEIGHT,
        showlegend=True,
        xaxis={"tickvals": places, "ticktext": names, "range": [-0.3, len(sizes) - 0.7], "showgrid": False},
        yaxis={"rangemode": "tozero", "ticksuffix": "×"},
    )
