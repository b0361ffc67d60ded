"""What people decide of recommendations, on the page: the forms' way in, and where each recommendation stands."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from analyzer.errors import ConfigError
from analyzer.interfaces.api.decisions import keep_decision
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.period import local
from analyzer.recommendations.lifecycle.lifecycle_tables import lifecycle_statuses
from analyzer.recommendations.lifecycle.status import LifecycleStatus, Stage
from analyzer.recommendations.lifecycle.word import Decision
from analyzer.text.words import day, moment_words, plain_sentence
from collector.access.forms import body_of, fields_of
from dashboards.pages.read_pages import ReadPage, ReadPages

_DECISIONS: dict[str, Decision] = {"accept": "accepted", "reject": "rejected"}


@dataclass(frozen=True, slots=True)
class Stands:
    """How far a recommendation has come, and the sentence that says so: when, and of a rejection why."""

    id: str
    what: str
    stage: Stage
    told: str


def decision_routes(pages: ReadPages, shown: Callable[[str | None], ReadPage]) -> APIRouter:
    """Return the route that the forms of a recommendation are sent to; `shown` is the page of a week that has them."""
    router = APIRouter()

    @router.post("/placement/changes/{advice_id}")
    async def decide(request: Request, advice_id: str) -> Response:
        fields = fields_of(await body_of(request.receive))
        return await run_in_threadpool(_decide, pages, request, shown, advice_id, fields)

    return router


def _decide(
    pages: ReadPages,
    request: Request,
    shown: Callable[[str | None], ReadPage],
    advice_id: str,
    fields: Mapping[str, str],
) -> Response:
    """Keep a decision and show the recommendation again, or say why it is refused."""
    week = fields.get("week") or None

    def keep(context: RequestContext) -> None:
        if (word := _DECISIONS.get(fields.get("decision", ""))) is None:
            raise ConfigError(f"say what is decided: {' or '.join(_DECISIONS)}")
        period, because = context.reader.period(week), fields.get("because", "")
        keep_decision(context, request, advice_id, word, because, period, fields.get("applied_at") or None)

    return pages.change(request, shown(week), keep, advice_id)


def standings_of(context: RequestContext) -> dict[str, Stands]:
    """Return where each recommendation of the book stands, by id, of what may be seen."""
    zone = context.reader.settings.timezone
    known = (one for one in lifecycle_statuses(context.whole.session) if context.scope.sees(one.prediction))
    return {one.id: Stands(one.id, _what(one), one.stage, _told(one, zone)) for one in known}


def _what(one: LifecycleStatus) -> str:
    return plain_sentence(f"{one.prediction.subject}: {one.prediction.title}")


def _told(one: LifecycleStatus, zone: str) -> str:
    if one.applied_at is not None:
        return f"Made {day(local(one.applied_at, zone))}{'' if one.by == 'said' else ', as its runs show'}."
    if one.word is None:
        return ""
    why = f": {plain_sentence(one.word.because)}" if one.word.because else ""
    return f"{one.word.word.capitalize()} {moment_words(one.word.recorded_at, zone)}{why}."
