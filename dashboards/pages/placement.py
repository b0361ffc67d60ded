"""Placement: racks and nodes as they are, and the traffic between them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyzer.errors import ConfigError
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.measures.traffic.fleet import FleetTraffic, fleet_traffic, runs_of
from analyzer.measures.traffic.matrix import HostLocation
from analyzer.measures.traffic.run_traffic import (
    ELSEWHERE,
    UNKNOWN_RACK,
    RackCell,
    RackMatrix,
    rack_matrix,
    read_places,
    read_traffic,
)
from analyzer.measures.traffic.tariff import tariff_book
from analyzer.measures.traffic.text import LABELS
from analyzer.period import Period
from analyzer.queries.ledger_query import ledger_sums, within
from analyzer.states import CLASSES, booking
from analyzer.text.words import bytes_words, counted, gpu_hours, money, percent, plain
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages, Sheet, period_view

_HERE = "/placement"
VIEWS = {"racks": "Racks and nodes", "traffic": "Traffic"}
_NODES_SHOWN = 64  # of a fleet that has more, one rack's at a time
_HOLDERS_SHOWN = 3
_RACKS_SHOWN, _RUNS_SHOWN = 16, 12
_LEVELS = 6  # shades of a cell, from none to the largest
_HOLDERS = """
WITH held AS (
    SELECT node, run_id, sum(milliseconds) AS ms FROM ledger
    WHERE {where} AND run_id IS NOT NULL AND list_contains(?, node) GROUP BY ALL
), named AS (
    SELECT node, coalesce(name, run_id) AS called, first(run_id ORDER BY ms DESC, run_id) AS largest,
        count(*) AS runs, sum(ms) AS ms FROM held LEFT JOIN runs USING (run_id) GROUP BY ALL
)
SELECT node, largest, called, runs, count(*) OVER (PARTITION BY node) FROM named
QUALIFY row_number() OVER (PARTITION BY node ORDER BY ms DESC, largest) <= {shown}
ORDER BY node, ms DESC, largest
"""


def placement_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the page and of its sheets."""
    router = APIRouter()

    @router.get(_HERE)
    def page(request: Request, week: str | None = None, view: str = "racks", rack: str | None = None) -> Response:
        return pages.page(request, placement(week, view, rack))

    @router.get(f"{_HERE}/{{sheet}}")
    def sheet(request: Request, sheet: str, week: str | None = None) -> Response:
        made = {
            "nodes.csv": lambda context: _nodes_sheet(context, context.reader.period(week)),
            "traffic.csv": lambda context: _traffic_sheet(context, context.reader.period(week)),
        }
        return pages.sheet(request, sheet, made)

    return router


def placement(week: str | None = None, view: str = "racks", rack: str | None = None) -> ReadPage:
    """Return the page in one state."""
    asked = PageState(_HERE, week, {"view": view, "rack": rack or ""})
    return ReadPage(asked, "placement.html", lambda context: _placement_view(context, week, view, rack))


def _placement_view(context: RequestContext, week: str | None, view: str, rack: str | None) -> Mapping[str, object]:
    """Return what one of the page's views shows: each is read when it is looked at.

    Raises:
        LedgerError: the ledger has no hour yet.
        ConfigError: the period cannot be read, or there is no such view.
    """
    if view not in VIEWS:
        raise ConfigError(f"there is no view {view!r}: there are {', '.join(VIEWS)}")
    period = context.reader.period(week)
    around = {**period_view(context.reader, period), "views": VIEWS, "view": view}
    # How much of its hosts others held, or nobody, is not a team's to know.
    around |= {"rack": rack, "json_link": _json_link(view, week), "is_whole": context.scope.teams is None}
    if view == "traffic":
        return around | _traffic_view(context, period)
    return around | {"racks": _rack_lines(context, period, rack)}


def _json_link(view: str, week: str | None) -> str:
    paths = {"racks": "/v1/ledger", "traffic": "/v1/read"}
    words = {"racks": {"by": "node"}, "traffic": {"what": "traffic", "format": "json"}}
    return PageState(paths[view], None, words[view] | {"since": week or ""}).link()


