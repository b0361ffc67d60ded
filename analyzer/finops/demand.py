"""How much GPU time is asked for, how much will be, and what mix of buying it would cost least.

A reserved GPU is paid for whether it is used or not; one more pays where it would be wanted for a larger share of the
hours than its price is of the one on demand (the newsvendor's rule). Prices in millionths for a GPU-hour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent.wire.units import DAY_US, HOUR_MS, HOUR_US, MILLISECOND_US
from analyzer.finops.forecast import Forecast, forecast
from analyzer.ledger.breakdown import column_like
from analyzer.period import day_starts, local, midnight
from analyzer.prices.price_book import PriceBook
from analyzer.queries.ledger_query import QueuedRun, read_queue
from analyzer.queries.statements import statements
from analyzer.text.layout import TextLayout
from analyzer.text.table import WHOLE_AMOUNT, CellUnit, TableColumn, name_column, paper_lines
from analyzer.text.words import UNKNOWN, counted, decimal, gpu_hours, moment_words, money, nearest, plain, symbol
from collector.store.session import Session

_STEPS_MOST = 400  # sizes that are tried; fleets of more GPUs are tried in larger steps
_WEEK_HOURS = 168


@dataclass(frozen=True, slots=True)
class Rates:
    """What a GPU-hour costs by way of buying; None: nobody has said a price, and that way is left out."""

    reserved: int | None
    on_demand: int | None
    spot: int | None


@dataclass(frozen=True, slots=True)
class Mix:
    """A number of GPUs held for good beside those that are owned, and what a week of it costs in millionths.

    `short_hours` is how many hours a week more is wanted than is held, `short_gpus` how many GPUs more at the most.
    """

    held_gpus: int
    micros_a_week: int
    on_demand_gpu_hours: int
    spot_gpu_hours: int
    short_hours: int
    short_gpus: int


def best_mix(firm: Sequence[int], loose: Sequence[int], owned_gpus: int, rates: Rates) -> Mix | None:
    """Return the cheapest mix; None where prices are missing that it needs: of reserving and of buying on demand.

    `firm` and `loose` are GPU milliseconds wanted in each hour, `loose` of what may be interrupted. Owned GPUs are
    there at no further cost.
    """
    if rates.reserved is None or rates.on_demand is None or not firm:
        return None
    most = max(-(-(a + b) // HOUR_MS) for a, b in zip(firm, loose, strict=True))
    step = max(1, -(-(most - owned_gpus) // _STEPS_MOST))
    sizes = range(0, max(0, most - owned_gpus) + step, step)
    return min((mix_of(firm, loose, owned_gpus, size, rates) for size in sizes), key=lambda mix: mix.micros_a_week)


def mix_of(firm: Sequence[int], loose: Sequence[int], owned_gpus: int, held_gpus: int, rates: Rates) -> Mix:
    """Return what holding so many GPUs costs a week, where all that is wanted is bought."""
    room = (owned_gpus + held_gpus) * HOUR_MS
    short = [max(0, need - room) for need in firm]
    left = [max(0, room - need) for need in firm]
    over = [max(0, extra - free) for extra, free in zip(loose, left, strict=True)]
    spot_ms = sum(over) if rates.spot is not None else 0
    demand_ms = sum(short) + (0 if rates.spot is not None else sum(over))
    hours = len(firm)
    paid = held_gpus * hours * HOUR_MS * (rates.reserved or 0) + demand_ms * (rates.on_demand or 0)
    paid += spot_ms * (rates.spot or 0)
    return Mix(
        held_gpus,
        paid * _WEEK_HOURS // (hours * HOUR_MS),
        demand_ms * _WEEK_HOURS // (hours * HOUR_MS),
        spot_ms * _WEEK_HOURS // (hours * HOUR_MS),
        sum(a + b > 0 for a, b in zip(short, over, strict=True)) * _WEEK_HOURS // hours,
        -(-max(a + b for a, b in zip(short, over, strict=True)) // HOUR_MS),
    )


def scaled(hours: Sequence[int], part: int, whole: int) -> list[int]:
    """Return hours of a demand that is `part` of `whole` of this one."""
    return [amount * part // whole for amount in hours] if whole else list(hours)


SkuAndOption = tuple[str | None, str]  # SKU, stage


@dataclass(frozen=True, slots=True)
class Waiting:
    """Runs that wait for GPUs of one kind now."""

    sku: str | None
    runs: int
    gpus: int


def asked_for(session: Session, start: int, end: int) -> dict[SkuAndOption, dict[int, int]]:
    """Return GPU milliseconds by kind and hour that were asked for."""
    (query,) = statements("finops/demand/asked.sql")
    found: dict[SkuAndOption, dict[int, int]] = {}
    for sku, stage, hour, milliseconds in session.rows(query, {"start": start, "end": end}):
        found.setdefault((sku, stage), {})[hour] = milliseconds
    return found


def _add_waiting(
    demand: dict[SkuAndOption, dict[int, int]], runs: Sequence[QueuedRun], sku: str | None, span: tuple[int, int]
) -> None:
    """Add what waits, which is wanted since it was submitted; of a fleet of one kind of GPU it waits for that."""
    for run in runs:
        hours = demand.setdefault((sku, "unknown"), {})
        since = max(run.submitted_at or span[1], span[0])
        for hour in range(since // HOUR_US * HOUR_US, span[1], HOUR_US):
            until = min(hour + HOUR_US, span[1])
            hours[hour] = hours.get(hour, 0) + run.gpus * ((until - max(hour, since)) // MILLISECOND_US)


def _summed_hours(demand: Mapping[SkuAndOption, Mapping[int, int]], wanted: "list[SkuAndOption]") -> dict[int, int]:
    """Return GPU milliseconds by hour of several kinds."""
    found: dict[int, int] = {}
    for kind in wanted:
        for hour, milliseconds in demand[kind].items():
            found[hour] = found.get(hour, 0) + milliseconds
    return found


_HISTORY_DAYS = 98
_AHEAD_DAYS = 28
_MIX_DAYS_LEAST = 7
# Stages whose runs are short or begin again cheaply; what trains or serves is not counted as such (ours).
_INTERRUPTIBLE = ("data preparation", "evaluation")


@dataclass(frozen=True, slots=True)
class StageLine:
    """GPU milliseconds that one stage asked for in the last four weeks that are known, and will in the next four."""

    stage: str
    days: int  # of them known: less than 28 where the ledger is young
    milliseconds: int
    ahead: Forecast | None


@dataclass(frozen=True, slots=True)
class SkuMix:
    """The mix of one kind of GPU now and the cheapest one at the demand that is likely; None: what `missing` says."""

    sku: str | None
    owned_gpus: int
    reserved_gpus: int
    rates: Rates
    now: Mix | None
    best: Mix | None
    best_high: Mix | None  # at the upper end of the forecast
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outlook:
    """Demand as of the newest hour that is known."""

    timezone: str
    currency: str
    known_until: int
    days: int
    stages: tuple[StageLine, ...]
    whole: StageLine
    waiting: tuple[Waiting, ...]
    mixes: tuple[SkuMix, ...]


def outlook(
    session: Session, now: int, timezone: str, currency: str, prices: PriceBook, gpus: Mapping[SkuAndOption, int]
) -> Outlook:
    """Read what was asked for and say what will be. `gpus` are those that the fleet has, by SKU and option."""
    today = midnight(local(now, timezone).date(), timezone)
    (first,) = session.row("SELECT min(hour) FROM ledger_hours WHERE hour >= ?", [today - _HISTORY_DAYS * DAY_US])
    start = today if first is None else _whole_day(first, timezone)
    demand = asked_for(session, start, today)
    waiting, kinds = read_queue(session, now), {sku for sku, _ in gpus}
    sku = kinds.pop() if len(kinds) == 1 else None
    _add_waiting(demand, waiting, sku, (start, today))
    days = [*day_starts(start, today, timezone), today]
    stages = sorted({stage for _, stage in demand})
    lines = [
        _line(stage, _summed_hours(demand, [kind for kind in demand if kind[1] == stage]), days) for stage in stages
    ]
    whole = _line("all", _summed_hours(demand, list(demand)), days)
    mixes = tuple(_mix(sku, demand, days, whole, now, prices, gpus) for sku in _skus(demand, gpus))
    held_up = (Waiting(sku, len(waiting), sum(run.gpus for run in waiting)),) if waiting else ()
    ordered = tuple(sorted(lines, key=lambda line: (-line.milliseconds, line.stage)))
    return Outlook(timezone, currency, now, len(days) - 1, ordered, whole, held_up, mixes)


def _whole_day(first: int, timezone: str) -> int:
    start = midnight(local(first, timezone).date(), timezone)
    return start if start == first else midnight(local(start + 36 * HOUR_US, timezone).date(), timezone)


def _line(stage: str, hours: Mapping[int, int], days: Sequence[int]) -> StageLine:
    by_day = [sum(hours.get(hour, 0) for hour in range(start, end, HOUR_US)) for start, end in pairwise(days)]
    last = by_day[-_AHEAD_DAYS:]
    return StageLine(stage, len(last), sum(last), forecast(by_day, _AHEAD_DAYS))


def _skus(demand: Mapping[SkuAndOption, object], gpus: Mapping[SkuAndOption, int]) -> list[str]:
    return sorted({sku for sku, _ in (*demand, *gpus) if sku is not None})


def _mix(
    sku: str,
    demand: Mapping[SkuAndOption, Mapping[int, int]],
    days: Sequence[int],
    whole: StageLine,
    now: int,
    prices: PriceBook,
    gpus: Mapping[SkuAndOption, int],
) -> SkuMix:
    owned = sum(count for (kind, option), count in gpus.items() if kind == sku and option == "owned")
    reserved = sum(count for (kind, option), count in gpus.items() if kind == sku and option == "reserved")
    rates = Rates(*(_rate(prices, sku, option, now) for option in ("reserved", "on_demand", "spot")))
    missing = [
        f"no {name} price of {sku}"
        for name, rate in (("reserved", rates.reserved), ("on-demand", rates.on_demand))
        if rate is None
    ]
    if len(days) - 1 < _MIX_DAYS_LEAST:
        missing.append("less than a week of data is known")
    if missing:
        return SkuMix(sku, owned, reserved, rates, None, None, None, tuple(missing))
    hours = range(days[0], days[-1], HOUR_US)
    firm, loose = (
        _hours(demand, [kind for kind in demand if kind[0] == sku and (kind[1] in _INTERRUPTIBLE) is is_loose], hours)
        for is_loose in (False, True)
    )
    likely, high = _growth(whole)
    grown = [scaled(firm, *likely), scaled(loose, *likely)]
    at_most = [scaled(firm, *high), scaled(loose, *high)] if high else None
    return SkuMix(
        sku,
        owned,
        reserved,
        rates,
        mix_of(grown[0], grown[1], owned, reserved, rates),
        best_mix(grown[0], grown[1], owned, rates),
        best_mix(at_most[0], at_most[1], owned, rates) if at_most else None,
        (),
    )


def _growth(whole: StageLine) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """Return how demand grows as (part, whole), likely and at the upper end: from the history's days to those ahead."""
    ahead = whole.ahead
    if ahead is None or not whole.milliseconds:
        return (1, 1), None
    past = whole.milliseconds * _AHEAD_DAYS // whole.days  # of as many days as lie ahead
    high = None if ahead.high is None else (ahead.high, past)
    return (ahead.total, past), high


