"""What a plan asks a ledger for, as readings: `history` of a recurring job, and `nodes` with what is free of them."""

from typing import TYPE_CHECKING

from analyzer.capacity.planner.ledger import StoreLedger
from analyzer.capacity.planner.stock import StockNode
from analyzer.capacity.planner.tables import history_words
from analyzer.text.words import UNKNOWN, bytes_words, counted, money, plain

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader
    from analyzer.reports.request import Request
    from analyzer.text.paper import Paper


def for_plans(reader: "Reader", request: "Request", paper: "Paper") -> tuple[str, str, object]:
    """Return title, text and data.

    Raises:
        ConfigError: there are too few runs of the name.
        LedgerError: the ledger is empty.
    """
    ledger = StoreLedger(reader.session)
    if request.what == "history":
        name = request.subject or ""
        history = ledger.history(name, request.gpus or 0, request.sku)
        lines = paper.labelled(plain(name), history_words(history, reader.settings.timezone))
        return plain(name), paper.page(lines), history
    nodes, currency = ledger.nodes(), reader.settings.currency
    free = sum(node.gpus_free for node in nodes)
    head = f"{'NODE':<16}{'group':<12}{'rack':<12}{'GPUs free':>10}{'cores':>7}{'memory':>9}{'$/GPU-h':>10}"
    told = f"{counted(len(nodes), 'node')}, {counted(free, 'GPU')} free"
    return "nodes", paper.page([told, "", head, *(_line(node, currency, paper) for node in nodes)]), nodes


def _line(node: StockNode, currency: str, paper: "Paper") -> str:
    cores, memory = node.cores_free, node.memory_free_bytes
    group, rack = (paper.cut(name or UNKNOWN, 11) for name in (node.group, node.rack))
    return (
        f"{paper.cut(node.node, 15):<16}{group:<12}{rack:<12}"
        f"{f'{node.gpus_free}/{node.gpus}':>10}{UNKNOWN if cores is None else int(cores):>7}"
        f"{UNKNOWN if memory is None else bytes_words(memory):>9}"
        f"{money(node.price_micros_per_gpu_hour, currency):>10}"
    )
