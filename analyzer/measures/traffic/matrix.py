"""Who sent how much to whom: places and how far apart they are, rings of ranks, and the sources of the figures.

What hosts tell of flows is held against what their links carried: of each host, link and way, what the matrix says,
what other runs' flows say and what nobody explains sum to the links' bytes, to the byte. Integers; same rows, same
matrix.

A class says the widest border that is known to be crossed. What is not known to stay within a rack is never said to.

A ring over N hosts has N links, each of which carries the same. How many of them leave a rack depends on the order of
the ranks alone: one for each rack where racks stand together, up to N where they alternate.

Views of this session alone, with one name and the same columns whatever they are made of. A tier's row holds for its
whole bucket: at the edges of a run its first and last minute are cut by time, as a sample would be; and where minutes
have expired, its first and last hour.
"""

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from agent.wire.units import HOUR_US
from collector.lake.tiers import Span, kept_from
from collector.store.session import Session, literal
from collector.tier_tables import SIZES, Tiered, tiered

Locality = Literal[
    "gpu_link",
    "rack",
    "across_racks",
    "across_blocks",
    "across_zones",
    "across_regions",
    "outside",
    "internet",
    "unknown",
]
LOCALITIES: tuple[Locality, ...] = get_args(Locality)  # from near to far, then what is not known
_ANOTHER = "other"  # the agent's name for all peers beyond those that it tells one by one


@dataclass(frozen=True, slots=True)
class HostLocation:
    """Where a host stands; None is unknown."""

    rack: str | None = None
    block: str | None = None
    zone: str | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True)
class ClassBytes:
    """Bytes of one class, each counted once, and how many of them are estimated and not counted."""

    locality: Locality
    bytes: int
    estimated_bytes: int


_BORDERS: tuple[tuple[str, Locality], ...] = (
    ("region", "across_regions"),
    ("zone", "across_zones"),
    ("block", "across_blocks"),
    ("rack", "across_racks"),
)


def between(here: HostLocation, there: HostLocation) -> Locality:
    """Return how far apart two hosts of the fleet are: the widest border known to lie between them."""
    for part, locality in _BORDERS:
        one, other = getattr(here, part), getattr(there, part)
        if one is not None and other is not None and one != other:
            return locality
    return "rack" if here.rack is not None and here.rack == there.rack else "unknown"


def locality(here: str, there: str, places: Mapping[str, HostLocation]) -> Locality:
    """Return how far bytes between two ends went.

    An end that is outside the fleet is outside (a file server, another site: whatever has a name or a private
    address), in the internet (an address that anybody may route to, an object store's as well), or unknown.
    """
    strangers = [end for end in (here, there) if end not in places]
    if not strangers:
        return between(places[here], places[there])
    found = {_stranger(end) for end in strangers}
    return "unknown" if "unknown" in found else "internet" if "internet" in found else "outside"


def _stranger(peer: str) -> Locality:
    if peer == _ANOTHER:
        return "unknown"
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return "outside"
    return "internet" if address.is_global else "outside"


def by_class(parts: Iterable[tuple[Locality, int, bool]]) -> tuple[ClassBytes, ...]:
    """Return (class, bytes, estimated) added up by class, from near to far; classes without bytes are left out."""
    sums: dict[Locality, tuple[int, int]] = {}
    for where, amount, estimated in parts:
        whole, guessed = sums.get(where, (0, 0))
        sums[where] = (whole + amount, guessed + (amount if estimated else 0))
    return tuple(ClassBytes(where, *sums[where]) for where in LOCALITIES if sums.get(where, (0, 0))[0])


LEVELS = ("rack", "block", "zone")


@dataclass(frozen=True, slots=True)
class Ring:
    """How often a ring crosses one kind of place: as it is, at best, and at worst.

    `crossings` is None where it cannot be told; `missing` then says why, in words.
    """

    level: str  # rack, block or zone
    hosts: int
    places: int | None
    crossings: int | None
    contiguous: int | None
    interleaved: int | None
    missing: str | None = None


def ring(level: str, hosts: Sequence[str], places: Mapping[str, str | None]) -> Ring:
    """Return how often a ring of these hosts, in the order of their ranks, changes its rack, block or zone."""
    order = [places.get(host) for host in hosts]
    lacking = [host for host, place in zip(hosts, order, strict=True) if place is None]
    if lacking:
        more = f" and of {len(lacking) - 1} more" if len(lacking) > 1 else ""
        return Ring(level, len(hosts), None, None, None, None, f"the {level} of {lacking[0]}{more} is unknown")
    known = [place for place in order if place is not None]
    counts = tuple(Counter(known).values())
    return Ring(level, len(hosts), len(counts), crossings(known), contiguous(counts), interleaved(counts))


def crossings(order: Sequence[str]) -> int:
    """Return how many of a ring's links lead from one place to another; the last host's leads to the first."""
    return sum(here != there for here, there in zip(order, [*order[1:], *order[:1]], strict=True))


