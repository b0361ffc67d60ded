"""The newest hour of the fleet or of one host: what is read of it, and the screen, whose columns of money add up."""

import os
import select
import termios
import tty
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, TextIO

from agent.wire.units import HOUR_MS, MICROS, PERMILLE
from analyzer.errors import LedgerError
from analyzer.ledger.coverage import ledger_end
from analyzer.period import local
from analyzer.queries.ledger_query import Breakdown, Counted, Unpriced, fold
from analyzer.queries.statements import statements
from analyzer.reports.request import Order
from analyzer.states import CLASSES, booking, words_of
from analyzer.text.layout import TextLayout
from analyzer.text.table import RATIO, SHARE, CellUnit, TableColumn, bar_column, paper_lines, spark_column
from analyzer.text.words import UNKNOWN, apportion, counted, decimal, nearest, plain, span_words, symbol
from collector.store.session import Session

_STRETCHES = 6  # of ten minutes each: the last hour of a run


@dataclass(frozen=True, slots=True)
class DriverFigures:
    """What the driver said in the last minutes, over all GPUs of a line. None: no GPU of it reported this."""

    busy_ratio: float | None  # SM activity where it is measured, else NVML's utilization
    memory_used_bytes: int | None
    memory_bytes: int | None  # of those GPUs whose use is known
    power_watts: float | None  # of a GPU, the mean
    temperature_celsius: float | None  # of the hottest

    @property
    def memory_ratio(self) -> float | None:
        """How full their memory is, from 0 to 1."""
        if self.memory_used_bytes is None or not self.memory_bytes:
            return None
        return self.memory_used_bytes / self.memory_bytes


@dataclass(frozen=True, slots=True)
class LiveLine:
    """One line of the screen: a run, a label of what no run holds, or one holder of one GPU of a host."""

    name: str
    run_id: str | None  # None: held by no run
    team: str | None
    gpus: int
    index: int | None  # of one GPU: its number on its host
    sku: str | None
    breakdown: Breakdown
    figures: DriverFigures
    trend: tuple[float | None, ...]  # useful share of the last stretches, oldest first; None where it held nothing


@dataclass(frozen=True, slots=True)
class LiveView:
    """The newest hour of the ledger, or as much of it as is booked. Times are microseconds UTC."""

    currency: str
    timezone: str
    node: str | None  # None: the whole fleet
    start: int
    end: int  # up to when the ledger knows
    gpus: int
    breakdown: Breakdown
    lines: tuple[LiveLine, ...]

    @property
    def window_ms(self) -> int:
        """How much of the hour is booked."""
        return (self.end - self.start) // 1000

    def cost(self, of: Breakdown) -> int | None:
        """Return what this cost in the window, in millionths; None where a part has no price."""
        return None if of.unpriced else of.cost_micros or 0


_STRETCH_US = 600_000_000
_FIGURES_US = 300_000_000  # what "now" means for the driver's figures
_LEAST_MS = 600_000  # an hour that has just begun says little: the one before is shown until then
_Row = tuple[Any, ...]  # gpu, sku, run, state, cause, milliseconds, cost, unpriced milliseconds


def read_live_view(session: Session, currency: str, timezone: str, node: str | None = None) -> LiveView:
    """Return the newest hour that the ledger can tell of, of the fleet or of one host.

    Raises:
        LedgerError: the ledger is empty, or has no such host.
    """
    ledger_end(session)
    newest, held, measured, known, named, stretches = statements("interfaces/live/look.sql")
    hour, booked_ms, end = _window(session.rows(newest))
    start = end - booked_ms * 1000  # its beginning, or when its first GPU was first seen
    rows = session.rows(held, {"hour": hour, "node": node})
    if node is not None and not rows:
        raise LedgerError(
            f"the ledger has no host {node!r} {local(start, timezone):%H:%M} to {local(end, timezone):%H:%M}"
        )
    figures = {
        gpu: values for gpu, *values in session.rows(measured, {"since": end - _FIGURES_US, "until": end, "node": node})
    }
    gpus = {gpu: (index, memory) for gpu, index, memory in session.rows(known, {"node": node})}
    runs = sorted({row[2] for row in rows if row[2] is not None})
    names = {run: (name or run, team) for run, name, team in session.rows(named, {"runs": runs})}
    asked = {"since": end - _STRETCHES * _STRETCH_US, "until": end, "runs": runs, "useful": words_of("useful")}
    trends = _trends(session.rows(stretches, asked), end)
    lines = [
        _line(key, of, names, gpus, figures, trends) for key, of in _grouped(rows, by_gpu=node is not None).items()
    ]
    return LiveView(currency, timezone, node, start, end, len({row[0] for row in rows}), _breakdown(rows), tuple(lines))


