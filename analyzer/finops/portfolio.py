"""Which workloads earn their compute, which want a fix or a smaller place, and which nobody seems to need.

The first rule that fits is the word. The words are those of a review, not of a verdict: whether a workload is worth its
result nobody can see from here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.wire.units import HOUR_MS, MICROS, PERMILLE
from analyzer.finops.unit_cost.report import UnitLine, unit_report
from analyzer.period import Calendar, Period
from analyzer.queries.statements import statements
from analyzer.recommendations.recommendation import Recommendation
from analyzer.states import words_of
from analyzer.text.layout import TextLayout
from analyzer.text.table import CellUnit, TableColumn, name_column, paper_lines
from analyzer.text.words import apportion, counted, days, nearest, percent, plain, symbol
from collector.store.session import Session

_Word = Literal["retire?", "fix first", "shrink", "dearer", "earns", "look"]
WORDS: tuple[_Word, ...] = ("retire?", "fix first", "shrink", "dearer", "look", "earns")
_IDLE_LEAST = 500  # permille idle: more than half the time nobody used it (ours)
_AVOIDABLE_LEAST = 200  # permille avoidable: a fifth (ours; severe waits for input begin there as well)
_USEFUL_LEAST = 600  # permille useful, to say that it earns (ours; the target of a whole fleet is 800)
_DEARER_LEAST = 1.25  # times what a unit cost in the period before
_MEASURED_LEAST = 500  # permille measured, below which nothing is said
_SMALLER = ("right_size", "share_mig", "share_time", "pack", "fewer_replicas")  # kinds of docs/changes.md


@dataclass(frozen=True, slots=True)
class Workload:
    """All runs of one name and team in a period; GPU milliseconds, and millionths (None: some has no price)."""

    name: str
    team: str | None
    stage: str | None
    runs: int
    skus: tuple[str, ...]
    milliseconds: int
    micros: int | None
    useful: int
    avoidable: int
    idle: int
    unobserved: int

    @property
    def measured(self) -> int:
        """GPU milliseconds that were measured."""
        return self.milliseconds - self.unobserved


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A workload, the word on it, and why; `advice` are the recommendations that are open for it."""

    workload: Workload
    word: _Word
    why: str
    advice: tuple[str, ...] = ()


def review(
    workloads: Sequence[Workload],
    units: Mapping[tuple[str, str | None], UnitLine],
    advice: Mapping[tuple[str, str | None], Sequence[tuple[str, str]]],
) -> tuple[Reviewed, ...]:
    """Return a word on each; `units` are what their work cost, `advice` ids and kinds of what is recommended."""
    return tuple(
        _one(each, units.get((each.name, each.team)), advice.get((each.name, each.team), ())) for each in workloads
    )


def _one(each: Workload, unit: UnitLine | None, advice: Sequence[tuple[str, str]]) -> Reviewed:
    ids = tuple(id_ for id_, _ in advice)
    if not each.measured or each.measured * PERMILLE < _MEASURED_LEAST * each.milliseconds:
        return Reviewed(each, "look", "less than half of its time was measured", ids)
    of = "its time" if each.measured >= each.milliseconds else "what was measured of its time"
    idle, avoidable, useful = (_permille(part, each.measured) for part in (each.idle, each.avoidable, each.useful))
    if idle >= _IDLE_LEAST:
        return Reviewed(each, "retire?", f"idle {percent(idle)} of {of}: ask who still needs it", ids)
    if avoidable >= _AVOIDABLE_LEAST:
        return Reviewed(each, "fix first", f"{percent(avoidable)} of {of} is avoidable", ids)
    if any(kind in _SMALLER for _, kind in advice):
        return Reviewed(each, "shrink", "a smaller GPU, a slice or fewer of them would do", ids)
    ratio = None if unit is None else unit.ratio
    if unit is not None and ratio is not None and ratio >= _DEARER_LEAST:
        return Reviewed(each, "dearer", f"{ratio:.1f}x per {unit.unit.words} compared with the previous period", ids)
    if useful >= _USEFUL_LEAST:
        return Reviewed(each, "earns", f"useful {percent(useful)} of {of}", ids)
    return Reviewed(each, "look", f"useful only {percent(useful)}, and little of the rest is avoidable", ids)