def _hours(demand: Mapping[SkuAndOption, Mapping[int, int]], kinds: list[SkuAndOption], hours: range) -> list[int]:
    found = _summed_hours(demand, kinds)
    return [found.get(hour, 0) for hour in hours]


def _rate(prices: PriceBook, sku: str, option: str, now: int) -> int | None:
    """Return the price of this very option; one that holds for any option says nothing of what another would cost."""
    price = prices.price(sku, option, now)
    return price.micros_per_gpu_hour if price is not None and price.option == option else None


_WHOLE_HOURS = CellUnit(lambda milliseconds: gpu_hours(milliseconds, 0))
_COUNT = CellUnit("{:,}".format)
_MixRow = tuple[str, Mix | None]  # what it is called; None where it is not known yet


def demand_text(report: Outlook, layout: TextLayout) -> str:
    """Return the outlook as text; the columns of asked and ahead add up."""
    head = f"demand, {report.timezone}"
    known = f"known until {moment_words(report.known_until, report.timezone)}"
    lines = [*layout.ends(head, known), ""]
    lines += [*layout.wrap(_first(report)), "", *_stages(report, layout), ""]
    for each in report.mixes:
        lines += [*_mix_lines(each, report, layout), ""]
    if any(each.owned_gpus and each.now is not None for each in report.mixes):
        lines += [*layout.wrap("Owned GPUs are paid for, used or not, and are not in the costs of these tables."), ""]
    return layout.page([*lines, "next: gpuledger bill budgets      gpuledger bill prices"])


