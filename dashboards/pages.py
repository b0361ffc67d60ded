"""The pages: plain HTML from the ledger alone, with the state of the view in the address."""

import re
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analyzer.api.generation import MARKS
from analyzer.errors import ConfigError, LedgerError
from analyzer.finding_needs import need_words
from analyzer.findings import Finding
from analyzer.period import Period
from analyzer.placement.recommendation import Recommendation
from analyzer.reading import Reader
from analyzer.report.finding_explain import rules_words, state_words
from analyzer.report.finding_list import at_stake_column
from analyzer.report.finding_told import told
from analyzer.report.html import TEMPLATES, week_view
from analyzer.report.recommendation_text import actor_words, saves_in_run, saves_words
from analyzer.report.run_text import head_pairs, run_sentence
from analyzer.report.table import lines
from analyzer.report.words import gpu_hours, moment, money, symbol
from dashboards.assets import asset
from dashboards.cache import PageCache
from dashboards.charts import finding_charts, fleet_chart, run_chart
from dashboards.fleet_grid import GPUS_SHOWN, LETTERS, fleet_grid
from dashboards.job import Pass
from dashboards.run_list import run_list

OWN = Path(__file__).parent / "templates"
# plotly writes style elements; scripts, images and connections are ours alone.
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
NOT_FOUND, BAD_REQUEST = 404, 400


class Words:
    """What templates say of findings and recommendations, in this site's currency and clock."""

    def __init__(self, reader: Reader, span: Period | None = None) -> None:
        self._currency, self._zone = reader.settings.currency, reader.settings.timezone
        self._span = span  # of the one run that the page is about

    def stake(self, finding: Finding) -> str:
        """Return what is at stake, in money where it is known, and in GPU-hours."""
        hours = f"{gpu_hours(finding.milliseconds)} GPU-hours"
        if finding.at_stake_micros is None:
            return f"{hours} at stake, no price known"
        return f"{money(finding.at_stake_micros, self._currency)} at stake, {hours}"

    def when(self, finding: Finding) -> str:
        """Return from when to when."""
        until = "still open" if finding.still_open else f"until {moment(finding.last_at, self._zone)}"
        return f"since {moment(finding.first_at, self._zone)}, {until}"

    def saves(self, advice: Recommendation) -> str:
        """Return the predicted saving: a week, or each run on the page of a run."""
        if self._span is None:
            return saves_words(advice, self._currency)
        return saves_in_run(advice, self._span.end - self._span.start, self._currency)

    def actor(self, advice: Recommendation) -> str:
        """Return who can act."""
        return actor_words(advice)


class Pages:
    """Renders pages for one site; `read` opens a reader on the store, which each request closes."""

    def __init__(self, read: Callable[[], Reader], last_pass: Callable[[], Pass]) -> None:
        self._read = read
        self._last_pass = last_pass
        self._cache = PageCache()
        self._environment = Environment(
            loader=FileSystemLoader([OWN, TEMPLATES]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

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
        last, reader = self._last_pass(), self._read()
        try:
            with reader.session:  # the ledger may also be analysed by another process, which leaves its mark there
                marks = tuple(reader.session.rows(MARKS))
                key = (request.url.path, request.url.query, last.passes, last.error, marks)
                return HTMLResponse(self._cache.get(key, lambda: render(reader)), headers=SECURITY)
        except (LedgerError, ConfigError) as error:
            status = NOT_FOUND if isinstance(error, LedgerError) else BAD_REQUEST
            return HTMLResponse(self._message(str(error)), status_code=status, headers=SECURITY)

    def _message(self, text: str) -> str:
        reader = self._read()
        with reader.session:
            return self._render("message.html", reader, None, message=text)

    def _render(self, template: str, reader: Reader, week: str | None, **view: object) -> str:
        last = self._last_pass()
        since = moment(last.finished_at, reader.settings.timezone) if last.finished_at is not None else ""
        cluster = "" if reader.settings.cluster == "fleet" else reader.settings.cluster
        asked = {"what": "week", "format": "json"} | ({"since": week} if week else {})
        frame = {
            "version": version(),
            "cluster": cluster,
            "keep": f"?{urlencode({'week': week})}" if week else "",
            "json_link": f"/v1/read?{urlencode(asked)}",
            "last": last,
            "last_words": f"{since}, in {last.seconds:.1f} s" if last.seconds is not None else since,
            "words": Words(reader),
        }
        return self._environment.get_template(template).render(frame | view)

    def _home(self, reader: Reader, week: str | None) -> str:
        period = reader.period(week)
        report, found = reader.week(period), reader.list_findings(period)
        racks = fleet_grid(reader.session, period)
        column, total = at_stake_column(found.findings, reader.settings.currency)
        gpus = sum(sku.gpus for sku in report.fleet)
        before, after = _neighbours(reader, period)
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
            words=Words(reader, report.span),
            finding_week=f"?{urlencode({'week': reader.calendar.week_of(report.span.end - 1).label})}",
            head=head_pairs(report)[1:],
            sentence=run_sentence(report),
            chart=run_chart(report.timeline, report.timezone),
            lines=lines(report.breakdown, subtotals=False),
            sign=symbol(report.currency).strip(),
        )

    def _finding(self, reader: Reader, finding_id: str, week: str | None) -> str:
        period = reader.period(week)
        explained = reader.explain(finding_id, period)
        finding, argument = explained.finding, explained.argument
        zone = reader.settings.timezone
        return self._render(
            "finding.html",
            reader,
            week,
            finding=finding,
            argument=argument,
            sentence=told(finding, explained.currency, zone),
            state=state_words(finding, explained.life, zone),
            rule=rules_words(finding, argument),
            need=need_words(argument.need) if argument and argument.need else None,
            judgement=explained.judgement,
            mute=explained.mute,
            advice=explained.advice,
            charts=finding_charts(argument.plot if argument else None, zone),
        )


def _neighbours(reader: Reader, period: Period) -> tuple[str | None, str | None]:
    """Return the labels of the weeks before and after, where the ledger has hours of them."""
    if not re.fullmatch(r"\d{4}-W\d{2}", period.label):
        return None, None
    oldest, newest = reader.session.row("SELECT min(hour), max(hour) FROM ledger_hours")
    before = reader.calendar.before(period) if oldest is not None and oldest < period.start else None
    after = reader.calendar.week_of(period.end) if newest is not None and newest >= period.end else None
    return before.label if before else None, after.label if after else None


@lru_cache(maxsize=1)
def version() -> str:
    """Return a word that changes with our files, so that browsers keep them until then."""
    content = b"".join(found[0] for name in ("plotly.min.js", "page.js", "page.css") if (found := asset(name)))
    return f"{zlib.crc32(content):08x}"
