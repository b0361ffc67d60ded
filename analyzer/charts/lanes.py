"""A run over time as a figure: the ledger's states as a ribbon with marks above it, the signals, and their ranks.

Its axis is seconds since the run was first known, so that an hour that a clock has twice stands twice; its ticks are
local time. What is told of a stretch in words is the `text` of its point. In a document, which asks no server for a
zoom, plotly zooms by itself: its axis is of dates, by the clock as it was at the run's start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Literal

import plotly.graph_objects as go

from agent.wire.units import DAY_SECONDS, MINUTE_SECONDS, PERMILLE, SECOND_US, WEEK_SECONDS
from analyzer.charts.theme import FAINTER, PATTERNS, figure, literal, round_end, times
from analyzer.period import local
from analyzer.states import Class
from analyzer.text.templating import palette
from analyzer.text.words import day

# CSS pixels of the ribbon, of a lane, of the room above each for its words, of a rank, of what stands around all.
_RIBBON, _LANE, _ABOVE, _RANK, _RANKS_LEAST, _AROUND = 40, 46, 20, 9, 24, 72
_MARKS_AT = 1 + 0.5 * _ABOVE / _RIBBON  # of the ribbon's height
_NAME_EVERY = 16  # a name takes so many pixels downwards
_LETTER, _NAME_LETTERS = 7, 14  # and each letter across; of a longer one the end is shown
_TICK_EVERY = 90
_TICKS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
    DAY_SECONDS, 2 * DAY_SECONDS, WEEK_SECONDS,
)  # fmt: skip
_TOLD_FROM = 0.005  # a smaller share of a stretch is not told in words
_SPREAD = 0.22  # how strongly the spread of the ranks is painted
_RATES = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))
# plotly measures every label, and all of it again where one is too wide: half of the time of a first drawing.
_AS_IS = {"automargin": False, "ticklabeloverflow": "allow"}

_MarkKind = Literal["checkpoint", "event", "stall", "loss"]
_MARKED: tuple[tuple[_MarkKind, str, str], ...] = (
    ("checkpoint", "checkpoint", "markers"),
    ("event", "restart or host event", "markers"),
    ("stall", "stall: nothing worked", "lines"),
    ("loss", "most of what was lost", "lines"),
)
_Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Lane:
    """One signal: point n holds from `start + n * step`, microseconds UTC; None is a gap.

    `least` and `most` are those of its ranks (hosts, of disks), each by its own mean.
    """

    key: str
    title: str
    unit: str  # "ratio", "W", "B/s", "/s", "s", or "" of what is counted
    start: int
    step: int
    mean: list[float | None]
    least: list[float | None]
    most: list[float | None]

    @property
    def top(self) -> float:
        """Return what the lane's height stands for."""
        return 1.0 if self.unit == "ratio" else round_end(max((value or 0.0 for value in self.most), default=0.0))


@dataclass(frozen=True, slots=True)
class Ranks:
    """One signal of each GPU (or host): rows of permille of `top`; None is a gap."""

    key: str
    title: str
    unit: str
    top: float
    start: int
    step: int
    names: list[str]
    rows: list[list[int | None]]
    left_out: int


@dataclass(frozen=True, slots=True)
class Band:
    """One state of the ribbon: the share of the GPUs' time in each stretch."""

    label: str
    klass: Class
    shares: list[float]