def contiguous(counts: Sequence[int]) -> int:
    """Return the fewest crossings of a ring with so many hosts in each place: one for each place, none in one alone."""
    return len(counts) if len(counts) > 1 else 0


def interleaved(counts: Sequence[int]) -> int:
    """Return the most crossings of a ring with so many hosts in each place.

    All links cross while no place has more than half the hosts; else each of the others stands between two of it.
    """
    whole, largest = sum(counts), max(counts, default=0)
    return whole if 2 * largest <= whole else 2 * (whole - largest)


def next_hosts(hosts: Sequence[str]) -> dict[str, str]:
    """Return to whom each host of a ring sends; of one host alone nobody."""
    return dict(zip(hosts, [*hosts[1:], *hosts[:1]], strict=True)) if len(hosts) > 1 else {}


# Counted by flow; a host's RDMA ports, all to the next host by rank; the agent's own estimate, in equal parts by peer.
Basis = Literal["tcp", "ring", "peers"]
Link = Literal["ethernet", "rdma"]
Way = Literal["out", "in"]
_OTHER = "other"
_DOUBTFUL_PERCENT = 1  # an estimate and a counter never agree to the byte


@dataclass(frozen=True, slots=True)
class RingSeat:
    """One host of one attempt: its first rank, None where unknown, and for how long other runs were there too."""

    node: str
    attempt: int
    rank: int | None
    held_us: int
    shared_us: int


@dataclass(frozen=True, slots=True)
class LinkBytes:
    """What the links of one kind carried on one host while the run was there; None where no link told."""

    node: str
    attempt: int
    is_shared: bool
    is_rdma: bool
    receive_bytes: int | None
    transmit_bytes: int | None


@dataclass(frozen=True, slots=True)
class FlowBytes:
    """What one host told of one peer of this run; of other runs on it `peer` is None."""

    node: str
    attempt: int
    is_own: bool
    is_rdma: bool
    peer: str | None
    receive_bytes: int
    transmit_bytes: int


@dataclass(frozen=True, slots=True)
class Cell:
    """Bytes from one end to another. Ends are hosts, or peers as the agent names them."""

    from_: str
    to: str
    bytes: int
    basis: Basis


@dataclass(frozen=True, slots=True)
class Balance:
    """One host's links of one kind, one way: told + other runs' + unattributed - excess = the links' bytes.

    Where no link told, what is unattributed is unknown too. An excess says that flows or links must be wrong.
    """

    node: str
    link: Link
    way: Way
    link_bytes: int | None
    told_bytes: int
    other_runs_bytes: int | None  # None, as is what follows from it, where others' traffic is not for whoever asks
    unattributed_bytes: int | None
    excess_bytes: int | None

    @property
    def is_doubtful(self) -> bool:
        """Whether flows say more than the links by more than estimates differ."""
        if self.link_bytes is None or self.excess_bytes is None:
            return False
        return self.excess_bytes * 100 > self.link_bytes * _DOUBTFUL_PERCENT


@dataclass(frozen=True, slots=True)
class Matrix:
    """Cells by their ends, balances by host; both in order of their names."""

    cells: tuple[Cell, ...]
    balances: tuple[Balance, ...]


def rings(seats: Sequence[RingSeat]) -> dict[int, tuple[str, ...]]:
    """Return the hosts of each attempt in the order of their ranks; without the attempts of which not all is known."""
    attempts: dict[int, list[RingSeat]] = defaultdict(list)
    for seat in seats:
        attempts[seat.attempt].append(seat)
    found = {}
    for attempt, there in sorted(attempts.items()):
        order = {seat.rank: seat.node for seat in there if seat.rank is not None}
        if len(order) == len(there):
            found[attempt] = tuple(order[rank] for rank in sorted(order))
    return found


def matrix(seats: Sequence[RingSeat], links: Sequence[LinkBytes], flows: Sequence[FlowBytes]) -> Matrix:
    """Return who sent what to whom, and what the hosts' links carried beside it."""
    hosts = frozenset(seat.node for seat in seats)
    ringed = {attempt: next_hosts(order) for attempt, order in rings(seats).items() if len(order) > 1}
    own = [row for row in flows if row.is_own]
    cells = [
        *_of_flows([row for row in own if not row.is_rdma], hosts, "tcp"),
        *_of_ports(links, ringed),
        *_of_flows([row for row in own if row.is_rdma and row.attempt not in ringed], hosts, "peers"),
    ]
    ordered = tuple(sorted(cells, key=lambda cell: (cell.from_, cell.to, cell.basis)))
    return Matrix(ordered, tuple(_balances(hosts, ordered, links, flows)))


