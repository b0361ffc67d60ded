"""What came of what was recommended: predicted against realised, and what is still to be seen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.interfaces.text.savings_text import checked_words
from analyzer.recommendations.lifecycle.realised import Realised
from analyzer.recommendations.lifecycle.status import LifecycleStatus
from analyzer.reports.savings import SavingsReport, savings_report
from analyzer.text.words import CENTS_UNDER, counted, gpu_hours, money
from dashboards.pages.read_pages import Sheet

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The book in words: what was applied and came of it, by id; and how many are decided and proposed."""

    sentence: str
    applied: tuple[tuple[str, str, str], ...]
    waiting: tuple[tuple[str, str], ...]


def outcomes(context: "RequestContext") -> Outcomes:
    """Return the book, of what may be seen."""
    report = _report(context)
    applied = tuple(_told(one, report) for one in report.applied[:_SHOWN])
    waiting = tuple((one.id, f"{one.prediction.subject}: {one.prediction.title}") for one in report.accepted[:_SHOWN])
    return Outcomes(_sentence(report), applied, waiting)


def outcomes_sheet(context: "RequestContext") -> Sheet:
    """Return all that was decided or applied, exact, a week."""
    head = (
        "id", "stage", "kind", "subject", "team", "title", "predicted_micros_p50", "came_micros", "came_micros_low",
        "came_micros_high", "standing",
    )  # fmt: skip
    report = _report(context)
    rows = [_values(one.standing, one) for one in report.applied]
    return Sheet(head, rows + [_values(one, None) for one in (*report.accepted, *report.rejected)])


def _report(context: "RequestContext") -> SavingsReport:
    settings = context.whole.settings
    return savings_report(context.whole.session, settings.timezone, settings.currency, context.scope.sees)


def _told(one: Realised, report: SavingsReport) -> tuple[str, str, str]:
    title, *told = checked_words(one, report.currency, report.timezone)
    return one.standing.id, title, "; ".join(told)


def _sentence(report: SavingsReport) -> str:
    said = [
        f"{len(report.applied):,} applied",
        f"{len(report.accepted):,} accepted and not seen to be applied",
        f"{len(report.rejected):,} rejected",
        f"{report.proposed:,} proposed",
    ]
    counts = f"Of what was recommended: {', '.join(said)}."
    whole = report.together
    if not whole.changes:
        return f"Nothing is verified yet. {counts}"
    if whole.predicted_micros is None or whole.realised_micros is None:
        hours = (gpu_hours(whole.predicted_milliseconds), gpu_hours(whole.realised_milliseconds))
        predicted, came = (f"{amount} GPU-hours" for amount in hours)
    else:
        predicted, came = (
            _money(micros, report.currency) for micros in (whole.predicted_micros, whole.realised_micros)
        )
    verified = counted(whole.changes, "change")
    return f"{came} a week are saved and verified, of {verified}; {predicted} a week were predicted. {counts}"


def _money(micros: int, currency: str) -> str:
    return money(micros, currency, 2 if abs(micros) < CENTS_UNDER else 0)


def _values(one: LifecycleStatus, came: Realised | None) -> tuple[object, ...]:
    told, weekly = one.prediction, came.micros if came else None
    amounts = (None, None, None) if weekly is None else (weekly.likely, weekly.low, weekly.high)
    predicted = None if told.saves_micros is None else told.saves_micros["p50"]
    standing = came.outcome.standing if came else None
    return (one.id, one.stage, told.kind, told.subject, told.team, told.title, predicted, *amounts, standing)
