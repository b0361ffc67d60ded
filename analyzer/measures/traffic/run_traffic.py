"""What a run moved between hosts and beyond, how far, and what that cost; read, and folded for display."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analyzer.measures.traffic.matrix import (
    LEVELS,
    Balance,
    ClassBytes,
    FlowBytes,
    HostLocation,
    LinkBytes,
    Locality,
    Matrix,
    Ring,
    RingSeat,
    by_class,
    locality,
    matrix,
    ring,
    rings,
)
from analyzer.measures.traffic.tariff import Bill, Prices, TariffBook
from analyzer.queries.statements import run, statements
from analyzer.text.words import bytes_words
from collector.store.session import Session

_SHARED_PERCENT = 1  # two clocks never agree: a host that changes hands is not shared


@dataclass(frozen=True, slots=True)
class Waited:
    """GPU time that the ledger booked to crossing racks, and what it cost; None where it has no price."""

    milliseconds: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True)
class HostPlace:
    """One host of the run: where it stands, its place in the last attempt's ring, and how much of it was shared."""

    node: str
    place: HostLocation
    order: int | None
    shared_permille: int

    @property
    def is_shared(self) -> bool:
        """Whether other runs were there for more than clocks differ."""
        return self.shared_permille > 10 * _SHARED_PERCENT


@dataclass(frozen=True, slots=True)
class Ordered:
    """What ordering the ranks by rack would keep inside racks, of the bytes that RDMA ports are taken to have moved."""

    now_bytes: int
    contiguous_bytes: int


@dataclass(frozen=True, slots=True)
class RunTraffic:
    """The traffic of one run over one period. Bytes of `classes` are each counted once.

    `unattributed_bytes` of `link_bytes` no flow explains, on the hosts that the run had for itself; None where no link
    of such a host told. `node_bytes` is never known: what moves within a host, but for GPU links, nobody counts.
    """

    run_id: str
    hosts: tuple[HostPlace, ...]
    classes: tuple[ClassBytes, ...]
    rings: tuple[Ring, ...]
    ordered: Ordered | None
    link_bytes: int | None
    unattributed_bytes: int | None
    bills: tuple[Bill, ...]
    waited: Waited | None
    missing: tuple[str, ...]
    doubts: tuple[str, ...]
    matrix: Matrix
    node_bytes: None = None


def run_traffic(
    run_id: str,
    seats: Sequence[RingSeat],
    links: Sequence[LinkBytes],
    flows: Sequence[FlowBytes],
    gpu_link_bytes: int | None,
    places: Mapping[str, HostLocation],
    waited: Waited | None,
    prices: Prices,
) -> RunTraffic:
    """Return what rows of one run say together."""
    made = matrix(seats, links, flows)
    parts: list[tuple[Locality, int, bool]] = [
        (locality(cell.from_, cell.to, places), cell.bytes, cell.basis != "tcp") for cell in made.cells
    ]
    order = _last_ring(seats)
    hosts = _hosts(seats, order, places)
    circles = tuple(ring(level, order, _parts(places, level)) for level in LEVELS) if len(order) > 1 else ()
    alone = [one for one in made.balances if one.node in {host.node for host in hosts if not host.is_shared}]
    known = [one for one in alone if one.link_bytes is not None]
    return RunTraffic(
        run_id,
        hosts,
        by_class([*parts, ("gpu_link", gpu_link_bytes or 0, False)]),
        circles,
        _ordered(made, circles[0], places) if circles else None,
        sum(one.link_bytes or 0 for one in known) if known else None,
        sum(one.unattributed_bytes or 0 for one in known) if known else None,
        prices.bills(made.cells, places),
        waited,
        tuple(_missing(hosts, made, order, links)),
        tuple(_doubt(one) for one in made.balances if one.is_doubtful),
        made,
    )


def _last_ring(seats: Sequence[RingSeat]) -> tuple[str, ...]:
    """Return the hosts of the last attempt in the order of their ranks, or none where that is not known."""
    last = max((seat.attempt for seat in seats), default=0)
    return rings(seats).get(last, ())


