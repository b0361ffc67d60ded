"""Capacity requests: each with its policy checks, its verdict, the other offer, and the form to override a check."""

import time
from collections.abc import Callable, Mapping

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from analyzer.capacity.gate.decided import Decided, Gate, growth_words, headline, line, price_words
from analyzer.capacity.gate.request_store import KeptRequest, Teller, kept_request, kept_requests, waive
from analyzer.capacity.gate.text import asked_words, offer_rows, profile_words
from analyzer.capacity.quotas import as_of_words, waits
from analyzer.errors import AnalyzerError, ConfigError, LedgerError
from analyzer.interfaces.api.capacity import FOR_EVER, seen_of
from analyzer.interfaces.api.request_service import RequestContext, Scope
from analyzer.interfaces.questions.ledger_questions import quota_report
from analyzer.text.words import counted, plain
from collector.access.gate import body_of, fields_of
from collector.registry import Registry
from collector.registry.roles import Right
from dashboards.pages.frame import STRICT
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages

_HERE = "/requests"
_SHOWN = 100
_SEE_OTHER = 303


def request_routes(pages: ReadPages, registry: Registry) -> APIRouter:
    """Return the routes: the list, one request, and what an approver says of it."""
    router = APIRouter()

    @router.get(_HERE)
    def every(request: Request, before: str | None = None) -> Response:
        asked = PageState(_HERE, None, {"before": before or ""})
        return pages.fresh(request, ReadPage(asked, "requests.html", lambda context: _list(context, registry, before)))

    @router.get(f"{_HERE}/{{request_id}}")
    def one(request: Request, request_id: str) -> Response:
        def view(context: RequestContext) -> Mapping[str, object]:
            return _request_view(context, registry, request_id, request)

        return pages.fresh(request, ReadPage(PageState(_HERE), "request.html", view))

    @router.post(f"{_HERE}/{{request_id}}/waivers")
    async def drop(request: Request, request_id: str) -> Response:
        fields = fields_of(await body_of(request.receive))
        return await run_in_threadpool(_waived, pages, registry, request, request_id, fields)

    return router


def _waived(
    pages: ReadPages, registry: Registry, request: Request, request_id: str, fields: Mapping[str, str]
) -> Response:
    """Keep a waiver and show the request again, or say why it is refused; the gate knows that our page sent it."""
    who, scope = request.scope["principal"], Scope.of(request.scope)
    teller = Teller(who.signs_as, who.role, time.time_ns() // 1000)
    try:
        told = waive(registry, request_id, fields.get("gate", ""), fields.get("reason", ""), teller, _sees(scope))
    except AnalyzerError as error:
        return pages.refused(ReadPage(PageState(_HERE), "request.html", lambda _: {}), scope, error)
    return RedirectResponse(f"{_HERE}/{told.decided.request_id}", _SEE_OTHER, STRICT)


def _list(context: RequestContext, registry: Registry, before: str | None) -> Mapping[str, object]:
    teams = None if context.scope.teams is None else sorted(context.scope.teams)
    requests = kept_requests(registry, 0, FOR_EVER, teams, _SHOWN + 1, _place(before))
    shown = [seen_of(context, request) for request in requests[:_SHOWN]]
    last = shown[-1] if len(requests) > _SHOWN else None
    return {
        "lines": [(request, _asked(request.decided), _verdict_words(request.decided)) for request in shown],
        "sentence": _sentence(shown, is_all=last is None and before is None),
        "next": f"{last.asked_at}-{last.decided.request_id}" if last else None,
        "json_link": "/v1/capacity-requests",
        "quotas": _quotas(context),
    }


def _quotas(context: RequestContext) -> Mapping[str, object] | None:
    """Return who waits while whose guaranteed GPUs are unused, for who may see the fleet, where a site has quotas."""
    if context.scope.teams is not None or context.reader.settings.quotas is None:
        return None
    try:
        report = quota_report(context.reader)
    except (ConfigError, LedgerError) as error:
        return {"waits": [str(error)], "rows": (), "notes": (), "as_of": None}
    return {
        "waits": waits(report),
        "rows": report.balances,
        "notes": report.notes,
        "as_of": f"{as_of_words(report)}; {counted(report.free_gpus, 'GPU')} free now",
    }


def _place(before: str | None) -> tuple[int, str] | None:
    """Return after which request the page begins; what cannot be read begins at the newest."""
    at, _, identity = (before or "").partition("-")
    return (int(at), identity) if at.isascii() and at.isdecimal() and len(at) < 19 and identity else None


def _sentence(shown: list[KeptRequest], *, is_all: bool) -> str:
    if not shown:
        return "No capacity requests yet: send one with gpuledger capacity request REQUEST --server."
    verdicts = [request.decided.verdict for request in shown]
    counts = [f"{verdicts.count(word):,} {word}" for word in ("PASS", "FAIL", "INCOMPLETE") if word in verdicts]
    return f"{counted(len(shown), 'request')}{'' if is_all else ' on this page'}: {', '.join(counts)}."


def _asked(decided: Decided) -> str:
    return asked_words(decided.request, plain(decided.request.sku))


def _verdict_words(decided: Decided) -> str:
    """Return the line of a request without what the list has in columns of their own."""
    return line(decided).partition(": ")[2].removeprefix(decided.verdict).lstrip(", ")


def _request_view(
    context: RequestContext, registry: Registry, request_id: str, request: Request
) -> Mapping[str, object]:
    """Return one request as the page shows it.

    Raises:
        LedgerError: there is none that may be seen.
    """
    kept = seen_of(context, kept_request(registry, request_id, _sees(context.scope)))
    decided, principal = kept.decided, request.scope["principal"]
    offer = decided.offer
    return {
        "decided": decided,
        "asked_for": _asked(decided),
        "headline": headline(decided),
        "priced": price_words(decided),
        "profile": profile_words(decided.evidence),
        "judged": decided.evidence.judged if decided.evidence else "",
        "gates": [(gate, _outcome(gate, decided)) for gate in decided.gates],
        "waivable": [gate for gate in decided.gates if principal.may(Right.APPROVE) and _may_waive(gate, decided)],
        "remedies": decided.remedies if decided.verdict != "PASS" else (),
        "offer": offer_rows(decided, offer) if offer is not None and decided.verdict != "PASS" else (),
        "growth": growth_words(offer.growth_permille) if offer is not None else "",
        "currency": decided.rate.currency if decided.rate is not None else "",
        "history": kept.history,
        "csrf": request.scope["csrf"],
        "json_link": f"/v1/capacity-requests/{decided.request_id}",
    }


def _outcome(gate: Gate, decided: Decided) -> str:
    is_waived = any(waiver.gate == gate.name for waiver in decided.waivers)
    return "override" if is_waived and gate.outcome != "PASS" else gate.outcome


def _may_waive(gate: Gate, decided: Decided) -> bool:
    return gate.waivable and _outcome(gate, decided) not in ("PASS", "override")


def _sees(scope: Scope) -> Callable[[str], bool]:
    return lambda team: scope.teams is None or team in scope.teams
