"""The questions to the ledger itself: a period, one run, who moved what, the fleet now, and what a plan asks of it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from analyzer.capacity.planner.ledger import History, StockNode, StoreLedger, read_stock
from analyzer.capacity.planner.tables import history_words
from analyzer.capacity.quotas import Balance, QuotaReport, as_of_words, balanced, read_quotas, read_use, waits
from analyzer.errors import ConfigError
from analyzer.interfaces.html import week_html
from analyzer.interfaces.live.live_view import LiveView, look_text, read_live_view
from analyzer.interfaces.questions.question import PERIOD, Question, add_part, argument
from analyzer.interfaces.text.run_text import run_line, run_text, runs_text
from analyzer.interfaces.text.week_text import RECOMMENDATIONS_SHOWN, week_text
from analyzer.ledger.coverage import ledger_end
from analyzer.measures.traffic.fleet import FleetTraffic, read_fleet_traffic
from analyzer.measures.traffic.tariff import tariff_book
from analyzer.measures.traffic.text import fleet_traffic_text
from analyzer.reports.groups import By, checked_by
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.reports.run import RunDocument
from analyzer.reports.run_list import RunList, list_runs
from analyzer.reports.week import WeekReport
from analyzer.text.layout import TextLayout
from analyzer.text.table import CellUnit, TableColumn, money_of, name_column, paper_lines
from analyzer.text.words import bytes_words, counted, plain

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


@dataclass(frozen=True, slots=True)
class _JobHistory:
    """What runs of a name took; times are told in `timezone`."""

    history: History
    name: str
    timezone: str


@dataclass(frozen=True, slots=True)
class _Stock:
    """The hosts with what is free of them, at prices in `currency`."""

    nodes: tuple[StockNode, ...]
    currency: str


def _top(reader: Reader, request: Request) -> LiveView:
    return read_live_view(reader.session, reader.settings.currency, reader.settings.timezone, request.subject)


def _history(reader: Reader, request: Request) -> _JobHistory:
    name = request.subject or ""
    history = StoreLedger(reader.session).history(name, request.gpus or 0, request.sku)
    return _JobHistory(history, name, reader.settings.timezone)


def _history_text(job: _JobHistory, _: Request, layout: TextLayout) -> str:
    return layout.page(layout.labelled(plain(job.name), history_words(job.history, job.timezone)))


def _nodes(reader: Reader, _: Request) -> _Stock:
    return _Stock(StoreLedger(reader.session).nodes(), reader.settings.currency)


def _nodes_text(stock: _Stock, _: Request, layout: TextLayout) -> str:
    free = sum(node.gpus_free for node in stock.nodes)
    columns: list[TableColumn[StockNode]] = [
        name_column("NODE", lambda node: node.node, 16),
        TableColumn("group", lambda node: node.group, width=12, align="<", is_cut=True),
        TableColumn("rack", lambda node: node.rack, width=12, align="<", is_cut=True),
        TableColumn("GPUs free", lambda node: f"{node.gpus_free}/{node.gpus}", width=10),
        TableColumn("cores", lambda node: node.cores_free, CellUnit(lambda cores: str(int(cores))), 7),
        TableColumn("memory", lambda node: node.memory_free_bytes, CellUnit(bytes_words), 9),
        TableColumn("$/GPU-h", lambda node: node.price_micros_per_gpu_hour, money_of(stock.currency), 10),
    ]
    told = f"{counted(len(stock.nodes), 'node')}, {counted(free, 'GPU')} free"
    return layout.page([told, "", *paper_lines(columns, stock.nodes, indent="")])


def quota_report(reader: Reader) -> QuotaReport:
    """Return the site's quotas beside what is held and waits at the end of the ledger.

    Raises:
        ConfigError: the settings name no quotas, or these cannot be read.
        LedgerError: the ledger is empty.
    """
    path, session = reader.settings.quotas, reader.session
    if path is None:
        raise ConfigError('no quotas are known; name their folder, quotas = "…" in [analyzer] (docs/gate.md)')
    now = ledger_end(session)
    stock = read_stock(session, now)
    free = sum(node.gpus_free for node in stock if node.is_up)
    return balanced(read_quotas(path), read_use(session, now), free, sum(node.gpus for node in stock))


def _quotas_text(report: QuotaReport, _: Request, layout: TextLayout) -> str:
    head = f"quotas of {as_of_words(report)}; {counted(report.free_gpus, 'GPU')} free now"
    lines = [head, "", *(line for words in waits(report) for line in layout.wrap(words))]
    lines += ["", *paper_lines(QUOTA_COLUMNS, report.balances, indent="")]
    return layout.page(
        [*lines, *([""] if report.notes else []), *(line for note in report.notes for line in layout.wrap(note))]
    )


_GPUS = CellUnit(lambda gpus: f"{gpus:,}")
QUOTA_COLUMNS: list[TableColumn[Balance]] = [
    name_column("QUEUE OR ACCOUNT", lambda row: row.name, 20),
    TableColumn("cohort", lambda row: row.cohort, width=12, align="<", is_cut=True),
    TableColumn("own", lambda row: row.guaranteed_gpus, _GPUS, 7),
    TableColumn("held", lambda row: row.held_gpus, _GPUS, 7),
    TableColumn("unused", lambda row: row.unused_gpus, _GPUS, 8),
    TableColumn("waits", lambda row: row.waiting_gpus, _GPUS, 7),
    TableColumn("borrow", lambda row: row.borrowed_gpus, _GPUS, 8),
    TableColumn("reclaim", lambda row: row.reclaimed_gpus, _GPUS, 9),
]
TOP = Question(
    "top", _top, lambda _: "top", lambda found, request, layout: look_text(found, layout, request.top, request.order)
)
HISTORY = Question("history", _history, lambda job: plain(job.name), _history_text, lambda job: job.history)
NODES = Question("nodes", _nodes, lambda _: "nodes", _nodes_text, lambda stock: {"nodes": stock.nodes})
QUOTAS = Question(
    "quotas",
    lambda reader, _: quota_report(reader),
    lambda _: "quotas",
    _quotas_text,
    about="Who waits for GPUs while whose guaranteed ones are unused, and what borrowing or reclaiming would start.",
    is_dated=False,
)
FLEET_QUESTIONS = (TOP, HISTORY, NODES, QUOTAS)