def _hosts(
    seats: Sequence[RingSeat], order: Sequence[str], places: Mapping[str, HostLocation]
) -> tuple[HostPlace, ...]:
    held: dict[str, tuple[int, int]] = {}
    for seat in seats:
        whole, shared = held.get(seat.node, (0, 0))
        held[seat.node] = (whole + seat.held_us, shared + seat.shared_us)
    number = {node: position for position, node in enumerate(order)}
    found = [
        HostPlace(node, places.get(node, HostLocation()), number.get(node), shared * 1000 // max(1, whole))
        for node, (whole, shared) in held.items()
    ]
    return tuple(sorted(found, key=lambda host: (host.order is None, host.order or 0, host.node)))


def _parts(places: Mapping[str, HostLocation], level: str) -> dict[str, str | None]:
    return {node: getattr(place, level) for node, place in places.items()}


def _ordered(made: Matrix, racks: Ring, places: Mapping[str, HostLocation]) -> Ordered | None:
    """Return what the links of the ring that cross racks carried, and what as many as are needed would have.

    Of a run that began anew on other hosts it is all attempts' bytes, over the last one's ring.
    """
    edges = [cell for cell in made.cells if cell.basis == "ring"]
    found = [locality(cell.from_, cell.to, places) for cell in edges]
    if not edges or "unknown" in found or racks.contiguous is None:
        return None
    crossing = sum(cell.bytes for cell, where in zip(edges, found, strict=True) if where != "rack")
    return Ordered(crossing, sum(cell.bytes for cell in edges) * racks.contiguous // racks.hosts)


def _missing(hosts: Sequence[HostPlace], made: Matrix, order: Sequence[str], links: Sequence[LinkBytes]) -> list[str]:
    found = []
    if not any(cell.basis == "tcp" for cell in made.cells):
        found.append("no flows were reported")
    silent = [host.node for host in hosts if host.node not in {row.node for row in links}]
    if silent:
        found.append(f"no links were reported on {_named(silent)}")
    if len(hosts) > 1 and not order:
        found.append("the order of its ranks is unknown")
    shared = [host.node for host in hosts if host.is_shared]
    if shared:
        found.append(f"{_named(shared)} shared with other runs")
    return found


def _named(nodes: Sequence[str]) -> str:
    return f"{', '.join(nodes[:3])} and {len(nodes) - 3} more" if len(nodes) > 4 else ", ".join(nodes)


def _doubt(one: Balance) -> str:
    what = "flows count" if one.link == "ethernet" else "the estimate has"
    carried = "sent" if one.way == "out" else "received"
    return f"{one.node}: {what} {bytes_words(one.excess_bytes or 0)} more than its links {carried}"


@dataclass(slots=True)
class _Rows:
    """What was told of one run."""

    seats: list[RingSeat] = field(default_factory=list)
    links: list[LinkBytes] = field(default_factory=list)
    flows: list[FlowBytes] = field(default_factory=list)
    gpu_link_bytes: int | None = None
    waited: Waited | None = None


def read_traffic(
    session: Session, run_ids: Sequence[str], from_us: int, until_us: int, tariffs: TariffBook | None = None
) -> dict[str, RunTraffic]:
    """Return the traffic of runs in [from_us, until_us), microseconds UTC; runs that held no host then are left out."""
    run(session, "measures/traffic/segments.sql", runs=list(run_ids), from_us=from_us, until_us=until_us)
    asked: dict[str, object] = {"runs": list(run_ids), "from_us": from_us, "until_us": until_us}
    told = _told(session, asked)
    for run_id, ms, cost in _all(session, "waited", **asked):
        told[run_id].waited = Waited(ms, None if cost is None else int(cost))
    places = read_places(session, until_us)
    book = tariffs or TariffBook()
    return {
        run_id: run_traffic(
            run_id, rows.seats, rows.links, rows.flows, rows.gpu_link_bytes, places, rows.waited, book.at(from_us)
        )
        for run_id, rows in sorted(told.items())
        if rows.seats
    }


def read_places(session: Session, until_us: int) -> dict[str, HostLocation]:
    """Return where each host of the fleet stood at the end of a span, microseconds UTC."""
    return {node: HostLocation(*where) for node, *where in _all(session, "places", until_us=until_us)}


def _told(session: Session, asked: dict[str, object]) -> dict[str, _Rows]:
    found: dict[str, _Rows] = defaultdict(_Rows)
    for run_id, node, attempt, rank, held_us, shared_us in _all(session, "seats"):
        found[run_id].seats.append(RingSeat(node, attempt, rank, held_us, shared_us))
    for run_id, node, attempt, shared, is_rdma, received, sent in _all(session, "links", **asked):
        found[run_id].links.append(LinkBytes(node, attempt, shared, is_rdma, _whole(received), _whole(sent)))
    for run_id, node, attempt, own, is_rdma, peer, received, sent in _all(session, "flows", **asked):
        found[run_id].flows.append(FlowBytes(node, attempt, own, is_rdma, peer, int(received), int(sent)))
    for run_id, sent in _all(session, "gpu_links", **asked):
        found[run_id].gpu_link_bytes = _whole(sent)
    return found


def _all(session: Session, name: str, **parameters: object) -> list[tuple[Any, ...]]:
    (query,) = statements(f"measures/traffic/{name}.sql")
    return session.rows(query, parameters)


def _whole(amount: int | None) -> int | None:
    return None if amount is None else int(amount)


UNKNOWN_RACK = "rack unknown"
ELSEWHERE = "elsewhere"  # file servers, other sites, peers that nobody names


@dataclass(frozen=True, slots=True)
class RackCell:
    """Bytes from one rack to another, and how many of them are estimated from RDMA ports, and not counted."""

    bytes: int = 0
    estimated_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RackMatrix:
    """Racks in their order, what is elsewhere last, and the bytes between each two; what nobody sent is left out."""

    racks: tuple[str, ...]
    cells: Mapping[tuple[str, str], RackCell]

    @property
    def bytes(self) -> int:
        """All bytes."""
        return sum(cell.bytes for cell in self.cells.values())


def rack_matrix(runs: Iterable[RunTraffic], places: Mapping[str, HostLocation], most: int | None = None) -> RackMatrix:
    """Return the matrix; of more racks than `most` those that moved least stand together as "N racks more"."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for moved in runs:
        for cell in moved.matrix.cells:
            ends = _rack(cell.from_, places), _rack(cell.to, places)
            sums[ends][0] += cell.bytes
            sums[ends][1] += cell.bytes if cell.basis != "tcp" else 0
    names = _folded({end for ends in sums for end in ends}, sums, most)
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for (here, there), (whole, estimated) in sums.items():
        ends = names[here], names[there]
        found[ends][0] += whole
        found[ends][1] += estimated
    racks = sorted(set(names.values()), key=lambda name: (name == ELSEWHERE, name.endswith(" racks more"), name))
    return RackMatrix(tuple(racks), {ends: RackCell(*amounts) for ends, amounts in found.items() if amounts[0]})


def _rack(end: str, places: Mapping[str, HostLocation]) -> str:
    place = places.get(end)
    return ELSEWHERE if place is None else place.rack or UNKNOWN_RACK


def _folded(racks: set[str], sums: Mapping[tuple[str, str], list[int]], most: int | None) -> dict[str, str]:
    """Return under which name each rack is shown."""
    if most is None or len(racks) <= most:
        return {rack: rack for rack in racks}
    moved: dict[str, int] = defaultdict(int)
    for (here, there), (whole, _) in sums.items():
        moved[here] += whole
        moved[there] += whole
    ranked = sorted(racks - {ELSEWHERE}, key=lambda rack: (-moved[rack], rack))
    shown, rest = ranked[: most - 2], ranked[most - 2 :]
    return {rack: rack for rack in (*shown, ELSEWHERE)} | dict.fromkeys(rest, f"{len(rest):,} racks more")


_HOSTS_MOST = 8
OTHERS = "others"
NO_FLOW = "no flow"
_NOWHERE = "no rack"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by sender with a cell for each column, None where nothing was moved. `left_out` counts columns not shown."""

    kind: str  # host or rack
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int | None, ...]], ...]
    left_out: int


def fold(traffic: RunTraffic, columns_most: int) -> Table:
    """Return the table: whom the run sent to and received from, what others did, and what no flow explains.

    Of more than eight hosts, or more than have room, it is by rack.
    """
    kind = "host" if len(traffic.hosts) <= min(_HOSTS_MOST, columns_most - 2) else "rack"
    names = {host.node: host.node if kind == "host" else host.place.rack or _NOWHERE for host in traffic.hosts}
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for cell in traffic.matrix.cells:
        sums[names.get(cell.from_, OTHERS), names.get(cell.to, OTHERS)] += cell.bytes
    for one in traffic.matrix.balances:
        rest = one.unattributed_bytes or 0
        sums[(names[one.node], NO_FLOW) if one.way == "out" else (NO_FLOW, names[one.node])] += rest
    ends = list(dict.fromkeys(names.values()))
    shown = ends[: max(1, columns_most - 2)]
    columns = (*shown, OTHERS, NO_FLOW)
    rows = tuple(
        (sender, tuple(sums.get((sender, to)) or None for to in columns)) for sender in (*ends, OTHERS, NO_FLOW)
    )
    return Table(kind, columns, rows, len(ends) - len(shown))
