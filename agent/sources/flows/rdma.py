"""RDMA by peer, estimated: what the ports moved, shared out over the hosts that the run talks to over TCP.

Nothing on a host tells what a queue pair moved to whom without root. But the libraries that use RDMA find each other
over TCP and keep those connections open, and so the run's peers are known, if not their shares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.procfs import difference
from agent.sources.flows.moved import MovedBytes
from agent.sources.network.links import LinkCounters
from agent.sources.network.ports import ports


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
        return Estimate({}, "a port does not tell what it moved")
    talking = {run: nodes for run, nodes in peers.items() if nodes}
    if not talking:
        return Estimate({}, "no run is connected to a host whose name is known; name them in agent.peers_table")
    if len(talking) > 1:
        return Estimate({}, f"{len(talking)} runs share the ports, and nothing tells them apart")
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
