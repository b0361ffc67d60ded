"""The figures of a capacity profile: where its time went, how its signals are spread, what more GPUs came to."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from analyzer.charts.theme import bars, figure, literal, palette
from analyzer.states import Class

_WHOLE_HEIGHT, _SCALING_HEIGHT = 84, 220
_ROW, _AROUND = 30, 24  # CSS pixels of a signal's row, and of what stands around all of them
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
        _AROUND + _ROW * len(signals),
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
