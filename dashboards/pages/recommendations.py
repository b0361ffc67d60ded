"""Recommendations as a person weighs them: what moves where and what it saves; what is decided, and what came of it."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from analyzer.errors import ConfigError
from analyzer.interfaces.api.recommendations import keep_decision
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.interfaces.text.recommendation_files import COLUMNS, sheet_rows
from analyzer.interfaces.text.recommendation_text import WHERE, recommendation_rows
from analyzer.interfaces.text.savings_text import bill_words, checked_words, saved_over, saving_column
from analyzer.ledger.coverage import fleet, measured, unjudged
from analyzer.period import Period, local
from analyzer.recommendations.lifecycle.lifecycle_tables import Decision, LifecycleStatus, lifecycle_statuses
from analyzer.recommendations.lifecycle.realised import Realised
from analyzer.recommendations.recommendation import Artefact, Placement, Recommendation
from analyzer.reports.recommendation_words import HOLDS, actor_words, cost_short, is_predicted, place_words, stays
from analyzer.reports.savings import SavingsReport
from analyzer.text.words import (
    CENTS_UNDER,
    counted,
    day,
    gpu_hours,
    moment_words,
    money,
    nothing_recommended,
    plain,
    plain_sentence,
)
from collector.access.gate import body_of, fields_of
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages, Sheet, period_view

_NODES_SHOWN, _CHANGES_SHOWN, _APPLIED_SHOWN = 48, 50, 20
_SHADES = 6  # that tell racks apart
_SAID_ABOVE = ("from", "to", "why", "owner")
_DECISIONS: dict[str, Decision] = {"accept": "accepted", "reject": "rejected"}
_OUTCOME_HEAD = (
    "id", "stage", "kind", "subject", "team", "title", "predicted_micros_p50", "came_micros", "came_micros_low",
    "came_micros_high", "standing",
)  # fmt: skip


_HERE = "/recommendations"


def recommendation_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the page, of its sheet, and of the forms of each recommendation."""
    router = APIRouter()

    @router.get(_HERE)
    def page(request: Request, week: str | None = None) -> Response:
        return pages.page(request, recommendations(week))

    @router.get(f"{_HERE}/{{sheet}}")
    def sheet(request: Request, sheet: str, week: str | None = None) -> Response:
        made = {"recommendations.csv": lambda context: changes_sheet(context, context.reader.period(week))}
        return pages.sheet(request, sheet, made)

    @router.post(f"{_HERE}/{{advice_id}}")
    async def decide(request: Request, advice_id: str) -> Response:
        fields = fields_of(await body_of(request.receive))
        keep = partial(_keep, request=request, advice_id=advice_id, fields=fields)
        shown = recommendations(fields.get("week") or None)
        return await run_in_threadpool(pages.change, request, shown, keep, advice_id)

    return router


def recommendations(week: str | None = None) -> ReadPage:
    """Return the page of a period."""

    def view(context: RequestContext) -> Mapping[str, object]:
        period = context.reader.period(week)
        link = PageState("/v1/recommendations", None, {"since": week or ""}).link()
        return {**period_view(context.reader, period), "json_link": link, **changes_view(context, period)}

    return ReadPage(PageState(_HERE, week), "recommendations.html", view)


def _keep(context: RequestContext, request: Request, advice_id: str, fields: Mapping[str, str]) -> None:
    """Keep what a form says. Raises what is wrong with it."""
    if (word := _DECISIONS.get(fields.get("decision", ""))) is None:
        raise ConfigError(f"say what is decided: {' or '.join(_DECISIONS)}")
    period, because = context.reader.period(fields.get("week") or None), fields.get("because", "")
    keep_decision(context, request, advice_id, word, because, period, fields.get("applied_at") or None)


def changes_view(context: RequestContext, period: Period) -> Mapping[str, object]:
    """Return what is recommended now, of what may be seen, those that save most first; and where each of them stands.

    Of the book `rejected` are those that are not recommended now.
    """
    offer = context.reader.offer(period)
    known, standing = offer.advice, offer.standing
    shown = standing[:_CHANGES_SHOWN]
    amounts, together = saving_column(shown, context.currency) if shown else ([], "")
    statuses = [s for s in lifecycle_statuses(context.whole.session) if context.reader.holds(s.prediction)]
    ids = {advice.id for advice in shown}
    zone = context.reader.settings.timezone
    return {
        "sentence": _answer(context, period, shown, together),
        "changes": [
            _change(advice, amount, context.currency, period.timezone)
            for advice, amount in zip(shown, amounts, strict=True)
        ],
        "held_back": len(known) - len(standing),
        "more": len(standing) - len(shown),
        "stands": {status.id: status for status in statuses},
        "rejected": [status for status in statuses if status.stage == "rejected" and status.id not in ids],
        "decided": {status.id: _decided(status, zone) for status in statuses},
        "may_decide": context.scope.may_decide,
    }


def changes_sheet(context: RequestContext, period: Period) -> Sheet:
    """Return all recommendations of a period, exact; also those that a guard holds back."""
    return Sheet(COLUMNS, sheet_rows(context.reader.offer(period).advice, context.currency))


def _answer(context: RequestContext, period: Period, shown: Sequence[Recommendation], together: str) -> str:
    if not shown:
        known = measured(context.session, period)
        lacking = len({rule.rule for rule in unjudged(context.session, period)})
        return nothing_recommended(known.held_milliseconds, known.not_measured_milliseconds, lacking)
    what = counted(len(shown), "change")
    bill = bill_words(shown, fleet(context.session, period), context.currency, period.timezone)
    return f"{what} would likely save {together} {saved_over(shown)} together: {bill}"


