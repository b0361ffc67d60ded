"""The matrix of a run: who sent how much to whom, as flows count it and RDMA ports let it be estimated, and the rest.

What hosts tell of flows is held against what their links carried: of each host, link and way, what the matrix says,
what other runs' flows say and what nobody explains sum to the links' bytes, to the byte. Integers; same rows, same
matrix.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analyzer.measures.traffic.ring import next_hosts

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
