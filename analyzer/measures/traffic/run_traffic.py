"""What is known of one run's traffic: how far its bytes went, how its ring lies, what that costs, what is doubtful."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analyzer.measures.traffic.locality import ClassBytes, HostLocation, Locality, by_class, locality
from analyzer.measures.traffic.matrix import Balance, FlowBytes, LinkBytes, Matrix, RingSeat, matrix, rings
from analyzer.measures.traffic.ring import LEVELS, Ring, ring
from analyzer.measures.traffic.tariff import Bill, Prices
from analyzer.text.words import bytes_words

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
        found.append("no flows were told")
    silent = [host.node for host in hosts if host.node not in {row.node for row in links}]
    if silent:
        found.append(f"no links were told on {_named(silent)}")
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
