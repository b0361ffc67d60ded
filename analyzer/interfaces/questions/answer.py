"""Answer a reading command from the ledger: the command line and the server's /v1/read give the same answer."""

from dataclasses import replace

from analyzer.interfaces.html.html import finding_html, week_html
from analyzer.interfaces.live.reading import look as look_now
from analyzer.interfaces.live.text import look_text
from analyzer.interfaces.questions.economics import ECONOMICS
from analyzer.interfaces.questions.formatted import formatted
from analyzer.interfaces.questions.plans import for_plans
from analyzer.interfaces.questions.prices import PRICES
from analyzer.interfaces.questions.recommendation_answer import FILES, list_answer, one_answer
from analyzer.interfaces.text.compare_text import compare_text
from analyzer.interfaces.text.finding_explain import explain_data, explain_text
from analyzer.interfaces.text.finding_text import findings_text
from analyzer.interfaces.text.recommendation_text import Listed
from analyzer.interfaces.text.run_text import run_text
from analyzer.interfaces.text.savings_text import savings_text
from analyzer.interfaces.text.unjudged_text import unjudged_text
from analyzer.interfaces.text.week_text import WORTH_DOING_SHOWN, week_text
from analyzer.ledger.coverage import fleet
from analyzer.measures.traffic.fleet import read_fleet_traffic
from analyzer.measures.traffic.fleet_text import fleet_traffic_text
from analyzer.measures.traffic.tariff import tariff_book
from analyzer.reports.compare import checked_kind, compare_at, compare_runs
from analyzer.reports.groups import checked_by
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.reports.run import (
    run_names,
)
from analyzer.reports.savings import savings_report
from analyzer.text.as_json import as_json
from analyzer.text.paper import Paper

# Readings with modules of their own, which need no more than the reader.
_APART = {**ECONOMICS, **PRICES, "history": for_plans, "nodes": for_plans}


def answer(reader: Reader, request: Request) -> str:
    """Return the answer as text, JSON or HTML.

    Raises:
        ConfigError: the period or the subject cannot be read.
        LedgerError: the ledger has no such thing.
    """
    if request.part != reader.part.asked:
        raise AssertionError("BUG: this reader is of another part of the ledger than is asked for")
    request.check_form()
    paper = Paper(request.width, request.ascii)
    if request.what == "week":
        return _week(reader, request, paper)
    if request.what == "run":
        return _run(reader, request, paper)
    if request.what == "explain" and request.format == "html":
        return finding_html(reader.explain(request.subject, reader.period(request.since, request.until)))
    if request.what == "top":
        title, text, data = _top(reader, request, paper)
    elif request.what in _APART:
        title, text, data = _APART[request.what](reader, request, paper)
    elif request.what in ("savings", "compare"):
        title, text, data = _afterwards(reader, request, paper)
    else:
        title, text, data = _lists(reader, request, paper)
    if request.format == "json":
        return as_json(request.what, data)
    if request.what in ("recommend", "show", "charges") and request.format in FILES:
        return text
    return formatted(text, request.format, title)


def _week(reader: Reader, request: Request, paper: Paper) -> str:
    report = reader.week(reader.period(request.since, request.until), checked_by(request.by))
    if request.format == "json":
        return as_json("week", report)
    if request.format == "html":
        return week_html(report)
    return formatted(week_text(report, paper, request.top or WORTH_DOING_SHOWN), request.format, report.period.label)


def _run(reader: Reader, request: Request, paper: Paper) -> str:
    report = reader.run(request.subject or "last")
    if len(report.nodes) > 1 or request.traffic:
        report = replace(report, traffic=reader.traffic(report.facts.run_id, report.span))
    if request.format == "json":
        return as_json("run", report)
    text = run_text(report, paper, whole_traffic=request.traffic)
    return formatted(text, request.format, report.facts.subject)


def _top(reader: Reader, request: Request, paper: Paper) -> tuple[str, str, object]:
    found = look_now(reader.session, reader.settings.currency, reader.settings.timezone, request.subject)
    return "top", look_text(found, paper, request.top, request.order), found


def _afterwards(reader: Reader, request: Request, paper: Paper) -> tuple[str, str, object]:
    site = (reader.session, reader.settings.timezone, reader.settings.currency)
    if request.what == "savings":
        report = savings_report(*site, learns=reader.settings.advising.learn_shares)
        return "savings", savings_text(report, paper, request.top), report
    checked_kind(request.other, request.at)
    subject = request.subject or "last"
    found = compare_at(*site, subject, request.at) if request.at else compare_runs(*site, subject, request.other or "")
    return found.subject, compare_text(found, paper), found


def _lists(reader: Reader, request: Request, paper: Paper) -> tuple[str, str, object]:
    period, currency = reader.period(request.since, request.until), reader.settings.currency
    if request.what == "traffic":
        moved = read_fleet_traffic(reader.session, period, currency, tariff_book(reader.settings), request.subject)
        return "traffic", fleet_traffic_text(moved, paper, request.top), moved
    if request.what == "findings" and request.unjudged:
        missing = reader.unjudged(period)
        names = run_names(reader.session, {one.subject for one in missing})
        return "not judged", unjudged_text(period, missing, names, paper, request.top), missing
    if request.what == "findings":
        report = reader.list_findings(period, everything=request.everything, sure=request.sure)
        return "findings", findings_text(report, paper, request.top), report
    if request.what == "explain":
        explained = reader.explain(request.subject, period)
        return explained.finding.id, explain_text(explained, paper), explain_data(explained)
    offer = reader.offered(request.subject or "", period) if request.what == "show" else reader.offer(period)
    owned = fleet(reader.session, offer.period)
    listed = Listed(offer.period, tuple(offer.advice), currency, owned, request.everything, reader.part)
    if request.what == "recommend":
        return list_answer(listed, request.format, paper, request.top)
    return one_answer(listed, request.subject, request.format, paper)
