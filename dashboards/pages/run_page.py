"""The page of all runs, filtered, sorted and searched; and of one: its cost, its timeline, where its time went."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from agent.wire.units import HOUR_US, MICROS
from analyzer.charts.figures import over_one_another
from analyzer.charts.series import Chart, Trace, chart
from analyzer.errors import ConfigError, LedgerError
from analyzer.findings.finding import Finding
from analyzer.interfaces.api.request_service import RequestContext, Scope
from analyzer.interfaces.text.compare_text import comparison_answer, comparison_rows
from analyzer.interfaces.text.efficiency_text import efficiency_rows, service_rows
from analyzer.interfaces.text.run_text import head_pairs, insufficient_data_words, projection, run_sentence
from analyzer.interfaces.text.savings_text import saving_column, savings_head
from analyzer.ledger.breakdown import breakdown_lines
from analyzer.ledger.coverage import TimelinePoint
from analyzer.ledger.run_facts import find_run
from analyzer.measures.traffic.text import traffic_rows
from analyzer.period import Period
from analyzer.queries.ledger_query import within
from analyzer.reports.compare import CURVE_PIXELS, compare_runs, curves
from analyzer.reports.findings import Words, causes_out
from analyzer.reports.reader import Reader
from analyzer.reports.run import (
    FINDINGS_SHOWN,
    SPARK_POINTS,
    RunDocument,
    RunFacts,
    own_findings,
    run_energy_words,
    run_facts,
    run_names,
    run_report,
    run_span,
    runs_where,
)
from analyzer.reports.run_list import (
    RUN_COLUMNS,
    RUN_STATES,
    SORTS,
    RunSearch,
    RunState,
    Sort,
    run_values,
    search_runs,
    user_breakdown,
    user_runs,
)
from analyzer.reports.run_timeline import (
    SIGNALS,
    Remembered,
    TimelineAsked,
    as_csv,
    as_json,
    known_span,
    read_timeline,
    state_shares,
)
from analyzer.reports.week import by_saving
from analyzer.states import CLASSES
from analyzer.text.words import apportion, gpu_hours, hours_decimals, money, percent, symbol
from dashboards.pages.marks import cost_steps
from dashboards.pages.read_pages import (
    PAGE,
    PART,
    WEEK_JSON,
    PageState,
    ReadPage,
    ReadPages,
    Sheet,
    kind_of,
    period_view,
    site_page,
)

RUNS = "/runs"
_SHOWN = 100  # on a page
_IN_CSV = 100_000
_CHANGES_SHOWN = 5
_CHOICES = 500  # of a list to choose from
_TEXT_MOST = 200  # characters of a search
_SEE_OTHER = 303
_IDS = {"f": "/findings/{}", "r": "/recommendations#{}"}  # what else is looked for by its id
_ID = re.compile(r"[fr]-[0-9a-z]{4,}")
_EVER = "all"
PERIODS = (("24h", "last day"), ("7d", "last seven days"), ("30d", "last thirty days"), (_EVER, "all that is known"))
_HEADS: tuple[tuple[Sort, str], ...] = (
    ("name", "run"), ("team", "team"), ("started", "started"), ("state", "state"), ("gpus", "GPUs"),
    ("hours", "GPU-hours"), ("cost", "cost"), ("useful", "useful"), ("avoidable", "lost most to"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunsAsked:
    """The state of the page, as its address has it. `week` is any period, or "all"; `since` and `until` are days."""

    q: str | None = None
    week: str | None = None
    since: str | None = None
    until: str | None = None
    team: str | None = None
    user: str | None = None
    queue: str | None = None
    sku: str | None = None
    state: str | None = None
    sort: str = "cost"
    page: int = 1

    @property
    def page_state(self) -> PageState:
        """Its address."""
        words = {
            "q": self.q,
            "since": self.since,
            "until": self.until,
            "team": self.team,
            "user": self.user,
            "queue": self.queue,
            "sku": self.sku,
        }
        words |= {"state": self.state, "sort": None if self.sort == "cost" else self.sort}
        words |= {"page": str(self.page) if self.page > 1 else None}
        return PageState(RUNS, self.week, {name: word for name, word in words.items() if word})

    def search(self, *, people: bool) -> RunSearch:
        """Return what is looked for.

        Raises:
            ConfigError: there is no such order or state, or the text is too long.
        """
        sort = next((one for one in SORTS if one == self.sort), None)
        state: RunState | None = next((one for one in RUN_STATES if one == self.state), None)
        if sort is None:
            raise ConfigError(f"there is no order {self.sort!r}: there are {', '.join(SORTS)}")
        if self.state and state is None:
            raise ConfigError(f"there is no state {self.state!r}: there are {', '.join(RUN_STATES)}")
        text = (self.q or "").strip()
        if len(text) > _TEXT_MOST:
            raise ConfigError(f"a search has {_TEXT_MOST} characters at most")
        names = (self.team or None, self.user or None, self.queue or None, self.sku or None)
        return RunSearch(text or None, *names, state, sort, people)


def runs_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the page and of its sheet."""
    router = APIRouter()

    @router.get(RUNS)
    def page(request: Request, asked: Annotated[RunsAsked, Depends(RunsAsked)]) -> Response:
        text = (asked.q or "").strip().lower()
        if _ID.fullmatch(text):
            return RedirectResponse(_IDS[text[0]].format(text), _SEE_OTHER)
        if (refusal := _foreign(request, asked)) is not None:
            return pages.refused(runs(asked), Scope.of(request.scope), refusal)
        return pages.page(request, runs(asked))

    @router.get(f"{RUNS}.csv")
    def sheet(request: Request, asked: Annotated[RunsAsked, Depends(RunsAsked)]) -> Response:
        if (refusal := _foreign(request, asked)) is not None:
            return pages.refused(runs(asked), Scope.of(request.scope), refusal)
        return pages.sheet(request, "runs.csv", {"runs.csv": lambda context: _sheet(context, asked)})

    return router


