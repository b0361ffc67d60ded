"""One connection: what it bounds, what it keeps, and what it says of an answer that is none."""

import pytest

from agent.connection import BrokenAnswerError, Connection, TooSlowError, address, ask, pause_seconds, why
from tests.agent.listener import listening
from tests.waiting import PATIENCE_SECONDS


def test_of_a_long_answer_the_beginning_is_read() -> None:
    """And said to be that; one of exactly so many bytes is whole."""
    with listening() as server:
        part = ask(server.url, timeout_seconds=PATIENCE_SECONDS, most_bytes=1)
        whole = ask(server.url, timeout_seconds=PATIENCE_SECONDS, most_bytes=2)
    assert (part.body, part.is_whole) == (b"{", False)
    assert (whole.body, whole.is_whole) == (b"{}", True)


@pytest.mark.parametrize(
    ("status", "words"),
    [("200 OK\r\nContent-Length: 50", "the response was cut off: 48 bytes are missing"), ("no status", "no status")],
)
def test_what_is_cut_off_or_no_http_is_one_kind_of_error(status: str, words: str) -> None:
    """Who asks need not know the library's exceptions, and none is no OSError."""
    with listening(status) as server, pytest.raises(BrokenAnswerError, match=words):
        ask(server.url, timeout_seconds=PATIENCE_SECONDS, most_bytes=100)


def test_with_a_connection_the_answer_that_nobody_read_is_closed() -> None:
    """It holds the socket where the server ends the connection; the garbage collector closed it, long after."""
    with listening() as server:
        connection = Connection(server.url, PATIENCE_SECONDS)
        answer = connection.response("GET", "/")
        connection.close()
        assert answer._response.isclosed()


def test_an_answer_ends_in_time_however_it_trickles() -> None:
    """Each piece comes in time, the whole does not."""
    ticks = iter((0.0, 6.0))
    with listening() as server, pytest.raises(TooSlowError, match="it took longer than 5 s"):
        ask(server.url, timeout_seconds=PATIENCE_SECONDS, whole_seconds=5, most_bytes=2, clock=lambda: next(ticks))


def test_a_connection_that_was_closed_meanwhile_is_made_anew() -> None:
    """It shows only at the next question: a listener closes each one after its answer, told or not."""
    with listening("200 OK\r\nConnection: keep-alive\r\nX-More: yes") as server:
        connection = Connection(server.url, PATIENCE_SECONDS)
        replies = [connection.reply("GET", "/", most_bytes=100) for _ in range(3)]
        connection.close()
    assert [reply.body for reply in replies] == [b"{}"] * 3
    assert len(server.heads) == 3


@pytest.mark.parametrize(
    "url", ["host:1", "ftp://host", "http://", "http://host:0", "http://host:99999", "http://[::1"]
)
def test_what_is_no_address_is_none(url: str) -> None:
    """Nothing is asked then."""
    with pytest.raises(ValueError, match=r"."):
        address(url)


def test_an_address_of_version_six_needs_no_port() -> None:
    """The library would take what stands behind the last colon for one."""
    connection = Connection("http://[2001:db8::7]", PATIENCE_SECONDS)
    assert (connection._opened().host, connection._opened().port) == ("2001:db8::7", 80)


def test_pauses_double_to_a_bound_and_differ() -> None:
    """A thousand who failed at once do not come back at once."""
    longest = [pause_seconds(failures, 1.0, 10.0, lambda: 1.0) for failures in range(6)]
    assert longest == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert [pause_seconds(failures, 1.0, 10.0, lambda: 0.0) for failures in range(6)] == [each / 2 for each in longest]
    assert pause_seconds(10_000, 1.0, 10.0, lambda: 1.0) == 10.0


def test_the_systems_words_are_told() -> None:
    """Not its number, nor nothing."""
    assert why(ConnectionRefusedError(111, "Connection refused")) == "Connection refused"
    assert why(TimeoutError()) == "TimeoutError"
