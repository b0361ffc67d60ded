"""GET /v1/runs and /v1/runs/{id}: who ran what, and where one run's GPU time went."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.parameters import READS, Opt, Paged, Parameters, Spanned, Texts
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.interfaces.api.run_list import Run, RunPage, run_of, runs_where
from analyzer.interfaces.api.selection import Selection
from analyzer.interfaces.api.spent import Entry, entries
from analyzer.ledger.coverage import held_span, known_hours, not_judged
from analyzer.ledger.which_run import find_run
from analyzer.period import Period
from analyzer.reports.document import Amounts, Coverage, Document, Model, Span

RunId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=500,
        description="Its id, any unique end of it, its name, or `last`.",
        examples=["last"],
    ),
]


class RunsAsked(Spanned, Paged):
    """Which runs: those that held a GPU in the period, or, without one, all."""

    team: Texts = Field([])
    project: Texts = Field([])
    model: Texts = Field([])
    queue: Texts = Field([])
    stage: Texts = Field([])
    exit_status: Texts = Field([])
    name: Texts = Field([])
    running: bool | Opt = Field(None, description="Whether it has begun and not ended, as far as the ledger knows.")


class NotJudged(Model):
    """A rule that could not be judged, because a signal was missing."""

    rule: str
    missing: str


class RunDocument(Document):
    """One run. `period` is null, and nothing was spent, while the ledger has no hour of it."""

    run: Run
    period: Span | None
    hours: Coverage | None
    total: Amounts
    entries: list[Entry]
    not_judged: list[NotJudged]
    finding_ids: list[str]
    recommendation_ids: list[str]


def run_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/runs", response_model=RunPage, responses=READS, tags=["runs"])
    def runs(request: Request, asked: Annotated[RunsAsked, Query()]) -> Response:
        """Runs, the one that began last first."""
        return service.answer(request, lambda context: _run_page(context, asked))

    return router


def one_run_routes(service: RequestService) -> APIRouter:
    """Return the route of one run: its id has slashes, so that it must stand after those that begin like it."""
    router = APIRouter()

    @router.get("/runs/{run_id:path}", response_model=RunDocument, responses=READS, tags=["runs"])
    def run(request: Request, run_id: RunId, _asked: Annotated[Parameters, Query()]) -> Response:
        """One run: what is known of it, and where its GPU time went."""
        return service.answer(request, lambda context: _run_document(context, run_id))

    return router


def _run_page(context: RequestContext, asked: RunsAsked) -> RunPage:
    """Return one page of runs."""
    place = context.place(asked.cursor, (int, str))
    period = place.period if place else None
    if period is None and (asked.since is not None or asked.until is not None):
        period = context.period(asked.since, asked.until)
    conditions, values = _conditions(asked, period)
    found = runs_where(context.session, conditions, values, asked.limit + 1, place.key if place else None)
    shown = found[: asked.limit]
    last = shown[-1] if len(found) > asked.limit else None
    start = None if last is None or last.started_at is None else -last.started_at
    return RunPage(
        **context.head(),
        next_cursor=None if last is None else context.next((start, last.run_id), period),
        period=None if period is None else Span.of(period),
        items=shown,
    )


def _conditions(asked: RunsAsked, period: Period | None) -> tuple[list[str], dict[str, object]]:
    values: dict[str, object] = {
        name: list(accepted)
        for name in ("team", "project", "model", "queue", "stage", "exit_status", "name")
        if (accepted := getattr(asked, name))
    }
    conditions = [f"list_contains(${name}, {name})" for name in values]
    if asked.running is not None:
        conditions.append(f"(started_at IS NOT NULL AND ended_at IS NULL) = {'true' if asked.running else 'false'}")
    if period is not None:
        conditions.append("started_at < $end AND coalesce(ended_at, $end) > $start")
        values |= {"start": period.start, "end": period.end}
    return conditions, values


def _run_document(context: RequestContext, text: str) -> RunDocument:
    """Return one run, as far as the ledger knows it.

    Raises:
        LedgerError: no run, or several, answer to this text.
    """
    session, run_id = context.session, find_run(context.session, text)
    period = span_of(context, run_id)
    chosen = Selection(("l.run_id = $run",), {"run": run_id})
    total, spent = entries(session, chosen, context.currency)
    missing = not_judged(session, period, run_id) if period else ()
    found = [finding for finding in context.of_run(run_id, period) if not finding.suspicion] if period else []
    ids = {finding.id for finding in found}
    advice = context.advice_for(found, period) if period else []
    return RunDocument(
        **context.head(),
        run=run_of(session, run_id),
        period=None if period is None else Span.of(period),
        hours=None if period is None else Coverage.of(known_hours(session, period)),
        total=total,
        entries=spent,
        not_judged=[NotJudged(rule=each.rule, missing=each.missing) for each in missing],
        finding_ids=[finding.id for finding in found],
        recommendation_ids=[one.id for one in advice if ids & set(one.finding_ids)],
    )


def span_of(context: RequestContext, run_id: str) -> Period | None:
    """Return the ledger's hours of a run, or None where it has none."""
    held = held_span(context.session, [run_id])
    return None if held is None else Period(*held, run_id, context.reader.settings.timezone)
