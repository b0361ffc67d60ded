"""Unit economics as text: what changed first, then what units of work, whole runs and waiting came to."""

from math import floor, log10

from agent.wire.units import MICROS, PERMILLE, SECOND_US
from analyzer.finops.unit_cost.report import Compute, RunLine, Scaled, ScalingReport, UnitLine, UnitReport, Wait
from analyzer.finops.unit_cost.units import MOVED_LEAST, Changed, prices
from analyzer.text.layout import TextLayout
from analyzer.text.table import AMOUNT, GPU_TIME, CellUnit, TableColumn, name_column, paper_lines
from analyzer.text.words import (
    amount,
    counted,
    days,
    duration,
    gpu_hours,
    moment_words,
    money,
    money_decimals,
    percent,
    plain,
    symbol,
)

_ROWS = 12
_WAITS = "median run: until it left the queue, and until a GPU of it worked; P90 of the latter"
_TREND_WEEKS = 5
_NARROWEST = 10  # characters for a name, whatever the paper
_DIGITS = 3  # of a unit's price: 0.00373
_WHOLE_LEAST = 100  # a second: smaller rates are told with decimals
_USE = (
    "useful: of the GPU time that was measured, where report week tells shares of the money; active: of its SMs, where "
    "that is read, else with any kernel"
)
_FACTORS = {"tokens a request": "tokens per request"}  # the words of those that are not their own
_CHANGE = CellUnit(lambda ratio: f"{100 * (ratio - 1):+.1f}")
_SPAN = CellUnit(lambda micros: duration(micros // SECOND_US))
_SHARE = CellUnit(lambda permille: percent(permille, PERMILLE))

_Size = tuple[Scaled, int]  # a model, and the place of one of its sizes


def units_text(report: UnitReport, layout: TextLayout, top: int | None = None) -> str:
    """Return unit economics as text."""
    head = f"unit economics {report.period.label}   {days(report.period)}, {report.period.timezone}"
    rows = top or _ROWS
    sections = [
        [head],
        _first(report, layout),
        _units(report, layout, rows),
        [line for note in report.notes for line in layout.wrap(note)],
        _runs(report, layout, rows),
        _compute(report, layout, rows),
        _scaling(report.scaling, layout, rows),
        _waits(report.waits, layout, rows),
    ]
    lines = [line for section in sections if section for line in (*section, "")]
    return layout.page([*lines, "next: gpuledger report      gpuledger bill budgets"])


def change_words(line: UnitLine, change: Changed, currency: str, timezone: str) -> str:
    """Return "ranker-serve: $0.041 -> $0.079 per 1,000 requests since Tue 10 Nov 14:00, $412 more per week. ..."."""
    more = "more" if change.a_week > 0 else "less"
    a_week = f"about {_whole(change, currency)} {more} per week"
    told = f"{_each(change.before, change, currency)} -> {_each(change.after, change, currency)}"
    since = moment_words(change.at, timezone)
    return f"{plain(line.name)}: {told} per {line.unit.words} since {since}, {a_week}. {_factor_words(line, change)}"


def _factor_words(line: UnitLine, change: Changed) -> str:
    """Return "Tokens per request rose 1.9x; GPUs, price did not change."."""
    moved, still = [], []
    for one in change.factors:
        if one.ratio is None:
            continue
        name = _FACTORS.get(one.factor, one.factor) if one.factor != "units" else f"{line.unit.noun} per hour"
        if one.ratio >= MOVED_LEAST:
            moved.append(f"{name} rose {one.ratio:.1f}x")
        elif one.ratio <= 1 / MOVED_LEAST:
            moved.append(f"{name} fell to {one.ratio:.2f}x")
        else:
            still.append(name)
    unmoved = " and ".join([", ".join(still[:-1]), still[-1]] if len(still) > 1 else still)
    told = "; ".join([*moved, *([f"{unmoved} did not change"] if still else [])])
    return f"{told[0].upper()}{told[1:]}." if told else "The reason is not known."


def _first(report: UnitReport, layout: TextLayout) -> list[str]:
    if not report.units and not report.runs:
        return layout.wrap(
            "No run reported its progress: have runs report their steps or tokens (docs/progress.md) and services read"
            " (docs/services.md)."
        )
    if (
        not report.changes
        and all(one.ratio is None for one in report.units)
        and not any(one.runs_before for one in report.runs)
    ):
        return layout.wrap("No earlier unit cost to compare with.")
    if not report.changes:
        return layout.wrap("No lasting change of unit cost in this period.")
    found = []
    for line, change in report.changes:
        found += layout.wrap(change_words(line, change, report.currency, report.period.timezone))
    return found


def _units(report: UnitReport, layout: TextLayout, rows: int) -> list[str]:
    if not report.units:
        return []
    shown = report.units[:rows]
    trends = [trend(line, layout) for line in shown]
    drawn = max(len(each) for each in trends)
    width = max(_NARROWEST, (22 - drawn if drawn else 24) + layout.extra)
    sign = symbol(report.currency).strip()
    decimals = money_decimals(max((line.micros or 0 for line in shown), default=0))
    columns: list[TableColumn[UnitLine]] = [
        name_column("UNIT ECONOMICS", lambda line: line.name, width),
        TableColumn("unit", lambda line: line.unit.short, width=17, align="<"),
        TableColumn("done", lambda line: line.units, CellUnit(short), 8),
        TableColumn(f"cost {sign}", lambda line: line.micros, CellUnit(lambda m: amount(m, decimals)), 10),
        TableColumn(f"{sign} per unit", _a_unit, CellUnit(digits), 11),
        TableColumn("+/- %", lambda line: line.ratio, _CHANGE, 8),
    ]
    if drawn:
        columns.append(TableColumn("trend", lambda line: line, width=drawn + 2, together=lambda _: trends))
    found = [*paper_lines(columns, shown), *_more(len(report.units), rows)]
    if drawn:
        found += [f"  trend: cost per unit in the last {drawn} weeks, from 0 to the highest"]
    return found


def _a_unit(line: UnitLine) -> float | None:
    return None if line.micros is None else line.micros * line.unit.per / line.units / MICROS


def _more(count: int, rows: int) -> list[str]:
    return [f"  and {count - rows} more: --top {count}"] if count > rows else []


def trend(line: UnitLine, layout: TextLayout) -> str:
    """Return a character for each of the last weeks, a blank where the price is not known; empty of fewer than two."""
    told = prices(line.weeks)[-_TREND_WEEKS:]
    known = [price for price in told if price is not None]
    if len(known) < 2:
        return ""
    most = max(known)
    return "".join(" " if price is None else layout.spark([price / most]) for price in told)


def _runs(report: UnitReport, layout: TextLayout, rows: int) -> list[str]:
    if not report.runs:
        return []
    width = 22 + layout.extra
    columns: tuple[TableColumn[RunLine], ...] = (
        name_column("COMPLETED RUN", lambda line: line.name, width),
        TableColumn("GPUs", lambda line: line.gpus, width=6),
        TableColumn("runs", lambda line: line.runs, width=7),
        TableColumn("GPU-hours", lambda line: line.milliseconds, GPU_TIME, 12),
        TableColumn(symbol(report.currency).strip(), lambda line: line.micros, AMOUNT, 12),
        TableColumn("before", lambda line: line.micros_before, AMOUNT, 12),
        TableColumn("+/- %", _times_before, _CHANGE, 9),
    )
    note = "  median of completed runs; before: of the previous four weeks"
    return [*paper_lines(columns, report.runs[:rows]), note, *_more(len(report.runs), rows)]


def _times_before(line: RunLine) -> float | None:
    return line.micros / line.micros_before if line.micros is not None and line.micros_before else None


def _waits(waits: tuple[Wait, ...], layout: TextLayout, rows: int) -> list[str]:
    known = [wait for wait in waits if wait.runs]
    if not known:
        return []
    width = 24 + layout.extra
    columns: tuple[TableColumn[Wait], ...] = (
        name_column("TIME TO FIRST WORK", lambda wait: wait.team or "unmapped", width),
        TableColumn("runs", lambda wait: wait.runs, width=8),
        TableColumn("not yet", lambda wait: wait.not_yet, width=10),
        TableColumn("queued", lambda wait: wait.queued_us_p50, _SPAN, 12),
        TableColumn("worked", lambda wait: wait.first_work_us_p50, _SPAN, 12),
        TableColumn("P90", lambda wait: wait.first_work_us_p90, _SPAN, 14),
    )
    return [*paper_lines(columns, known[:rows]), *layout.wrap(_WAITS)]


def _compute(report: UnitReport, layout: TextLayout, rows: int) -> list[str]:
    """Return a line a team: what it held, what share of it was useful, and what a useful hour cost."""
    if not report.compute:
        return []
    width = 24 + layout.extra
    columns: tuple[TableColumn[Compute], ...] = (
        name_column("COMPUTE BY TEAM", lambda one: one.team or "unmapped", width),
        TableColumn("GPU-hours", lambda one: one.milliseconds, GPU_TIME, 12),
        TableColumn("useful", lambda one: one.useful_permille, _SHARE, 9),
        TableColumn("before", lambda one: one.useful_permille_before, _SHARE, 9),
        TableColumn("active", lambda one: one.activity_permille, _SHARE, 9),
        TableColumn(
            f"{symbol(report.currency).strip()} per useful h",
            lambda one: one.micros_a_useful_hour,
            CellUnit(lambda price: f"{price / MICROS:,.2f}"),
            15,
        ),
    )
    lines = paper_lines(columns, report.compute[:rows])
    return [*lines, *_more(len(report.compute), rows), *layout.wrap(_USE)]


def _scaling(report: ScalingReport | None, layout: TextLayout, rows: int) -> list[str]:
    """Return the sizes of each model that was seen at several, the worst first."""
    if report is None or not (report.scaled or report.unsized):
        return []
    width = 23 + layout.extra
    sizes = [(one, place) for one in report.scaled[:rows] for place in range(len(one.scaling.sizes))]
    columns: tuple[TableColumn[_Size], ...] = (
        name_column("SCALING", lambda row: "" if row[1] else row[0].model, width),
        TableColumn("GPUs", lambda row: row[0].scaling.sizes[row[1]].gpus, width=8),
        TableColumn("runs", lambda row: row[0].scaling.sizes[row[1]].runs, width=8),
        TableColumn("per second", _rate, width=16),
        TableColumn("speed-up", lambda row: f"{row[0].scaling.sizes[row[1]].speed_up:.2f}", width=11),
        TableColumn("efficiency", lambda row: round(PERMILLE * row[0].scaling.sizes[row[1]].efficiency), _SHARE, 12),
    )
    found = paper_lines(columns, sizes) if sizes else ["SCALING"]
    found += _more(len(report.scaled), rows)
    if report.unsized:
        found += layout.wrap(f"{counted(report.unsized, 'model')}: one size only, or sizes that cannot be compared.")
    return found


def _rate(row: _Size) -> str:
    one, each = row[0], row[0].scaling.sizes[row[1]].per_second
    return f"{digits(each) if each < _WHOLE_LEAST else short(round(each))} {one.scaling.unit}"


def digits(value: float) -> str:
    """Return an amount with three digits that count: 0.00373, 0.549, 734."""
    if value <= 0:
        return "0"
    return f"{value:,.{max(0, _DIGITS - 1 - floor(log10(value)))}f}"


def short(count: int) -> str:
    """Return a count of work in few characters: 792 M."""
    value = float(count)
    for unit in ("", " k", " M", " bn", " tn", " qn"):
        if value < 1000 or unit == " qn":
            return f"{value:.0f}{unit}" if value >= 100 or not unit else f"{value:.3g}{unit}"
        value /= 1000
    raise AssertionError("BUG: the loop ends with qn")


def _each(value: float, change: Changed, currency: str) -> str:
    if change.is_priced:
        return f"{symbol(currency)}{digits(value / MICROS)}"
    return f"{digits(value / 3_600_000)} GPU-hours"


def _whole(change: Changed, currency: str) -> str:
    if change.is_priced:
        return money(abs(change.a_week), currency, 0)
    return f"{gpu_hours(abs(change.a_week))} GPU-hours"
