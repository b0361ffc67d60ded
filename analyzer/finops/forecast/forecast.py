"""What a daily series comes to over the next days, with the interval in which four of five such forecasts came out."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.finops.forecast.backtest import Backtest, backtest, best
from analyzer.finops.forecast.models import Model, models
from analyzer.finops.forecast.season import WEEK_DAYS

_LOW, _HIGH = 10, 90  # percentiles: an interval of 80 %
ORIGINS_LEAST = 10  # below, a tenth is no error that was seen
_HISTORY_MOST = 182  # half a year of days: what a model is shown


@dataclass(frozen=True, slots=True)
class Forecast:
    """The sum of the next days, and each of them. `low` and `high` are None until enough forecasts could be tested."""

    total: int
    low: int | None
    high: int | None
    by_day: tuple[int, ...]
    model: str
    mase: float | None
    origins: int
    days_known: int


def forecast(
    history: Sequence[int | None], days: int, asked: Sequence[Model] | None = None, least: int = 0
) -> Forecast | None:
    """Return the forecast of `days` days, or None where not one week is known.

    History is by day, oldest first; None is a day that was not wholly known, and counts as the same weekday did before.
    No amount is below `least` (0: money and time are not negative).
    """
    known = _filled(history)[-_HISTORY_MOST:]
    able = [model for model in (models() if asked is None else asked) if len(known) >= model.least_days]
    if not able or len(known) < WEEK_DAYS:
        return None
    if days == 0:
        return Forecast(0, 0, 0, (), able[0].name, None, 0, len(known))
    chosen = best([backtest(model, known, days) for model in able])
    by_day = tuple(max(least, amount) for amount in chosen.model.continued(known, days))
    total = sum(by_day)
    low, high = _interval(chosen, total, least * days)
    return Forecast(total, low, high, by_day, chosen.model.name, chosen.mase, len(chosen.errors), len(known))


def days_missing(history: Sequence[int | None], days: int) -> int:
    """Return how many more days of history an interval over `days` days needs; 0 where there are enough."""
    return max(0, WEEK_DAYS + days + ORIGINS_LEAST - 1 - len(_filled(history)))


def _filled(history: Sequence[int | None]) -> list[int]:
    """Return the series from its first known day on, gaps filled with the same weekday before, else the day before."""
    filled: list[int] = []
    for amount in history:
        if amount is not None:
            filled.append(amount)
        elif len(filled) >= WEEK_DAYS:
            filled.append(filled[-WEEK_DAYS])
        elif filled:
            filled.append(filled[-1])
    return filled


def _interval(test: Backtest, total: int, least: int) -> tuple[int | None, int | None]:
    if len(test.errors) < ORIGINS_LEAST:
        return None, None
    errors = sorted(test.errors)
    low, high = (errors[_place(percent, len(errors))] for percent in (_LOW, _HIGH))
    # A model that always erred to one side is not corrected, but its own forecast stays inside.
    return max(least, total + min(low, 0)), max(least, total + max(high, 0))


def _place(percent: int, count: int) -> int:
    """Return the position of a percentile: the first that so many of a hundred do not exceed."""
    return min(count - 1, max(0, -(-percent * count // 100) - 1))
