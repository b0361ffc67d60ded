"""The page of one run: what it cost so far and will, its timeline, where its time went, and what to change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from agent.wire.units import MICROS
from analyzer.charts.series import Chart, Trace, chart
from analyzer.errors import LedgerError
from analyzer.findings.finding import Finding
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.interfaces.text.efficiency_text import efficiency_rows
from analyzer.interfaces.text.run_text import head_pairs, insufficient_data_words, projection, run_sentence
from analyzer.ledger.breakdown import breakdown_lines
from analyzer.ledger.coverage import TimelinePoint
from analyzer.ledger.run_facts import find_run
from analyzer.measures.traffic.text import traffic_rows
from analyzer.period import Period
from analyzer.reports.findings import Words, causes_out
from analyzer.reports.reader import Reader
from analyzer.reports.run import (
    FINDINGS_SHOWN,
    SPARK_POINTS,
    RunDocument,
    own_findings,
    run_energy_words,
    run_facts,
    run_report,
    run_span,
)
from analyzer.states import CLASSES
from analyzer.text.words import apportion, gpu_hours, hours_decimals, money, percent, symbol
from dashboards.pages.marks import cost_steps
from dashboards.pages.read_pages import PAGE, PART, WEEK_JSON, PageState, ReadPage, ReadPages, kind_of, site_page
from dashboards.pages.run_timeline import (
    SIGNALS,
    Remembered,
    TimelineAsked,
    as_csv,
    as_json,
    known_span,
    read_timeline,
    state_shares,
)

RUNS = "/runs"
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

    @router.get("/runs/{run_id:path}")
    def run(request: Request, run_id: str) -> Response:
        return pages.page(request, run_page(run_id))

    return router


def run_page(run_id: str) -> ReadPage:
    """Return the page of the run that a person means."""
    return site_page(PageState(f"/runs/{run_id}"), "run.html", lambda context: shell(context.reader, run_id), here=RUNS)


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
    span = run_span(reader.session, run_id, reader.settings.timezone)
    found = reader.of_run(run_id, span)
    facts, settings = run_facts(reader.session, run_id), reader.settings
    own = [finding for finding in found if run_id in finding.run_ids and not finding.suspicion]
    week = reader.calendar.week_of(span.end - 1).label
    return {
        "findings": own,
        "ruled_out": {one.id: _ruled_out(reader, one, found, span) for one in own[:FINDINGS_SHOWN]},
        "advice": reader.run_advice(found, span),
        "words": Words(settings.currency, settings.timezone, span, running=facts.ended_at is None),
        "finding_week": f"?{urlencode({'week': week})}",
    }


def _ruled_out(reader: Reader, finding: Finding, found: list[Finding], span: Period) -> tuple[str, ...]:
    return causes_out(reader.argued(finding, found, span, with_signs=False).ruled_out)


def _rest(reader: Reader, run_id: str) -> dict[str, object]:
    report = reader.run(run_id)
    return {"sections": _sections(reader, report), "not_judged": insufficient_data_words(report)}


PARTS: dict[str, Callable[[Reader, str], dict[str, object]]] = {"findings": _findings, "rest": _rest}


def run_part(reader: Reader, name: str, text: str) -> dict[str, object]:
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
