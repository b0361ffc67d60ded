"""GET /v1/savings: what came of what was recommended, and how good the predictions were."""

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.parameters import READS
from analyzer.recommendations.lifecycle.realised import Calibration, Realised
from analyzer.recommendations.lifecycle.status import LifecycleStatus
from analyzer.reports.document import Document
from analyzer.reports.savings import Together

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext, RequestService


class SavingsDocument(Document):
    """All recommendations with their predicted and realized savings."""

    proposed: int
    items: list[Realised | LifecycleStatus]
    together: Together
    calibration: Calibration
    proposed_shares: dict[str, dict[str, int]] = Field(
        description="Permille of a loss recovered by changes of a kind, by quantile; of kinds with twenty cases."
    )
    shares_in_use: bool = Field(description="Whether the settings use them instead of the assumed shares.")


def savings_routes(service: "RequestService") -> APIRouter:
    """Return the route."""
    router = APIRouter()

    @router.get("/savings", response_model=SavingsDocument, responses=READS, tags=["findings"])
    def savings(request: Request) -> Response:
        """Savings of recommendations: predicted and realized."""
        return service.answer(request, _savings_document)

    return router


def _savings_document(context: "RequestContext") -> SavingsDocument:
    """Return the book; the whole site's runs are looked at, and what may be seen is told."""
    report = context.reader.savings()
    known = {name: getattr(report, name) for name in SavingsDocument.model_fields if hasattr(report, name)}
    return SavingsDocument(**known | context.head())