@dataclass(frozen=True, slots=True)
class Ribbon:
    """The ledger's states, stacked in the order of classes; stretch n holds from `starts[n]` for `step`."""

    step: int
    starts: list[int]
    bands: list[Band]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened from when until when, microseconds UTC, and the words for it."""

    kind: _MarkKind
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class RunTimeline:
    """What one zoom shows, on so many pixels; `known_start` and `known_end` are the whole run."""

    run_id: str
    timezone: str
    pixels: int
    known_start: int
    known_end: int
    start: int
    end: int
    ribbon: Ribbon
    lanes: list[Lane]
    ranks: Ranks | None
    marks: list[Mark]
    is_document: bool = False

    def place(self, at: int) -> float:
        """Return a moment as the axis has it; whole where it is whole, which is half as long to send."""
        return self.length(at + self.shift_us if self.is_document else at - self.known_start)

    def length(self, microseconds: int) -> float:
        """Return a length as the axis has it: seconds, in a document milliseconds."""
        length = round(microseconds / (1000 if self.is_document else SECOND_US), 3)
        return int(length) if length.is_integer() else length

    @property
    def shift_us(self) -> int:
        """How far the site's clock was from UTC at the run's start, microseconds."""
        return round((local(self.known_start, self.timezone).utcoffset() or timedelta()).total_seconds()) * SECOND_US


def run_lanes(zoom: RunTimeline) -> dict[str, object]:
    """Return one zoom of a run as a figure; its `meta` has where the axis begins and what is shown, in microseconds."""
    traces: list[go.Bar | go.Scatter | go.Heatmap] = [*_ribbon(zoom), *_marks(zoom)]
    rows: list[tuple[int, dict[str, object]]] = [(_RIBBON, {"range": [0, (_ABOVE + _RIBBON) / _RIBBON]})]
    words = []
    for place, lane in enumerate(zoom.lanes, 2):
        traces += _lane(zoom, lane, f"y{place}")
        most = lane.top * (_ABOVE + _LANE) / _LANE
        rows.append((_LANE, {"range": [0, most], "zeroline": True}))
        words.append(_word(f"{lane.title}, top {amount(lane.top, lane.unit)}", f"y{place}", most))
    if zoom.ranks and zoom.ranks.rows:
        axis, count = f"y{len(rows) + 1}", len(zoom.ranks.rows)
        traces.append(_ranks(zoom, zoom.ranks, axis))
        height = max(_RANKS_LEAST, count * _RANK)
        highest = -0.5 - _ABOVE / height * count
        rows.append((height, {"range": [count - 0.5, highest], **_names(zoom.ranks)}))
        words.append(_word(_ranks_words(zoom.ranks), axis, highest))
    lowest = f"y{len(rows)}" if len(rows) > 1 else "y"
    longest = max((len(_short(name)) for name in (zoom.ranks.names if zoom.ranks else ())), default=0)
    return figure(
        traces,
        _AROUND + sum(_ABOVE + height for height, _ in rows),
        meta={"origin": zoom.known_start, "start": zoom.start, "end": zoom.end},
        showlegend=True,
        margin={"l": 12 + _LETTER * longest, "r": 24, "t": 8, "b": 40},
        annotations=words,
        xaxis=_time(zoom, lowest),
        hovermode="x",
        hoversubplots="axis",
        **_axes(rows),
    ) | {"config": {} if zoom.is_document else {"staticPlot": True}}


def _axes(rows: Sequence[tuple[int, dict[str, object]]]) -> dict[str, dict[str, object]]:
    """Return the vertical axes of rows, one below the other; only ranks have names at their left."""
    whole, at, found = sum(_ABOVE + height for height, _ in rows), 0, {}
    for place, (height, own) in enumerate(rows, 1):
        domain = [round(1 - (at + _ABOVE + height) / whole, 6), round(1 - at / whole, 6)]
        about = {"domain": domain, "fixedrange": True, "showgrid": False, "showticklabels": "tickvals" in own}
        found[f"yaxis{place if place > 1 else ''}"] = {"zeroline": False, **about, **_AS_IS, **own}
        at += _ABOVE + height
    return found


def _ribbon(zoom: RunTimeline) -> Iterator[go.Scatter]:
    """Yield a band a state. Where stretches do not abut there is nothing between them."""
    ribbon, seen = zoom.ribbon, list[Class]()
    ends = [at + ribbon.step for at in ribbon.starts]
    breaks = [place for place, end in enumerate(ends) if [end] != ribbon.starts[place + 1 : place + 2]]
    for band in ribbon.bands:
        points = [(at, share, _share(band.label, share)) for at, share in zip(ribbon.starts, band.shares, strict=True)]
        points = sorted([*points, *((ends[place], 0.0, "") for place in breaks)])
        pattern = {"shape": PATTERNS[band.klass], "fgcolor": palette()["paper"], "fillmode": "overlay", "size": 7}
        yield go.Scatter(
            name=literal(band.label), x=[zoom.place(at) for at, _, _ in points], y=[share for _, share, _ in points],
            text=[text for _, _, text in points], hoverinfo="text",
            stackgroup="states", fillcolor=palette()[band.klass],
            fillpattern=pattern | {"solidity": 0.15}, opacity=1 / (1 + FAINTER * seen.count(band.klass)),
            line={"shape": "hv", "width": 0.5, "color": palette()["paper"]},
        )  # fmt: skip
        seen.append(band.klass)


def _share(label: str, share: float) -> str:
    return f"{label} {share:.0%}" if share >= _TOLD_FROM else ""


def _marks(zoom: RunTimeline) -> Iterator[go.Scatter]:
    """Yield checkpoints, stalls and losses, where there are any; `customdata` is when each ends."""
    for kind, name, mode in _MARKED:
        marks = [mark for mark in zoom.marks if mark.kind == kind]
        is_point = mode == "markers"
        points = [one for mark in marks for one in ([(mark.start, mark)] if is_point else _from_until(mark))]
        if marks:
            yield go.Scatter(
                name=name, mode=mode, x=[at and zoom.place(at) for at, _ in points], y=[_MARKS_AT] * len(points),
                text=[mark.text if mark else "" for _, mark in points], hoverinfo="text",
                customdata=[mark and zoom.place(mark.end) for _, mark in points],
                marker={
                    "symbol": "diamond" if kind == "event" else "triangle-down", "size": 8,
                    "color": palette()["avoidable" if kind == "event" else "ink"],
                },
                line={"width": 4 if kind == "stall" else 2, "color": palette()["avoidable"]},
            )  # fmt: skip


def _from_until(mark: Mark) -> Iterator[tuple[int | None, Mark | None]]:
    yield from ((mark.start, mark), (mark.end, None), (None, None))


def _lane(zoom: RunTimeline, lane: Lane, axis: str) -> Iterator[go.Scatter]:
    """Yield the spread of the ranks, where there is one, and their mean."""
    ink, step = palette()["link"], zoom.length(lane.step)
    if any(least != most for least, most in zip(lane.least, lane.most, strict=True)):
        x, y = _outline(zoom, lane)
        yield go.Scatter(
            x=x, y=y, yaxis=axis, fill="toself", mode="none", fillcolor=ink, opacity=_SPREAD,
            name=literal(lane.title), showlegend=False, hoverinfo="skip",
        )  # fmt: skip
    yield go.Scatter(
        x0=zoom.place(lane.start), dx=step, y=[*lane.mean, *lane.mean[-1:]], yaxis=axis, mode="lines",
        name=literal(lane.title), line={"shape": "hv", "width": 1.4, "color": ink}, showlegend=False,
        text=[_spread(lane, place) for place in range(len(lane.mean))], hoverinfo="text+name",
    )  # fmt: skip


def _outline(zoom: RunTimeline, lane: Lane) -> tuple[list[float | None], _Values]:
    """Return the outline of the spread: of each stretch without a gap along the highest, and back along the lowest."""
    x: list[float | None] = []
    y: list[float | None] = []
    for is_gap, stretch in groupby(range(len(lane.mean)), lambda place: lane.mean[place] is None):
        if is_gap:
            continue
        places = [*stretch]
        edges = [zoom.place(lane.start + edge * lane.step) for place in places for edge in (place, place + 1)]
        above, below = ([values[place] for place in places for _ in "ab"] for values in (lane.most, lane.least))
        x += [*edges, *reversed(edges), None]
        y += [*above, *reversed(below), None]
    return x, y


def _spread(lane: Lane, place: int) -> str:
    """Return a point in words: its mean, and from where to where its ranks lie."""
    mean, least, most = lane.mean[place], lane.least[place], lane.most[place]
    if mean is None:
        return ""
    low, high = amount(least, lane.unit), amount(most, lane.unit)
    return amount(mean, lane.unit) + ("" if low == high else f" ({low} to {high})")


def amount(value: float | None, unit: str) -> str:
    """Return a signal's value as people read it: "85%", "612 W", "1.2 GB/s"."""
    if value is None:
        return "–"
    if unit == "ratio":
        return f"{100 * value:.{1 if value < 0.1 else 0}f}%"
    if unit == "B/s":
        for size, name in _RATES:
            if value >= size:
                return f"{value / size:.{0 if value >= 100 * size else 1}f} {name}"
    if unit == "s":
        return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.3g} s"
    if unit in ("/s", ""):
        return f"{value:,.0f}{unit}" if value >= 100 else f"{value:.3g}{unit}"
    return f"{value:.0f} {unit}"


