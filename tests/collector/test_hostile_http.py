"""What is no HTTP, or HTTP of a kind that nobody honest sends, ends in an answer or a closed line, and soon."""

import http.client
import random
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.envelope import CONTENT_TYPE
from collector.config import CollectorConfig
from collector.http.app import create_app
from collector.http.server import BoundedHttp
from collector.pipeline.writer import Writer
from collector.store.database import Store
from tests.collector.batches import body
from tests.collector.serving import Client
from tests.waiting import PATIENCE_SECONDS, until

BATCH = body()
START = f"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Type: {CONTENT_TYPE}\r\n".encode()
LENGTH = f"Content-Length: {len(BATCH)}\r\n".encode()


class Impatient(BoundedHttp):
    """The collector's protocol with bounds that a test can wait out."""

    head_seconds = 0.5
    head_bytes = 4096


@contextmanager
def _listening(config: CollectorConfig) -> Iterator[int]:
    with Store.open(None) as store, socket.create_server(("127.0.0.1", 0)) as listener:
        app = create_app(config, store, Writer(store, config))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False, ws="none", http=Impatient))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started, "the collector listens")
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A collector in memory that is short of patience."""
    with _listening(CollectorConfig(gather_seconds=0, body_seconds=0.5)) as listening:
        yield listening


def _sent(port: int, raw: bytes, *, ends: bool = False) -> bytes:
    """Send bytes as they are, and return all that comes back until the line is closed."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as line:
        answer = b""
        try:
            line.sendall(raw)
            if ends:
                line.shutdown(socket.SHUT_WR)
            while chunk := line.recv(65536):
                answer += chunk
        except ConnectionError:  # closed while we still sent
            pass
        return answer


def _statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


REFUSED_BY_THE_PARSER = {
    "two lengths that differ": START + b"Content-Length: 3\r\nContent-Length: 300\r\n\r\nabc",
    "length and chunks": START + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": START + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "a length below zero": START + b"Content-Length: -1\r\n\r\n",
    "a length that is none": START + b"Content-Length: 1e3\r\n\r\n",
    "a length beyond all numbers": START + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a chunk that is none": START + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "a chunk without an end": START + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n0\r\n\r\n",
    "a coding behind chunked": START + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a name with a space": START + b"Content-Length : 3\r\n\r\nabc",
    "a line that goes on": START + b"X: a\r\n b: c\r\n\r\n",
    "a zero byte": START + b"X: a\0b\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a header without an end": START + b"X: " + b"x" * 100_000,
    "headers without an end": START + b"".join(b"X-%d: y\r\n" % n for n in range(20_000)),
    "an address without an end": b"GET /" + b"x" * 100_000,
    "trailers without an end": START
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    + b"".join(b"X-%d: y\r\n" % n for n in range(20_000)),
}


@pytest.mark.parametrize("name", REFUSED_BY_THE_PARSER)
def test_what_could_be_read_in_two_ways_is_refused_and_the_line_closed(port: int, name: str) -> None:
    """A proxy in front may read such a request otherwise than we do, and the rest of it would be somebody else's."""
    answer = _sent(port, REFUSED_BY_THE_PARSER[name])
    assert set(_statuses(answer)) <= {400}  # or closed without a word, where much was still on its way
    assert b"200 OK" not in answer


def test_a_head_that_does_not_end_is_waited_for_only_so_long(port: int) -> None:
    """Whoever sends a byte a minute would hold a connection for ever, and a few thousand such all of them."""
    assert _statuses(_sent(port, START)) == [400]
    assert _sent(port, b"") == b""


def test_a_second_head_on_the_same_line_has_the_same_limit(port: int) -> None:
    """A keep-alive connection is no way round it."""
    good = START + LENGTH + b"\r\n" + BATCH
    assert _statuses(_sent(port, good + START)) == [200, 400]


def test_a_body_shorter_than_its_length_is_waited_for_only_so_long(port: int) -> None:
    """What is missing may never come."""
    answer = _sent(port, START + LENGTH + b"\r\n" + BATCH[:10])
    assert _statuses(answer) == [408]
    assert b"connection: close" in answer.lower()


def test_a_sender_that_goes_away_leaves_nothing(port: int) -> None:
    """Half a batch is none."""
    assert set(_statuses(_sent(port, START + LENGTH + b"\r\n" + BATCH[:10], ends=True))) <= {400}


def test_what_follows_a_body_is_another_request_or_none(port: int) -> None:
    """Bytes beyond the declared length belong to the next request; these make none."""
    good = START + LENGTH + b"\r\n" + BATCH
    assert set(_statuses(_sent(port, good + b"GARBAGE\r\n\r\n"))) <= {200, 400}  # the line may close before the 200


def test_requests_that_come_in_one_go_are_answered_in_order(port: int) -> None:
    """Pipelining is allowed; each is a request of its own."""
    schema = b"GET /v1/schema HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = _sent(port, START + LENGTH + b"\r\n" + BATCH + schema + START + LENGTH + b"\r\n" + BATCH + last)
    assert _statuses(answer) == [200, 200, 200, 200]
    assert answer.index(b"sealed_through") < answer.index(b"min_reader")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_batch_may_come_in_chunks(port: int, size: int) -> None:
    """Proxies change lengths into chunks; it is the same batch."""
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(BATCH[n : n + size]), BATCH[n : n + size]) for n in range(0, len(BATCH), size)
    )
    head = START + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    assert _statuses(_sent(port, head + chunks + b"0\r\n\r\n")) == [200]


def test_a_batch_under_a_compression_of_http_is_no_batch(port: int) -> None:
    """It is compressed already, once and with a declared size; a second layer would hide how large it gets."""
    answer = _sent(port, START + LENGTH + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + BATCH)
    assert _statuses(answer) == [415]


def test_a_sender_that_asks_first_is_told_to_go_on(port: int) -> None:
    """curl asks before it sends much."""
    head = START + LENGTH + b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
    assert _statuses(_sent(port, head + BATCH)) == [100, 200]


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_a_mutated_request_is_answered_or_closed(port: int, dice: random.Random) -> None:
    """Whatever comes over the line, the next honest batch is taken."""
    raw = bytearray(START + LENGTH + b"Connection: close\r\n\r\n" + BATCH)
    for _ in range(dice.choice((1, 2, 5))):
        at = dice.randrange(len(raw) - len(BATCH))
        raw[at : at + dice.choice((0, 1, 3))] = dice.choice(
            (b"\0", b"\r\n", b":", b"\xff", b" ", bytes([dice.randrange(256)]))
        )
    answer = _sent(port, bytes(raw))
    assert set(_statuses(answer)) <= {200, 400, 403, 404, 405, 408, 413, 415}


def test_after_all_that_it_still_works(port: int) -> None:
    """The module's collector has seen every request above."""
    assert Client(port).post(body(10**6)).status == 200
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    connection.request("GET", "/metrics")
    assert b"gpuledger_collector_arriving_bytes 0.0" in connection.getresponse().read()
    connection.close()
