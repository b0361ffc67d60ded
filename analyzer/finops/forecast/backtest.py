"""How wrong a model would have been: it forecasts the past from what was known before it."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.finops.forecast.models import Model
from analyzer.finops.forecast.season import WEEK_DAYS

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
