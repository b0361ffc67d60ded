"""A look at the fleet as text: the fleet by class, then its holders; the columns of money add up."""

import os
import select
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from agent.wire.units import HOUR_MS, MICROS
from analyzer.interfaces.live.live_query import LiveLine, LiveView
from analyzer.ledger.breakdown import column_like
from analyzer.queries.ledger_query import Breakdown
from analyzer.reports.request import Order
from analyzer.states import CLASSES
from analyzer.text.layout import TextLayout
from analyzer.text.words import UNKNOWN, apportion, counted, decimal, nearest, plain, span_words, symbol

_BAR_CELLS = 20
_LABELS_TOLD = 2
_WIDE = 96  # from here on there is room for teams


def look_text(found: LiveView, layout: TextLayout, top: int | None = None, order: Order = "cost") -> str:
    """Return one screen; `top` bounds its lines of holders, and the last then counts the others."""
    lines = sorted(found.lines, key=lambda line: _place(found, line, order))
    paces = _paces(found, [found.breakdown.of(klass) for klass in CLASSES], _cents(found, found.breakdown))
    classes, table = _classes(found, paces, layout), _table(found, lines, paces, layout)
    shown = len(lines) if top is None else max(1, top)
    more = [f"  and {counted(len(lines) - shown, 'more line')}"] if len(lines) > shown else []
    return layout.page([*_head(found, layout), "", *classes, "", *table[: 1 + shown], *more])


def _place(found: LiveView, line: LiveLine, order: Order) -> tuple[float, float, str]:
    part = line.breakdown.of("avoidable") if order == "avoidable" else line.breakdown
    weight = -float(sum(map(part.weight, part.entries)))
    if order == "gpus":
        weight = -line.gpus
    if order == "busy":
        weight = 2.0 if line.figures.busy_ratio is None else line.figures.busy_ratio
    if found.node is not None and order == "cost":  # a host is read by its GPUs' numbers
        return (1e9 if line.index is None else line.index), weight, line.name
    return float(line.run_id is None), weight, line.name


def _head(found: LiveView, layout: TextLayout) -> list[str]:
    where = "fleet" if found.node is None else f"host {plain(found.node)}"
    left = f"{where}   {counted(found.gpus, 'GPU')}"
    if found.cost(found.breakdown) is not None:
        left += f", {symbol(found.currency)}{decimal(_cents(found, found.breakdown), 2)} an hour"
    right = f"{span_words(found.start, found.end, found.timezone)}, {found.timezone}"
    if len(left) + len(right) < layout.width - 4:
        return [left + right.rjust(layout.width - 2 - len(left))]
    return [left, right]


def _classes(found: LiveView, paces: Sequence[int | None], layout: TextLayout) -> list[str]:
    """Return one line a class: its bar, its share, what it costs an hour, and its largest labels."""
    whole = found.breakdown
    parts = [whole.of(klass) for klass in CLASSES]
    weights = [sum(whole.weight(entry) for entry in part.entries) for part in parts]
    shares = column_like(1000, [100 * weight for weight in weights], max(1, sum(weights)), 1) if any(weights) else None
    largest, is_known = max(weights), bool(whole.measured.milliseconds)  # else no class but the unknown has a share
    return [
        f"  {klass:<10}{layout.bar(weights[place], largest, _BAR_CELLS)}"
        f"{shares[place] if shares and (is_known or weights[place]) else UNKNOWN:>7}%{_told(paces[place]):>10}  "
        + layout.cut(", ".join(entry.label for entry in parts[place].entries[:_LABELS_TOLD]), layout.width - 55)
        for place, klass in enumerate(CLASSES)
    ]


def _cents(found: LiveView, of: Breakdown) -> int:
    """Return what an hour of this costs at the window's pace, in hundredths, rounded."""
    return nearest(100 * (found.cost(of) or 0) * HOUR_MS, MICROS * found.window_ms)


def _paces(found: LiveView, parts: Sequence[Breakdown], cents: int | None) -> list[int | None]:
    """Return what an hour of each part costs, in hundredths; where all have a price, so that they add up to `cents`."""
    costs = [found.cost(part) for part in parts]
    known = [100 * cost * HOUR_MS for cost in costs if cost is not None]
    if cents is not None and len(known) == len(costs):
        return list(apportion(cents, known, MICROS * found.window_ms))
    return [None if cost is None else _cents(found, part) for cost, part in zip(costs, parts, strict=True)]


