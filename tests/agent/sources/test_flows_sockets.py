import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import SourceError
from agent.sources.sockets import (
    DATAGRAM_BYTES,
    INET_DIAG_CGROUP_ID,
    INET_DIAG_INFO,
    SOCKETS_MAX,
    Socket,
    attributes,
    listing,
    messages,
    neighbour_namespaces,
    socket_of,
    tcp_sockets,
)
from tests.agent.sources.flows_wire import attribute, inet_diag, message, packed, tcp_info


def described(received: int = 5, acked: int = 7, retransmits: int = 1) -> bytes:
    """Return the attributes of a connection of cgroup 42."""
    return attribute(INET_DIAG_INFO, tcp_info(received, acked, retransmits)) + attribute(
        INET_DIAG_CGROUP_ID, struct.pack("=Q", 42)
    )


def test_a_socket_tells_its_peer_its_cgroup_and_its_bytes() -> None:
    """These are all that is kept of it: no port, no user, no inode leaves this function."""
    body = inet_diag("10.0.0.1", "10.0.0.2", 9, attribute(8, b"\0"), described())
    assert socket_of(body) == Socket(9, packed("10.0.0.1"), packed("10.0.0.2"), 42, 5, 7, 1)


def test_an_ipv4_peer_of_an_ipv6_socket_is_that_peer() -> None:
    """Java and Go listen on IPv6 alone; a peer under two names would be two peers."""
    found = socket_of(inet_diag("::ffff:10.0.0.1", "::ffff:10.0.0.2", 9, described()))
    assert found is not None
    assert (found.local, found.peer) == (packed("10.0.0.1"), packed("10.0.0.2"))
    six = socket_of(inet_diag("fd00::1", "fd00::2", 9, described()))
    assert six is not None
    assert six.peer == packed("fd00::2")


def test_a_kernel_without_cgroups_of_sockets_tells_the_rest() -> None:
    """Before Linux 5.8 there is no such attribute: the bytes are then of no known run."""
    found = socket_of(inet_diag("10.0.0.1", "10.0.0.2", 9, attribute(INET_DIAG_INFO, tcp_info(5, 7, 1))))
    assert found is not None
    assert found.cgroup is None


@pytest.mark.parametrize("told", [b"", attribute(INET_DIAG_INFO, tcp_info(1, 2, 3, size=104))])
def test_a_socket_without_byte_counters_is_none(told: bytes) -> None:
    """A socket in TIME_WAIT has none, and a kernel before 4.2 has shorter ones: unknown, not 0."""
    assert socket_of(inet_diag("10.0.0.1", "10.0.0.2", 9, told)) is None


@given(st.binary(max_size=400))
def test_whatever_the_kernel_says_is_a_socket_nothing_or_a_value_error(body: bytes) -> None:
    """A kernel from the future must not end a daemon."""
    with contextlib.suppress(ValueError):
        found = socket_of(body)
        if found is not None:
            assert min(found.received_bytes, found.acked_bytes, found.retransmits) >= 0
            assert len(found.peer) in (4, 16)


@given(st.binary(max_size=200), st.integers(0, 220))
def test_lengths_that_lie_end_no_loop(datagram: bytes, offset: int) -> None:
    """A length of 0 would be read for ever."""
    with contextlib.suppress(ValueError):
        assert len(list(messages(datagram))) <= len(datagram) // 16
    with contextlib.suppress(ValueError):
        for _, start, end in attributes(datagram, offset):
            assert start <= end <= len(datagram)


@given(st.lists(st.tuples(st.integers(4, 1000), st.binary(max_size=50)), max_size=8))
def test_messages_come_out_as_they_were_put_in(parts: list[tuple[int, bytes]]) -> None:
    """The padding between them is nobody's."""
    assert list(messages(b"".join(message(kind, body) for kind, body in parts))) == parts


def test_more_sockets_than_are_looked_at_are_counted() -> None:
    """A host with a hundred thousand connections costs no more than the bound, and says so."""

    def ask(protocol: int, kind: int, question: bytes) -> Iterator[bytes]:
        for number in range(SOCKETS_MAX + 3 if question[0] == socket.AF_INET else 2):
            yield inet_diag("10.0.0.1", "10.0.0.2", number, described())

    dump = tcp_sockets(ask)
    assert (len(dump.sockets), dump.left_out) == (SOCKETS_MAX, 5)


def test_a_list_in_a_form_that_is_not_known_is_one_sentence() -> None:
    """The sampler must not take a new kernel for a mistake of ours."""
    with pytest.raises(SourceError, match="unknown format"):
        tcp_sockets(lambda protocol, kind, question: iter([b"short"]))
    with pytest.raises(SourceError, match="unknown format"):
        neighbour_namespaces(lambda protocol, kind, question: iter([bytes(16) + b"\1\0\0\0"]))


def test_links_into_other_namespaces_are_counted_by_namespace() -> None:
    """A host has two links into each pod at times, and links that lead nowhere."""
    links = [(37, 5), (37, 5), (37, 7), (37, -1), (3, 9)]
    bodies = [bytes(16) + attribute(kind, struct.pack("=i", number)) for kind, number in links]
    assert neighbour_namespaces(lambda protocol, kind, question: iter(bodies)) == 2


def test_this_kernel_tells_what_a_connection_moved() -> None:
    """The made-up messages are ours; this is the kernel's, asked as any user may."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        server, _ = listener.accept()
        with client, server:
            client.sendall(bytes(100_000))
            assert len(server.recv(100_000, socket.MSG_WAITALL)) == 100_000
            mine = [one for one in tcp_sockets().sockets.values() if one.received_bytes == 100_000]
    assert any(one.peer == packed("::1") for one in mine)


def test_a_list_that_the_kernel_does_not_have_is_one_sentence() -> None:
    """The sampler logs the sentence once; it must name the way out."""
    with pytest.raises(SourceError, match="tcp_diag"):
        list(listing(4, 20, struct.pack("=BBBBI48x", 255, 6, 0, 0, 0)))
    assert DATAGRAM_BYTES >= 32 * 1024
