from hypothesis import given
from hypothesis import strategies as st

from agent.sources.flows import MovedBytes, SocketMeter, socket_difference
from agent.sources.sockets import Dump, Socket

AMOUNTS = st.integers(0, 2**63)


def connection(cookie: int = 1, received: int = 0, acked: int = 0, retransmits: int = 0) -> Socket:
    """Return a connection that has moved so much."""
    return Socket(cookie, b"\n\0\0\1", b"\n\0\0\2", None, received, acked, retransmits)


def dump(*sockets: Socket, left_out: int = 0) -> Dump:
    """Return a reading of these connections."""
    return Dump({one.cookie: one for one in sockets}, left_out)


def test_what_was_moved_before_the_agent_came_is_nobodys() -> None:
    """A connection of last week has terabytes behind it, and they are of no interval."""
    assert SocketMeter().moved(dump(connection(received=10**12))) == {}


def test_a_new_connection_counts_from_nothing() -> None:
    """All that it says was moved since the last reading, at which it was not there."""
    meter = SocketMeter()
    meter.moved(dump())
    assert meter.moved(dump(connection(received=5, acked=7, retransmits=1))) == {1: MovedBytes(5, 7, 1)}


def test_an_old_connection_counts_from_where_it_was() -> None:
    """Amounts are of the interval."""
    meter = SocketMeter()
    meter.moved(dump(connection(received=5, acked=7)))
    assert meter.moved(dump(connection(received=15, acked=8, retransmits=2))) == {1: MovedBytes(10, 1, 2)}


def test_a_connection_that_was_missed_once_is_not_new() -> None:
    """The kernel's list is no one moment: a socket that moves in its table meanwhile is left out of it."""
    meter = SocketMeter()
    meter.moved(dump(connection(received=10**12)))
    meter.moved(dump())
    assert meter.moved(dump(connection(received=10**12 + 5))) == {1: MovedBytes(5, 0, 0)}


def test_a_stranger_after_a_reading_that_was_cut_short_is_not_new() -> None:
    """It may have been there all the time, beyond the bound, with terabytes behind it."""
    meter = SocketMeter()
    meter.moved(dump(left_out=1))
    assert meter.moved(dump(connection(received=10**12))) == {}
    assert meter.moved(dump(connection(received=10**12 + 5))) == {1: MovedBytes(5, 0, 0)}


def test_a_socket_that_was_connected_anew_counts_from_nothing() -> None:
    """It keeps its cookie, and its counters start at 0."""
    assert socket_difference(connection(received=100, acked=100), connection(received=3, acked=200)) == MovedBytes(
        3, 200, 0
    )


def test_retransmits_pass_their_32_bits() -> None:
    """The counter has 32 bits and goes on from 0."""
    assert socket_difference(connection(retransmits=2**32 - 1), connection(retransmits=2)).retransmits == 3


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_nothing_moves_backwards(a: int, b: int, c: int, d: int, e: int, f: int) -> None:
    """A negative amount would take from what others moved."""
    moved = socket_difference(connection(1, a, b, e), connection(1, c, d, f))
    assert min(moved.receive_bytes, moved.transmit_bytes, moved.retransmits) >= 0


@given(st.lists(AMOUNTS, min_size=2, max_size=6).map(sorted))
def test_intervals_sum_to_the_whole(levels: list[int]) -> None:
    """However often it is read, no byte is counted twice or forgotten."""
    meter = SocketMeter()
    meter.moved(dump(connection(received=levels[0])))
    told = [meter.moved(dump(connection(received=level)))[1].receive_bytes for level in levels[1:]]
    assert sum(told) == levels[-1] - levels[0]