def _foreign(request: Request, asked: RunsAsked) -> ConfigError | None:
    """Return why somebody may not see the runs of a user: their own they always may."""
    own = getattr(request.scope.get("principal"), "user", "")
    if not asked.user or asked.user == own or Scope.of(request.scope).may_decide:
        return None
    return ConfigError("the runs of one user are shown to that user, and to the roles owner and admin")


def runs(asked: RunsAsked | None = None) -> ReadPage:
    """Return the page in one state."""
    shown = asked or RunsAsked()
    return ReadPage(shown.page_state, "runs.html", lambda context: _runs_view(context, shown))


def _period(context: RequestContext, asked: RunsAsked) -> Period:
    """Return the period that is meant. What is searched for is searched for in all that is known."""
    if asked.since:
        return context.reader.period(asked.since, asked.until or None)
    if asked.week == _EVER or (asked.q and not asked.week):
        first, last = context.reader.session.row(f"SELECT min(hour), max(hour) + {HOUR_US} FROM ledger_hours")
        known = context.reader.period(None)
        return known if first is None else Period(first, last, "all that is known", known.timezone)
    return context.reader.period(asked.week)


def _runs_view(context: RequestContext, asked: RunsAsked) -> Mapping[str, object]:
    reader, period = context.reader, _period(context, asked)
    searched = asked.search(people=context.scope.may_decide)
    skipped = (max(1, asked.page) - 1) * _SHOWN
    found = search_runs(reader.session, period, searched, _SHOWN, skipped)
    return {
        **period_view(reader, period),
        **({"before": None, "after": None} if asked.since or asked.q else {}),
        "found": found,
        "own": _own(context, period, asked.user) if asked.user else None,
        "facts": _facts(context, [run.run_id for run in found.runs]),
        "first": skipped + 1,
        "heads": _HEADS,
        "chosen": asked,
        "choices": {
            "team": _named(context, period, "runs.team"),
            "queue": _named(context, period, "runs.queue"),
            "user": _named(context, period, "runs.owner") if context.scope.may_decide else [],
            "sku": _named(context, period, "sku"),
            "state": RUN_STATES,
        },
        "periods": PERIODS,
        "earlier": asked.page - 1 if asked.page > 1 else None,
        "later": asked.page + 1 if skipped + len(found.runs) < found.total else None,
        "sign": symbol(reader.settings.currency).strip(),
        "csv_link": asked.page_state.link(f"{RUNS}.csv", page=None),
        "json_link": PageState("/v1/runs", None, {"since": asked.since or "", "until": asked.until or ""}).link(),
    }


