"""GET /v1/savings: what came of what was recommended, and how good the predictions were."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.parameters import READS
from analyzer.recommendations.lifecycle.realised import Realised, Tally, Weekly
from analyzer.recommendations.lifecycle.status import LifecycleStatus
from analyzer.reports.document import CostMicros, Document, Micros, Milliseconds, Model
from analyzer.reports.savings import SavingsReport, savings_report

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext, RequestService


class Came(Model):
    """What was saved a week, of as much work as in the week of the prediction, and its 95 % interval."""

    likely: int
    low: int
    high: int


class OutcomeItem(Model):
    """What can be said of a change."""

    standing: Literal["verified", "dearer", "no_effect", "not_yet", "not_provable"]
    method: Literal["before_after", "difference"] | None
    unit: Literal["tokens", "samples", "steps", "run"] | None = Field(description="Of what the cost was compared.")
    runs_before: int
    runs_after: int
    others: int = Field(description="Names of runs that were not changed, where it was held against them.")
    held_out: bool = Field(description="Whether the runs by which it was found are not among those before.")
    checked: bool = Field(description="That a placebo was made: the runs were not changing anyway before it.")
    needs: int | None = Field(description="How many more runs it takes; null where nobody can say, or none does.")
    why: str


class SavingItem(Model):
    """One recommendation that was accepted, rejected or applied."""

    id: str
    stage: Literal["accepted", "rejected", "applied"]
    kind: str
    subject: str
    team: str | None
    title: str
    applied_at: Micros | None
    applied_by: str | None = Field(description='"said", or what was seen.')
    predicted_milliseconds: dict[str, Milliseconds] = Field(description="A week, by quantile: p20, p50, p80, …")
    predicted_micros: dict[str, CostMicros] | None
    came_milliseconds: Came | None = Field(description="Null where no effect could be told.")
    came_micros: Came | None
    outcome: OutcomeItem | None = Field(description="Null of what was not applied.")


class CaseTally(Model):
    """Predictions of which an effect could be told."""

    cases: int
    inside: int = Field(description="Came out between P20 and P80.")
    below: int = Field(description="Came out less than P20.")
    permille: int | None = Field(description="The share inside; null of fewer than ten.")
    outer: int = Field(description="Those with a P5 and a P95.")
    inside_outer: int
    outer_permille: int | None


class SavingsDocument(Document):
    """The book of recommendations as it stands."""

    proposed: int
    items: list[SavingItem]
    calibration: CaseTally
    by_kind: dict[str, CaseTally]
    by_month: dict[str, CaseTally]
    proposed_shares: dict[str, dict[str, int]] = Field(
        description="Permille of a loss that changes of a kind recovered, by quantile; of kinds with twenty cases."
    )
    shares_in_use: bool = Field(description="Whether the settings have them take the place of what is assumed.")


def savings_routes(service: "RequestService") -> APIRouter:
    """Return the route."""
    router = APIRouter()

    @router.get("/savings", response_model=SavingsDocument, responses=READS, tags=["findings"])
    def savings(request: Request) -> Response:
        """What came of what was recommended: predicted against realised."""
        return service.answer(request, _savings_document)

    return router


def _savings_document(context: "RequestContext") -> SavingsDocument:
    """Return the book; the whole site's runs are looked at, and what may be seen is told."""
    settings = context.whole.settings
    report = savings_report(context.whole.session, settings.timezone, settings.currency, context.scope.sees)
    return SavingsDocument(
        **context.head(),
        proposed=report.proposed,
        items=_items(report),
        calibration=_tally(report.calibration.whole),
        by_kind={kind: _tally(tally) for kind, tally in report.calibration.kinds},
        by_month={when: _tally(tally) for when, tally in report.calibration.times},
        proposed_shares={kind: dict(shares) for kind, shares in report.shares.items()},
        shares_in_use=settings.advising.learn_shares,
    )


def _items(report: SavingsReport) -> list[SavingItem]:
    applied = [_item(one.standing, one) for one in report.applied]
    return applied + [_item(one, None) for one in (*report.accepted, *report.rejected)]


def _item(one: LifecycleStatus, came: Realised | None) -> SavingItem:
    prediction = one.prediction
    return SavingItem(
        id=one.id,
        stage=one.stage,  # type: ignore[arg-type]  # proposed ones are counted alone
        kind=prediction.kind,
        subject=prediction.subject,
        team=prediction.team,
        title=prediction.title,
        applied_at=one.applied_at,
        applied_by=one.by,
        predicted_milliseconds=dict(prediction.saves_milliseconds),
        predicted_micros=_or_none(prediction.saves_micros),
        came_milliseconds=_came(came.milliseconds) if came else None,
        came_micros=_came(came.micros) if came else None,
        outcome=_outcome(came) if came else None,
    )


def _or_none(saves: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if saves is None else dict(saves)


def _came(weekly: Weekly | None) -> Came | None:
    return None if weekly is None else Came(likely=weekly.likely, low=weekly.low, high=weekly.high)


def _outcome(came: Realised) -> OutcomeItem:
    outcome = came.outcome
    return OutcomeItem(
        standing=outcome.standing,
        method=outcome.effect.method if outcome.effect else None,
        unit=outcome.unit,
        runs_before=outcome.before,
        runs_after=outcome.after,
        others=outcome.others,
        held_out=outcome.is_held_out,
        checked=outcome.is_checked,
        needs=outcome.needs,
        why=outcome.why,
    )


def _tally(tally: Tally) -> CaseTally:
    return CaseTally(
        cases=tally.cases,
        inside=tally.inside,
        below=tally.below,
        permille=tally.permille,
        outer=tally.outer,
        inside_outer=tally.inside_outer,
        outer_permille=tally.outer_permille,
    )
