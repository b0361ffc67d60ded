"""A look at the fleet as text: the fleet by class, then its holders; the columns of money add up."""

import os
import select
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TextIO

from agent.wire.units import HOUR_MS, MICROS, PERMILLE
from analyzer.interfaces.live.live_query import LiveLine, LiveView
from analyzer.queries.ledger_query import Breakdown
from analyzer.reports.request import Order
from analyzer.states import CLASSES
from analyzer.text.layout import TextLayout
from analyzer.text.table import RATIO, SHARE, CellUnit, TableColumn, bar_column, paper_lines, spark_column
from analyzer.text.words import UNKNOWN, apportion, counted, decimal, nearest, plain, span_words, symbol

_BAR_CELLS = 20
_LABELS_TOLD = 2
_WIDE = 96  # from here on there is room for teams
_CENTS = CellUnit(partial(decimal, decimals=2))


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
        left += f", {symbol(found.currency)}{decimal(_cents(found, found.breakdown), 2)} per hour"
    right = f"{span_words(found.start, found.end, found.timezone)}, {found.timezone}"
    return layout.ends(left, right)


def _classes(found: LiveView, paces: Sequence[int | None], layout: TextLayout) -> list[str]:
    """Return one line a class: its bar, its share, what it costs per hour, and its largest states."""
    whole = found.breakdown
    parts = [whole.of(klass) for klass in CLASSES]
    weights = [sum(whole.weight(entry) for entry in part.entries) for part in parts]
    total, is_known = sum(weights), bool(whole.measured.milliseconds)  # else no class but the unknown has a share
    permille = apportion(PERMILLE, [PERMILLE * weight for weight in weights], total) if total else [0] * len(parts)
    rows = [
        _ClassRow(klass, weight, share if total and (is_known or weight) else None, pace, labels)
        for klass, weight, share, pace, labels in zip(
            CLASSES, weights, permille, paces, [_largest(part) for part in parts], strict=True
        )
    ]
    columns: tuple[TableColumn[_ClassRow], ...] = (
        TableColumn("CLASS", lambda row: row.klass, width=12, align="<"),
        bar_column(lambda row: row.weight, _BAR_CELLS, layout),
        TableColumn("share", lambda row: row.permille, SHARE, 8),
        TableColumn(_rate(found), lambda row: row.cents, _CENTS, 10),
        TableColumn("largest states", lambda row: row.labels, width=layout.width - 54, align="<", gap=2, is_cut=True),
    )
    return paper_lines(columns, rows)


@dataclass(frozen=True, slots=True)
class _ClassRow:
    klass: str
    weight: int
    permille: int | None
    cents: int | None
    labels: str


def _largest(part: Breakdown) -> str:
    return ", ".join(entry.label for entry in part.entries[:_LABELS_TOLD])


def _rate(found: LiveView) -> str:
    return f"{symbol(found.currency).strip()}/h"


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


_Row = tuple[LiveLine, int | None, int | None]  # with what an hour of it costs, and how much of that is avoidable


def _table(found: LiveView, lines: Sequence[LiveLine], classes: Sequence[int | None], layout: TextLayout) -> list[str]:
    """Return a head and one line a holder; `classes` are what an hour of each class costs, as it is shown."""
    teams, is_host = layout.width >= _WIDE, found.node is not None
    width = 18 + max(0, layout.extra) - (13 if teams else 0)
    columns: tuple[TableColumn[_Row], ...] = (
        TableColumn("HELD BY", lambda row: _name(row[0]), width=width, align="<", is_cut=True),
        *((TableColumn[_Row]("TEAM", _team, width=13, align="<", is_cut=True),) if teams else ()),
        TableColumn("GPU", lambda row: row[0].index, width=4)
        if is_host
        else TableColumn("GPUS", lambda row: row[0].gpus, width=4),
        spark_column("" if is_host else "LAST H", lambda row: row[0].trend, 6, layout, gap=1),
        TableColumn("MOSTLY", lambda row: _mostly(row[0].breakdown), width=17, align="<", gap=1, is_cut=True),
        TableColumn("SM", lambda row: row[0].figures.busy_ratio, RATIO, 5),
        TableColumn("HBM", lambda row: row[0].figures.memory_ratio, RATIO, 5),
        TableColumn("W", lambda row: row[0].figures.power_watts, CellUnit(lambda watts: str(round(watts))), 5),
        TableColumn(_rate(found).upper(), lambda row: row[1], _CENTS, 9),
        TableColumn("AVOID", lambda row: row[2], _CENTS, 8),
    )
    costs = _paces(found, [line.breakdown for line in lines], _cents(found, found.breakdown))
    lost = _paces(found, [line.breakdown.of("avoidable") for line in lines], classes[CLASSES.index("avoidable")])
    return paper_lines(columns, list(zip(lines, costs, lost, strict=True)), indent="")


def _team(row: _Row) -> str:
    return row[0].team or ""


def _name(line: LiveLine) -> str:
    """Return a run's name and the end of its id, by which `report run` knows it; a label stands in brackets."""
    if line.run_id is None:
        return f"({line.name})"
    short = line.run_id.rpartition("/")[2]
    return short if line.name == line.run_id else f"{line.name} {short}"


def _mostly(of: Breakdown) -> str:
    return max(of.entries, key=of.weight).label if of.entries else UNKNOWN


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
