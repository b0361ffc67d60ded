"""Health: who sends and how late, how much is measured, which rules could not judge, and what the doctor says."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.wire.units import SECOND_US
from analyzer.charts.over_time import stacked_bars
from analyzer.interfaces.doctor.line import CheckLine, Section
from analyzer.interfaces.doctor.words import length_words
from analyzer.ledger.coverage import newest_hour_end
from analyzer.period import Period
from analyzer.text.words import days, moment_words
from dashboards.pages.agent_list import agent_list, agents_sheet
from dashboards.pages.answering import PAGE, PART, kind_of
from dashboards.pages.coverage_view import coverage, coverage_sheet
from dashboards.pages.neighbours import neighbours
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages, Sheet
from dashboards.pages.unjudged_rules import unjudged_rules

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext
    from dashboards.routes.operations import Doctor

_HERE = "/health"
_NAMED = 8  # of those whom a rule could not judge


@dataclass(frozen=True, slots=True)
class Unjudged:
    """One rule that lacked a signal: of whom, some by name."""

    rule: str
    missing: str
    whom: str
    subjects: int


def health_routes(pages: ReadPages, doctor: "Doctor") -> APIRouter:
    """Return the routes of the page and of its sheets."""
    router = APIRouter()

    @router.get(_HERE)
    def page(request: Request, week: str | None = None, ledger: str | None = None) -> Response:
        def view(context: "RequestContext") -> Mapping[str, object]:
            return _health_view(context, week, doctor, reads_ledger=ledger is not None)

        asked = PageState(_HERE, week)
        if ledger is not None:  # who asks for the ledger is told of that reading, and waits for it
            return pages.fresh(request, asked, "health.html", view)
        read_at = doctor.last.looked_at if doctor.last is not None else None
        return pages.recent(request, ReadPage(asked, "health.html", view), read_at)

    @router.get(f"{_HERE}/rules")
    def rules(request: Request, week: str | None = None) -> Response:
        return pages.page(request, unjudged(week, kind_of(request)))

    @router.get(f"{_HERE}/{{sheet}}")
    def sheet(request: Request, sheet: str, week: str | None = None) -> Response:
        made = {
            "agents.csv": lambda context: agents_sheet(context, _now()),
            "coverage.csv": lambda context: coverage_sheet(context, context.reader.period(week)),
            "unjudged.csv": lambda context: _unjudged_sheet(context, context.reader.period(week)),
        }
        return pages.sheet(request, sheet, made)

    return router


def _health_view(
    context: "RequestContext", week: str | None, doctor: "Doctor", *, reads_ledger: bool
) -> Mapping[str, object]:
    """Return what the page shows; before the ledger has its first hour, what there is to say without one.

    Which rules could not judge is None where nobody has looked at this state of the ledger yet: it comes as a part.
    The doctor reads the whole ledger only when asked to: of a large fleet that takes a while.
    """
    now, zone = _now(), context.reader.settings.timezone
    sections = list(doctor.looked_at())
    last = doctor.examined() if reads_ledger else doctor.last
    if last is not None:
        sections.insert(0, last.sections[0])
    end = newest_hour_end(context.session)
    bad = sum(line.answer == "bad" for section in sections for line in section.lines)
    return {
        "agents": agent_list(context, now),
        "ends": moment_words(end, zone) if end is not None else "empty",
        "behind": f"{length_words(max(0, (now - end) / SECOND_US))} ago" if end is not None else "",
        "sections": [_section(section) for section in sections],
        "bad": bad,
        "ledger_read": moment_words(last.looked_at, zone) if last is not None else None,
        "json_link": "/v1/doctor",
        **(_of_period(context, context.reader.period(week)) if end is not None else _NOTHING),
    }


_NOTHING: Mapping[str, object] = {"period": None, "covered": None, "unjudged": ()}


def _of_period(context: "RequestContext", period: Period) -> Mapping[str, object]:
    covered = coverage(context, period)
    before, after = neighbours(context.reader, period)
    return {
        "period": period,
        "days": days(period),
        "before": before,
        "after": after,
        "covered": covered,
        "figure": stacked_bars(covered.chart),
        "unjudged": _rules(context, period) if context.has_looked(period) else None,
    }


def unjudged(week: str | None = None, kind: str = PART) -> ReadPage:
    """Return the part of the page that looks at samples: what a page before it need not wait for."""
    template = "part.html" if kind == PAGE else "parts/unjudged.html"

    def view(context: "RequestContext") -> Mapping[str, object]:
        return {"unjudged": _rules(context, context.reader.period(week)), "name": "unjudged", "json_link": "/v1/doctor"}

    return ReadPage(PageState(_HERE, week), template, view, kind)


def _rules(context: "RequestContext", period: Period) -> list[Unjudged]:
    return [_unjudged(*one) for one in unjudged_rules(context.unjudged(period))]


def _unjudged(rule: str, missing: str, whom: list[str]) -> Unjudged:
    named = ", ".join(whom[:_NAMED]) + (f" and {len(whom) - _NAMED:,} more" if len(whom) > _NAMED else "")
    return Unjudged(rule, missing, named or "the whole fleet", len(whom))


def _unjudged_sheet(context: "RequestContext", period: Period) -> Sheet:
    found = unjudged_rules(context.unjudged(period))
    rows = [(rule, missing, subject) for rule, missing, whom in found for subject in whom or ["fleet"]]
    return Sheet(("rule", "missing", "subject"), rows)


def _section(section: Section) -> tuple[str, list[CheckLine]]:
    return section.name.capitalize(), sorted(section.lines, key=lambda line: line.answer != "bad")


def _now() -> int:
    return time.time_ns() // 1000
