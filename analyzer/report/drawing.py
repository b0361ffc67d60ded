"""A chart as shapes on a sheet, for documents that run no script; chart_drawn.html writes them as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.report.charts import Chart, Trace
from analyzer.states import Class

WIDTH, HEIGHT = 720, 230
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 8, 24
TICKS, LABELS = 4, 4
FULL = 100.0
THOUSANDS_FROM = 10_000
STEPS = (1, 2, 4, 8, 10)  # whose quarters are told in two digits: longer figures do not fit beside the scale


@dataclass(frozen=True, slots=True)
class Box:
    """One part of a bar, in the sheet's units from its upper left corner."""

    klass: Class
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Label:
    """One figure of the scale, or one time, at its place along the axis."""

    text: str
    place: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """The shapes of one chart; `mark` is the height of the line that the values are held to."""

    boxes: tuple[Box, ...]
    scale: tuple[Label, ...]
    times: tuple[Label, ...]
    mark: float | None
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT


def drawing(drawn: Chart) -> Drawing:
    """Return the shapes. A bar that nobody reported has none."""
    top, across = _top(drawn), (WIDTH - LEFT - RIGHT) / max(1, len(drawn.times))
    every = max(1, -(-len(drawn.labels) // LABELS))
    return Drawing(
        tuple(box for bar in range(len(drawn.times)) for box in _bar(drawn.traces, bar, across, top)),
        tuple(Label(tick_words(top * tick / TICKS), _y(top * tick / TICKS, top)) for tick in range(TICKS + 1)),
        tuple(Label(drawn.labels[bar], round(LEFT + bar * across, 1)) for bar in range(0, len(drawn.labels), every)),
        None if drawn.mark is None else _y(drawn.mark, top),
    )


def _top(drawn: Chart) -> float:
    """Return the end of the scale: all of it for shares, else a round figure above the highest bar and the mark."""
    sums = [sum(trace.values[bar] or 0.0 for trace in drawn.traces) for bar in range(len(drawn.times))]
    highest = max([*sums, drawn.mark or 0.0, 1e-9])
    if drawn.unit.startswith("%") and highest > FULL / 3:
        return max(FULL, highest)
    return scale_end(highest)


def scale_end(highest: float) -> float:
    """Return a round figure that is not below this one, which is above 0."""
    size = 1.0
    while size * 10 < highest:
        size *= 10
    while size > highest:
        size /= 10
    return next(size * step for step in STEPS if size * step >= highest)


def tick_words(value: float) -> str:
    """Return a figure of a scale, short: "12k"."""
    return f"{value / 1000:,.10g}k" if value >= THOUSANDS_FROM else f"{value:,.10g}"


def _y(value: float, top: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(value, top) / top), 1)


def _bar(traces: Sequence[Trace], bar: int, across: float, top: float) -> list[Box]:
    found, base = [], 0.0
    x, width = round(LEFT + bar * across, 1), round(max(0.5, across - 1), 1)
    for trace in traces:
        if not (value := trace.values[bar]):
            continue
        upper, lower = _y(base + value, top), _y(base, top)
        found.append(Box(trace.klass, x, upper, width, round(lower - upper, 1)))
        base += value
    return found
