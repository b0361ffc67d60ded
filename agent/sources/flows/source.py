"""Read what each run of this host moves to and from each peer: rows of `flow_samples`."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from agent.errors import SourceError
from agent.source import Reading
from agent.sources.flows.moved import Meter, MovedBytes
from agent.sources.flows.namespaces import neighbour_namespaces
from agent.sources.flows.peers import Peers, address_text
from agent.sources.flows.rdma import Estimate, PortMeter, estimate
from agent.sources.flows.rows import ROWS_MAX, flow_rows
from agent.sources.flows.sockets import SOCKETS_MAX, Dump, Socket, tcp_sockets
from agent.sources.sockets.cgroups import CgroupRuns

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
        self._meter = Meter()
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
        lines = [f"connections that last less than {self.period_seconds:g} s are seen in part or not at all"]
        try:
            if others := self._neighbours():
                lines.append(f"{others} other network namespaces (pods, containers) are not seen without privilege")
        except SourceError as error:
            lines.append(f"whether there are other network namespaces is not known: {error}")
        if self.sockets_left_out:
            lines.append(f"{self.sockets_left_out} connections beyond the first {SOCKETS_MAX} are not seen")
        if self.pairs_summed:
            lines.append(f"{self.pairs_summed} pairs of run and peer are told as peer=other")
        lines += self._cgroups.coverage()
        if self._ports.ports and self._estimate.why:
            lines.append(f"RDMA is not told by peer: {self._estimate.why}")
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