def _first(report: Outlook) -> str:
    whole = report.whole
    if not whole.milliseconds:
        if not whole.days:
            return "Insufficient data: less than one full day is known."
        return "No GPU was requested on any full day that is known."
    asked = f"{gpu_hours(whole.milliseconds, 0)} GPU-hours were requested in {counted(whole.days, 'day')}"
    if whole.ahead is None:
        return f"{asked}; a forecast needs a week."
    said = (
        f"{asked}; the forecast for the next {_AHEAD_DAYS} days is {gpu_hours(whole.ahead.total, 0)}{_between(whole)}"
    )
    held = "".join(
        f" {each.runs:,} {'run waits' if each.runs == 1 else 'runs wait'} for {each.gpus:,}"
        f" {plain(each.sku or 'GPUs')} now."
        for each in report.waiting
    )
    return f"{said}.{held}"


def _between(line: StageLine) -> str:
    return f" ({_span(line) or 'no interval yet'})"


def _stages(report: Outlook, layout: TextLayout) -> list[str]:
    whole = report.whole
    columns: tuple[TableColumn[StageLine], ...] = (
        name_column("GPU-HOURS REQUESTED", lambda line: line.stage, 24 + layout.extra),
        TableColumn(
            f"last {whole.days} days",
            lambda line: line.milliseconds,
            width=14,
            together=lambda values: _column(values[:-1], values[-1]) if whole.days else [UNKNOWN] * len(values),
        ),
        TableColumn(f"next {_AHEAD_DAYS}", lambda line: line.ahead and line.ahead.total, _WHOLE_HOURS, 14),
        TableColumn("80% between", _span, width=24),
    )
    found = paper_lines(columns, (*report.stages, whole))
    found += layout.wrap("each run's GPUs for its run time, counted from its request: queueing does not reduce demand")
    if any(line.ahead is not None for line in report.stages):
        found += layout.wrap("stages are forecast separately, so the next days need not add up")
    return found


