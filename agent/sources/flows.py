"""TCP flows by run and peer, read unprivileged from the kernel's own socket tables: rows of `flow_samples`."""

import csv
import io
import ipaddress
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ConfigError, SourceError
from agent.procfs import difference, text
from agent.source import Reading, Row, Value
from agent.sources.network import LinkCounters, ports
from agent.sources.sockets import SOCKETS_MAX, CgroupRuns, Dump, Socket, neighbour_namespaces, tcp_sockets
from agent.sources.topology import MOST_NODES, read_text

_LOG = logging.getLogger(__name__)
# Addresses to node names: from a table of the site, else from /etc/hosts; never by a question to a name server.
_COLUMNS = ("address", "node")
_HOSTS = Path("/etc/hosts")

_Networks = dict[tuple[int, int], dict[int, str]]  # (bits of the address, of its prefix) to network number to node
_Stamp = tuple[int, int] | None  # when a file was changed, and its size


class Names:
    """Names of addresses and networks; the longest prefix wins, and of two equal ones the first."""

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        """Take (address or network, node) pairs.

        Raises:
            ValueError: a text is no address and no network, or there are too many.
        """
        self._networks: _Networks = {}
        for count, (address, node) in enumerate(entries):
            if count >= MOST_NODES:
                raise ValueError(f"there are more than {MOST_NODES} addresses")
            network = ipaddress.ip_network(address.strip(), strict=False)
            bits, prefix = network.max_prefixlen, network.prefixlen
            number = int(network.network_address) >> (bits - prefix)
            self._networks.setdefault((bits, prefix), {}).setdefault(number, node)
        self._lengths = sorted(self._networks, key=lambda length: -length[1])

    def name(self, address: bytes) -> str | None:
        """Return the node at a packed address, or None."""
        bits, number = 8 * len(address), int.from_bytes(address, "big")
        for length in self._lengths:
            if length[0] == bits and (node := self._networks[length].get(number >> (bits - length[1]))) is not None:
                return node
        return None


class Peers:
    """Names the host at the other end. Both files are read again when they change.

    Raises:
        ConfigError: the table cannot be read or understood. Once it was, a broken one is logged, and the last good
            one stays.
    """

    def __init__(self, table: Path | None = None, hosts: Path = _HOSTS) -> None:
        self._table = table
        self._hosts = hosts
        self._stamps: tuple[_Stamp, _Stamp] = (None, None)
        self._listed = Names([]) if table is None else read_peers(table)
        self._hosted = Names([])
        self._stamps = (_stamp(table), None)
        self.refresh()

    def refresh(self) -> None:
        """Read again what has changed."""
        table, hosts = _stamp(self._table), _stamp(self._hosts)
        if table != self._stamps[0] and self._table is not None:
            try:
                self._listed = read_peers(self._table)
            except ConfigError as error:
                _LOG.warning("%s; the last good table stays", error)
        if hosts != self._stamps[1]:
            self._hosted = Names(hosts_entries(text(self._hosts) or ""))
        self._stamps = (table, hosts)

    def node(self, address: bytes) -> str | None:
        """Return the node at a packed address, or None where no file names it."""
        return self._listed.name(address) or self._hosted.name(address)


def address_text(address: bytes) -> str:
    """Return a packed address as people write it."""
    return str(ipaddress.ip_address(address))


def read_peers(path: Path) -> Names:
    """Read a CSV table of address-or-network,node.

    Raises:
        ConfigError: it cannot be read, has other columns, or holds what is no address.
    """
    reader = csv.DictReader(io.StringIO(read_text(path)), skipinitialspace=True)
    try:
        if not set(_COLUMNS) <= {name.strip() for name in reader.fieldnames or ()}:
            raise ConfigError(f"{path} has no columns {','.join(_COLUMNS)}; add that header line")
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        return Names(_pairs(reader))
    except (ValueError, csv.Error) as error:
        raise ConfigError(f"{path}, line {reader.line_num}: {error}") from error