def booked_until(session: Session) -> int:
    """Return up to when the newest hour is booked, in microseconds UTC.

    Raises:
        LedgerError: the ledger is empty.
    """
    ledger_end(session)
    (_, _, end), *_ = session.rows(statements("interfaces/live/look.sql")[0])
    return int(end)


def _window(hours: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    newest, *before = hours
    return before[0] if newest[1] < _LEAST_MS and before else newest


_Key = tuple[str | None, str | None, str | None]  # the GPU of a host's line, the run, the label where no run holds it


def _grouped(rows: Sequence[_Row], *, by_gpu: bool) -> dict[_Key, list[_Row]]:
    found: dict[_Key, list[_Row]] = defaultdict(list)
    for row in rows:
        label = None if row[2] is not None else booking(row[3], row[4]).label
        found[row[0] if by_gpu else None, row[2], label].append(row)
    return found


def _line(
    key: _Key,
    rows: Sequence[_Row],
    names: Mapping[str, tuple[str, str | None]],
    known: Mapping[str, tuple[int | None, int | None]],
    measured: Mapping[str, Sequence[Any]],
    trends: Mapping[str, tuple[float | None, ...]],
) -> LiveLine:
    gpu, run, label = key
    held = sorted({row[0] for row in rows})
    name, team = names.get(run, (run, None)) if run is not None else (label or "", None)
    skus = {row[1] for row in rows}
    return LiveLine(
        name,
        run,
        team,
        len(held),
        known.get(gpu, (None, None))[0] if gpu else None,
        skus.pop() if len(skus) == 1 else None,
        _breakdown(rows),
        _figures([(known.get(each, (None, None))[1], measured[each]) for each in held if each in measured]),
        trends.get(run, ()) if run else (),
    )


def _breakdown(rows: Sequence[_Row]) -> Breakdown:
    counted: list[Counted] = [(state, cause, ms, cost) for _, _, _, state, cause, ms, cost, _ in rows]
    unpriced: dict[str | None, int] = defaultdict(int)
    for _, sku, *_, without in rows:
        unpriced[sku] += without
    return Breakdown(fold(counted), tuple(Unpriced(sku, ms) for sku, ms in unpriced.items() if ms))


def _figures(of: Sequence[tuple[int | None, Sequence[Any]]]) -> DriverFigures:
    busy = [said[0] for _, said in of if said[0] is not None]
    memory = [(whole, said[1]) for whole, said in of if whole and said[1] is not None]
    power = [said[2] for _, said in of if said[2] is not None]
    heat = [said[3] for _, said in of if said[3] is not None]
    return DriverFigures(
        fmean(busy) if busy else None,
        sum(used for _, used in memory) if memory else None,
        sum(whole for whole, _ in memory) if memory else None,
        fmean(power) if power else None,
        max(heat) if heat else None,
    )


def _trends(rows: Sequence[tuple[str, int, int, int]], end: int) -> dict[str, tuple[float | None, ...]]:
    first = end // _STRETCH_US - _STRETCHES + (1 if end % _STRETCH_US else 0)
    found: dict[str, list[float | None]] = defaultdict(lambda: [None] * _STRETCHES)
    for run, start, useful, whole in rows:
        place = start // _STRETCH_US - first
        if 0 <= place < _STRETCHES and whole:
            found[run][place] = useful / whole
    return {run: tuple(shares) for run, shares in found.items()}


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


_HolderRow = tuple[LiveLine, int | None, int | None]  # with what an hour of it costs, and how much of that is avoidable


def _table(found: LiveView, lines: Sequence[LiveLine], classes: Sequence[int | None], layout: TextLayout) -> list[str]:
    """Return a head and one line a holder; `classes` are what an hour of each class costs, as it is shown."""
    teams, is_host = layout.width >= _WIDE, found.node is not None
    width = 18 + max(0, layout.extra) - (13 if teams else 0)
    columns: tuple[TableColumn[_HolderRow], ...] = (
        TableColumn("HELD BY", lambda row: _name(row[0]), width=width, align="<", is_cut=True),
        *((TableColumn[_HolderRow]("TEAM", _team, width=13, align="<", is_cut=True),) if teams else ()),
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


def _team(row: _HolderRow) -> str:
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
