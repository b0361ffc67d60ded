"""/v1/findings and /v1/notices: what was avoidable, feedback on it, and observations, which claim no GPU time."""

from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.findings.finding import Finding, FindingDocument
from analyzer.findings.health.notice import Notice
from analyzer.findings.judgement import BECAUSE_MAX, Judgement, Mute, Record, Verdict
from analyzer.findings.say import keep_judgement, keep_mute
from analyzer.ids import by_id, pattern
from analyzer.interfaces.api.parameters import (
    READS,
    VALUES_MAX,
    Cause,
    Opt,
    Paged,
    Parameters,
    Spanned,
    State,
    Text,
    Texts,
    When,
)
from analyzer.interfaces.api.request_service import (
    Post,
    RequestContext,
    RequestService,
    answered,
    audit,
    documented,
    said_by,
)
from analyzer.ledger.coverage import Hours, Measured, by_rule, known_hours, measured
from analyzer.ledger.run_facts import find_run
from analyzer.period import Period
from analyzer.reports.document import Document, Listing, Model, Span
from analyzer.reports.findings import finding_order

_FindingId = Annotated[str, Path(pattern=pattern("f"), description="As in the list: f-7kq2x; or a unique prefix.")]


class _FindingsAsked(Spanned, Paged):
    """Which findings of a period."""

    team: Texts = Field([])
    run: Text | Opt = Field(None, description="Findings that name this run.")
    state: Annotated[list[State], Field(max_length=VALUES_MAX)] = Field([])
    cause: Annotated[list[Cause], Field(max_length=VALUES_MAX)] = Field([])
    confidence: Annotated[list[Literal["high", "medium", "low"]], Field(max_length=VALUES_MAX)] = Field([])
    still_open: bool | Opt = None
    suspicions: bool = Field(False, description="Also list suspicions, which claim no GPU time.")


class FindingPage(Listing):
    """Findings of a period, most expensive first, suspicions last."""

    period: Span
    hours: Hours
    measured: Measured
    record: Record | None = Field(description="Accuracy by feedback; null for a key limited to teams.")
    items: list[FindingDocument]


class FindingAnswer(Document):
    """One finding."""

    period: Span
    finding: FindingDocument
    recommendation_ids: list[str]


class _NoticesAsked(Spanned, Paged):
    """Which notices of a period."""

    team: Texts = Field([])
    rule: Texts = Field([], description="As in the items, or a prefix: fleet, fleet/links.")
    node: Texts = Field([])
    confidence: Annotated[list[Literal["high", "medium", "low"]], Field(max_length=VALUES_MAX)] = Field([])


class NotJudged(Model):
    """A rule with insufficient data, because a signal was missing."""

    rule: str
    missing: str


class NoticePage(Listing):
    """Notices of a period in the order of their rules. They are of the samples as well as of the ledger."""

    period: Span
    items: list[Notice]
    not_judged: list[NotJudged] = Field(
        description="Rules with insufficient data, those of findings too; for a key limited to teams, of its runs."
    )


def finding_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/findings", response_model=FindingPage, responses=READS, tags=["findings"])
    def findings(request: Request, asked: Annotated[_FindingsAsked, Query()]) -> Response:
        """What was avoidable in a period, by who lost it and why."""
        return service.answer(request, lambda context: _finding_page(context, asked))

    @router.get("/findings/{finding_id}", response_model=FindingAnswer, responses=READS, tags=["findings"])
    def finding(request: Request, finding_id: _FindingId, asked: Annotated[Spanned, Query()]) -> Response:
        """One finding of a period: the evidence, and what would prove it wrong."""
        return service.answer(request, lambda context: _finding_answer(context, finding_id, asked))

    _add(router, service, _JUDGEMENT)
    _add(router, service, _MUTE)

    @router.get("/notices", response_model=NoticePage, responses=READS, tags=["findings"])
    def notices(request: Request, asked: Annotated[_NoticesAsked, Query()]) -> Response:
        """Observations of a period (no cost counted), and rules with insufficient data."""
        return service.answer(request, lambda context: _notice_page(context, asked))

    return router


def _finding_page(context: RequestContext, asked: _FindingsAsked) -> FindingPage:
    key, period = context.begin(asked.cursor, (bool, int, int, str), asked.since, asked.until)
    run_id = None if asked.run is None else find_run(context.session, asked.run)
    found = [finding for finding in context.reader.findings(period) if _is_wanted(finding, asked, run_id)]
    after = [finding for finding in found if key is None or finding_order(finding) > key]
    shown = after[: asked.limit]
    return FindingPage(
        **context.head(),
        next_cursor=context.next(finding_order(shown[-1]), period) if len(after) > len(shown) else None,
        period=period,
        hours=known_hours(context.session, period),
        measured=measured(context.session, period),
        record=context.reader.case(period).record if context.scope.teams is None else None,
        items=list(context.reader.documents(shown, period, found)),
    )


