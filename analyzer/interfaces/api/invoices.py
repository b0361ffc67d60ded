"""GET and POST /v1/invoices: an invoice held against the ledger of a running server, and what came of those before.

The invoice stays where it is: whoever holds it gathers it by GPU kind and UTC day (analyzer/finops/reconcile/bill.py),
and sends these sums. What is kept is what `gpuledger bill reconcile` keeps on a store, with the key that said it.
"""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from analyzer.errors import ConfigError
from analyzer.finops.reconcile.bill import Bill, Billed, Other
from analyzer.finops.reconcile.invoice_matches import KEPT_SHOWN, InvoiceSource, keep, kept_matches
from analyzer.finops.reconcile.reconcile import hold, ledger_skus
from analyzer.finops.reconcile.text import answer, comparison_data, label_of, reconcile_text
from analyzer.interfaces.api.invoice_model import (
    DayAsked,
    InvoiceAsked,
    InvoiceDocument,
    InvoicesAsked,
    InvoicesDocument,
    MatchItem,
    OtherAsked,
)
from analyzer.interfaces.api.parameters import READS, refusals
from analyzer.interfaces.api.posts import audit, body_of, said_by
from analyzer.ledger.coverage import ledger_end
from analyzer.reports.document import iso
from analyzer.server_client import WRONG_USAGE
from collector.problem import problem_response

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext, RequestService

BODY_BYTES = 8 * 2**20


def invoice_routes(service: "RequestService") -> APIRouter:
    """Return the two routes."""
    router = APIRouter()
    content = {"application/json": {"schema": _schema()}}

    @router.get("/invoices", response_model=InvoicesDocument, responses=READS, tags=["ledger"])
    def invoices(request: Request, _: Annotated[InvoicesAsked, Query()]) -> Response:
        """What came of the newest invoices that were held against the ledger."""
        return service.answer(request, _invoices)

    @router.post(
        "/invoices",
        response_model=InvoiceDocument,
        responses=refusals(400, 401, 403, 404, 409, 413, 422, 503),
        openapi_extra={"requestBody": {"required": True, "content": content}},
        tags=["ledger"],
    )
    async def post_invoice(request: Request) -> Response:
        """Hold an invoice against the ledger; what came of it is kept, and reports say it."""
        body = await body_of(request, InvoiceAsked, BODY_BYTES)
        return body if isinstance(body, Response) else await run_in_threadpool(_answered, service, request, body)

    return router


def _schema() -> dict[str, Any]:
    """Return the body's schema, with its parts in it: the document has no other place for them."""
    whole = InvoiceAsked.model_json_schema()
    del whole["$defs"]
    for name, part in (("days", DayAsked), ("others", OtherAsked)):
        whole["properties"][name]["items"] = part.model_json_schema()
    return whole


def _invoices(context: "RequestContext") -> InvoicesDocument:
    until = ledger_end(context.session)
    return InvoicesDocument(
        **context.head(),
        skus=ledger_skus(context.session),
        known_until=until,
        known_until_iso=iso(until),
        matches=[MatchItem.of(one) for one in kept_matches(context.session, KEPT_SHOWN)],
    )


def _answered(service: "RequestService", request: Request, asked: InvoiceAsked) -> Response:
    try:
        return service.answer(request, lambda context: _held(context, request, asked), follows_ledger=False)
    except ConfigError as error:
        return problem_response(409, str(error), reason=WRONG_USAGE)


def _held(context: "RequestContext", request: Request, asked: InvoiceAsked) -> InvoiceDocument:
    session, bill = context.whole.session, _bill(asked)
    compared = hold(session, bill, asked.invoice, context.currency, (asked.start, asked.end))
    said, label = answer(compared), label_of(compared.start, compared.end)
    if asked.keep:
        word = said_by(request, "")
        audit(request, "reconcile", label, f"{asked.invoice} ({asked.digest[:12]}): {said}", word)
        keep(session, compared, bill, label, InvoiceSource(asked.invoice, asked.digest, word.who, word.recorded_at))
    return InvoiceDocument(
        **context.head(),
        matched=compared.matched,
        answer=said,
        text=reconcile_text(compared, bill, asked.invoice, asked.top),
        report=comparison_data(compared, bill, asked.invoice),
    )


def _bill(asked: InvoiceAsked) -> Bill:
    days = {(one.sku, one.day): Billed(one.nanos, one.nano_hours, one.hours_known) for one in asked.days}
    if len(days) < len(asked.days):
        raise ConfigError("a GPU kind and day is there twice: sum its lines first")
    others = {(one.why, one.name): Other(one.why, one.name, one.lines, one.nanos) for one in asked.others}
    first, last = min((day for _, day in days), default=None), max((day for _, day in days), default=None)
    return Bill(days, others, set(asked.currencies), asked.lines, first, last)
