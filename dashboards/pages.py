"""The pages: plain HTML from the ledger alone, with the state of the view in the address."""

from collections.abc import Callable
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from analyzer.api.generation import MARKS
from analyzer.errors import ConfigError, LedgerError
from analyzer.period import Period
from analyzer.reading import Reader
from analyzer.report.charts import finding_charts
from analyzer.report.efficiency_text import efficiency_rows
from analyzer.report.finding_list import at_stake_column
from analyzer.report.finding_view import Words, finding_view
from analyzer.report.html import week_view
from analyzer.report.notice_text import notice_line
from analyzer.report.run import RunReport, run_names
from analyzer.report.run_text import head_pairs, not_judged_words, run_sentence
from analyzer.report.table import lines
from analyzer.report.words import gpu_hours, symbol
from analyzer.traffic.text import traffic_rows
from dashboards.cache import PageCache
from dashboards.charts import fleet_chart, run_chart
from dashboards.fleet_grid import GPUS_SHOWN, LETTERS, fleet_grid
from dashboards.frame import Frame
from dashboards.neighbours import neighbours
from dashboards.run_list import run_list
from dashboards.unjudged_rules import unjudged_rules

# plotly writes style elements; scripts, images and connections are ours alone.
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
NOT_FOUND, BAD_REQUEST = 404, 400


class Pages:
    """Renders pages for one site; `read` opens a reader on the store, which each request closes."""

    def __init__(self, read: Callable[[], Reader], frame: Frame) -> None:
        self._read = read
        self._frame = frame
        self._cache = PageCache()

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter()

        @router.get("/")
        def home(request: Request, week: str | None = None) -> Response:
            return self._page(request, lambda reader: self._home(reader, week))

        @router.get("/runs/{run_id:path}")
        def run(request: Request, run_id: str) -> Response:
            return self._page(request, lambda reader: self._run(reader, run_id))

        @router.get("/findings/{finding_id}")
        def finding(request: Request, finding_id: str, week: str | None = None) -> Response:
            return self._page(request, lambda reader: self._finding(reader, finding_id, week))

        return router

    def _page(self, request: Request, render: Callable[[Reader], str]) -> Response:
        state, reader = self._frame.state, self._read()
        try:
            with reader.session:  # the ledger may also be analysed by another process, which leaves its mark there
                marks = tuple(reader.session.rows(MARKS))
                key = (request.url.path, request.url.query, state, marks)
                return HTMLResponse(self._cache.get(key, lambda: render(reader)), headers=SECURITY)
        except (LedgerError, ConfigError) as error:
            status = NOT_FOUND if isinstance(error, LedgerError) else BAD_REQUEST
            return HTMLResponse(self._message(str(error)), status_code=status, headers=SECURITY)

    def _message(self, text: str) -> str:
        reader = self._read()
        with reader.session:
            return self._render("message.html", reader, None, message=text)

    def _render(self, template: str, reader: Reader, week: str | None, **view: object) -> str:
        around = {"json_link": _json_link("week", None, week), "words": _words(reader)}
        return self._frame.render(template, "/", week, None, **(around | view))

    def _home(self, reader: Reader, week: str | None) -> str:
        period = reader.period(week)
        report, found = reader.week(period), reader.list_findings(period)
        racks = fleet_grid(reader.session, period)
        column, total = at_stake_column(found.findings, reader.settings.currency)
        gpus = sum(sku.gpus for sku in report.fleet)
        before, after = neighbours(reader, period)
        return self._render(
            "home.html",
            reader,
            week,
            **week_view(report),
            racks=racks,
            letters=LETTERS,
            unit="a GPU" if gpus <= GPUS_SHOWN else "a node",
            chart=fleet_chart(reader.session, period),
            found=found,
            at_stake=total,
            stakes=list(zip(found.findings, column, strict=True)),
            notices=[notice_line(notice) for notice in found.notices],
            suspicions=[(finding, gpu_hours(finding.milliseconds)) for finding in found.suspicions],
            unjudged=unjudged_rules(reader.unjudged(period)),
            runs=run_list(reader.session, period),
            before=before,
            after=after,
        )

    def _run(self, reader: Reader, run_id: str) -> str:
        report = reader.run(run_id)
        return self._render(
            "run.html",
            reader,
            None,
            report=report,
            words=_words(reader, None if report.running else report.span),
            head=head_pairs(report),
            sections=_sections(reader, report),
            not_judged=not_judged_words(report),
            json_link=_json_link("run", report.facts.run_id),
            finding_week=f"?{urlencode({'week': reader.calendar.week_of(report.span.end - 1).label})}",
            sentence=run_sentence(report),
            chart=run_chart(report.timeline, report.timezone),
            lines=lines(report.breakdown, subtotals=False),
            sign=symbol(report.currency).strip(),
        )

    def _finding(self, reader: Reader, finding_id: str, week: str | None) -> str:
        period = reader.period(week)
        explained = reader.explain(finding_id, period)
        plot = explained.argument.plot if explained.argument else None
        return self._render(
            "finding.html",
            reader,
            week,
            view=finding_view(explained),
            json_link=_json_link("explain", explained.finding.id, week),
            names=run_names(reader.session, explained.finding.run_ids),
            charts=finding_charts(explained.finding, plot, reader.settings.timezone),
        )


def _json_link(what: str, subject: str | None = None, week: str | None = None) -> str:
    asked = {"what": what, "subject": subject, "since": week, "format": "json"}
    return f"/v1/read?{urlencode({name: value for name, value in asked.items() if value})}"


def _sections(reader: Reader, report: RunReport) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return what the text report says of a run's traffic and efficiency, by section."""
    traffic = reader.traffic(report.facts.run_id, report.span) if len(report.nodes) > 1 else None
    sections = [("Traffic", traffic_rows(traffic, report.currency)), ("Efficiency", efficiency_rows(report))]
    return [(title, rows) for title, rows in sections if rows]


def _words(reader: Reader, span: Period | None = None) -> Words:
    return Words(reader.settings.currency, reader.settings.timezone, span)
