"""The questions to the ledger itself: a period, one run, and who moved what."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

from analyzer.interfaces.html import week_html
from analyzer.interfaces.questions.question import PERIOD, Question, add_part, argument
from analyzer.interfaces.text.run_text import run_line, run_text, runs_text
from analyzer.interfaces.text.week_text import RECOMMENDATIONS_SHOWN, week_text
from analyzer.measures.traffic.fleet import FleetTraffic, read_fleet_traffic
from analyzer.measures.traffic.tariff import tariff_book
from analyzer.measures.traffic.text import fleet_traffic_text
from analyzer.reports.groups import By, checked_by
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.reports.run import RunDocument
from analyzer.reports.run_list import RunList, list_runs
from analyzer.reports.week import WeekReport

BY = argument("--by", choices=get_args(By), default=None, help="grouping of the second table (default: team)")


def _week(reader: Reader, request: Request) -> WeekReport:
    report = reader.week(reader.period(request.since, request.until), checked_by(request.by))
    return replace(report, findings=reader.documents(report.findings, report.period))


def _run(reader: Reader, request: Request) -> RunDocument:
    report = reader.run(request.subject or "last")
    if len(report.nodes) > 1 or request.traffic:
        return report.model_copy(update={"traffic": reader.traffic(report.facts.run_id, report.span)})
    return report


def _runs(reader: Reader, request: Request) -> RunList:
    period = reader.period(request.since, request.until)
    return list_runs(reader.session, period, reader.settings.currency, request.order)


def _traffic(reader: Reader, request: Request) -> FleetTraffic:
    period, settings = reader.period(request.since, request.until), reader.settings
    return read_fleet_traffic(reader.session, period, settings.currency, tariff_book(settings), request.subject)


WEEK = Question(
    "week",
    _week,
    lambda report: report.period.label,
    lambda report, request, layout: week_text(report, layout, request.top or RECOMMENDATIONS_SHOWN),
    forms={"html": lambda report, _: week_html(report)},
    of_part=True,
    about="Where the GPU time and money of a period went (default: the last complete week).",
    arguments=(
        argument("--mail", action="store_true", help="send it as the weekly e-mail, once to each address of [mail]"),
        argument("--dry-run", action="store_true", help="with --mail: write .eml files into --out DIR, send none"),
        argument(
            "period", nargs="?", metavar="PERIOD", help="2026-W46, 7d, monday, 2026-11-09, …; or FILE, a log of GPUs"
        ),
        BY,
        add_part,
    ),
)
RUN = Question(
    "run",
    _run,
    lambda report: report.facts.subject,
    lambda report, request, layout: run_text(report, layout, whole_traffic=request.traffic),
    forms={"line": lambda report, _: f"{run_line(report)}\n"},
    of_part=True,
    about="One run, ended or still running: why it was slow, what it cost, what to change.",
    arguments=(
        argument("subject", metavar="RUN", help="a run's id or a unique end of it, its name, or last"),
        argument("--traffic", action="store_true", help="traffic matrix, host by host or rack by rack"),
        argument(
            "--steps-from",
            metavar="RE",
            help="a step's line in --log; its groups: step, and seconds, milliseconds, per_second or time",
        ),
        argument("--log", type=Path, metavar="FILE", help="the run's output, to read its step time from"),
    ),
)
RUNS = Question(
    "runs",
    _runs,
    lambda report: f"runs of {report.period.label}",
    lambda report, request, layout: runs_text(report, layout, request.top),
    of_part=True,
    about="The runs of a period: what each held, cost and lost; the most expensive first.",
    arguments=(
        PERIOD,
        argument(
            "--sort",
            dest="order",
            choices=("cost", "avoidable", "gpus"),
            default="cost",
            help="sort order (default: cost)",
        ),
        add_part,
    ),
)
TRAFFIC = Question(
    "traffic",
    _traffic,
    lambda _: "traffic",
    lambda moved, request, layout: fleet_traffic_text(moved, layout, request.top),
    about="Traffic and how far it went: of all runs in a period, or of one team's.",
    arguments=(argument("--team", dest="subject", metavar="NAME", help="only this team's runs"), PERIOD),
)
LEDGER_QUESTIONS = (WEEK, RUN, RUNS, TRAFFIC)
