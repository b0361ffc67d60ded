"""The portfolio as text: workloads by word, the ones that want something done first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_MS, MICROS
from analyzer.finops.portfolio.review import WORDS, Reviewed
from analyzer.finops.portfolio.workload_query import Portfolio
from analyzer.text.layout import TextLayout
from analyzer.text.rounding import apportion, nearest
from analyzer.text.words import UNKNOWN, counted, days, plain, symbol

_ROWS = 20
_SMALL_HOURS = 1  # GPU-hours: below, a workload is counted and not listed


def portfolio_text(report: Portfolio, layout: TextLayout, top: int | None = None) -> str:
    """Return the review as text; its columns add up, and to the amounts of the sentence."""
    cells = {id(one): cell for one, cell in zip(report.reviewed, _cells(report), strict=True)}
    lines = [f"portfolio {report.period.label}   {days(report.period)}, {report.period.timezone}", ""]
    lines += [*layout.wrap(_first(report, cells)), ""]
    shown = [one for one in report.reviewed if one.workload.milliseconds >= _SMALL_HOURS * HOUR_MS]
    shown = shown[: top or _ROWS]
    width = 20 + layout.extra
    sign = symbol(report.currency).strip()
    lines.append(f"{'WORKLOAD':<{width}}{'team':<16}{'GPU-hours':>10}{sign:>10}  what to do")
    for word in WORDS:
        for one in shown:
            if one.word == word:
                lines += _row(one, cells[id(one)], width, layout)
    if rest := [one for one in report.reviewed if one not in shown]:
        head = f"and {counted(len(rest), 'smaller one')}"
        lines.append(f"  {head:<{width + 14}}{_sum(cells, rest).line}")
    if len(report.reviewed) > 1:
        lines.append(f"  {'total':<{width + 14}}{_sum(cells, report.reviewed).line}")
    lines += [
        "",
        *layout.wrap("A word is what its GPUs did, not what its results are worth: that is for the review."),
        "",
    ]
    return layout.page([*lines, "next: gpuledger recommendations      gpuledger bill units"])


@dataclass(frozen=True, slots=True)
class _Cell:
    """One workload's, or several workloads', rounded hours and amount; None: some of it has no price."""

    hours: int
    units: int | None

    @property
    def line(self) -> str:
        return f"{self.hours:>10,}{UNKNOWN if self.units is None else f'{self.units:,}':>10}"


def _cells(report: Portfolio) -> list[_Cell]:
    """Return each workload's figures, rounded from the top down."""
    every = [one.workload for one in report.reviewed]
    hours = _rounded([each.milliseconds for each in every], HOUR_MS)
    units = _rounded([each.micros or 0 for each in every], MICROS)
    return [
        _Cell(hour, None if each.micros is None else unit) for each, hour, unit in zip(every, hours, units, strict=True)
    ]


def _rounded(exact: Sequence[int], denominator: int) -> list[int]:
    return apportion(nearest(sum(exact), denominator), exact, denominator)


def _sum(cells: Mapping[int, _Cell], those: Sequence[Reviewed]) -> _Cell:
    own = [cells[id(one)] for one in those]
    known = [each.units for each in own if each.units is not None]
    return _Cell(sum(each.hours for each in own), sum(known) if len(known) == len(own) else None)


def _first(report: Portfolio, cells: Mapping[int, _Cell]) -> str:
    if not report.reviewed:
        return "No run held a GPU in this period."
    parts = []
    for word in WORDS:
        those = [one for one in report.reviewed if one.word == word]
        if those:
            whole = _sum(cells, those)
            paid = "" if whole.units is None else f"{symbol(report.currency)}{whole.units:,}"
            parts.append(f'{len(those)} "{word}" ({paid or f"{whole.hours:,} GPU-hours"})')
    return f"{counted(len(report.reviewed), 'workload')}: {', '.join(parts)}."


def _row(one: Reviewed, cell: _Cell, width: int, layout: TextLayout) -> list[str]:
    each = one.workload
    name, team = layout.cut(each.name, width - 3), layout.cut(each.team or "unmapped", 15)
    head = f"  {name:<{width - 2}}{team:<16}{cell.line}  {one.word}"
    ids = f" ({', '.join(map(plain, one.advice[:2]))})" if one.advice else ""
    return [head, *layout.wrap(f"{one.why}{ids}", "      ", "      ")]
