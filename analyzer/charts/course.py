"""The course of a month: what was spent day by day, where that leads and how surely, and what was allowed."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from analyzer.charts.theme import figure, literal, palette, times

_HEIGHT = 320
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
    shown = "%{y:,.0f} " + literal(course.sign)
    traces = []
    if course.low is not None and course.high is not None:
        cone = {"x": [now, course.ends, course.ends], "y": [spent, course.high, course.low]}
        traces.append(
            go.Scatter(
                cone, fill="toself", mode="none", fillcolor=palette()["spare"], opacity=_SURE,
                name="80 % between", hoverinfo="skip",
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
        yaxis={"title": {"text": literal(course.sign)}, "rangemode": "tozero"},
    )


def _line(x: Sequence[str], y: Sequence[float], name: str, ink: str, dash: str, shown: str) -> go.Scatter:
    line = {"color": palette()[ink], "width": 2, "dash": dash}
    return go.Scatter(x=x, y=y, name=name, mode="lines", line=line, hovertemplate=shown)
