"""One theme for every figure: the palette of pages and documents, on paper and on a screen.

A figure is made in the colours of light paper, read from palette.css, whose classes colour-blind eyes tell apart. Its
`meta` names them, and draw.js puts in their place what the palette says of the dark, so that one figure is both.
"""

from collections.abc import Mapping
from functools import lru_cache
from html import escape
from math import floor, log10

import plotly.graph_objects as go

from agent.wire.units import DAY_MS
from analyzer.states import Class
from analyzer.text.templating import palette

_FONT = 'system-ui, "DejaVu Sans", sans-serif'
CLEAR = "rgba(0,0,0,0)"
# What touches another has a pattern besides its colour.
PATTERNS: Mapping[Class, str] = {"useful": "", "avoidable": "/", "overhead": ".", "spare": "", "unknown": "x"}
FAINTER = 0.35  # of a second band of one class against the first, and so on


def times(hover: str, **more: object) -> dict[str, object]:
    """Return an axis of local time, in the words that dates have everywhere else; `hover` is how a moment is told."""
    stops = [
        {"dtickrange": [None, DAY_MS - 1], "value": "%H:%M\n%a %-d %b"},
        {"dtickrange": [DAY_MS, None], "value": "%-d %b"},
    ]
    return {"type": "date", "hoverformat": hover, "tickformatstops": stops, **more}


_ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def round_end(highest: float) -> float:
    """Return where an axis from 0 ends that has room for a value: at the next round figure."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** floor(log10(highest))
    return next((power * step for step in _ROUND if power * step >= highest * (1 - 1e-9)), 10 * power)


def literal(text: str) -> str:
    """Return somebody's text as plotly shows it, which reads tags and links in names."""
    return escape(text, quote=False)


def bars(klass: Class, nth: int = 0) -> go.bar.Marker:
    """Return how bars of a class are painted; of several bands of one class each is fainter than the one before."""
    pattern = {"shape": PATTERNS[klass], "fillmode": "overlay", "size": 7, "solidity": 0.15}
    return go.bar.Marker(
        color=palette()[klass],
        opacity=1 / (1 + FAINTER * nth),
        line={"width": 0},
        pattern=pattern | {"fgcolor": palette()["paper"]},
    )


def figure(
    traces: "list[go.Bar | go.Scatter | go.Heatmap]",
    height: int,
    meta: Mapping[str, int] | None = None,
    **layout: object,
) -> dict[str, object]:
    """Return a figure as JSON-ready data, `height` in CSS pixels; its width is what there is. `meta` is for scripts."""
    about = {"height": height, "meta": {"colours": _names(), **(meta or {})}}
    made = go.Figure(traces, {"template": _template(), **about, **layout})
    return dict(made.to_plotly_json())


def _names() -> dict[str, str]:
    return {colour: name for name, colour in reversed([*palette().items()])}  # of two with one colour the first


@lru_cache(maxsize=1)
def _template() -> go.layout.Template:
    ink = palette()
    axis = {"gridcolor": ink["line"], "zerolinecolor": ink["line"], "automargin": True, "fixedrange": False}
    return go.layout.Template(
        layout={
            "paper_bgcolor": CLEAR,
            "plot_bgcolor": CLEAR,
            "font": {"family": _FONT, "size": 12, "color": ink["ink"]},
            "margin": {"l": 48, "r": 12, "t": 8, "b": 36},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
            "modebar": {"orientation": "v", "bgcolor": CLEAR, "color": ink["quiet"], "activecolor": ink["ink"]},
            "hoverlabel": {"bgcolor": ink["card"], "font": {"color": ink["ink"]}},
            "xaxis": axis,
            "yaxis": axis,
        }
    )