@dataclass(slots=True)
class GpuTime:
    """Milliseconds of a node or rack: by class in their order, held by a run, of that useful, and not measured."""

    gpus: Counter[str] = field(default_factory=Counter)  # by model
    classes: list[int] = field(default_factory=lambda: [0] * len(CLASSES))
    held: int = 0
    held_useful: int = 0
    held_silent: int = 0

    @classmethod
    def of(cls, parts: "Iterable[GpuTime]") -> "GpuTime":
        """Return several as one."""
        whole = cls()
        for part in parts:
            whole.gpus.update(part.gpus)
            whole.classes = [own + other for own, other in zip(whole.classes, part.classes, strict=True)]
            whole.held += part.held
            whole.held_useful += part.held_useful
            whole.held_silent += part.held_silent
        return whole

    @property
    def skus(self) -> str:
        """The GPUs by their models, in words: "8 H100-80GB, 4 A100-80GB"."""
        models = sorted(self.gpus.items(), key=lambda pair: (-pair[1], pair[0]))
        return ", ".join(f"{gpus:,} {sku}" for sku, gpus in models)


@dataclass(frozen=True, slots=True)
class _RackLine:
    """One rack: where it stands, its nodes together, and one by one where they are shown, with who held most of each.

    A node has its runs by name: the one that held most, the name, how many they are; and how many names more.
    """

    name: str
    place: str  # its block and zone
    nodes: Sequence[str]
    time: GpuTime
    shown: Sequence[tuple[str, GpuTime, Sequence[tuple[str, str, int]], int]]


def _rack_lines(context: RequestContext, period: Period, rack: str | None) -> list[_RackLine]:
    """Return the racks of a period; with their nodes where these are few, or of the one that is asked for."""
    nodes, places = _nodes(context, period), read_places(context.session, period.end)
    by_rack: dict[str, list[str]] = defaultdict(list)
    for node in sorted(nodes):
        by_rack[_rack(places.get(node))].append(node)
    named = sorted(by_rack, key=lambda name: (name == UNKNOWN_RACK, name))
    opened = {name for name in named if name == rack or (rack is None and len(nodes) <= _NODES_SHOWN)}
    holders = _holders(context, period, [node for name in opened for node in by_rack[name]])
    lines = []
    for name in named:
        own, stands = by_rack[name], places.get(by_rack[name][0], HostLocation())
        where = [f"{part} {plain(at)}" for part, at in (("block", stands.block), ("zone", stands.zone)) if at]
        shown = [(node, nodes[node], *holders.get(node, ([], 0))) for node in own if name in opened]
        lines.append(_RackLine(name, ", ".join(where), own, GpuTime.of(nodes[node] for node in own), shown))
    return lines


def _nodes_sheet(context: RequestContext, period: Period) -> Sheet:
    """Return every node, exact. How much of what was held was useful is told of what was measured of it."""
    nodes, places = _nodes(context, period), read_places(context.session, period.end)
    classes = [f"{name}_milliseconds" for name in CLASSES]
    held = ("held_milliseconds", "held_useful_milliseconds", "held_not_measured_milliseconds")
    rows = []
    for node, time in sorted(nodes.items()):
        at = places.get(node, HostLocation())
        amounts = (time.gpus.total(), time.skus, time.held, time.held_useful, time.held_silent, *time.classes)
        rows.append((at.rack, at.block, at.zone, node, *amounts))
    return Sheet(("rack", "block", "zone", "node", "gpus", "skus", *held, *classes), rows)


def _rack(place: HostLocation | None) -> str:
    return plain(place.rack) if place is not None and place.rack is not None else UNKNOWN_RACK


def _nodes(context: RequestContext, period: Period) -> dict[str, GpuTime]:
    where, values = within(period)
    gpus = context.session.rows(
        f"SELECT node, sku, count(DISTINCT gpu_uuid) FROM ledger WHERE {where} AND node IS NOT NULL GROUP BY ALL",
        values,
    )
    nodes: dict[str, GpuTime] = defaultdict(GpuTime)
    for node, sku, count in gpus:
        nodes[node].gpus[plain(sku or "GPU")] += count
    by = ("node", "state", "cause", "run_id IS NOT NULL")
    for sums in ledger_sums(context.session, *by, period=period, where="node IS NOT NULL"):
        (node, state, cause, is_held), milliseconds = sums.keys, sums.milliseconds
        klass, time = booking(state, cause).klass, nodes[node]
        time.classes[CLASSES.index(klass)] += milliseconds
        time.held += milliseconds if is_held else 0
        time.held_useful += milliseconds if is_held and klass == "useful" else 0
        time.held_silent += milliseconds if is_held and state == "unobserved" else 0
    return nodes


