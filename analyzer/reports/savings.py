"""What came of what was recommended: predicted against realised, and how good the predictor was. Pure data."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from agent.wire.units import DAY_US
from analyzer.period import Period
from analyzer.recommendations.lifecycle.lifecycle_tables import lifecycle_statuses
from analyzer.recommendations.lifecycle.prediction import Prediction
from analyzer.recommendations.lifecycle.realised import (
    Calibration,
    Realised,
    all_realised,
    calibration,
    case_of,
    proposed_shares,
)
from analyzer.recommendations.lifecycle.status import LifecycleStatus
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
    """The book as it stands: applied ones with what came of them, accepted ones that nobody saw applied, rejected."""

    timezone: str
    currency: str
    proposed: int
    applied: tuple[Realised, ...]
    accepted: tuple[LifecycleStatus, ...]
    rejected: tuple[LifecycleStatus, ...]
    together: Together
    calibration: Calibration
    shares: Mapping[str, Mapping[str, int]]
    learns: bool = False  # whether the settings have these shares take the place of the assumed ones


def savings_report(
    session: Session,
    timezone: str,
    currency: str,
    sees: Callable[[Prediction], bool] = lambda _: True,
    *,
    learns: bool = False,
) -> SavingsReport:
    """Read the book, and judge what came of what was applied; of those that `sees` says may be seen.

    `learns` says whether the settings have the shares that are offered used.
    """
    known = [one for one in lifecycle_statuses(session) if sees(one.prediction)]
    applied = all_realised(session, known)
    cases = [case for one in applied if (case := case_of(one)) is not None]
    return SavingsReport(
        timezone,
        currency,
        sum(one.stage == "proposed" for one in known),
        applied,
        tuple(one for one in known if one.stage == "accepted"),
        tuple(one for one in known if one.stage == "rejected"),
        summed_savings(applied),
        calibration(cases),
        proposed_shares(cases),
        learns,
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


def summed_savings(applied: Iterable[Realised]) -> Together:
    """Return the sums over those of which an effect could be told."""
    told = [(one.standing.prediction, one.milliseconds, one.micros) for one in applied if one.milliseconds is not None]
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
