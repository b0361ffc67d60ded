"""The fleet as a grid, each GPU a cell by rack and node, colored by its dominant state; and one node GPU by GPU."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from analyzer.errors import LedgerError
from analyzer.period import Period
from analyzer.queries.ledger_query import BreakdownEntry, Counted, fold, ledger_sums
from analyzer.states import BOOKINGS, CLASSES, Booking, Class, booking
from collector.store.session import Session
from dashboards.pages.marks import Mark, class_parts

_LETTERED = 512  # of more GPUs a cell has no room for its letter, and its node is what is named and linked
_SHADES = 5  # of one class; states that are told one after the other differ
_STATES_TOLD, _RUNS_SHOWN = 3, 4
_PITCH, _APART = 9, 7  # of small cells: pixels from one to the next, and between columns
_COLUMN, _PIECE = 16, 64  # nodes in a column, and in a picture
_FIRST: dict[Class, int] = {"avoidable": 2}  # which label has the plain colour: idle allocation
_LETTERS: dict[Class, str] = {"useful": "U", "avoidable": "A", "overhead": "O", "spare": "S", "unknown": "?"}
_LABELS: dict[Class, tuple[str, ...]] = {
    klass: tuple(dict.fromkeys(state.label for state in BOOKINGS if state.klass == klass)) for klass in CLASSES
}

_TOLD = """
SELECT gpu_uuid, arg_max(node, hour), any_value(sku), state, cause, run_id, sum(milliseconds)::BIGINT
FROM ledger WHERE hour >= ? AND hour < ? GROUP BY gpu_uuid, state, cause, run_id
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU: the class it spent most time in, the state of it, and the words behind them, where they are shown."""

    klass: Class
    label: str
    title: str
    run_id: str | None

    @property
    def state(self) -> tuple[Class, str]:
        """The state by which it is told."""
        return self.klass, self.label

    @property
    def letter(self) -> str:
        """The letter of its class: colour is never the only carrier."""
        return _LETTERS[self.klass]

    @property
    def shade(self) -> int:
        """Which shade of its class's colour its state has."""
        return (_LABELS[self.klass].index(self.label) - _FIRST.get(self.klass, 0)) % _SHADES


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node and its cells, in the driver's order."""

    node: str
    cells: tuple[Cell, ...]

    @property
    def told(self) -> str:
        """What its GPUs did, in words: "n17: 6 working, 2 free"."""
        counts = Counter(cell.label for cell in self.cells)
        return f"{self.node}: " + ", ".join(f"{count} {label}" for label, count in counts.most_common())


@dataclass(frozen=True, slots=True)
class Drawn:
    """A rack as a picture: 10,000 GPUs are a few hundred shapes, which a browser paints and repaints at once."""

    width: int
    height: int
    shapes: list[tuple[Cell, str]]  # all cells of one state as one path: a short thick line a cell
    nodes: list[tuple[NodeRow, int, int]]  # with the place of their upper left corner
    node_width: int


@dataclass(frozen=True, slots=True)
class Rack:
    """One rack and its nodes; `name` is None where the rack is unknown."""

    name: str | None
    nodes: tuple[NodeRow, ...]

    @property
    def pictures(self) -> tuple[Drawn, ...]:
        """Return it as pictures; one rack is one, and what is known of no rack breaks into pieces that fit a phone."""
        return tuple(_drawn(self.nodes[at : at + _PIECE]) for at in range(0, len(self.nodes), _PIECE))


