"""Unit economics as text: what changed first, then what units of work, whole runs and waiting came to."""

from agent.wire.units import MICROS, SECOND_US
from analyzer.finops.unit_cost.change import MOVED_LEAST, Changed
from analyzer.finops.unit_cost.figures import digits, short
from analyzer.finops.unit_cost.report import RunLine, UnitLine, UnitReport, Wait
from analyzer.finops.unit_cost.use_text import compute_lines, scaling_lines
from analyzer.finops.unit_cost.weeks import prices
from analyzer.text.layout import TextLayout
from analyzer.text.words import (
    UNKNOWN,
    amount,
    days,
    duration,
    gpu_hours,
    moment_words,
    money,
    money_decimals,
    plain,
    symbol,
)

_ROWS = 12
_WAITS = "the middle run: until it left the queue, and until a GPU of it worked; and what nine of ten did not exceed"
_TREND_WEEKS = 5


def units_text(report: UnitReport, layout: TextLayout, top: int | None = None) -> str:
    """Return unit economics as text."""
    head = f"units {report.period.label}   {days(report.period)}, {report.period.timezone}"
    rows = top or _ROWS
    sections = [
        [head],
        _first(report, layout),
        _units(report, layout, rows),
        [line for note in report.notes for line in layout.wrap(note)],
        _runs(report, layout, rows),
        compute_lines(report, layout, rows),
        scaling_lines(report.scaling, layout, rows),
        _waits(report.waits, layout, rows),
    ]
    lines = [line for section in sections if section for line in (*section, "")]
    return layout.page([*lines, "next: gpuledger report week      gpuledger budgets"])


def change_words(line: UnitLine, change: Changed, currency: str, timezone: str) -> str:
    """Return "ranker-serve: $0.041 -> $0.079 per 1,000 requests since Tue 10 Nov 14:00, $412 a week. ..."."""
    more = "more" if change.a_week > 0 else "less"
    a_week = f"about {_whole(change, currency)} a week {more}"
    told = f"{_each(change.before, change, currency)} -> {_each(change.after, change, currency)}"
    since = moment_words(change.at, timezone)
    return f"{plain(line.name)}: {told} per {line.unit.words} since {since}, {a_week}. {_factor_words(line, change)}"


def _factor_words(line: UnitLine, change: Changed) -> str:
    """Return "Tokens a request rose 1.9x; GPUs, price did not change."."""
    moved, still = [], []
    for one in change.factors:
        if one.ratio is None:
            continue
        name = f"{line.unit.noun} an hour" if one.factor == "units" else one.factor
        if one.ratio >= MOVED_LEAST:
            moved.append(f"{name} rose {one.ratio:.1f}x")
        elif one.ratio <= 1 / MOVED_LEAST:
            moved.append(f"{name} fell to {one.ratio:.2f}x")
        else:
            still.append(name)
    unmoved = " and ".join([", ".join(still[:-1]), still[-1]] if len(still) > 1 else still)
    told = "; ".join([*moved, *([f"{unmoved} did not change"] if still else [])])
    return f"{told[0].upper()}{told[1:]}." if told else "Why is not known."


def _first(report: UnitReport, layout: TextLayout) -> list[str]:
    if not report.units and not report.runs:
        return layout.wrap(
            "Nothing said what it did: let runs say their steps or tokens (docs/progress.md) and services be read"
            " (docs/services.md)."
        )
    if (
        not report.changes
        and all(one.ratio is None for one in report.units)
        and not any(one.runs_before for one in report.runs)
    ):
        return layout.wrap("No earlier price of any of this work is known to compare with.")
    if not report.changes:
        return layout.wrap("No unit of work moved to another price for good in this period.")
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
    width = (22 - drawn if drawn else 24) + layout.extra
    sign = symbol(report.currency).strip()
    head = f"{'A UNIT OF WORK':<{width}}{'a unit is':<17}{'done':>9}{'cost ' + sign:>10}"
    found = [f"{head}{sign + ' a unit':>10}{'+/- %':>8}" + f"{'trend':>{drawn + 2}}" * bool(drawn)]
    decimals = money_decimals(max((line.micros or 0 for line in shown), default=0))
    for line, drawing in zip(shown, trends, strict=True):
        cost = UNKNOWN if line.micros is None else amount(line.micros, decimals)
        each = UNKNOWN if line.micros is None else digits(line.micros * line.unit.per / line.units / MICROS)
        name = layout.cut(line.name, width - 3)
        change = UNKNOWN if line.ratio is None else f"{100 * (line.ratio - 1):+.1f}"
        text = f"  {name:<{width - 2}}{line.unit.short:<17}{short(line.units):>9}{cost:>10}{each:>10}{change:>8}"
        found.append(f"{text}{drawing:>{drawn + 2}}" if drawn else text)
    more = len(report.units) - rows
    found += [f"  and {more} more: --top {len(report.units)}"] if more > 0 else []
    if drawn:
        found += [f"  trend: the price of a unit in the last {drawn} weeks, from nothing to the dearest"]
    return found


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
    sign = symbol(report.currency).strip()
    found = [
        f"{'WHOLE RUN':<{width}}{'GPUs':>6}{'runs':>7}{'GPU-hours':>12}{sign:>12}{'before':>12}{'+/- %':>9}",
        *(_run_row(line, width, layout) for line in report.runs[:rows]),
        "  the middle one of those that completed; before: of the four weeks before",
    ]
    more = len(report.runs) - rows
    return [*found, *([f"  and {more} more: --top {len(report.runs)}"] if more > 0 else [])]


def _run_row(line: RunLine, width: int, layout: TextLayout) -> str:
    now, then = line.micros, line.micros_before
    cost = UNKNOWN if now is None else amount(now)
    before = UNKNOWN if then is None else amount(then)
    change = f"{100 * (now / then - 1):+.1f}" if now is not None and then else UNKNOWN
    name = layout.cut(line.name, width - 3)
    hours = gpu_hours(line.milliseconds)
    return f"  {name:<{width - 2}}{line.gpus:>6}{line.runs:>7}{hours:>12}{cost:>12}{before:>12}{change:>9}"


def _waits(waits: tuple[Wait, ...], layout: TextLayout, rows: int) -> list[str]:
    known = [wait for wait in waits if wait.runs]
    if not known:
        return []
    width = 24 + layout.extra
    found = [
        f"{'FROM REQUEST TO WORK':<{width}}{'runs':>8}{'not yet':>10}{'queued':>12}{'worked':>12}{'nine of ten':>14}"
    ]
    for wait in known[:rows]:
        spans = (wait.queued_us_p50, wait.first_work_us_p50, wait.first_work_us_p90)
        queued, middle, most = (UNKNOWN if span is None else duration(span // SECOND_US) for span in spans)
        name = layout.cut(wait.team or "unmapped", width - 3)
        found.append(f"  {name:<{width - 2}}{wait.runs:>8}{wait.not_yet:>10}{queued:>12}{middle:>12}{most:>14}")
    return [*found, *layout.wrap(_WAITS)]


def _each(value: float, change: Changed, currency: str) -> str:
    if change.is_priced:
        return f"{symbol(currency)}{digits(value / MICROS)}"
    return f"{digits(value / 3_600_000)} GPU-hours"


def _whole(change: Changed, currency: str) -> str:
    if change.is_priced:
        return money(abs(change.a_week), currency, 0)
    return f"{gpu_hours(abs(change.a_week))} GPU-hours"