def _is_wanted(finding: Finding, asked: _FindingsAsked, run_id: str | None) -> bool:
    return (
        (asked.suspicions or not finding.suspicion)
        and (not asked.team or finding.team in asked.team)
        and (run_id is None or run_id in finding.run_ids)
        and (not asked.state or finding.state in asked.state)
        and (not asked.cause or finding.cause in asked.cause)
        and (not asked.confidence or finding.confidence in asked.confidence)
        and (asked.still_open is None or finding.still_open is asked.still_open)
    )


def _finding_answer(context: RequestContext, finding_id: str, asked: Spanned) -> FindingAnswer:
    """Return one finding.

    Raises:
        LedgerError: the period has none of this id.
    """
    period = context.period(asked.since, asked.until)
    absent = f"{period.label} has no finding {finding_id}: /v1/findings lists them; since selects another period"
    found = by_id(context.reader.findings(period), finding_id, absent)
    return FindingAnswer(
        **context.head(),
        period=period,
        finding=context.reader.documents([found], period)[0],
        recommendation_ids=[one.id for one in context.reader.offer(period).standing if found.id in one.finding_ids],
    )


A = TypeVar("A", bound=Parameters)
_Because = Annotated[str, Field(min_length=1, max_length=BECAUSE_MAX, description="The reason, in one sentence.")]


class JudgementAsked(Parameters):
    """A verdict on a finding in a period."""

    verdict: Verdict = Field(description="`planned` means right and accepted; it counts as right.")
    because: _Because
    since: When | Opt = Field(None, description="The period of the finding; default: the last complete week.")
    until: When | Opt = None


class MuteAsked(Parameters):
    """Until when a finding is left out of lists."""

    until: Text = Field(description="A date (inclusive) or a time; no more than 90 days ahead.")
    because: _Because
    since: When | Opt = Field(None, description="The period of the finding; default: the last complete week.")


class JudgementDocument(Document):
    """What was kept."""

    judgement: Judgement


class MuteDocument(Document):
    """What was kept."""

    mute: Mute


def _add(router: APIRouter, service: RequestService, word: Post[A]) -> None:
    async def post(request: Request, finding_id: _FindingId) -> Response:
        return await answered(service, request, word, finding_id)

    router.add_api_route(f"/findings/{{finding_id}}/{word.path}", post, **documented(word))


def _own(context: RequestContext, period: Period) -> list[Finding]:
    """Return the findings that who asks may speak for: of one that others share each sees a part, and mutes none."""
    return [finding for finding in context.reader.findings(period) if context.reader.holds(finding)]


def judge_finding(
    context: RequestContext, request: Request, finding_id: str, asked: JudgementAsked
) -> JudgementDocument:
    """Keep what somebody says of a finding. Raises what is wrong with it."""
    period, said = context.period(asked.since, asked.until), said_by(request, asked.because)
    kept = keep_judgement(context.whole.session, _own(context, period), period, finding_id, asked.verdict, said)
    audit(request, "judge", kept.finding_id, f"{kept.verdict}, of {kept.period_label}", said)
    return JudgementDocument(**context.head(), judgement=kept)


def mute_finding(context: RequestContext, request: Request, finding_id: str, asked: MuteAsked) -> MuteDocument:
    """Keep until when a finding is left out of lists and messages. Raises what is wrong with it."""
    period, said = context.period(asked.since, None), said_by(request, asked.because)
    zone = context.reader.settings.timezone
    kept = keep_mute(context.whole.session, _own(context, period), period, finding_id, asked.until, zone, said)
    audit(request, "mute", kept.finding_id, f"until {asked.until}", said)
    return MuteDocument(**context.head(), mute=kept)


_JUDGEMENT = Post(
    "judgement",
    "judgement",
    JudgementAsked,
    JudgementDocument,
    judge_finding,
    "Give feedback on a finding: right, wrong or planned. The last one per finding and period counts.",
)
_MUTE = Post(
    "muted",
    "mute",
    MuteAsked,
    MuteDocument,
    mute_finding,
    "Mute a finding: lists omit it until then. Its time stays in every sum.",
)


def _notice_page(context: RequestContext, asked: _NoticesAsked) -> NoticePage:
    """Return one page of notices. Raises as RequestContext.page()."""
    after, period = context.begin(asked.cursor, (str, str), asked.since, asked.until)
    found = [notice for notice in context.reader.looked(period).notices if _is_asked(notice, asked)]
    shown, next_cursor = context.page(found, lambda notice: (notice.rule, notice.id), after, period, asked.limit)
    return NoticePage(
        **context.head(),
        next_cursor=next_cursor,
        period=period,
        items=shown,
        not_judged=[
            NotJudged(rule=rule, missing=missing) for rule, missing in by_rule(context.reader.unjudged(period))
        ],
    )


def _is_asked(notice: Notice, asked: _NoticesAsked) -> bool:
    return (
        (not asked.team or notice.team in asked.team)
        and (not asked.rule or any(f"{notice.rule}/".startswith(f"{rule}/") for rule in asked.rule))
        and (not asked.node or notice.node in asked.node)
        and (not asked.confidence or notice.confidence in asked.confidence)
    )