def _ranks(zoom: RunTimeline, ranks: Ranks, axis: str) -> go.Heatmap:
    scale = [[0, palette()["card"]], [1, palette()["link"]]]
    step = zoom.length(ranks.step)
    return go.Heatmap(
        z=ranks.rows, x0=zoom.place(ranks.start) + step / 2, dx=step, zmin=0, zmax=PERMILLE, colorscale=scale,
        showscale=False, zsmooth="fast", yaxis=axis, name=literal(ranks.title), hoverinfo="skip",
    )  # fmt: skip


def _names(ranks: Ranks) -> dict[str, object]:
    """Return the ticks of the ranks: the names for which there is room."""
    shown = range(0, len(ranks.names), -(-_NAME_EVERY // max(_RANK, _RANKS_LEAST // len(ranks.names))))
    return {"tickvals": [*shown], "ticktext": [literal(_short(ranks.names[place])) for place in shown]}


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LETTERS else f"…{name[1 - _NAME_LETTERS :]}"


def _ranks_words(ranks: Ranks) -> str:
    """Return what the ranks show, and how many are not among them."""
    more = f"; {ranks.left_out} more GPUs are not shown" if ranks.left_out else ""
    return f"{ranks.title} by rank (pale: none), top {amount(ranks.top, ranks.unit)}{more}"


def _word(text: str, axis: str, at: float) -> dict[str, object]:
    """Return words at the left of a lane's top."""
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": axis, "y": at, "yanchor": "top"}
    return place | {"text": literal(text), "showarrow": False, "font": {"color": palette()["quiet"]}, "borderpad": 2}


def _time(zoom: RunTimeline, lowest: str) -> dict[str, object]:
    """Return the axis of time, with ticks at whole local times."""
    begins, ends = zoom.place(zoom.start), zoom.place(zoom.end)
    if zoom.is_document:
        return times("%H:%M:%S", anchor=lowest, range=[begins, ends], zeroline=False, tickangle=0)
    most = (ends - begins) / max(1, zoom.pixels // _TICK_EVERY)
    step = next((step for step in _TICKS_S if step >= most), DAY_SECONDS * -(-int(most) // DAY_SECONDS))
    shift = round((local(zoom.start, zoom.timezone).utcoffset() or timedelta()).total_seconds())
    whole = min(step, DAY_SECONDS)  # days begin at midnight, and several of them with the first that is shown
    first = -(-(-(-zoom.start // SECOND_US) + shift) // whole) * whole - shift
    moments = [at * SECOND_US for at in range(first, zoom.end // SECOND_US + 1, step)]
    return {
        "anchor": lowest, "range": [begins, ends],
        "tickvals": [zoom.place(at) for at in moments], "ticktext": [*_ticks(moments, step, zoom.timezone)],
        "tickangle": 0, "zeroline": False, **_AS_IS,
    }  # fmt: skip


def _ticks(moments: Sequence[int], step: int, timezone: str) -> Iterator[str]:
    """Yield each time; the first of a day has the day below it."""
    before = ""
    for at in moments:
        when = local(at, timezone)
        today = day(when)
        time = "" if step >= DAY_SECONDS else f"{when:%H:%M:%S}" if step < MINUTE_SECONDS else f"{when:%H:%M}"
        yield today if not time else time if today == before else f"{time}<br>{today}"
        before = today
