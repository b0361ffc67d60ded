"""The plot of a finding as text: what the GPUs did, stacked to 100 %, and below it the signal that decided."""

from collections.abc import Sequence

from analyzer.findings.argue import Plot, Signal
from analyzer.period import local
from analyzer.text.layout import LEVELS, TextLayout
from analyzer.text.words import day

_ROWS, _SIGNAL_ROWS = 5, 3
_LEAST = 6  # stretches; of fewer the table says more
_LEFT = 10  # columns of the scale
_FULL = 100.0


def plot_lines(plot: Plot | None, layout: TextLayout, timezone: str, whose: str) -> list[str]:
    """Return the plot, which is of `whose` GPUs; nothing where too little is known to draw."""
    if plot is None or len(plot.times) < _LEAST:
        return []
    across = max(1, (layout.width - 2 - _LEFT) // len(plot.times))
    working, lost = ("#", ".") if layout.ascii else ("█", "░")
    found = [layout.cut(f"  {working} productive   {lost} {plot.label}   % of the GPUs of {whose}", layout.width - 2)]
    for row in reversed(range(_ROWS)):
        cells = "".join(
            _cell(own, gone, row, working, lost) * across for own, gone in zip(plot.working, plot.lost, strict=True)
        )
        found.append(f"{_scale(row, _ROWS, _FULL):>{_LEFT - 1}}{_edge(layout)}{cells}")
    if plot.signal is not None:
        found += _signal(plot.signal, across, layout)
    return [*found, _axis(plot.times, across, timezone)]


def _edge(layout: TextLayout) -> str:
    return "|" if layout.ascii else "│"


def _cell(working: float, lost: float, row: int, full: str, light: str) -> str:
    """Return the character of one cell: of what fills its middle."""
    middle = (row + 0.5) * _FULL / _ROWS
    return full if working >= middle else light if working + lost >= middle else " "


def _scale(row: int, rows: int, top: float) -> str:
    if row == rows - 1:
        return f"{top:.0f} " if top >= 10 else f"{top:.1f} "
    return "0 " if row == 0 else ""


def _signal(signal: Signal, across: int, layout: TextLayout) -> list[str]:
    known = [value for value in signal.values if value is not None]
    top = _FULL if signal.unit.startswith("%") and max(known) > _FULL / 3 else max(*known, signal.mark or 0.0, 0.001)
    mark = "" if signal.mark is None else f"; the rule's mark is {signal.mark:g}"
    found = ["", f"  {signal.name}, {signal.unit}{mark}"]
    for row in reversed(range(_SIGNAL_ROWS)):
        cells = "".join(_level(value, row, top, layout) * across for value in signal.values)
        found.append(f"{_scale(row, _SIGNAL_ROWS, top):>{_LEFT - 1}}{_edge(layout)}{cells}")
    return found


def _level(value: float | None, row: int, top: float, layout: TextLayout) -> str:
    if value is None:
        return " "
    part = min(1.0, value / top) * _SIGNAL_ROWS - row
    if part <= 0:
        return " "
    if layout.ascii:
        return "#" if part >= 0.5 else "."
    return LEVELS[min(len(LEVELS) - 1, int(part * len(LEVELS)))]


def _axis(times: Sequence[int], across: int, timezone: str) -> str:
    began, ended = local(times[0], timezone), local(times[-1], timezone)
    left, right = f"{day(began)} {began:%H:%M}", f"{day(ended)} {ended:%H:%M}"
    return f"{'':<{_LEFT}}{left}{right:>{max(len(right) + 1, across * len(times) - len(left))}}"