def _drawn(nodes: tuple[NodeRow, ...]) -> Drawn:
    """Place nodes from top to bottom, and on in the next column."""
    across = max(len(row.cells) for row in nodes) * _PITCH - 1
    paths: dict[tuple[Class, str], list[str]] = defaultdict(list)
    states: dict[tuple[Class, str], Cell] = {}
    placed = []
    for number, row in enumerate(nodes):
        x, y = number // _COLUMN * (across + _APART), number % _COLUMN * _PITCH
        placed.append((row, x, y))
        for place, cell in enumerate(row.cells):
            states[cell.state] = cell
            paths[cell.state].append(f"M{x + place * _PITCH} {y + _PITCH // 2}h{_PITCH - 1}")
    columns, rows = -(-len(nodes) // _COLUMN), min(_COLUMN, len(nodes))
    shapes = [(states[state], "".join(parts)) for state, parts in sorted(paths.items())]
    return Drawn(columns * (across + _APART) - _APART, rows * _PITCH - 1, shapes, placed, across)


@dataclass(frozen=True, slots=True)
class Grid:
    """All racks of a period's ledger, and the legend: classes in their order, states by how many GPUs they have.

    An entry of the legend is a cell of its state, and how many there are.
    """

    racks: tuple[Rack, ...]
    legend: list[tuple[Cell, int]]

    @property
    def gpus(self) -> int:
        """How many cells there are."""
        return sum(gpus for _, gpus in self.legend)

    @property
    def lettered(self) -> bool:
        """Whether cells are large enough for a letter and a link of their own."""
        return self.gpus <= _LETTERED


def fleet_grid(session: Session, period: Period) -> Grid:
    """Return the grid of a period; without a cell where the ledger has no hour of it."""
    gpus: dict[str, _Gpu] = {}
    for uuid, node, sku, state, cause, run_id, milliseconds in session.rows(_TOLD, [period.start, period.end]):
        gpu = gpus.get(uuid) or gpus.setdefault(uuid, _Gpu(node, sku))
        gpu.count(booking(state, cause), run_id, milliseconds)
    places, indices = _places(session), _indices(session)
    is_lettered = len(gpus) <= _LETTERED
    nodes: dict[str, list[tuple[int, str, Cell]]] = defaultdict(list)
    for uuid, gpu in gpus.items():
        index = indices.get(uuid)
        name = f"{gpu.node} GPU {index if index is not None else uuid}" if is_lettered else ""
        nodes[gpu.node].append((-1 if index is None else index, uuid, gpu.cell(name)))
    return Grid(_racks(nodes, places), _legend(cell for placed in nodes.values() for *_, cell in placed))


class _Gpu:
    """What one GPU did: milliseconds by class, by state and by holder."""

    __slots__ = ("classes", "holders", "labels", "node", "sku")

    def __init__(self, node: str, sku: str | None) -> None:
        self.node, self.sku = node, sku
        self.classes: dict[Class, int] = {}
        self.labels: dict[tuple[Class, str], int] = {}
        self.holders: dict[str, int] = {}

    def count(self, what: Booking, run_id: str | None, milliseconds: int) -> None:
        key = (what.klass, what.label)
        self.classes[what.klass] = self.classes.get(what.klass, 0) + milliseconds
        self.labels[key] = self.labels.get(key, 0) + milliseconds
        if run_id is not None:
            self.holders[run_id] = self.holders.get(run_id, 0) + milliseconds

    def cell(self, name: str) -> Cell:
        klass = max(self.classes, key=lambda name: (self.classes[name], -CLASSES.index(name)))
        label = max((ms, label) for (of, label), ms in self.labels.items() if of == klass)[1]
        run_id = max(self.holders, key=lambda holder: (self.holders[holder], holder), default=None)
        return Cell(klass, label, self._title(name, run_id) if name else "", run_id)

    def _title(self, name: str, run_id: str | None) -> str:
        whole = sum(self.labels.values()) or 1
        largest = sorted((-ms, label) for (_, label), ms in self.labels.items())[:_STATES_TOLD]
        told = ", ".join(f"{label} {round(-100 * ms / whole)}%" for ms, label in largest)
        return f"{name} ({self.sku or 'unknown model'}): {told}{f'; {run_id}' if run_id else ''}"


def _legend(cells: Iterable[Cell]) -> list[tuple[Cell, int]]:
    cells = list(cells)
    states, counts = {cell.state: cell for cell in cells}, Counter(cell.state for cell in cells)
    entries = [(states[state], gpus) for state, gpus in counts.items()]
    return sorted(entries, key=lambda entry: (CLASSES.index(entry[0].klass), -entry[1], entry[0].label))


def _places(session: Session) -> dict[str, str]:
    return dict(
        session.rows(
            "SELECT node, arg_max(rack, started_at) FROM inventory "
            "WHERE gpu_uuid IS NULL AND rack IS NOT NULL GROUP BY node"
        )
    )


def _indices(session: Session, node: str | None = None) -> dict[str, int]:
    """Return the numbers of GPUs as their driver counts them; of one node, or of all."""
    return dict(
        session.rows(
            "SELECT gpu_uuid, arg_max(gpu_index, started_at) FROM inventory "
            "WHERE gpu_uuid IS NOT NULL AND gpu_index IS NOT NULL AND (?::VARCHAR IS NULL OR node = ?) "
            "GROUP BY gpu_uuid",
            [node, node],
        )
    )


def _racks(nodes: dict[str, list[tuple[int, str, Cell]]], places: dict[str, str]) -> tuple[Rack, ...]:
    racks: dict[str | None, list[NodeRow]] = defaultdict(list)
    for node in sorted(nodes, key=natural):
        cells = sorted(nodes[node], key=lambda placed: placed[:2])
        racks[places.get(node)].append(NodeRow(node, tuple(cell for _, _, cell in cells)))
    order = sorted(racks, key=lambda name: (name is None, natural(name or "")))
    return tuple(Rack(name, tuple(racks[name])) for name in order)


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return what orders names as people count: n9 before n10."""
    return [(True, int(part), "") if part.isdecimal() else (False, 0, part) for part in re.split(r"(\d+)", name)]


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU: its states, its bar by class, and the runs that held most of it, by their names."""

    gpu: str
    sku: str | None
    states: tuple[BreakdownEntry, ...]
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
    for amounts in sums:
        gpu, sku, run_id, state, cause = amounts.keys
        counted[gpu, sku].append((state, cause, amounts.milliseconds, None))
        if run_id is not None:
            held[gpu][run_id] += amounts.milliseconds
    names, places = _names(session, held), _indices(session, node)
    rows = [
        (places.get(gpu, -1), gpu, _row(f"GPU {places[gpu]}" if gpu in places else gpu, sku, counts, held[gpu], names))
        for (gpu, sku), counts in counted.items()
    ]
    (rack,) = session.row("SELECT arg_max(rack, started_at) FROM inventory WHERE node = ? AND gpu_uuid IS NULL", [node])
    return NodePanel(node, rack, tuple(row for *_, row in sorted(rows, key=lambda row: row[:2])))


def _row(gpu: str, sku: str | None, counts: list[Counted], held: dict[str, int], names: dict[str, str]) -> GpuRow:
    states = fold(counts)
    by_class = [sum(entry.milliseconds for entry in states if entry.klass == klass) for klass in CLASSES]
    runs = sorted(held, key=lambda run_id: (-held[run_id], run_id))[:_RUNS_SHOWN]
    named = tuple((run_id, names.get(run_id) or run_id.rsplit("/", 1)[-1]) for run_id in runs)
    return GpuRow(gpu, sku, states, Mark("bar", class_parts(by_class)), named)


def _names(session: Session, held: dict[str, dict[str, int]]) -> dict[str, str]:
    run_ids = sorted({run_id for runs in held.values() for run_id in runs})
    return dict(
        session.rows("SELECT run_id, name FROM runs WHERE name IS NOT NULL AND run_id IN (SELECT unnest(?))", [run_ids])
    )
