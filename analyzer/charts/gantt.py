"""A plan as a figure: a row a task, from its inputs on their way over its run to how much later it could end."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from analyzer.charts.theme import figure, literal, palette

_ROW, _AROUND = 26, 80  # CSS pixels of a row, and of what stands above and below all of them
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
        _AROUND + _ROW * len(rows),
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