def _pairs(rows: Iterable[Mapping[str, str | None]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        address, node = ((row.get(column) or "").strip() for column in _COLUMNS)
        if address and node:
            yield address, node


def hosts_entries(hosts: str) -> Iterator[tuple[str, str]]:
    """Yield (address, node) of the lines of /etc/hosts, as far as they name other hosts.

    Of several names the first without a dot is taken: schedulers mostly call hosts by their short names.
    Source: hosts(5).
    """
    for count, line in enumerate(hosts.splitlines()):
        address, *names = line.partition("#")[0].split() or [""]
        if count >= MOST_NODES or not names:
            continue
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            continue
        if not (parsed.is_loopback or parsed.is_multicast or parsed.is_unspecified):
            yield str(parsed).partition("%")[0], next((name for name in names if "." not in name), names[0])


def _stamp(path: Path | None) -> _Stamp:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found else None


# How much each connection moved between two readings of the socket tables.
_RETRANSMITS_WRAP = 2**32  # tcpi_total_retrans has 32 bits


@dataclass(frozen=True, slots=True)
class MovedBytes:
    """What was moved within an interval: bytes each way, and segments sent again."""

    receive_bytes: int = 0
    transmit_bytes: int = 0
    retransmits: int = 0

    def __add__(self, other: "MovedBytes") -> "MovedBytes":
        return MovedBytes(
            self.receive_bytes + other.receive_bytes,
            self.transmit_bytes + other.transmit_bytes,
            self.retransmits + other.retransmits,
        )

    @property
    def bytes(self) -> int:
        """Bytes both ways."""
        return self.receive_bytes + self.transmit_bytes


class SocketMeter:
    """Remembers what each connection had moved when it was last seen.

    A connection that is new has moved all that it says within the interval. The list is not taken in one moment,
    and can miss a connection that is there: one that vanished is remembered for a second reading, so that it does
    not come back as new with all that it ever moved.
    """

    def __init__(self) -> None:
        self._last: dict[int, Socket] = {}
        self._before: dict[int, Socket] = {}
        self._complete = False  # whether the last reading saw all there was, so that a stranger is new

    def moved(self, dump: Dump) -> dict[int, MovedBytes]:
        """Return by cookie what each connection moved since the last reading.

        Left out are those of which it is not known: all in the first reading, and strangers after one that could
        not look at every connection.
        """
        found: dict[int, MovedBytes] = {}
        for cookie, now in dump.sockets.items():
            before = self._last.get(cookie) or self._before.get(cookie)
            if before is not None:
                found[cookie] = socket_difference(before, now)
            elif self._complete:
                found[cookie] = MovedBytes(now.received_bytes, now.acked_bytes, now.retransmits)
        self._before, self._last = self._last, dump.sockets
        self._complete = dump.left_out == 0
        return found


def socket_difference(before: Socket, now: Socket) -> MovedBytes:
    """Return what a connection moved between two sights of it.

    A socket that was disconnected and connected anew keeps its cookie and starts at 0: what it says is then new.
    """
    if now.received_bytes < before.received_bytes or now.acked_bytes < before.acked_bytes:
        return MovedBytes(now.received_bytes, now.acked_bytes, now.retransmits)
    return MovedBytes(
        now.received_bytes - before.received_bytes,
        now.acked_bytes - before.acked_bytes,
        (now.retransmits - before.retransmits) % _RETRANSMITS_WRAP,
    )


# RDMA by peer, estimated: what the ports moved, shared out over the hosts that the run talks to over TCP.
#
# Nothing on a host tells what a queue pair moved to whom without root. But the libraries that use RDMA find each other
# over TCP and keep those connections open, and so the run's peers are known, if not their shares.
@dataclass(frozen=True, slots=True)
class Estimate:
    """What each (run, peer) is estimated to have moved; `why` says why nothing is, and is empty where something is."""

    moved: Mapping[tuple[str, str], MovedBytes]
    why: str = ""


class PortMeter:
    """Remembers what the RDMA ports had moved."""

    def __init__(self, sys: Path) -> None:
        self.ports = 0
        self._sys = sys
        self._last: dict[str, LinkCounters] = {}

    def moved(self) -> MovedBytes | None:
        """Return what all ports moved since the last reading, or None where any of them does not tell."""
        now = ports(self._sys)
        last, self._last, self.ports = self._last, now, len(now)
        total = MovedBytes()
        for name, counters in now.items():
            before = last.get(name, LinkCounters(None, None, None, None))
            received = difference(before.receive_bytes, counters.receive_bytes)
            sent = difference(before.transmit_bytes, counters.transmit_bytes)
            if received is None or sent is None:
                return None
            total += MovedBytes(received, sent)
        return total


def estimate(moved: MovedBytes | None, peers: Mapping[str, Sequence[str]]) -> Estimate:
    """Return the ports' bytes shared out equally over the nodes that the one run of this host is connected to.

    `peers` are those nodes by run. The ports count for the host as a whole, and nothing tells two runs apart.
    """
    if moved is None:
        return Estimate({}, "a port does not report what it moved")
    talking = {run: nodes for run, nodes in peers.items() if nodes}
    if not talking:
        return Estimate({}, "no run is connected to a host with a known name; add names in agent.peers_table")
    if len(talking) > 1:
        return Estimate({}, f"{len(talking)} runs share the ports, and their traffic cannot be separated")
    run, nodes = next(iter(talking.items()))
    names = sorted(set(nodes))
    received, sent = equal_parts(moved.receive_bytes, len(names)), equal_parts(moved.transmit_bytes, len(names))
    return Estimate(
        {
            (run, name): MovedBytes(into, out)
            for name, into, out in zip(names, received, sent, strict=True)
            if into or out
        }
    )


def equal_parts(whole: int, parts: int) -> list[int]:
    """Return a number in equal whole parts that sum to it; the first ones are greater by one where it must be."""
    each, rest = divmod(whole, parts)
    return [each + 1] * rest + [each] * (parts - rest)


ROWS_MAX = 64  # (run, peer) pairs that are told one by one at a reading
OTHER = "other"  # all peers of a run beyond those

_Flows = Mapping[tuple[str, str], MovedBytes]  # by run and peer


def flow_rows(counted: _Flows, estimated: _Flows) -> list[Row]:
    """Return the rows of `flow_samples`. A pair that moved nothing has none."""
    told = [_row(pair, moved, "tcp") | {"retransmits": moved.retransmits} for pair, moved in largest(counted).items()]
    return [*told, *(_row(pair, moved, "rdma_estimate") for pair, moved in largest(estimated).items())]


def largest(flows: _Flows) -> dict[tuple[str, str], MovedBytes]:
    """Return the pairs that moved most, and in one pair a run what all its others moved."""
    moving = {pair: moved for pair, moved in flows.items() if moved != MovedBytes()}
    ranked = sorted(moving, key=lambda pair: (-moving[pair].bytes, pair))
    kept = {pair: moving[pair] for pair in ranked[:ROWS_MAX]}
    for pair in ranked[ROWS_MAX:]:
        others = (pair[0], OTHER)
        kept[others] = kept.get(others, MovedBytes()) + moving[pair]
    return kept


def _row(pair: tuple[str, str], moved: MovedBytes, transport: str) -> dict[str, Value]:
    return {
        "run_id": pair[0],
        "peer": pair[1],
        "transport": transport,
        "receive_bytes": moved.receive_bytes,
        "transmit_bytes": moved.transmit_bytes,
    }


_PERIOD_SECONDS = 10.0
_LOOPBACK_4 = b"\x7f"  # 127.0.0.0/8
_LOOPBACK_6 = bytes(15) + b"\x01"


def _unattributed(node: str) -> str:
    """Return the run id of what no run of this host is known to have moved. It holds no GPU, and never may."""
    return f"unattributed/{node}"


class FlowSource:
    """Reads the TCP connections of the agent's own network namespace, and estimates RDMA by peer.

    `run_of` turns the text of a cgroup file into a run id, or None. Connections within this host are left out. One
    that began and ended between two readings is not seen, and of one that ended, what it moved since the last
    reading. `sockets_left_out` and `pairs_summed` count what the last reading did not tell one by one.
    """

    name = "flow"

    def __init__(
        self,
        node: str,
        run_of: Callable[[str], str | None],
        peers: Peers,
        sys: Path = Path("/sys"),
        period_seconds: float = _PERIOD_SECONDS,
        dump: Callable[[], Dump] = tcp_sockets,
        neighbours: Callable[[], int] = neighbour_namespaces,
    ) -> None:
        self.period_seconds = period_seconds
        self.sockets_left_out = 0
        self.pairs_summed = 0
        self._nobody = _unattributed(node)
        self._cgroups = CgroupRuns(sys, run_of)
        self._peers = peers
        self._meter = SocketMeter()
        self._ports = PortMeter(sys)
        self._dump = dump
        self._neighbours = neighbours
        self._estimate = Estimate({})

    def read(self) -> Reading:
        """Return a row per run and peer that moved something since the last reading; the first one tells nothing.

        Raises:
            SourceError: the kernel does not list its sockets.
        """
        dump = self._dump()
        self._peers.refresh()
        moved, ports = self._meter.moved(dump), self._ports.moved()
        runs = self._runs(dump)
        names: dict[bytes, str] = {}
        flows: defaultdict[tuple[str, str], MovedBytes] = defaultdict(MovedBytes)
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        for cookie, one in abroad(dump).items():
            run, node = runs.get(cookie), self._peers.node(one.peer)
            if run is not None and node is not None:
                nodes[run].add(node)
            if cookie in moved:
                peer = names.setdefault(one.peer, node or address_text(one.peer))
                flows[run or self._nobody, peer] += moved[cookie]
        self._estimate = estimate(ports, {run: sorted(found) for run, found in nodes.items()})
        self.sockets_left_out = dump.left_out
        self.pairs_summed = max(0, sum(amount != MovedBytes() for amount in flows.values()) - ROWS_MAX)
        return {"flow_samples": flow_rows(flows, self._estimate.moved)}

    def _runs(self, dump: Dump) -> dict[int, str]:
        """Return the run of each connection that belongs to one, by cookie."""
        runs = self._cgroups.runs({one.cgroup for one in dump.sockets.values() if one.cgroup is not None})
        return {
            cookie: runs[one.cgroup]
            for cookie, one in dump.sockets.items()
            if one.cgroup is not None and one.cgroup in runs
        }

    def coverage(self) -> list[str]:
        """Return what of this host's traffic is not seen, in words. To be asked after a reading."""
        lines = [f"connections shorter than {self.period_seconds:g} s are seen partly or not at all"]
        try:
            if others := self._neighbours():
                lines.append(f"{others} other network namespaces (pods, containers) cannot be seen without privileges")
        except SourceError as error:
            lines.append(f"whether there are other network namespaces is not known: {error}")
        if self.sockets_left_out:
            lines.append(f"{self.sockets_left_out} connections beyond the first {SOCKETS_MAX} are not seen")
        if self.pairs_summed:
            lines.append(f"{self.pairs_summed} pairs of run and peer are reported as peer=other")
        lines += self._cgroups.coverage()
        if self._ports.ports and self._estimate.why:
            lines.append(f"RDMA is not reported by peer: {self._estimate.why}")
        return lines


def abroad(dump: Dump) -> dict[int, Socket]:
    """Return the connections that leave this host: those to an address that is not one of its own."""
    own = {one.local for one in dump.sockets.values()}
    return {
        cookie: one
        for cookie, one in dump.sockets.items()
        if one.peer not in own
        and one.peer != _LOOPBACK_6
        and not (len(one.peer) == 4 and one.peer.startswith(_LOOPBACK_4))
    }
