"""What will be asked for in the next weeks, by stage and kind of GPU, and the mix that would cost least."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US, HOUR_US
from analyzer.finops.demand.mix import Mix, Rates, best_mix, mix_of, scaled
from analyzer.finops.demand.request_hours import SkuAndOption, Waiting, asked_for, summed_hours, waiting_runs
from analyzer.finops.forecast.forecast import Forecast, forecast
from analyzer.period import day_starts, local, midnight

if TYPE_CHECKING:
    from analyzer.prices.price_book import PriceBook
    from collector.store.session import Session

_HISTORY_DAYS = 98
AHEAD_DAYS = 28
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
    session: "Session", now: int, timezone: str, currency: str, prices: "PriceBook", gpus: Mapping[SkuAndOption, int]
) -> Outlook:
    """Read what was asked for and say what will be. `gpus` are those that the fleet has, by SKU and option."""
    today = midnight(local(now, timezone).date(), timezone)
    (first,) = session.row("SELECT min(hour) FROM ledger_hours WHERE hour >= ?", [today - _HISTORY_DAYS * DAY_US])
    start = today if first is None else _whole_day(first, timezone)
    demand = asked_for(session, start, today)
    days = _days(start, today, timezone)
    stages = sorted({stage for _, stage in demand})
    lines = [
        _line(stage, summed_hours(demand, [kind for kind in demand if kind[1] == stage]), days) for stage in stages
    ]
    whole = _line("all", summed_hours(demand, list(demand)), days)
    mixes = tuple(_mix(sku, demand, days, whole, now, prices, gpus) for sku in _skus(demand, gpus))
    ordered = tuple(sorted(lines, key=lambda line: (-line.milliseconds, line.stage)))
    return Outlook(timezone, currency, now, len(days) - 1, ordered, whole, waiting_runs(session, now), mixes)


def _whole_day(first: int, timezone: str) -> int:
    start = midnight(local(first, timezone).date(), timezone)
    return start if start == first else midnight(local(start + 36 * HOUR_US, timezone).date(), timezone)


def _days(start: int, end: int, timezone: str) -> list[int]:
    """Return the first instants of the days from `start` to `end`, both included."""
    return [*day_starts(start, end, timezone), end]


def _line(stage: str, hours: Mapping[int, int], days: Sequence[int]) -> StageLine:
    by_day = [sum(hours.get(hour, 0) for hour in range(start, end, HOUR_US)) for start, end in pairwise(days)]
    last = by_day[-AHEAD_DAYS:]
    return StageLine(stage, len(last), sum(last), forecast(by_day, AHEAD_DAYS))


def _skus(demand: Mapping[SkuAndOption, object], gpus: Mapping[SkuAndOption, int]) -> list[str]:
    return sorted({sku for sku, _ in (*demand, *gpus) if sku is not None})


def _mix(
    sku: str,
    demand: Mapping[SkuAndOption, Mapping[int, int]],
    days: Sequence[int],
    whole: StageLine,
    now: int,
    prices: "PriceBook",
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
        missing.append("less than a week is known")
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
    past = whole.milliseconds * AHEAD_DAYS // whole.days  # of as many days as lie ahead
    high = None if ahead.high is None else (ahead.high, past)
    return (ahead.total, past), high


def _hours(demand: Mapping[SkuAndOption, Mapping[int, int]], kinds: list[SkuAndOption], hours: range) -> list[int]:
    found = summed_hours(demand, kinds)
    return [found.get(hour, 0) for hour in hours]


def _rate(prices: "PriceBook", sku: str, option: str, now: int) -> int | None:
    """Return the price of this very option; one that holds for any option says nothing of what another would cost."""
    price = prices.price(sku, option, now)
    return price.micros_per_gpu_hour if price is not None and price.option == option else None