def _own(context: RequestContext, period: Period, user: str) -> dict[str, object]:
    """Return what the runs of a user cost, what of it was lost, and what to change."""
    reader = context.reader
    went, own = user_breakdown(reader.session, period, user), user_runs(reader.session, user)
    findings = reader.findings(period)
    ids = {finding.id for finding in findings if own & set(finding.run_ids)}
    advice = by_saving([one for one in reader.advice(findings, period) if ids & set(one.finding_ids)])[:_CHANGES_SHOWN]
    lost = went.of("avoidable")
    return {
        "went": went,
        "lost": lost,
        "main": went.main_loss,
        "advice": list(zip(advice, saving_column(advice, reader.settings.currency)[0], strict=True)),
        "savings_head": savings_head(advice),
    }


def _facts(context: RequestContext, run_ids: list[str]) -> dict[str, RunFacts]:
    """Return what is known of these runs beside the ledger, by id."""
    told = runs_where(
        context.session, ["run_id IN (SELECT unnest($ids))"], {"ids": run_ids}, max(1, len(run_ids)), None
    )
    return {facts.run_id: facts for facts in told}


def _named(context: RequestContext, period: Period, column: str) -> list[str]:
    """Return whose runs, or which kinds of GPU, held something in a period, for a list to choose from."""
    where, values = within(period)
    join = "JOIN runs USING (run_id)" if column.startswith("runs.") else ""
    return [
        name
        for (name,) in context.session.rows(
            f"SELECT DISTINCT {column} FROM ledger {join} WHERE {where} AND run_id IS NOT NULL "
            f"AND {column} IS NOT NULL ORDER BY ALL LIMIT {_CHOICES}",
            values,
        )
    ]


def _sheet(context: RequestContext, asked: RunsAsked) -> Sheet:
    """Return all runs that are found, exact."""
    searched = asked.search(people=context.scope.may_decide)
    found = search_runs(context.session, _period(context, replace(asked, page=1)), searched, _IN_CSV)
    facts = _facts(context, [run.run_id for run in found.runs])
    return Sheet(RUN_COLUMNS, [run_values(run, facts.get(run.run_id)) for run in found.runs])


_CENTS = 100
_TIMELINE_TYPES = {"json": "application/json", "csv": "text/csv; charset=utf-8"}
_Tile = tuple[str, str, str, str]  # one figure at the top: its title, itself, what stands under it, its class


