"""GET /v1/sizing: what the size of a model takes of the ledger: kinds of GPU with prices, and past runs.

It is of the whole site: the fleet's prices and everybody's runs are in it (docs/model-sizes.md).
"""

from dataclasses import asdict
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.parameters import READS
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.interfaces.questions.sizing import read_known
from analyzer.reports.document import CostMicros, Document, Model


class RateTold(Model):
    """What a GPU-hour costs: by the site's price file, or by one provider's list price on demand."""

    micros_per_gpu_hour: CostMicros
    source: Literal["site", "list"]
    option: str | None


class OfferTold(Model):
    """What one provider asks on demand for a GPU-hour of an instance of so many GPUs."""

    provider: str
    region: str
    instance_type: str
    gpus: int
    micros_per_gpu_hour: CostMicros


class KindTold(Model):
    """One kind of GPU that the fleet has, the price file prices, or list prices name."""

    sku: str
    memory_bytes: int | None = Field(description="Of one GPU, as its driver reports it; else by the name.")
    gpus_a_node: int
    rate: RateTold | None
    owned_gpus: int | None
    offers: list[OfferTold] = Field(
        description="List prices, the lowest first, where the site has no price of its own."
    )


class PastRunTold(Model):
    """One run of the last days. `peak_bytes` is the most memory in use on one of its GPUs; null: not measured."""

    run_id: str
    name: str | None
    model: str | None
    stage: str | None
    sku: str
    gpus: int
    seconds: int
    micros: CostMicros | None
    is_open: bool
    peak_bytes: int | None


class SizingDocument(Document):
    """What `gpuledger capacity size --server` sizes by."""

    kinds: list[KindTold]
    runs: list[PastRunTold]


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
    return SizingDocument(
        **context.head(),
        kinds=[KindTold(**asdict(one)) for one in known.kinds],
        runs=[PastRunTold(**asdict(one)) for one in known.runs],
    )
