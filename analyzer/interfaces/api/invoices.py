"""GET and POST /v1/invoices: an invoice held against the ledger of a running server, and what came of those before.

The invoice stays where it is: whoever holds it gathers it by GPU kind and UTC day (analyzer/finops/reconcile/bill.py),
and sends these sums, bounded to fit the ledger. What is kept is what `gpuledger bill reconcile` keeps on a store, with
the key that said it.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field, StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from agent.wire.units import DAY_US
from analyzer.errors import ConfigError
from analyzer.finops.reconcile.bill import OTHERS_KEPT, Bill, Billed, Other
from analyzer.finops.reconcile.compare import hold, ledger_skus
from analyzer.finops.reconcile.invoice_matches import KEPT_SHOWN, InvoiceSource, keep, kept_matches
from analyzer.finops.reconcile.text import ROWS_SHOWN, answer, comparison_data, label_of_compared, reconcile_text
from analyzer.interfaces.api.parameters import READS, Opt, Parameters, refusals
from analyzer.interfaces.api.request_service import RequestContext, RequestService, audit, body_of, said_by
from analyzer.ledger.coverage import ledger_end
from analyzer.reports.document import Document, Iso, Micros, Model, iso
from analyzer.server_client import WRONG_USAGE
from collector.problem import problem_response

_DAYS_MOST = 20_000  # GPU kinds and days: ten kinds over five years
_NANOS_MOST = 4 * 10**16  # forty millions of a currency: sums of as many fit the ledger's integers
_LAST_DAY = 4_102_444_800_000_000  # 2100
_Moment = Annotated[int, Field(ge=0, le=_LAST_DAY)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Currency = Annotated[str, StringConstraints(pattern="^[A-Z]{3}$")]
_Nanos = Annotated[int, Field(ge=-_NANOS_MOST, le=_NANOS_MOST, description="Billionths of the currency.")]
_Instant = Annotated[
    int, Field(ge=0, le=_LAST_DAY, multiple_of=DAY_US // 24, description="Microseconds, a whole hour.")
]


class DayAsked(Parameters):
    """What the invoice says of one GPU kind on one UTC day."""

    sku: Name
    day: Annotated[int, Field(ge=0, le=_LAST_DAY, multiple_of=DAY_US, description="Its first microsecond, UTC.")]
    nanos: _Nanos
    nano_hours: Annotated[int, Field(ge=-_NANOS_MOST, le=_NANOS_MOST, description="GPU-hours, in billionths.")]
    hours_known: bool = True
    currency: Currency | Opt = Field(None, description="Default: the only one of `currencies`.")


class OtherAsked(Parameters):
    """Lines that are not GPU usage, summed."""

    why: Name
    name: Annotated[str, StringConstraints(max_length=200)]
    lines: Annotated[int, Field(ge=0, le=10**12)]
    nanos: _Nanos
    currency: Currency | Opt = Field(None, description="Default: the only one of `currencies`.")


class InvoiceAsked(Parameters):
    """An invoice, gathered by GPU kind and UTC day."""

    invoice: Name = Field(description="The name of the file.")
    digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] = Field(description="SHA-256 of the file.")
    currencies: Annotated[list[Currency], Field(max_length=50)] = Field(description="In which GPUs are billed.")
    lines: Annotated[int, Field(ge=0, le=10**12)]
    begins: _Moment | Opt = Field(None, description="The start of its first usage, of anything, in microseconds.")
    ends: _Moment | Opt = Field(None, description="The end of its last usage.")
    days: Annotated[list[DayAsked], Field(max_length=_DAYS_MOST)]
    others: Annotated[list[OtherAsked], Field(max_length=2 * OTHERS_KEPT)] = Field([])
    start: _Instant | Opt = Field(None, description="Start of the span; default: the invoice's first day.")
    end: _Instant | Opt = Field(None, description="End of the span; default: the end of the invoice's last day.")
    keep: bool = Field(True, description="Whether the result is kept and shown in reports.")
    top: Annotated[int, Field(ge=1, le=10_000)] = Field(ROWS_SHOWN, description="Maximum number of rows of the text.")


class InvoiceDocument(Document):
    """The result of the reconciliation."""

    matched: bool
    answer: str = Field(description="The one sentence.")
    text: str = Field(description="The whole answer as the command line prints it.")
    report: dict[str, Any] = Field(description="The same for programs; docs/json.md.")


class MatchItem(Model):
    """The result of one invoice."""

    label: str
    start: Micros
    start_iso: Iso
    end: Micros
    end_iso: Iso
    invoice: str
    matched: bool
    permille: int | None = Field(description="Difference in thousandths, rounded up.")
    recorded_at: Micros
    recorded_at_iso: Iso
    who: str


class InvoicesDocument(Document):
    """What an invoice is matched against, and the results of the newest ones."""

    skus: list[str] = Field(description="The GPU kinds of the ledger that an invoice's lines are matched against.")
    known_until: Micros = Field(description="The end of the ledger's newest hour: where 7d and monday end.")
    known_until_iso: Iso
    matches: list[MatchItem]


class _InvoicesAsked(Parameters):
    """No parameters."""


BODY_BYTES = 8 * 2**20


def invoice_routes(service: RequestService) -> APIRouter:
    """Return the two routes."""
    router = APIRouter()
    content = {"application/json": {"schema": _schema()}}

    @router.get("/invoices", response_model=InvoicesDocument, responses=READS, tags=["ledger"])
    def invoices(request: Request, _: Annotated[_InvoicesAsked, Query()]) -> Response:
        """Results of the newest invoices that were reconciled with the ledger."""
        return service.answer(request, _invoices)

    @router.post(
        "/invoices",
        response_model=InvoiceDocument,
        responses=refusals(400, 401, 403, 404, 409, 413, 422, 503),
        openapi_extra={"requestBody": {"required": True, "content": content}},
        tags=["ledger"],
    )
    async def post_invoice(request: Request) -> Response:
        """Reconcile an invoice with the ledger; the result is kept and shown in reports."""
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


def _invoices(context: RequestContext) -> InvoicesDocument:
    until = ledger_end(context.session)
    return InvoicesDocument(
        **context.head(),
        skus=ledger_skus(context.session),
        known_until=until,
        known_until_iso=iso(until),
        matches=[MatchItem.model_validate(one) for one in kept_matches(context.session, KEPT_SHOWN)],
    )


def _answered(service: RequestService, request: Request, asked: InvoiceAsked) -> Response:
    try:
        return service.answer(request, lambda context: _held(context, request, asked), follows_ledger=False)
    except ConfigError as error:
        return problem_response(409, str(error), reason=WRONG_USAGE)


def _held(context: RequestContext, request: Request, asked: InvoiceAsked) -> InvoiceDocument:
    session, bill = context.whole.session, _bill(asked)
    compared = hold(session, bill, asked.invoice, context.currency, (asked.start, asked.end))
    said, label = answer(compared), label_of_compared(compared)
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
    def named(currency: str | None) -> str:
        if currency is None and len(asked.currencies) > 1:
            raise ConfigError("the invoice has several currencies; say that of each sum")
        return currency or next(iter(asked.currencies), "")

    days = {
        (one.sku, one.day, named(one.currency)): Billed(one.nanos, one.nano_hours, one.hours_known)
        for one in asked.days
    }
    if len(days) < len(asked.days):
        raise ConfigError("a GPU kind and day appears twice; sum its lines first")
    others = [Other(one.why, one.name, one.lines, one.nanos, named(one.currency)) for one in asked.others]
    return Bill(
        days,
        {(one.why, one.name, one.currency): one for one in others},
        asked.lines,
        begins=asked.begins,
        ends=asked.ends,
    )
