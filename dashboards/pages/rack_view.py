"""Racks and nodes as they are: what stands where, how much of it was held and useful, and by which runs."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.measures.traffic.locality import HostLocation
from analyzer.measures.traffic.rack_matrix import UNKNOWN_RACK
from analyzer.measures.traffic.traffic_query import read_places
from analyzer.period import Period
from analyzer.queries.ledger_query import ledger_sums, within
from analyzer.states import CLASSES, booking
from analyzer.text.words import percent, plain
from dashboards.pages.marks import Mark, class_bar
from dashboards.pages.read_pages import Sheet

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

_NODES_SHOWN = 64  # of a fleet that has more, one rack's at a time
_RUNS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class NodeRuns:
    """Runs of one name that held GPUs of a node: the one that held most, and how many they are."""

    run_id: str
    name: str
    runs: int


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node as it is printed."""

    node: str
    gpus: int
    skus: str
    held: str
    useful: str
    bar: Mark
    runs: tuple[NodeRuns, ...]
    more_names: int


@dataclass(frozen=True, slots=True)
class RackLine:
    """One rack: its nodes together, and one by one where they are shown."""

    name: str
    place: str  # its block and zone
    nodes: int
    gpus: int
    skus: str
    held: str
    useful: str
    bar: Mark
    shown: tuple[NodeLine, ...]


@dataclass(slots=True)
class _Sum:
    """Milliseconds of a node or rack: by class in their order, held by a run, of that useful, and not measured."""

    gpus: dict[str, int]
    classes: list[int]
    held: int = 0
    held_useful: int = 0
    held_silent: int = 0

    @classmethod
    def of(cls, parts: "Iterable[_Sum]") -> "_Sum":
        """Return several as one."""
        made = cls(defaultdict(int), [0] * len(CLASSES))
        for part in parts:
            for sku, gpus in part.gpus.items():
                made.gpus[sku] += gpus
            made.classes = [one + other for one, other in zip(made.classes, part.classes, strict=True)]
            made.held += part.held
            made.held_useful += part.held_useful
            made.held_silent += part.held_silent
        return made


def rack_lines(context: "RequestContext", period: Period, rack: str | None) -> tuple[RackLine, ...]:
    """Return the racks of a period; with their nodes where these are few, or of the one that is asked for."""
    nodes, places = _nodes(context, period), read_places(context.session, period.end)
    by_rack: dict[str, list[str]] = defaultdict(list)
    for node in sorted(nodes):
        by_rack[_rack(places.get(node))].append(node)
    named = sorted(by_rack, key=lambda name: (name == UNKNOWN_RACK, name))
    shown = {name for name in named if name == rack or (rack is None and len(nodes) <= _NODES_SHOWN)}
    holders = _holders(context, period, [node for name in shown for node in by_rack[name]])
    return tuple(_rack_line(name, by_rack[name], nodes, places, holders if name in shown else None) for name in named)


def nodes_sheet(context: "RequestContext", period: Period) -> Sheet:
    """Return every node, exact. How much of what was held was useful is told of what was measured of it."""
    nodes, places = _nodes(context, period), read_places(context.session, period.end)
    classes = [f"{name}_milliseconds" for name in CLASSES]
    held = ("held_milliseconds", "held_useful_milliseconds", "held_not_measured_milliseconds")
    rows = []
    for node, one in sorted(nodes.items()):
        place = places.get(node, HostLocation())
        told = (sum(one.gpus.values()), _skus(one), one.held, one.held_useful, one.held_silent, *one.classes)
        rows.append((place.rack, place.block, place.zone, node, *told))
    return Sheet(("rack", "block", "zone", "node", "gpus", "skus", *held, *classes), rows)


def _rack(place: HostLocation | None) -> str:
    return plain(place.rack) if place is not None and place.rack is not None else UNKNOWN_RACK


