"""What came of what was recommended: predicted against realised, and how good the predictor was. Pure data."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from agent.wire.units import DAY_US
from analyzer.period import Period
from analyzer.recommendations.lifecycle.lifecycle_tables import LifecycleStatus, lifecycle_statuses
from analyzer.recommendations.lifecycle.prediction import Prediction
from analyzer.recommendations.lifecycle.realised import (
    Calibration,
    Realised,
    all_realised,
    calibration,
    case_of,
    proposed_shares,
)
from analyzer.settings.settings import Settings
from collector.store.session import Session

_CHECKED_MOST = 10  # of a week's report: each reads the runs of sixteen weeks
_WEEKS_SHOWN_US = 56 * DAY_US  # so long after it was applied the week's report still names it


@dataclass(frozen=True, slots=True)
class Together:
    """What those of which an effect could be told were predicted (P50) and came to, a week; None where unpriced."""

    changes: int
    predicted_milliseconds: int
    realised_milliseconds: int
    predicted_micros: int | None
    realised_micros: int | None


@dataclass(frozen=True, slots=True)
class SavingsReport:
    """The book as it stands: `items` are what was applied, with what came of it, then what was accepted and rejected.

    Those that nobody decided on, and nobody saw applied, are counted as `proposed`.
    """

    timezone: str
    currency: str
    proposed: int
    items: tuple[LifecycleStatus, ...]
    together: Together
    calibration: Calibration
    proposed_shares: Mapping[str, Mapping[str, int]]
    shares_in_use: bool = False  # whether the settings have these shares take the place of the assumed ones

    @property
    def applied(self) -> tuple[Realised, ...]:
        """What was applied, the last first."""
        return tuple(one for one in self.items if isinstance(one, Realised))

    @property
    def accepted(self) -> tuple[LifecycleStatus, ...]:
        """What was accepted, and nobody saw applied."""
        return tuple(one for one in self.items if one.stage == "accepted")

    @property
    def rejected(self) -> tuple[LifecycleStatus, ...]:
        """What was rejected, and not made all the same."""
        return tuple(one for one in self.items if one.stage == "rejected")


def savings_report(
    session: Session, settings: Settings, sees: Callable[[Prediction], bool] = lambda _: True
) -> SavingsReport:
    """Read the book, and judge what came of what was applied; of those that `sees` says may be seen."""
    known = [one for one in lifecycle_statuses(session) if sees(one.prediction)]
    applied = all_realised(session, known)
    cases = [case for one in applied if (case := case_of(one)) is not None]
    decided = [one for stage in ("accepted", "rejected") for one in known if one.stage == stage]
    return SavingsReport(
        settings.timezone,
        settings.currency,
        sum(one.stage == "proposed" for one in known),
        (*applied, *decided),
        _summed_savings(applied),
        calibration(cases),
        proposed_shares(cases),
        settings.advising.learn_shares,
    )


def checked(
    session: Session, period: Period, sees: Callable[[Prediction], bool] = lambda _: True
) -> tuple[Realised, ...]:
    """Return what came of changes that were made in the eight weeks before a period's end, as was known then.

    Of those that `sees` says may be seen.
    """
    recent = [
        one
        for one in lifecycle_statuses(session)
        if one.applied_at is not None and period.end - _WEEKS_SHOWN_US <= one.applied_at < period.end
        if sees(one.prediction)
    ]
    return all_realised(session, sorted(recent, key=lambda one: one.applied_at or 0)[-_CHECKED_MOST:], period.end)


def _summed_savings(applied: Iterable[Realised]) -> Together:
    """Return the sums over those of which an effect could be told."""
    told = [(one.prediction, one.milliseconds, one.micros) for one in applied if one.milliseconds is not None]
    times = [(prediction.saves_milliseconds["p50"], came.likely) for prediction, came, _ in told if came is not None]
    money = [
        (prediction.saves_micros["p50"], came.likely)
        for prediction, _, came in told
        if came is not None and prediction.saves_micros is not None
    ]
    is_priced = bool(money) and len(money) == len(told)
    return Together(
        len(told),
        sum(predicted for predicted, _ in times),
        sum(came for _, came in times),
        sum(predicted for predicted, _ in money) if is_priced else None,
        sum(came for _, came in money) if is_priced else None,
    )
