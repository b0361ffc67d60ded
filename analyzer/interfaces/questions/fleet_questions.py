"""The fleet now, who waits for its GPUs by which quotas, and what a plan asks of it: histories of jobs, and nodes."""

from dataclasses import dataclass

from analyzer.capacity.planner.ledger import History, StockNode, StoreLedger, read_stock
from analyzer.capacity.planner.tables import history_words
from analyzer.capacity.quotas import Balance, QuotaReport, as_of_words, balanced, read_quotas, read_use, waits
from analyzer.errors import ConfigError
from analyzer.interfaces.live.live_query import LiveView, read_live_view
from analyzer.interfaces.live.text import look_text
from analyzer.interfaces.questions.question import Question
from analyzer.ledger.coverage import ledger_end
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.text.layout import TextLayout
from analyzer.text.table import CellUnit, TableColumn, money_of, name_column, paper_lines
from analyzer.text.words import bytes_words, counted, plain


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
