"""What is asked for and will be, as text: by stage, then the mix of buying that would cost least, and what it risks."""

from agent.wire.units import HOUR_MS
from analyzer.finops.demand.mix import Mix
from analyzer.finops.demand.outlook import AHEAD_DAYS, Outlook, SkuMix, StageLine
from analyzer.ledger.breakdown import column_like
from analyzer.text.layout import TextLayout
from analyzer.text.rounding import nearest
from analyzer.text.words import UNKNOWN, amount, counted, decimal, gpu_hours, moment_words, money, plain, symbol


def demand_text(report: Outlook, layout: TextLayout) -> str:
    """Return the outlook as text; the columns of asked and ahead add up."""
    head = f"demand, {report.timezone}"
    known = f"known until {moment_words(report.known_until, report.timezone)}"
    lines = [head + known.rjust(max(2 + len(known), layout.width - 2 - len(head))), ""]
    lines += [*layout.wrap(_first(report)), "", *_stages(report, layout), ""]
    for each in report.mixes:
        lines += [*_mix(each, report, layout), ""]
    if any(each.owned_gpus and each.now is not None for each in report.mixes):
        lines += [*layout.wrap("What is owned is paid for, used or not, and is in no cost of these tables."), ""]
    return layout.page([*lines, "next: gpuledger bill budgets      gpuledger bill prices"])


def _first(report: Outlook) -> str:
    whole = report.whole
    if not whole.milliseconds:
        if not whole.days:
            return "Less than a whole day is known: what is asked for in one is not."
        return "Nobody asked for a GPU in a whole day that is known."
    asked = f"{gpu_hours(whole.milliseconds, 0)} GPU-hours were asked for in {counted(whole.days, 'day')}"
    if whole.ahead is None:
        return f"{asked}; a forecast needs a week."
    said = f"{asked}; the next {AHEAD_DAYS} days ask for about {gpu_hours(whole.ahead.total, 0)}{_between(whole)}"
    held = "".join(
        f" {each.runs:,} {'run waits' if each.runs == 1 else 'runs wait'} for {each.gpus:,}"
        f" {plain(each.sku or 'GPUs')} now."
        for each in report.waiting
    )
    return f"{said}.{held}"


def _between(line: StageLine) -> str:
    ahead = line.ahead
    if ahead is None or ahead.low is None or ahead.high is None:
        return " (how sure that is, is not known yet)"
    return f" ({gpu_hours(ahead.low, 0)} to {gpu_hours(ahead.high, 0)})"


def _stages(report: Outlook, layout: TextLayout) -> list[str]:
    width = 24 + layout.extra
    whole = report.whole
    asked = _column([line.milliseconds for line in report.stages], whole.milliseconds)
    head = f"{'GPU-HOURS ASKED FOR':<{width}}{f'last {whole.days} days':>14}{f'next {AHEAD_DAYS}':>14}"
    found = [f"{head}{'80 % between':>24}"]
    for place, line in enumerate((*report.stages, whole)):
        ahead = UNKNOWN if line.ahead is None else gpu_hours(line.ahead.total, 0)
        span = UNKNOWN
        if line.ahead is not None and line.ahead.low is not None and line.ahead.high is not None:
            span = f"{gpu_hours(line.ahead.low, 0)} to {gpu_hours(line.ahead.high, 0)}"
        known = asked[place] if whole.days else UNKNOWN
        found.append(f"  {layout.cut(line.stage, width - 3):<{width - 2}}{known:>14}{ahead:>14}{span:>24}")
    found += layout.wrap(
        "each run's GPUs for as long as it ran, from when it was asked for: waiting is not less demand"
    )
    if any(line.ahead is not None for line in report.stages):
        found += layout.wrap("each stage is forecast by itself, so the next days need not add up")
    return found


def _column(exact: list[int], total: int) -> list[str]:
    rounded = nearest(total, HOUR_MS)
    return [*column_like(rounded, exact, HOUR_MS, 0), decimal(rounded, 0)]


def _mix(each: SkuMix, report: Outlook, layout: TextLayout) -> list[str]:
    name = plain(each.sku or "GPUs")
    if each.now is None or each.best is None:
        said = (
            f"{name}: no mix can be told: {', '.join(each.missing)}. Write them into the price file: gpuledger prices."
        )
        return layout.wrap(said)
    sign = symbol(report.currency).strip()
    width = 28 + layout.extra
    found = [f"{name + ': A WEEK':<{width}}{'held':>8}{'on demand':>11}{'spot':>9}{'short':>9}{'cost ' + sign:>13}"]
    rows: list[tuple[str, Mix | None]] = [("with what is held now", each.now), ("cheapest, likely demand", each.best)]
    rows.append(("cheapest, high demand", each.best_high))
    for label, mix in rows:
        if mix is None:
            found.append(f"  {label:<{width - 2}}{'not known yet':>50}")
            continue
        held = each.owned_gpus + mix.held_gpus
        found.append(
            f"  {label:<{width - 2}}{held:>8,}{mix.on_demand_gpu_hours:>11,}{mix.spot_gpu_hours:>9,}"
            f"{f'{mix.short_hours} h':>9}{amount(mix.micros_a_week, 0):>13}"
        )
    return [*found, *layout.wrap(_says(each, report.currency))]


def _says(each: SkuMix, currency: str) -> str:
    if each.now is None or each.best is None:
        raise AssertionError("BUG: what is missing was told")
    saves = each.now.micros_a_week - each.best.micros_a_week
    more = each.best.held_gpus - each.reserved_gpus
    if more == 0 or saves <= 0:
        kept = "What is reserved is what would cost least." if each.reserved_gpus else "To reserve none costs least."
        return f"{kept} {_risk(each.now)}."
    change = f"{abs(more):,} {'more' if more > 0 else 'fewer'} reserved"
    spot = (
        f" Spot is for {counted(each.best.spot_gpu_hours, 'GPU-hour')} that may be interrupted."
        if each.best.spot_gpu_hours
        else ""
    )
    return f"{change} would save {money(saves, currency, 0)} a week. {_risk(each.best)}.{spot}"


def _risk(mix: Mix) -> str:
    if not mix.short_hours:
        return "Never more is wanted than is held"
    return (
        f"What it risks: in {counted(mix.short_hours, 'hour')} a week more is wanted than is held, up to"
        f" {counted(mix.short_gpus, 'GPU')}, which on demand may not be there"
    )
