"""The page of all runs: those of a period, filtered and sorted, and what a search finds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from analyzer.errors import ConfigError
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.period import Period
from analyzer.queries.ledger_query import within
from analyzer.reports.run import RunFacts, runs_where
from analyzer.reports.run_list import RUN_STATES, SORTS, RunSearch, RunState, Sort, search_runs
from analyzer.text.words import days, symbol
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages, Sheet, neighbours

_HERE = "/runs"
_SHOWN = 100  # on a page
_IN_CSV = 100_000
_CHOICES = 500  # of a list to choose from
_TEXT_MOST = 200  # characters of a search
_SEE_OTHER = 303
_IDS = {"f": "/findings/{}", "r": "/recommendations#{}"}  # what else is looked for by its id
_ID = re.compile(r"[fr]-[0-9a-z]{4,}")
_EVER = "all"
PERIODS = (("24h", "last day"), ("7d", "last seven days"), ("30d", "last thirty days"), (_EVER, "all that is known"))
_HEADS: tuple[tuple[Sort | None, str], ...] = (
    ("name", "run"), (None, "team"), ("started", "started"), (None, "state"), ("gpus", "GPUs"), ("hours", "GPU-hours"),
    ("cost", "cost"), ("useful", "useful"), ("avoidable", "lost most to"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunsAsked:
    """The state of the page, as its address has it. `week` is any period, or "all"; `since` and `until` are days."""

    q: str | None = None
    week: str | None = None
    since: str | None = None
    until: str | None = None
    team: str | None = None
    sku: str | None = None
    state: str | None = None
    sort: str = "cost"
    page: int = 1

    @property
    def page_state(self) -> PageState:
        """Its address."""
        words = {"q": self.q, "since": self.since, "until": self.until, "team": self.team, "sku": self.sku}
        words |= {"state": self.state, "sort": None if self.sort == "cost" else self.sort}
        words |= {"page": str(self.page) if self.page > 1 else None}
        return PageState(_HERE, self.week, {name: word for name, word in words.items() if word})

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
        return RunSearch(text or None, self.team or None, self.sku or None, state, sort, people)


def runs_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the page and of its sheet."""
    router = APIRouter()

    @router.get(_HERE)
    def page(request: Request, asked: Annotated[RunsAsked, Depends(RunsAsked)]) -> Response:
        text = (asked.q or "").strip().lower()
        if _ID.fullmatch(text):
            return RedirectResponse(_IDS[text[0]].format(text), _SEE_OTHER)
        return pages.page(request, runs(asked))

    @router.get(f"{_HERE}.csv")
    def sheet(request: Request, asked: Annotated[RunsAsked, Depends(RunsAsked)]) -> Response:
        return pages.sheet(request, "runs.csv", {"runs.csv": lambda context: _sheet(context, asked)})

    return router


def runs(asked: RunsAsked | None = None) -> ReadPage:
    """Return the page in one state."""
    shown = asked or RunsAsked()
    return ReadPage(shown.page_state, "runs.html", lambda context: _runs_view(context, shown))


def _period(context: RequestContext, asked: RunsAsked) -> Period:
    """Return the period that is meant. What is searched for is searched for in all that is known."""
    if asked.since:
        return context.reader.period(asked.since, asked.until or None)
    if asked.week == _EVER or (asked.q and not asked.week):
        first, last = context.reader.session.row("SELECT min(hour), max(hour) + 3600000000 FROM ledger_hours")
        known = context.reader.period(None)
        return known if first is None else Period(first, last, "all that is known", known.timezone)
    return context.reader.period(asked.week)


def _runs_view(context: RequestContext, asked: RunsAsked) -> Mapping[str, object]:
    reader, period = context.reader, _period(context, asked)
    searched = asked.search(people=context.scope.may_decide)
    skipped = (max(1, asked.page) - 1) * _SHOWN
    found = search_runs(reader.session, period, searched, _SHOWN, skipped)
    before, after = (None, None) if asked.since or asked.q else neighbours(reader, period)
    return {
        "period": period,
        "days": days(period),
        "before": before,
        "after": after,
        "found": found,
        "facts": _facts(context, [run.run_id for run in found.runs]),
        "first": skipped + 1,
        "heads": _HEADS,
        "chosen": asked,
        "teams": _named(context, period, "team"),
        "skus": _named(context, period, "sku"),
        "states": RUN_STATES,
        "periods": PERIODS,
        "earlier": asked.page - 1 if asked.page > 1 else None,
        "later": asked.page + 1 if skipped + len(found.runs) < found.total else None,
        "sign": symbol(reader.settings.currency).strip(),
        "csv_link": asked.page_state.link(f"{_HERE}.csv", page=None),
        "json_link": PageState("/v1/runs", None, {"since": asked.since or "", "until": asked.until or ""}).link(),
    }


def _facts(context: RequestContext, run_ids: list[str]) -> dict[str, RunFacts]:
    """Return what is known of these runs beside the ledger, by id."""
    told = runs_where(
        context.session, ["run_id IN (SELECT unnest($ids))"], {"ids": run_ids}, max(1, len(run_ids)), None
    )
    return {facts.run_id: facts for facts in told}


def _named(context: RequestContext, period: Period, what: str) -> list[str]:
    """Return the teams or kinds of GPU that held something in a period, for a list to choose from."""
    where, values = within(period)
    column = {"team": "runs.team", "sku": "sku"}[what]
    join = "JOIN runs USING (run_id)" if what == "team" else ""
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
    rows = []
    for run in found.runs:
        went, lost, known = run.breakdown, run.main_loss, facts.get(run.run_id)
        rows.append((
            run.run_id, run.name, run.team, run.gpus, run.sku, known.started_at if known else None,
            known.ended_at if known else None, known.exit_status if known else None, went.milliseconds,
            went.cost_micros, went.of("useful").milliseconds, went.of("avoidable").milliseconds,
            went.measured.milliseconds, lost.label if lost else None, lost.milliseconds if lost else None,
        ))  # fmt: skip
    head = (
        "run_id", "name", "team", "gpus", "sku", "started_us", "ended_us", "exit_status", "milliseconds", "cost_micros",
        "useful_ms", "avoidable_ms", "measured_ms", "lost_most_to", "lost_ms",
    )  # fmt: skip
    return Sheet(head, rows)