def _of_flows(rows: Sequence[FlowBytes], hosts: frozenset[str], basis: Basis) -> list[Cell]:
    """Return the cells that flows make: by the sender's word, and where it said nothing of a pair, the receiver's.

    Both ends count the same bytes, and each may miss some; added up they would count twice. A sender with more peers
    than it tells one by one may have told the pair among its others.
    """
    sent: dict[tuple[str, str], int] = defaultdict(int)
    received: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        if row.peer is not None:
            sent[row.node, row.peer] += row.transmit_bytes
            received[row.peer, row.node] += row.receive_bytes
    alone = {
        (sender, receiver): amount
        for (sender, receiver), amount in received.items()
        if sender not in hosts or not (sent.get((sender, receiver)) or sent.get((sender, _OTHER)))
    }
    return [Cell(*ends, amount, basis) for ends, amount in (sent | alone).items() if amount]


def _of_ports(links: Sequence[LinkBytes], ringed: Mapping[int, Mapping[str, str]]) -> list[Cell]:
    """Return the cells of a ring: what a host's RDMA ports sent while it was the run's alone, to the next by rank."""
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for row in links:
        receiver = ringed.get(row.attempt, {}).get(row.node)
        if row.is_rdma and not row.is_shared and receiver is not None:
            sums[row.node, receiver] += row.transmit_bytes or 0
    return [Cell(*ends, amount, "ring") for ends, amount in sums.items() if amount]


def _balances(
    hosts: frozenset[str], cells: Iterable[Cell], links: Iterable[LinkBytes], flows: Iterable[FlowBytes]
) -> Iterable[Balance]:
    carried = _carried(links)
    told: dict[tuple[str, Link, Way], int] = defaultdict(int)
    for cell in cells:
        link: Link = "ethernet" if cell.basis == "tcp" else "rdma"
        told[cell.from_, link, "out"] += cell.bytes
        told[cell.to, link, "in"] += cell.bytes
    others: dict[tuple[str, Link, Way], int] = defaultdict(int)
    for row in flows:
        if not row.is_own:
            others[row.node, _link(row.is_rdma), "out"] += row.transmit_bytes
            others[row.node, _link(row.is_rdma), "in"] += row.receive_bytes
    known = {key for key in (*carried, *told, *others) if key[0] in hosts}
    for key in sorted(known):
        yield _balance(key, carried.get(key), told[key], others[key])


def _carried(links: Iterable[LinkBytes]) -> dict[tuple[str, Link, Way], int]:
    sums: dict[tuple[str, Link, Way], int] = defaultdict(int)
    for row in links:
        if row.transmit_bytes is not None:
            sums[row.node, _link(row.is_rdma), "out"] += row.transmit_bytes
        if row.receive_bytes is not None:
            sums[row.node, _link(row.is_rdma), "in"] += row.receive_bytes
    return sums


def _link(is_rdma: bool) -> Link:
    return "rdma" if is_rdma else "ethernet"


def _balance(key: tuple[str, Link, Way], carried: int | None, told: int, others: int) -> Balance:
    if carried is None:
        return Balance(*key, None, told, others, None, 0)
    rest = carried - told - others
    return Balance(*key, carried, told, others, max(0, rest), max(0, -rest))


# The view, the table of the contract, its columns as they are, and what its columns of bytes begin with.
_VIEWS: tuple[tuple[str, str, str, str], ...] = (
    ("traffic_links", "network_samples", "link_kind", ""),
    ("traffic_flows", "flow_samples", "run_id, peer, transport", ""),
    ("traffic_gpus", "gpu_samples", "gpu_uuid", "nvlink_"),
)


def add_views(session: Session, nodes: Sequence[str], from_us: int, until_us: int, *, from_tiers: bool) -> None:
    """Make the three views over these hosts' bytes in a span of time; traffic_edges must be there."""
    names = ", ".join(map(literal, nodes)) or "NULL"  # written out: files that hold none of them are then not read
    span = Span(from_us, until_us)
    for view, table, columns, prefix in _VIEWS:
        source = tiered(table)
        ways = [f"{prefix}{way}_bytes AS {way}_bytes" for way in ("receive", "transmit")]
        taken = ", ".join(["node", columns, *ways])
        parts = _of_tiers(session, source, span) if from_tiers else [_rows(table, "ended_at", span)]
        selects = [f"SELECT {taken}, {part} AND node IN ({names})" for part in parts]
        session.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {' UNION ALL '.join(selects)}")


def _of_tiers(session: Session, source: Tiered, span: Span) -> Iterator[str]:
    """Yield the rest of a query for each size of tier: its times, its table, and which of its rows."""
    minutes_from = kept_from(session, [source.name("minutes")])
    in_edges = f"(node, started_at // {HOUR_US} * {HOUR_US}) IN (SELECT (node, hour) FROM traffic_edges)"
    coarse = f"(started_at < {minutes_from} OR NOT {in_edges})"
    fine = f"started_at >= {minutes_from} AND {in_edges}"
    for size, which in (("hours", coarse), ("minutes", fine)):
        yield f"{_rows(source.name(size), f'started_at + {SIZES[size]}', span)} AND {which}"


def _rows(table: str, ended_at: str, span: Span) -> str:
    return f"""started_at, {ended_at} AS ended_at, {span.start} AS part_from, {span.end} AS part_until FROM {table}
        WHERE started_at < {span.end} AND {ended_at} > {span.start}"""
