"""What the next days of a series will come to, and how sure that is: models, and the backtest that chooses among them.

Seasonal-naive is the one to beat: on 20 synthetic hourly series of ten weeks its mean absolute error was 9.35, where
Holt-Winters had 8.01, MSTL with AutoETS 7.65, AutoTheta 14.6 and prophet 13.99 (algorithms.md 7). The mean of four
weeks is ours: it forgives one odd week. What statsforecast fits is asked only where it is installed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

WEEK_DAYS = 7


def fitted(history: Sequence[int], days: int) -> list[int]:
    """Return what MSTL with AutoETS makes of a daily series that has weeks in it; no amount is below 0."""
    import numpy
    from statsforecast.models import MSTL, AutoETS

    model = MSTL(season_length=WEEK_DAYS, trend_forecaster=AutoETS(model="ZZN"))
    mean = model.forecast(y=numpy.asarray(history, dtype=float), h=days)["mean"]
    return [max(0, round(float(amount))) for amount in mean]


_WEEKS_MEANT = 4


@dataclass(frozen=True, slots=True)
class Model:
    """One way to continue a series; it needs at least so many days of history."""

    name: str
    least_days: int
    continued: Callable[[Sequence[int], int], list[int]]


def seasonal_naive(history: Sequence[int], days: int) -> list[int]:
    """Return each coming day as the same weekday was in the last week."""
    return [history[len(history) - WEEK_DAYS + day % WEEK_DAYS] for day in range(days)]


def weekday_mean(history: Sequence[int], days: int) -> list[int]:
    """Return each coming day as the mean of the same weekday in the last four weeks, or as many as there are."""
    found = []
    for day in range(days):
        last = len(history) - WEEK_DAYS + day % WEEK_DAYS
        alike = [history[place] for place in range(last, -1, -WEEK_DAYS)][:_WEEKS_MEANT]
        found.append(sum(alike) // len(alike))
    return found


CORE = (
    Model("as a week before", WEEK_DAYS, seasonal_naive),
    Model("mean of four weeks", 2 * WEEK_DAYS, weekday_mean),
)
_FITTED = Model("MSTL with AutoETS", 4 * WEEK_DAYS, fitted)


def models() -> tuple[Model, ...]:
    """Return the models that can be asked here, the plainest first."""
    return (*CORE, _FITTED) if find_spec("statsforecast") is not None else CORE


_ORIGINS_MOST = 56  # eight weeks of daily origins: what was long ago says little, and each costs a fit


@dataclass(frozen=True, slots=True)
class Backtest:
    """Errors of one model. `errors` are actual less forecast sums over the horizon, by origin, oldest first.

    `mase` is its mean absolute error by day over that of the same weekday a week before (Hyndman and Koehler, 2006);
    1 or more: nothing is gained over saying "as last week". None: the weeks repeat exactly, or there are too few.
    """

    model: Model
    errors: tuple[int, ...]
    mase: float | None


def backtest(model: Model, history: Sequence[int], days: int) -> Backtest:
    """Return how the model fared at each origin that has enough before it and `days` behind it."""
    first = max(model.least_days, WEEK_DAYS)
    origins = range(max(first, len(history) - days - _ORIGINS_MOST + 1), len(history) - days + 1)
    errors, missed, naive, count = [], 0, 0, 0
    for origin in origins:
        said = model.continued(history[:origin], days)
        came = history[origin : origin + days]
        errors.append(sum(came) - sum(said))
        missed += sum(abs(a - b) for a, b in zip(came, said, strict=True))
        count += days
    for day in range(WEEK_DAYS, len(history)):
        naive += abs(history[day] - history[day - WEEK_DAYS])
    seasons = len(history) - WEEK_DAYS
    mase = None if not count or naive <= 0 else (missed / count) / (naive / seasons)
    return Backtest(model, tuple(errors), mase)


def best(tests: Sequence[Backtest]) -> Backtest:
    """Return the model to show: the least MASE of those that could be tested; the plainest where it is not better."""
    tested = [test for test in tests if test.mase is not None]
    return min(tested, key=lambda test: test.mase or 0.0) if tested else tests[0]


_LOW, _HIGH = 10, 90  # percentiles: an interval of 80%
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