def _span(line: StageLine) -> str | None:
    """Return "1,000 to 1,400", or None where no interval is known."""
    ahead = line.ahead
    if ahead is None or ahead.low is None or ahead.high is None:
        return None
    return f"{gpu_hours(ahead.low, 0)} to {gpu_hours(ahead.high, 0)}"


def _column(exact: Sequence[int], total: int) -> list[str]:
    rounded = nearest(total, HOUR_MS)
    return [*column_like(rounded, exact, HOUR_MS, 0), decimal(rounded, 0)]


def _mix_lines(each: SkuMix, report: Outlook, layout: TextLayout) -> list[str]:
    name = plain(each.sku or "GPUs")
    if each.now is None or each.best is None:
        said = f"{name}: no mix can be computed: {', '.join(each.missing)}."
        return layout.wrap(f"{said} Add them to the price file: gpuledger bill prices.")
    sign = symbol(report.currency).strip()
    width = 28 + layout.extra
    columns: tuple[TableColumn[_MixRow], ...] = (
        TableColumn(f"{name}: PER WEEK", lambda row: row[0], width=width, align="<"),
        TableColumn("held", lambda row: row[1] and each.owned_gpus + row[1].held_gpus, _COUNT, 8),
        TableColumn("on demand", lambda row: row[1] and row[1].on_demand_gpu_hours, _COUNT, 11),
        TableColumn("spot", lambda row: row[1] and row[1].spot_gpu_hours, _COUNT, 9),
        TableColumn("short", lambda row: row[1] and f"{row[1].short_hours} h", width=9),
        TableColumn(f"cost {sign}", lambda row: row[1] and row[1].micros_a_week, WHOLE_AMOUNT, 13),
    )
    rows: list[_MixRow] = [
        ("with what is held now", each.now),
        ("cheapest, likely demand", each.best),
        ("cheapest, high demand", each.best_high),
    ]
    return [*paper_lines(columns, rows), *layout.wrap(_says(each, report.currency))]


def _says(each: SkuMix, currency: str) -> str:
    if each.now is None or each.best is None:
        raise AssertionError("BUG: what is missing was told")
    saves = each.now.micros_a_week - each.best.micros_a_week
    more = each.best.held_gpus - each.reserved_gpus
    if more == 0 or saves <= 0:
        kept = "The current reservation is the cheapest." if each.reserved_gpus else "No reservation is the cheapest."
        return f"{kept} {_risk(each.now)}."
    change = f"{abs(more):,} {'more' if more > 0 else 'fewer'} reserved"
    spot = (
        f" Spot is for {counted(each.best.spot_gpu_hours, 'GPU-hour')} that may be interrupted."
        if each.best.spot_gpu_hours
        else ""
    )
    return f"{change} would save {money(saves, currency, 0)} per week. {_risk(each.best)}.{spot}"


def _risk(mix: Mix) -> str:
    if not mix.short_hours:
        return "Demand never exceeds what is held"
    return (
        f"Risk: in {counted(mix.short_hours, 'hour')} per week demand exceeds what is held, by up to"
        f" {counted(mix.short_gpus, 'GPU')}, which may not be available on demand"
    )
