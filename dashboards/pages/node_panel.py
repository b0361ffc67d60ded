"""One node of the grid, GPU by GPU: what each did in the period, and for whom."""

from collections import defaultdict
from dataclasses import dataclass

from analyzer.errors import LedgerError
from analyzer.period import Period
from analyzer.queries.ledger_query import Counted, fold, ledger_sums
from analyzer.states import CLASSES
from analyzer.text.words import percent
from collector.store.session import Session
from dashboards.pages.marks import Mark, class_parts

_RUNS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU: its states with their shares, and its bar by class."""

    gpu: str
    sku: str
    states: tuple[tuple[str, str], ...]
    bar: Mark
    runs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NodePanel:
    """A node, where it stands, and its GPUs in the driver's order."""

    node: str
    rack: str | None
    gpus: tuple[GpuRow, ...]


def node_panel(session: Session, node: str, period: Period) -> NodePanel:
    """Return the panel of a node.

    Raises:
        LedgerError: the ledger has no time of this node in the period.
    """
    by = ("gpu_uuid", "sku", "run_id", "state", "cause")
    sums = ledger_sums(session, *by, period=period, where="node = ?", values=[node])
    if not sums:
        raise LedgerError(f"the ledger has no time of a node {node!r} in this period")
    counted: dict[tuple[str, str | None], list[Counted]] = defaultdict(list)
    held: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for each in sums:
        gpu, sku, run_id, state, cause = each.keys
        counted[gpu, sku].append((state, cause, each.milliseconds, None))
        if run_id is not None:
            held[gpu][run_id] += each.milliseconds
    names, places = _names(session, held), _places(session, node)
    rows = [
        (places.get(gpu, -1), gpu, _row(gpu, sku, counts, held[gpu], names, places))
        for (gpu, sku), counts in counted.items()
    ]
    (rack,) = session.row("SELECT arg_max(rack, started_at) FROM inventory WHERE node = ? AND gpu_uuid IS NULL", [node])
    return NodePanel(node, rack, tuple(row for *_, row in sorted(rows, key=lambda row: row[:2])))


def _row(
    gpu: str,
    sku: str | None,
    counts: list[Counted],
    held: dict[str, int],
    names: dict[str, str],
    places: dict[str, int],
) -> GpuRow:
    entries = fold(counts)
    whole = sum(entry.milliseconds for entry in entries) or 1
    by_class = [sum(entry.milliseconds for entry in entries if entry.klass == klass) for klass in CLASSES]
    states = tuple((entry.label, percent(entry.milliseconds, whole)) for entry in entries)
    runs = sorted(held, key=lambda run_id: (-held[run_id], run_id))[:_RUNS_SHOWN]
    return GpuRow(
        f"GPU {places[gpu]}" if gpu in places else gpu,
        sku or "unknown model",
        states,
        Mark("bar", class_parts(by_class)),
        tuple((run_id, names.get(run_id) or run_id.rsplit("/", 1)[-1]) for run_id in runs),
    )


def _names(session: Session, held: dict[str, dict[str, int]]) -> dict[str, str]:
    run_ids = sorted({run_id for runs in held.values() for run_id in runs})
    return dict(
        session.rows("SELECT run_id, name FROM runs WHERE name IS NOT NULL AND run_id IN (SELECT unnest(?))", [run_ids])
    )


def _places(session: Session, node: str) -> dict[str, int]:
    return dict(
        session.rows(
            "SELECT gpu_uuid, arg_max(gpu_index, started_at) FROM inventory "
            "WHERE node = ? AND gpu_uuid IS NOT NULL AND gpu_index IS NOT NULL GROUP BY gpu_uuid",
            [node],
        )
    )
