"""GET /v1/sizing: what the size of a model takes of the ledger: kinds of GPU with prices, and past runs.

It is of the whole site: the fleet's prices and everybody's runs are in it (docs/model-sizes.md).
"""

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyzer.interfaces.api.parameters import READS
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.interfaces.questions.sizing import read_known
from analyzer.reports.document import Document
from analyzer.sizing.fitting import GpuKind
from analyzer.sizing.sized import PastRun


class SizingDocument(Document):
    """What `gpuledger capacity size --server` sizes by."""

    kinds: tuple[GpuKind, ...]
    runs: tuple[PastRun, ...]


def sizing_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/sizing", response_model=SizingDocument, responses=READS, tags=["plans"])
    def sizing(request: Request) -> Response:
        """Which kinds of GPU may be chosen at what price, and what runs of the last 90 days took and cost."""
        return service.answer(request, _sizing_document, follows_ledger=False)

    return router


def _sizing_document(context: RequestContext) -> SizingDocument:
    """Return what sizes a model.

    Raises:
        LedgerError: the ledger is empty.
    """
    known = read_known(context.session, context.reader.settings)
    return SizingDocument(**context.head(), kinds=known.kinds, runs=known.runs)