def _change(advice: Recommendation, amount: str, currency: str, zone: str) -> Mapping[str, object]:
    """Return a recommendation with the words of what it saves, takes and was checked for, and the lines to copy."""
    why = plain_sentence(advice.why)
    return {
        "advice": advice,
        "saves": amount if is_predicted(advice) else "not predicted",
        "over": saved_over([advice]),
        "actor": actor_words(advice),
        "cost": cost_short(advice, currency),
        "why": f"{why[:1].upper()}{why[1:]}." if why else "",
        "sides": zip(("before", "after"), sides(advice), strict=True),
        "more": [pair for pair in recommendation_rows(advice, currency, zone) if pair[0] not in _SAID_ABOVE],
        "checks": [(HOLDS[check.holds], check) for check in advice.constraints],
        "pastes": _pastes(advice.artefacts),
    }


_Stretch = tuple[str, int, tuple[str, ...]]  # nodes that follow one another in the order of ranks: rack, shade, nodes
_Side = tuple[str, Sequence[_Stretch], int]


def sides(advice: Recommendation) -> tuple[_Side, _Side]:
    """Return before and after: in words, the stretches of racks where hosts are named, and how many hosts more."""
    before, after = plain_sentence(advice.from_), plain_sentence(advice.to)
    if advice.move is None or stays(advice.move):
        return (before, (), 0), (after, (), 0)
    here, there = advice.move.from_, advice.move.to
    racks = sorted({rack or "" for place in (here, there) if place is not None for rack in place.racks})
    return _side(here, racks, before or "not placed yet"), _side(there, racks, after or "given back")


def _side(place: Placement | None, racks: Sequence[str], words: str) -> _Side:
    if place is None:
        return words, (), 0
    pairs = list(zip(place.nodes, place.racks, strict=True))[:_NODES_SHOWN]
    stretches = [
        (plain(rack or "rack unknown"), racks.index(rack or "") % _SHADES, tuple(plain(node) for node, _ in own))
        for rack, own in groupby(pairs, key=lambda pair: pair[1])
    ]
    return words if stretches else f"{words} ({place_words(place)})", stretches, len(place.nodes) - len(pairs)


def _pastes(artefacts: Sequence[Artefact]) -> list[tuple[str, str]]:
    """Return the texts with where each goes, those for one place together."""
    texts: dict[str, list[str]] = {}
    for artefact in artefacts:
        texts.setdefault(WHERE[artefact.form], []).append(artefact.text)
    return [(where.capitalize(), "\n".join(own)) for where, own in texts.items()]


def _decided(status: LifecycleStatus, zone: str) -> str:
    """Return the sentence of where a recommendation stands: when, and of a rejection why; nothing of a proposed one."""
    if status.applied_at is not None:
        return f"Made {day(local(status.applied_at, zone))}{'' if status.by == 'said' else ', as its runs show'}."
    if status.word is None:
        return ""
    why = f": {plain_sentence(status.word.because)}" if status.word.because else ""
    return f"{status.word.word.capitalize()} {moment_words(status.word.recorded_at, zone)}{why}."


def outcomes(context: RequestContext) -> Mapping[str, object]:
    """Return the book, of what may be seen: what was applied and came of it, and what is accepted and still to come."""
    report = _outcomes(context)
    applied = []
    for realised in report.applied[:_APPLIED_SHOWN]:
        title, *came = checked_words(realised, report.currency, report.timezone)
        applied.append((realised.id, title, "; ".join(came)))
    return {"sentence": _savings(report), "applied": applied, "waiting": report.accepted[:_APPLIED_SHOWN]}


def outcomes_sheet(context: RequestContext) -> Sheet:
    """Return all that was decided or applied, exact, a week."""
    report = _outcomes(context)
    rows = [_values(realised, realised) for realised in report.applied]
    return Sheet(_OUTCOME_HEAD, rows + [_values(status, None) for status in (*report.accepted, *report.rejected)])


def _outcomes(context: RequestContext) -> SavingsReport:
    return context.reader.savings()


def _savings(report: SavingsReport) -> str:
    counts = (
        f"Of what was recommended: {len(report.applied):,} applied, {len(report.accepted):,} accepted and not "
        f"applied yet, {len(report.rejected):,} rejected, {report.proposed:,} proposed."
    )
    whole = report.together
    if not whole.changes:
        return f"Nothing is verified yet. {counts}"
    if whole.predicted_micros is None or whole.realised_micros is None:
        hours = (gpu_hours(whole.predicted_milliseconds), gpu_hours(whole.realised_milliseconds))
        predicted, came = (f"{amount} GPU-hours" for amount in hours)
    else:
        amounts = (whole.predicted_micros, whole.realised_micros)
        predicted, came = (money(micros, report.currency, 2 if abs(micros) < CENTS_UNDER else 0) for micros in amounts)
    verified = counted(whole.changes, "change")
    return f"{came} per week saved and verified, of {verified}; {predicted} per week were predicted. {counts}"


def _values(status: LifecycleStatus, came: Realised | None) -> tuple[object, ...]:
    predicted, weekly = status.prediction, came.micros if came else None
    amounts = (None, None, None) if weekly is None else (weekly.likely, weekly.low, weekly.high)
    likely = None if predicted.saves_micros is None else predicted.saves_micros["p50"]
    standing = came.outcome.standing if came else None
    about = (status.id, status.stage, predicted.kind, predicted.subject, predicted.team, predicted.title)
    return (*about, likely, *amounts, standing)
