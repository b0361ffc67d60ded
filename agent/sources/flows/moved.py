"""How much each connection moved between two readings of the socket tables."""

from dataclasses import dataclass

from agent.sources.flows.sockets import Dump, Socket

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


class Meter:
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
                found[cookie] = difference(before, now)
            elif self._complete:
                found[cookie] = MovedBytes(now.received_bytes, now.acked_bytes, now.retransmits)
        self._before, self._last = self._last, dump.sockets
        self._complete = dump.left_out == 0
        return found


def difference(before: Socket, now: Socket) -> MovedBytes:
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