def _nodes(context: "RequestContext", period: Period) -> dict[str, _Sum]:
    where, values = within(period)
    counted = context.session.rows(
        f"SELECT node, sku, count(DISTINCT gpu_uuid) FROM ledger WHERE {where} AND node IS NOT NULL GROUP BY ALL",
        values,
    )
    found = {node: _Sum(defaultdict(int), [0] * len(CLASSES)) for node, *_ in counted}
    for node, sku, gpus in counted:
        found[node].gpus[plain(sku or "GPU")] += gpus
    by = ("node", "state", "cause", "run_id IS NOT NULL")
    for each in ledger_sums(context.session, *by, period=period, where="node IS NOT NULL"):
        (node, state, cause, held), milliseconds = each.keys, each.milliseconds
        klass, one = booking(state, cause).klass, found[node]
        one.classes[CLASSES.index(klass)] += milliseconds
        one.held += milliseconds if held else 0
        one.held_useful += milliseconds if held and klass == "useful" else 0
        one.held_silent += milliseconds if held and state == "unobserved" else 0
    return found


def _holders(
    context: "RequestContext", period: Period, nodes: Sequence[str]
) -> dict[str, tuple[tuple[NodeRuns, ...], int]]:
    """Return of each node whose runs held most of it, and how many names more there were."""
    if not nodes:
        return {}
    where, values = within(period)
    rows = context.session.rows(
        f"""
        WITH held AS (
            SELECT node, run_id, sum(milliseconds) AS ms FROM ledger
            WHERE {where} AND run_id IS NOT NULL AND list_contains(?, node) GROUP BY ALL
        ), named AS (
            SELECT node, coalesce(name, run_id) AS called, arg_max(run_id, ms) AS largest, count(*) AS runs,
                sum(ms) AS ms FROM held LEFT JOIN runs USING (run_id) GROUP BY ALL
        )
        SELECT node, largest, called, runs, count(*) OVER (PARTITION BY node) FROM named
        QUALIFY row_number() OVER (PARTITION BY node ORDER BY ms DESC, largest) <= {_RUNS_SHOWN}
        ORDER BY node, ms DESC, largest
        """,
        [*values, list(nodes)],
    )
    found: dict[str, list[NodeRuns]] = defaultdict(list)
    count: dict[str, int] = {}
    for node, run_id, name, runs, names in rows:
        found[node].append(NodeRuns(run_id, plain(name.rpartition("/")[2]), runs))
        count[node] = names
    return {node: (tuple(own), count[node] - len(own)) for node, own in found.items()}


def _rack_line(
    name: str,
    own: Sequence[str],
    nodes: dict[str, _Sum],
    places: dict[str, HostLocation],
    holders: dict[str, tuple[tuple[NodeRuns, ...], int]] | None,
) -> RackLine:
    whole = _Sum.of(nodes[node] for node in own)
    place = places.get(own[0], HostLocation())
    where = ", ".join(
        f"{part} {plain(value)}" for part, value in (("block", place.block), ("zone", place.zone)) if value
    )
    shown = (
        tuple(_node_line(node, nodes[node], *holders.get(node, ((), 0))) for node in own) if holders is not None else ()
    )
    bar = class_bar(whole.classes)
    gpus = sum(whole.gpus.values())
    return RackLine(name, where, len(own), gpus, _skus(whole), _held(whole), _useful(whole), bar, shown)


def _node_line(node: str, one: _Sum, runs: tuple[NodeRuns, ...], more: int) -> NodeLine:
    gpus = sum(one.gpus.values())
    return NodeLine(plain(node), gpus, _skus(one), _held(one), _useful(one), class_bar(one.classes), runs, more)


def _skus(one: _Sum) -> str:
    return ", ".join(f"{gpus:,} {sku}" for sku, gpus in sorted(one.gpus.items(), key=lambda pair: (-pair[1], pair[0])))


def _held(one: _Sum) -> str:
    return percent(one.held, sum(one.classes))


def _useful(one: _Sum) -> str:
    return percent(one.held_useful, one.held - one.held_silent)