def _permille(part: int, whole: int) -> int:
    return nearest(PERMILLE * part, whole)


_OF = {"useful": words_of("useful"), "avoidable": words_of("avoidable")}


@dataclass(frozen=True, slots=True)
class Portfolio:
    """A period's workloads, dearest first, each with its word."""

    period: Period
    currency: str
    reviewed: tuple[Reviewed, ...]


def portfolio(
    session: Session, period: Period, calendar: Calendar, currency: str, advice: Sequence[Recommendation]
) -> Portfolio:
    """Review a period's workloads against its unit economics and what is recommended now."""
    (query,) = statements("finops/portfolio/names.sql")
    rows = session.rows(query, {"start": period.start, "end": period.end, **_OF})
    workloads = [
        Workload(name, team, stage, runs, tuple(sku for sku in skus if sku), *amounts)
        for name, team, stage, runs, skus, *amounts in rows
    ]
    units: dict[tuple[str, str | None], UnitLine] = {}
    for line in unit_report(session, period, calendar, currency).units:
        units.setdefault((line.name, line.team), line)
    open_: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
    named = _names(session, [run for one in advice for run in one.run_ids])
    for one in advice:
        for whose in sorted({named[run] for run in one.run_ids if run in named}, key=str):
            open_.setdefault(whose, []).append((one.id, one.kind))
    return Portfolio(period, currency, review(workloads, units, open_))


def _names(session: Session, run_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
    rows = session.rows(
        "SELECT run_id, coalesce(name, run_id), team FROM runs WHERE list_contains(?::VARCHAR[], run_id)",
        [sorted(set(run_ids))],
    )
    return {run_id: (name, team) for run_id, name, team in rows}


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
    columns: tuple[TableColumn[_Row], ...] = (
        name_column("WORKLOAD", lambda row: row[0], width),
        TableColumn("team", lambda row: row[1], width=16, align="<", is_cut=True),
        TableColumn("GPU-hours", lambda row: row[2].hours, _COUNT, 10),
        TableColumn(sign, lambda row: row[2].units, _COUNT, 10),
        TableColumn("what to do", lambda row: row[3], align="<", gap=2),
    )
    ordered = [one for word in WORDS for one in shown if one.word == word]
    rest = [one for one in report.reviewed if one not in shown]
    rows: list[_Row] = [
        (one.workload.name, one.workload.team or "unmapped", cells[id(one)], one.word) for one in ordered
    ]
    rows += [(counted(len(rest), "other"), "", _sum(cells, rest), "")] if rest else []
    rows += [("total", "", _sum(cells, report.reviewed), "")] if len(report.reviewed) > 1 else []
    head, *below = paper_lines(columns, rows)
    lines.append(head)
    for one, line in zip(ordered, below, strict=False):
        lines += [line, *layout.wrap(_why(one), "      ")]
    lines += [
        *below[len(ordered) :],
        "",
        *layout.wrap("Each word rates the use of GPUs, not the value of the results: that is for the review."),
        "",
    ]
    return layout.page([*lines, "next: gpuledger recommendations      gpuledger bill units"])


@dataclass(frozen=True, slots=True)
class _Cell:
    """One workload's, or several workloads', rounded hours and amount; None: some of it has no price."""

    hours: int
    units: int | None


_COUNT = CellUnit("{:,}".format)
_Row = tuple[str, str, _Cell, str]  # a workload or several, the team, the figures, and what to do


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


def _why(one: Reviewed) -> str:
    return f"{one.why} ({', '.join(map(plain, one.advice[:2]))})" if one.advice else one.why
