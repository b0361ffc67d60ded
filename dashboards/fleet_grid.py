"""The fleet as a grid: each GPU a cell by rack and node, told by what it did most in the period."""

from collections import defaultdict
from dataclasses import dataclass

from analyzer.period import Period
from analyzer.report.readings import Counted, fold, within
from analyzer.report.words import NO_BREAK
from analyzer.states import Class
from collector.store.session import Session

GPUS_SHOWN = 2048  # beyond it a cell is a node
STATES_TOLD = 3
LETTERS: dict[Class, str] = {"useful": "U", "avoidable": "A", "overhead": "O", "spare": "S", "unknown": "?"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU (or one node of a large fleet): the class it spent most time in, and the words behind it."""

    klass: Class
    letter: str
    title: str
    run_id: str | None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node and its cells, in the driver's order."""

    node: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Rack:
    """One rack and its nodes; `name` is None where the rack is unknown."""

    name: str | None
    nodes: tuple[NodeRow, ...]


def fleet_grid(session: Session, period: Period) -> tuple[Rack, ...]:
    """Return all racks of the period's ledger."""
    where, values = within(period)
    (gpus,) = session.row(f"SELECT count(DISTINCT gpu_uuid) FROM ledger WHERE {where}", values)
    unit = "gpu_uuid" if gpus <= GPUS_SHOWN else "node"
    counted = session.rows(
        f"SELECT node, {unit} AS unit, any_value(sku), state, cause, sum(milliseconds) FROM ledger "
        f"WHERE {where} GROUP BY ALL",
        values,
    )
    holders = dict(
        session.rows(
            f"SELECT unit, arg_max(run_id, ms) FROM (SELECT {unit} AS unit, run_id, sum(milliseconds) AS ms "
            f"FROM ledger WHERE {where} AND run_id IS NOT NULL GROUP BY ALL) GROUP BY unit",
            values,
        )
    )
    states: dict[tuple[str, str, str | None], list[Counted]] = defaultdict(list)
    for node, gpu, sku, *state in counted:
        states[node, gpu, sku].append((state[0], state[1], state[2], None))
    places, indices = _places(session), _indices(session)
    nodes: dict[str, list[tuple[int, str, Cell]]] = defaultdict(list)
    for (node, gpu, sku), counts in states.items():
        index = indices.get(gpu)
        name = node if gpu == node else f"{node} GPU {index if index is not None else gpu}"
        nodes[node].append((-1 if index is None else index, gpu, _cell(name, sku, counts, holders.get(gpu))))
    return _racks(nodes, places)


def _cell(name: str, sku: str | None, counts: list[Counted], run_id: str | None) -> Cell:
    entries = fold(counts)
    whole = sum(entry.milliseconds for entry in entries)
    by_class: dict[Class, int] = defaultdict(int)
    for entry in entries:
        by_class[entry.klass] += entry.milliseconds
    klass = max(by_class, key=lambda each: by_class[each])
    largest = sorted(entries, key=lambda entry: -entry.milliseconds)[:STATES_TOLD]
    told = ", ".join(f"{entry.label} {round(100 * entry.milliseconds / whole)}{NO_BREAK}%" for entry in largest)
    held = f"; {run_id}" if run_id else ""
    return Cell(klass, LETTERS[klass], f"{name} ({sku or 'unknown model'}): {told}{held}", run_id)


def _places(session: Session) -> dict[str, str]:
    return dict(
        session.rows(
            "SELECT node, arg_max(rack, started_at) FROM inventory "
            "WHERE gpu_uuid IS NULL AND rack IS NOT NULL GROUP BY node"
        )
    )


def _indices(session: Session) -> dict[str, int]:
    return dict(
        session.rows(
            "SELECT gpu_uuid, arg_max(gpu_index, started_at) FROM inventory "
            "WHERE gpu_uuid IS NOT NULL AND gpu_index IS NOT NULL GROUP BY gpu_uuid"
        )
    )


def _racks(nodes: dict[str, list[tuple[int, str, Cell]]], places: dict[str, str]) -> tuple[Rack, ...]:
    racks: dict[str | None, list[NodeRow]] = defaultdict(list)
    for node in sorted(nodes):
        cells = sorted(nodes[node], key=lambda placed: placed[:2])
        racks[places.get(node)].append(NodeRow(node, tuple(cell for _, _, cell in cells)))
    return tuple(Rack(name, tuple(racks[name])) for name in sorted(racks, key=lambda name: (name is None, name or "")))