def run_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the page, of its parts and of its timeline."""
    router, remembered = APIRouter(), Remembered()

    @router.get("/runs/{run_id:path}/parts/{name}")
    def part(request: Request, run_id: str, name: str) -> Response:
        return pages.page(request, run_part_page(run_id, name, kind_of(request)))

    @router.get("/runs/{run_id:path}/timeline")
    def zoom(request: Request, run_id: str, asked: Annotated[TimelineAsked, Depends(TimelineAsked)]) -> Response:
        def view(context: RequestContext) -> str:
            known = remembered.of(context.generation)
            own = find_run(context.session, run_id)  # samples name no team: whose run it is, is known by then
            shown = read_timeline(context.whole.session, known, own, asked, context.reader.settings.timezone)
            return as_csv(shown) if asked.format == "csv" else as_json(shown)

        state = PageState(f"/runs/{run_id}/timeline", None, {name: str(value) for name, value in asdict(asked).items()})
        return pages.page(request, site_page(state, "", view, _TIMELINE_TYPES[asked.format]))

    @router.get("/compare")
    def compare(request: Request, before: str, after: str) -> Response:
        return pages.page(request, compare_page(before, after))

    @router.get("/runs/{run_id:path}")
    def run(request: Request, run_id: str) -> Response:
        return pages.page(request, run_page(run_id))

    return router


def run_page(run_id: str) -> ReadPage:
    """Return the page of the run that a person means."""
    return site_page(PageState(f"/runs/{run_id}"), "run.html", lambda context: shell(context.reader, run_id), here=RUNS)


def compare_page(before: str, after: str) -> ReadPage:
    """Return the page of two runs side by side."""

    def view(context: RequestContext) -> Mapping[str, object]:
        settings = context.reader.settings
        found = compare_runs(context.session, settings.timezone, settings.currency, before, after)
        names = run_names(context.session, [*found.before.run_ids, *found.after.run_ids])
        words = {"what": "compare", "subject": before, "other": after, "format": "json"}
        whole, known, asked = context.whole.session, Remembered(), TimelineAsked(width=CURVE_PIXELS)
        own = [side.run_ids[0] for side in (found.before, found.after)]
        weights = [[side.breakdown.of(klass).milliseconds for klass in CLASSES] for side in (found.before, found.after)]
        drawn = curves(*(read_timeline(whole, known, run_id, asked, settings.timezone) for run_id in own))
        return {
            "found": found,
            "charts_drawn": [(chart, over_one_another(chart)) for chart in drawn],
            "bars": weights,
            "sides": [(run_id, names.get(run_id, run_id)) for (run_id,) in (found.before.run_ids, found.after.run_ids)],
            "sentence": comparison_answer(found),
            "rows": comparison_rows(found),
            "json_link": f"/v1/read?{urlencode(words)}",
        }

    return site_page(PageState("/compare", None, {"before": before, "after": after}), "compare.html", view, here=RUNS)


def run_part_page(run_id: str, name: str, kind: str = PART) -> ReadPage:
    """Return one part of the page."""
    template = "part.html" if kind == PAGE else f"parts/run_{name}.html"

    def view(context: RequestContext) -> Mapping[str, object]:
        return {"name": f"run_{name}", "json_link": WEEK_JSON, **run_part(context.reader, name, run_id)}

    return site_page(PageState(f"/runs/{run_id}/parts/{name}"), template, view, kind, RUNS)


def shell(reader: Reader, text: str) -> dict[str, object]:
    """Return what the page shows at once of the run that a person means: the ledger's word alone.

    Raises:
        LedgerError: no run, or several, answer to this text, or the ledger has no time of it.
    """
    report = _told(reader, find_run(reader.session, text))
    facts = report.facts
    start, end = known_span(reader.session, facts.run_id, report.timezone)
    address = f"/runs/{quote(facts.run_id)}"
    return {
        "report": report,
        "head": head_pairs(report),
        "tiles": _tiles(report),
        "json_link": f"/v1/read?{urlencode({'what': 'run', 'subject': facts.run_id, 'format': 'json'})}",
        "profile_link": f"/v1/capacity-profile?{urlencode({'run': facts.run_id})}",
        "address": address,
        "start": start,
        "end": end,
        "ranked": [(signal.key, signal.columns[0][1]) for signal in SIGNALS if signal.table == "gpu_samples"],
        "sentence": run_sentence(report),
        "chart": _run_chart(report.timeline, report.timezone),
        "went": cost_steps(breakdown_lines(report.breakdown, subtotals=False)),
        "sign": symbol(report.currency).strip(),
    }


def _told(reader: Reader, run_id: str) -> RunDocument:
    """Return the report of a run without advice and efficiency."""
    span = run_span(reader.session, run_id, reader.settings.timezone)
    found = reader.of_run(run_id, span)
    points = reader.loss_source.timeline(reader.session, run_id, SPARK_POINTS)
    own = reader.documents(own_findings(found, run_id), span)
    return run_report(reader.session, run_facts(reader.session, run_id), span, reader.settings, own, [], points)


def _findings(reader: Reader, run_id: str) -> dict[str, object]:
    span, found = _found(reader, run_id)
    own = _proven(found, run_id)
    week = reader.calendar.week_of(span.end - 1).label
    return {
        "findings": own,
        "ruled_out": {one.id: _ruled_out(reader, one, found, span) for one in own[:FINDINGS_SHOWN]},
        "advice": reader.run_advice(found, span),
        "words": _words(reader, run_id, span),
        "finding_week": f"?{urlencode({'week': week})}",
    }


def _next(reader: Reader, run_id: str) -> dict[str, object]:
    """Return the change that answers the run's largest loss that has one."""
    span, found = _found(reader, run_id)
    own, advice = _proven(found, run_id), reader.run_advice(found, span)
    answers = ((one, change) for one in own for change in advice if one.id in change.finding_ids)
    return {"words": _words(reader, run_id, span), "answer": next(answers, None)}


