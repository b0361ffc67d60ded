"""What several recommendations save together, and what of it the bill will show."""

from collections.abc import Sequence

from agent.wire.units import HOUR_MS, MICROS, WEEK_SECONDS
from analyzer.interfaces.text.sentences import short_sku
from analyzer.ledger.coverage import Sku
from analyzer.period import local
from analyzer.recommendations.recommendation import Recommendation
from analyzer.recommendations.saving import over_words
from analyzer.reports.recommendation_words import is_predicted
from analyzer.text.words import UNKNOWN, day, decimal, nearest, symbol

_FIXED = ("reserved", "owned")  # paid for whether they are used or not


def all_priced(shown: Sequence[Recommendation]) -> bool:
    """Return whether each of them has a price: only then is money what is added up."""
    return all(recommendation.saves_micros is not None for recommendation in shown)


def saved_over(shown: Sequence[Recommendation]) -> str:
    """Return the span of which these, all of one period, are told: "a week", or "in the 2 h seen"."""
    return over_words(shown[0].saves_over_seconds if shown else WEEK_SECONDS)


def saving_column(shown: Sequence[Recommendation], currency: str) -> tuple[list[str], str]:
    """Return what each saves (P50), in the span that saved_over() names, and their sum: money, or time without prices.

    Each is rounded by itself, as wherever else it is shown, and what is summed is what is printed. What can only be
    tried is a dash; where nothing else is shown, there is no sum.
    """
    if not any(map(is_predicted, shown)):
        return [UNKNOWN] * len(shown), ""
    units = _units(shown)
    sign = symbol(currency)
    each = [f"{sign}{unit:,}" if all_priced(shown) else f"{decimal(unit, 1)} h" for unit in units]
    each = [amount if is_predicted(one) else UNKNOWN for one, amount in zip(shown, each, strict=True)]
    return each, _whole(sum(units), shown, currency)


def bill_words(shown: Sequence[Recommendation], fleet: Sequence[Sku], currency: str, timezone: str) -> str:
    """Return what of these savings the bill shows: GPUs bought or reserved cost the same, used or not.

    The two parts sum to what saving_column() prints.
    """
    billed = sum(_billed_unit(one, priced=all_priced(shown)) for one in shown)
    fixed = [sku for sku in fleet if sku.purchase_option in _FIXED]
    words = _skus(fixed, fleet, timezone)
    if billed <= 0:
        if not fixed:
            return "GPUs freed for other work; the bill falls by what is handed back."
        return f"GPUs freed for other work. The bill itself stays as it is ({words})."
    use = _skus([sku for sku in fleet if sku.purchase_option not in _FIXED], fleet, timezone)
    freed = sum(_units(shown)) - billed
    of_these = f" ({use})" if use else ""
    falls = f"the bill falls by {_whole(billed, shown, currency)} once they are handed back{of_these}."
    if freed <= 0:
        return falls
    stays = f" What is paid for either way stays: {words}." if fixed else ""
    return f"{_whole(freed, shown, currency)} of it in GPUs freed for other work; {falls}{stays}"


def _units(shown: Sequence[Recommendation]) -> list[int]:
    if all_priced(shown):
        return [nearest(saves.p50, MICROS) for one in shown if (saves := one.saves_micros)]
    return [nearest(one.saves_milliseconds.p50 * 10, HOUR_MS) for one in shown]


def _billed_unit(one: Recommendation, *, priced: bool) -> int:
    if one.billed is None:
        return 0
    if not priced:
        return nearest(one.billed.milliseconds.p50 * 10, HOUR_MS)
    return nearest(one.billed.micros.p50, MICROS) if one.billed.micros is not None else 0


def _whole(units: int, shown: Sequence[Recommendation], currency: str) -> str:
    return f"{symbol(currency)}{units:,}" if all_priced(shown) else f"{decimal(units, 1)} GPU-hours"


def _skus(some: Sequence[Sku], fleet: Sequence[Sku], timezone: str) -> str:
    names = {sku.sku for sku in fleet}
    return ", ".join(
        f"{sku.gpus:,} {short_sku(sku.sku, names)} {(sku.purchase_option or 'of unknown purchase').replace('_', ' ')}"
        f"{_until(sku, timezone)}"
        for sku in some
    )


def _until(sku: Sku, timezone: str) -> str:
    if sku.until is None:
        return ""
    last = local(sku.until - 1, timezone)
    return f" until {day(last).split(' ', 1)[1]} {last.year}"
