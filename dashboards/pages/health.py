"""Health: who sends and how late, how much is measured, which rules could not judge, and what the doctor says."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.wire.units import HOUR_US, SECOND_US, WEEK_US
from analyzer.charts.figures import stacked_bars
from analyzer.charts.series import Chart, Trace, chart
from analyzer.findings.words import rule_words
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.interfaces.doctor.sight import length_words
from analyzer.interfaces.text.week_text import silent_words
from analyzer.ledger.coverage import Unjudged, by_rule, measured, newest_hour_end
from analyzer.period import Period
from analyzer.queries.ledger_query import ledger_sums
from analyzer.text.words import moment_words, percent
from collector.background import OWN_SENDERS
from collector.pipeline.metrics import SILENT_SECONDS
from dashboards.pages.read_pages import (
    PAGE,
    PART,
    PageState,
    ReadPage,
    ReadPages,
    Sheet,
    kind_of,
    period_view,
    sheet_of,
)
from dashboards.routes import Doctor

_HERE = "/health"
_AGENTS_SHOWN = 60
BARS = 84  # of the chart of what is not known at most; a week gives bars of two hours
# What an agent says of itself comes with its samples, and is read from the lake: the last minutes are not in it.
_AGENTS = """
WITH heard AS (
    SELECT agent, max(received_at) AS heard, count(*) AS batches FROM receipts
    WHERE received_at > $since AND NOT starts_with(agent, 'import:') GROUP BY agent
), said AS (
    SELECT node, arg_max(spool_bytes, ended_at) AS spool_bytes, sum(dropped_batches) AS dropped, sum(gaps) AS gaps,
        arg_max(clock_offset_seconds, ended_at) AS clock, arg_max(gpus_expected, ended_at) AS expected,
        arg_max(gpus_seen, ended_at) AS seen, max(ended_at) AS newest
    FROM agent_samples WHERE ended_at > (SELECT max(ended_at) FROM agent_samples) - 7 * 86400000000 GROUP BY node
)
SELECT agent, heard, batches, spool_bytes, dropped, gaps, clock, expected, seen
FROM heard LEFT JOIN said ON node = agent ORDER BY heard, agent
"""
_AGENT_COLUMNS = {
    "agent": "agent", "heard_at_us": "heard_at", "batches": "batches", "spool_bytes": "spool_bytes",
    "dropped_batches": "dropped", "gaps": "gaps", "clock_offset_seconds": "clock_seconds",
    "gpus_expected": "gpus_expected", "gpus_seen": "gpus_seen",
}  # fmt: skip
_NO_PERIOD: Mapping[str, object] = {"period": None, "covered": None, "unjudged": ()}


def health_routes(pages: ReadPages, doctor: Doctor) -> APIRouter:
    """Return the routes of the page and of its sheets."""
    router = APIRouter()

    @router.get(_HERE)
    def page(request: Request, week: str | None = None, ledger: str | None = None) -> Response:
        def view(context: RequestContext) -> Mapping[str, object]:
            return _health_view(context, week, doctor, reads_ledger=ledger is not None)

        shown = ReadPage(PageState(_HERE, week), "health.html", view)
        if ledger is not None:  # who asks for the ledger is told of that reading, and waits for it
            return pages.fresh(request, shown)
        return pages.recent(request, shown, doctor.last.looked_at if doctor.last is not None else None)

    @router.get(f"{_HERE}/rules")
    def rules(request: Request, week: str | None = None) -> Response:
        return pages.page(request, unjudged(week, kind_of(request)))

    @router.get(f"{_HERE}/{{sheet}}")
    def sheet(request: Request, sheet: str, week: str | None = None) -> Response:
        made = {
            "agents.csv": lambda context: sheet_of(_AGENT_COLUMNS, agents(context, _now())),
            "coverage.csv": lambda context: _coverage_sheet(context, context.reader.period(week)),
            "unjudged.csv": lambda context: _unjudged_sheet(context, context.reader.period(week)),
        }
        return pages.sheet(request, sheet, made)

    return router


def _health_view(
    context: RequestContext, week: str | None, doctor: Doctor, *, reads_ledger: bool
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
    senders = agents(context, now)
    ages = [sender.age_seconds(now) for sender in senders]
    own = [sender for sender in senders if sender.is_on_host]
    return {
        "agents": senders,
        "now": now,
        "agents_shown": _AGENTS_SHOWN,
        "own": len(own),
        "silent": sum(sender.is_silent(now) for sender in own),
        "newest": f"{length_words(min(ages))} ago" if ages else "never",
        "ends": moment_words(end, zone) if end is not None else "empty",
        "behind": f"{length_words(max(0, (now - end) / SECOND_US))} ago" if end is not None else "",
        "sections": [
            (section.name.capitalize(), sorted(section.lines, key=lambda line: line.answer != "bad"))
            for section in sections
        ],
        "bad": sum(line.answer == "bad" for section in sections for line in section.lines),
        "ledger_read": moment_words(last.looked_at, zone) if last is not None else None,
        "json_link": "/v1/doctor",
        **(_of_period(context, context.reader.period(week)) if end is not None else _NO_PERIOD),
    }


def _of_period(context: RequestContext, period: Period) -> Mapping[str, object]:
    coverage = measured(context.session, period)
    known = _coverage_chart(context, period)
    held = coverage.held_milliseconds
    return {
        **period_view(context.reader, period),
        "covered": percent(held - coverage.not_measured_milliseconds, held) if held else "",
        "silent_hosts": [silent_words(node, period.timezone) for node in coverage.nodes],
        "chart": known,
        "figure": stacked_bars(known),
        "unjudged": unjudged_rules(context.reader.unjudged(period)) if context.reader.has_looked(period) else None,
    }


@dataclass(frozen=True, slots=True)
class AgentLine:
    """One sender that was heard within a week; what it says of itself is None where the lake has none of it yet."""

    agent: str
    heard_at: int  # microseconds UTC
    batches: int
    spool_bytes: int | None
    dropped: int | None
    gaps: int | None
    clock_seconds: float | None
    gpus_expected: int | None
    gpus_seen: int | None

    def age_seconds(self, now_us: int) -> float:
        """Return how long ago it was heard."""
        return max(0.0, (now_us - self.heard_at) / SECOND_US)

    @property
    def is_on_host(self) -> bool:
        """Whether it is an agent: a scheduler is heard when a job changes, a Prometheus when it is read."""
        return not self.agent.startswith(OWN_SENDERS)

    def is_silent(self, now_us: int) -> bool:
        """Whether an agent has not been heard for longer than any waits between two batches."""
        return self.is_on_host and self.age_seconds(now_us) > SILENT_SECONDS


def agents(context: RequestContext, now_us: int) -> list[AgentLine]:
    """Return the agents of a week and who sends beside them, the most silent first."""
    return [AgentLine(*row) for row in context.session.rows(_AGENTS, {"since": now_us - WEEK_US})]


def unjudged(week: str | None = None, kind: str = PART) -> ReadPage:
    """Return the part of the page that looks at samples: what a page before it need not wait for."""
    template = "part.html" if kind == PAGE else "parts/unjudged.html"

    def view(context: RequestContext) -> Mapping[str, object]:
        rules = unjudged_rules(context.reader.unjudged(context.reader.period(week)))
        return {"unjudged": rules, "name": "unjudged", "json_link": "/v1/doctor"}

    return ReadPage(PageState(_HERE, week), template, view, kind)


def unjudged_rules(missing: Iterable[Unjudged]) -> list[tuple[str, str, list[str]]]:
    """Return the rules that lacked a signal: which and of whom, those of most first; of the whole fleet no names."""
    rules = [
        (rule_words(rule), why, [] if whom == ["fleet"] else whom) for (rule, why), whom in by_rule(missing).items()
    ]
    return sorted(rules, key=lambda rule: (-len(rule[2]), rule[0]))


def _unjudged_sheet(context: RequestContext, period: Period) -> Sheet:
    rules = unjudged_rules(context.reader.unjudged(period))
    rows = [(rule, missing, subject) for rule, missing, whom in rules for subject in whom or ["fleet"]]
    return Sheet(("rule", "missing", "subject"), rows)


def _coverage_sheet(context: RequestContext, period: Period) -> Sheet:
    """Return every hour, exact."""
    head = ("hour_us", "owned_milliseconds", "not_measured_milliseconds", "unexplained_milliseconds")
    return Sheet(head, [(hour, *amounts) for hour, amounts in _hours(context, period).items()])


def _hours(context: RequestContext, period: Period) -> Mapping[int, list[int]]:
    """Return of each hour the milliseconds that were owned, not measured, and unexplained."""
    hours: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for sums in ledger_sums(context.session, "hour", "state", period=period):
        hour, state = sums.keys
        hours[hour][0] += sums.milliseconds
        hours[hour][1] += sums.milliseconds if state == "unobserved" else 0
        hours[hour][2] += sums.milliseconds if state == "unexplained" else 0
    return hours


def _coverage_chart(context: RequestContext, period: Period) -> Chart:
    width = max(1, -(-period.hours // BARS)) * HOUR_US
    starts = [*range(period.start, period.end, width)]
    bars = [[0, 0, 0] for _ in starts]
    for hour, amounts in _hours(context, period).items():
        bar = (hour - period.start) // width
        bars[bar] = [own + more for own, more in zip(bars[bar], amounts, strict=True)]
    silent = tuple(round(100 * none / owned, 2) if owned else None for owned, none, _ in bars)
    unclear = tuple(round(100 * low / owned, 2) if owned else None for owned, _, low in bars)
    traces = (Trace("not measured", "unknown", silent), Trace("low utilization, unexplained", "overhead", unclear))
    return chart("Time not measured or unexplained", "% of owned", starts, period.timezone, traces)


def _now() -> int:
    return time.time_ns() // 1000