def _found(reader: Reader, run_id: str) -> tuple[Period, list[Finding]]:
    span = run_span(reader.session, run_id, reader.settings.timezone)
    return span, reader.of_run(run_id, span)


def _proven(found: Sequence[Finding], run_id: str) -> list[Finding]:
    return [finding for finding in found if run_id in finding.run_ids and not finding.suspicion]


def _words(reader: Reader, run_id: str, span: Period) -> Words:
    is_running = run_facts(reader.session, run_id).ended_at is None
    return Words(reader.settings.currency, reader.settings.timezone, span, running=is_running)


def _ruled_out(reader: Reader, finding: Finding, found: list[Finding], span: Period) -> tuple[str, ...]:
    return causes_out(reader.argued(finding, found, span, with_signs=False).ruled_out)


def _rest(reader: Reader, run_id: str) -> dict[str, object]:
    report = reader.run(run_id)
    return {"sections": _sections(reader, report), "not_judged": insufficient_data_words(report)}


PARTS: dict[str, Callable[[Reader, str], dict[str, Any]]] = {"next": _next, "findings": _findings, "rest": _rest}


def run_part(reader: Reader, name: str, text: str) -> dict[str, Any]:
    """Return what one part of the page shows.

    Raises:
        LedgerError: there is no such part, or no run answers to this text.
    """
    if name not in PARTS:
        raise LedgerError(f"the page has no part {name!r}: {', '.join(PARTS)}")
    return PARTS[name](reader, find_run(reader.session, text))


def _tiles(report: RunDocument) -> list[_Tile]:
    """Return what it cost, what it will have cost, and the classes of it; time where a part has no price."""
    whole, total = report.breakdown, report.breakdown.milliseconds
    hours = f"{gpu_hours(total, hours_decimals(total))} GPU-hours"
    is_money = whole.priced and whole.cost_micros is not None
    figure, about = (money(whole.cost_micros, report.currency), hours) if is_money else (hours, "no price known")
    tiles = [("cost so far" if report.running else "cost", figure, about, "plain")]
    if (at_limit := projection(report)) is not None:
        what, amount = at_limit
        hours_then, _, paid = amount.partition(", ")
        figure = paid or hours_then.removeprefix("about ") or "past its limit"
        tiles.append(("projected", figure, what.rstrip(":"), "plain"))
    return tiles + _classes(report, is_money=is_money)


def _classes(report: RunDocument, *, is_money: bool) -> list[_Tile]:
    """Return a tile a class that the run has time in, rounded so that they add up to the cost."""
    parts = [(klass, report.breakdown.of(klass)) for klass in CLASSES]
    weights = [part.cost_micros or 0 if is_money else part.milliseconds for _, part in parts]
    cents = apportion(round(sum(weights) * _CENTS / MICROS), [weight * _CENTS for weight in weights], MICROS)
    decimals, tiles = hours_decimals(report.breakdown.milliseconds), []
    for (klass, part), weight, cent in zip(parts, weights, cents, strict=True):
        hours = gpu_hours(part.milliseconds, decimals)
        figure = money(cent * MICROS // _CENTS, report.currency) if is_money else hours
        if part.entries:
            tiles.append((str(klass), figure, percent(weight, sum(weights)), str(klass)))
    return tiles


def _sections(reader: Reader, report: RunDocument) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return what the text report says of a run's traffic, efficiency and energy, by section."""
    traffic = reader.traffic(report.facts.run_id, report.span) if len(report.nodes) > 1 else None
    energy = report.energy
    sections = [
        ("Service", service_rows(report)),
        ("Traffic", traffic_rows(traffic, report.currency)),
        ("Efficiency", efficiency_rows(report)),
        ("Energy", [("drawn", run_energy_words(energy, report.breakdown.milliseconds))] if energy else []),
    ]
    return [(title, rows) for title, rows in sections if rows]


def _run_chart(timeline: Sequence[TimelinePoint], timezone: str) -> Chart | None:
    """Return what share of a run's GPUs was in each state over its life; None where nothing is known of it."""
    starts, states = state_shares(timeline, 100)
    if not starts:
        return None
    traces = tuple(Trace(label, klass, tuple(round(share, 2) for share in own)) for klass, label, own in states)
    return chart("GPU states over time", "% of its GPUs", starts, timezone, traces)
