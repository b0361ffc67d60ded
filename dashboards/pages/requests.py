"""Requests for more GPUs: each with its gates, its verdict, the other offer, and the form to waive."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from analyzer.capacity.gate.decided import Decided, Gate
from analyzer.capacity.gate.request_store import KeptRequest, Teller, kept_request, kept_requests, waive
from analyzer.capacity.gate.text import asked_words, offer_rows, profile_words
from analyzer.capacity.gate.words import growth_words, headline, line, price_words
from analyzer.errors import AnalyzerError
from analyzer.interfaces.api.capacity import FOR_EVER, seen_of
from analyzer.interfaces.api.scope import Scope
from analyzer.text.words import moment_words, money, plain, plain_sentence
from collector.access.forms import body_of, fields_of
from collector.registry import Registry
from collector.registry.roles import Right
from dashboards.pages.frame import STRICT
from dashboards.pages.read_pages import PageState, ReadPages

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

_HERE = "/requests"
_SHOWN = 100
_SEE_OTHER = 303


@dataclass(frozen=True, slots=True)
class RequestLine:
    """One request as the list has it."""

    id: str
    team: str
    asked: str
    verdict: str
    told: str
    at: str


@dataclass(frozen=True, slots=True)
class GateLine:
    """One gate; `may_waive` says that this reader could."""

    name: str
    label: str
    value: str
    bar: str
    outcome: str
    why: str
    may_waive: bool


def request_routes(pages: ReadPages, registry: Registry) -> APIRouter:
    """Return the routes: the list, one request, and what an approver says of it."""
    router = APIRouter()

    @router.get(_HERE)
    def every(request: Request, before: str | None = None) -> Response:
        asked = PageState(_HERE, None, {"before": before or ""})
        return pages.fresh(request, asked, "requests.html", lambda context: _list(context, registry, before))

    @router.get(f"{_HERE}/{{request_id}}")
    def one(request: Request, request_id: str) -> Response:
        return pages.fresh(
            request,
            PageState(_HERE),
            "request.html",
            lambda context: _request_view(context, registry, request_id, request),
        )

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
    teller = Teller(who.id, who.role, time.time_ns() // 1000)
    try:
        told = waive(registry, request_id, fields.get("gate", ""), fields.get("reason", ""), teller, _sees(scope))
    except AnalyzerError as error:
        return pages.told(PageState(_HERE), scope.teams, error)
    return RedirectResponse(f"{_HERE}/{told.decided.request_id}", _SEE_OTHER, STRICT)


def _list(context: "RequestContext", registry: Registry, before: str | None) -> dict[str, object]:
    teams = None if context.scope.teams is None else sorted(context.scope.teams)
    found = kept_requests(registry, 0, FOR_EVER, teams, _SHOWN + 1, _place(before))
    shown, zone = found[:_SHOWN], context.reader.settings.timezone
    last = shown[-1] if len(found) > _SHOWN else None
    return {
        "lines": [_line(seen_of(context, one), zone) for one in shown],
        "sentence": _sentence(shown, is_all=last is None and before is None),
        "next": f"{last.asked_at}-{last.decided.request_id}" if last else None,
        "json_link": "/v1/capacity-requests",
    }


def _place(before: str | None) -> tuple[int, str] | None:
    """Return after which request the page begins; what cannot be read begins at the newest."""
    at, _, identity = (before or "").partition("-")
    return (int(at), identity) if at.isascii() and at.isdecimal() and len(at) < 19 and identity else None


def _sentence(shown: list[KeptRequest], *, is_all: bool) -> str:
    if not shown:
        return "Nobody has asked for more GPUs: gpuledger gate REQUEST --server asks."
    verdicts = [one.decided.verdict for one in shown]
    counts = [f"{verdicts.count(word):,} {word}" for word in ("PASS", "FAIL", "INCOMPLETE") if word in verdicts]
    requests = f"{len(shown):,} request{'' if len(shown) == 1 else 's'}"
    return f"{requests}{'' if is_all else ' on this page'}: {', '.join(counts)}."


def _line(one: KeptRequest, zone: str) -> RequestLine:
    decided = one.decided
    told = line(decided).partition(": ")[2].removeprefix(decided.verdict).lstrip(", ")
    asked = asked_words(decided.request, plain(decided.request.sku))
    return RequestLine(
        decided.request_id, plain(decided.request.team), asked, decided.verdict, told, moment_words(one.asked_at, zone)
    )


def _request_view(
    context: "RequestContext", registry: Registry, request_id: str, request: Request
) -> Mapping[str, object]:
    """Return one request as the page shows it.

    Raises:
        LedgerError: there is none that may be seen.
    """
    told = seen_of(context, kept_request(registry, request_id, _sees(context.scope)))
    zone = context.reader.settings.timezone
    decided, principal = told.decided, request.scope["principal"]
    offer = decided.offer
    return {
        "decided": decided,
        "asked_for": asked_words(decided.request, plain(decided.request.sku)),
        "team": plain(decided.request.team),
        "why": plain_sentence(decided.request.why),
        "headline": headline(decided),
        "priced": price_words(decided),
        "profile": profile_words(decided.evidence),
        "judged": decided.evidence.judged if decided.evidence else "",
        "gates": [_gate(gate, decided, may_waive=principal.may(Right.APPROVE)) for gate in decided.gates],
        "remedies": decided.remedies if decided.verdict != "PASS" else (),
        "offer": offer_rows(decided, offer) if offer is not None and decided.verdict != "PASS" else (),
        "growth": growth_words(offer.growth_permille) if offer is not None else "",
        "options": _options(decided),
        "waivers": [
            (one.gate, plain_sentence(one.reason), one.who, moment_words(one.recorded_at, zone))
            for one in decided.waivers
        ],
        "history": [
            (moment_words(one.at, zone), one.kind, one.who, one.role, one.verdict, one.gate or "")
            for one in told.history
        ],
        "csrf": request.scope["csrf"],
        "json_link": f"/v1/capacity-requests/{decided.request_id}",
    }


def _gate(gate: Gate, decided: Decided, *, may_waive: bool) -> GateLine:
    is_waived = any(waiver.gate == gate.name for waiver in decided.waivers)
    outcome = "waived" if is_waived and gate.outcome != "PASS" else gate.outcome
    can = may_waive and gate.waivable and gate.outcome != "PASS" and not is_waived
    why = plain_sentence(gate.why) if gate.why else ""
    return GateLine(gate.name, gate.label, gate.value, gate.bar, outcome, why, can)


def _options(decided: Decided) -> list[tuple[str, str, str, str, str, str, str]]:
    currency = decided.rate.currency if decided.rate is not None else ""
    return [
        (
            one.letter,
            one.what + (" (advised)" if one.advised else ""),
            f"{one.more:+,}",
            "-" if one.to_buy is None else f"{one.to_buy:,}",
            money(one.micros, currency),
            one.in_time,
            one.if_wrong,
        )
        for one in decided.options
    ]


def _sees(scope: Scope) -> Callable[[str], bool]:
    return lambda team: scope.teams is None or team in scope.teams