def _told(cents: int | None) -> str:
    return UNKNOWN if cents is None else decimal(cents, 2)


def _table(found: LiveView, lines: Sequence[LiveLine], classes: Sequence[int | None], layout: TextLayout) -> list[str]:
    """Return a head and one line a holder; `classes` are what an hour of each class costs, as it is shown."""
    teams = layout.width >= _WIDE
    width = 18 + max(0, layout.extra) - (13 if teams else 0)
    team = f"{'TEAM':<13}" if teams else ""
    unit = f"{'GPUS':>4} {'LAST H':<6}" if found.node is None else f"{'GPU':>4} {'':<6}"
    head = f"{'HELD BY':<{width}}{team}{unit} {'MOSTLY':<17}{'SM':>5}{'HBM':>5}{'W':>5}"
    head += f"{symbol(found.currency).strip() + '/H':>9}{'AVOID':>8}"
    costs = _paces(found, [line.breakdown for line in lines], _cents(found, found.breakdown))
    lost = _paces(found, [line.breakdown.of("avoidable") for line in lines], classes[CLASSES.index("avoidable")])
    rows = zip(lines, costs, lost, strict=True)
    return [
        head,
        *(
            _row(found, line, layout, width, team=teams) + f"{_told(cost):>9}{_told(less):>8}"
            for line, cost, less in rows
        ),
    ]


def _row(found: LiveView, line: LiveLine, layout: TextLayout, width: int, *, team: bool) -> str:
    number = line.gpus if found.node is None else UNKNOWN if line.index is None else line.index
    name = layout.cut(_name(line), width - 1)
    whose = f"{layout.cut(line.team or '', 12):<13}" if team else ""
    figures = line.figures
    return (
        f"{name:<{width}}{whose}{number:>4} {_trend(line, layout):<6} {layout.cut(_mostly(line.breakdown), 16):<17}"
        f"{_percent(figures.busy_ratio):>5}{_percent(figures.memory_ratio):>5}"
        f"{UNKNOWN if figures.power_watts is None else round(figures.power_watts):>5}"
    )


def _name(line: LiveLine) -> str:
    """Return a run's name and the end of its id, by which `report run` knows it; a label stands in brackets."""
    if line.run_id is None:
        return f"({line.name})"
    short = line.run_id.rpartition("/")[2]
    return short if line.name == line.run_id else f"{line.name} {short}"


def _trend(line: LiveLine, layout: TextLayout) -> str:
    return "".join(" " if share is None else layout.spark([share]) for share in line.trend)


def _mostly(of: Breakdown) -> str:
    return max(of.entries, key=of.weight).label if of.entries else UNKNOWN


def _percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{round(100 * ratio)}%"


_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _TO_END_OF_LINE, _TO_END = "\x1b[H", "\x1b[K", "\x1b[J"


def size(out: TextIO) -> tuple[int, int]:
    """Return a terminal's columns and rows now; 80 and 24 where it does not say."""
    columns, rows = os.get_terminal_size(out.fileno())
    return columns or 80, rows or 24


class Screen:
    """One terminal, between its two ends."""

    def __init__(self, keys: int, out: TextIO) -> None:
        self._keys = keys
        self._out = out

    def draw(self, text: str) -> None:
        """Show a text from the first line on, without a flash: each line over the one before."""
        rows = text.rstrip("\n").split("\n")[: size(self._out)[1]]
        body = f"{_TO_END_OF_LINE}\r\n".join(rows)
        self._out.write(f"{_HOME}{body}{_TO_END_OF_LINE}{_TO_END}")
        self._out.flush()

    def key(self, seconds: float) -> str | None:
        """Return the key that was pressed within so many seconds, or None; "" where nobody can press one any more."""
        ready, _, _ = select.select([self._keys], [], [], seconds)
        if not ready:
            return None
        return os.read(self._keys, 1).decode("ascii", "replace")


@contextmanager
def screen(keys: int, out: TextIO) -> Iterator[Screen]:
    """Yield a terminal that gives each key at once and does not echo it; what was there before comes back."""
    before = termios.tcgetattr(keys)
    try:
        tty.setcbreak(keys)
        out.write(_ENTER)
        yield Screen(keys, out)
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
        out.write(_LEAVE)
        out.flush()