def _holders(
    context: RequestContext, period: Period, nodes: Sequence[str]
) -> Mapping[str, tuple[list[tuple[str, str, int]], int]]:
    """Return of each node whose runs held most of it, and how many names more there were."""
    if not nodes:
        return {}
    where, values = within(period)
    rows = context.session.rows(_HOLDERS.format(where=where, shown=_HOLDERS_SHOWN), [*values, list(nodes)])
    holders: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    names: dict[str, int] = {}
    for node, run_id, name, runs, named in rows:
        holders[node].append((run_id, name.rpartition("/")[2], runs))
        names[node] = named
    return {node: (own, names[node] - len(own)) for node, own in holders.items()}


def _traffic_view(context: RequestContext, period: Period) -> dict[str, object]:
    """Return the traffic of the runs that may be seen: a matrix, each cell with how dark it is, classes, and runs."""
    fleet, matrix = _traffic(context, period)
    largest = max((cell.bytes for cell in matrix.cells.values()), default=0) or 1
    rows = []
    for here in matrix.racks:
        cells = [(there, matrix.cells.get((here, there), RackCell())) for there in matrix.racks]
        levels = [min(_LEVELS, 1 + (_LEVELS - 1) * cell.bytes // largest) if cell.bytes else 0 for _, cell in cells]
        row = [(there, cell, level) for (there, cell), level in zip(cells, levels, strict=True)]
        rows.append((here, row, sum(cell.bytes for _, cell in cells)))
    return {
        "sentence": _answer(fleet, matrix),
        "traffic": fleet,
        "matrix": matrix,
        "rows": rows,
        "received": [
            sum(cell.bytes for (_, there), cell in matrix.cells.items() if there == rack) for rack in matrix.racks
        ],
        "elsewhere": ELSEWHERE,
        "labels": LABELS,
        "far": fleet.far[:_RUNS_SHOWN],
        "more_far": max(0, len(fleet.far) - _RUNS_SHOWN),
    }


def _traffic_sheet(context: RequestContext, period: Period) -> Sheet:
    """Return the matrix, exact."""
    _, matrix = _traffic(context, period, most=None)
    rows = [(*ends, cell.bytes, cell.estimated_bytes) for ends, cell in sorted(matrix.cells.items())]
    return Sheet(("from", "to", "bytes", "estimated_bytes"), rows)


def _traffic(
    context: RequestContext, period: Period, most: int | None = _RACKS_SHOWN
) -> tuple[FleetTraffic, RackMatrix]:
    """Return what runs moved; samples name no team, so which runs may be seen is known before they are read."""
    whose = runs_of(context.session, period)

    def made() -> tuple[FleetTraffic, RackMatrix]:
        tariffs = tariff_book(context.whole.settings)
        runs = read_traffic(context.whole.session, list(whose), period.start, period.end, tariffs)
        matrix = rack_matrix(runs.values(), read_places(context.whole.session, period.end), most)
        return fleet_traffic(period, context.currency, None, runs, whose), matrix

    key = ("racks' traffic", context.generation, context.scope, period.start, period.end, most)
    return context.whole.once(key, made)


def _answer(fleet: FleetTraffic, matrix: RackMatrix) -> str:
    if not fleet.classes:
        return "No traffic of runs was reported: no flows, no RDMA ports with ranks, no NVLink."
    runs = counted(fleet.runs, "run")
    if not matrix.bytes:
        return f"{runs} moved nothing between hosts that is known."
    across = sum(cell.bytes for (here, there), cell in matrix.cells.items() if here != there)
    share = f"{percent(across, matrix.bytes)} of what {runs} moved between hosts left its rack: {bytes_words(across)}"
    if fleet.waited is None or not fleet.waited.milliseconds:
        return f"{share}. No GPU is known to have waited for it."
    cost = f", {money(fleet.waited.cost_micros, fleet.currency, 0)}" if fleet.waited.cost_micros is not None else ""
    return f"{share}. GPUs waited {gpu_hours(fleet.waited.milliseconds)} GPU-hours for it{cost}."
