"""Sending: real envelopes over real HTTP, tried again where that helps, given up in one sentence where not."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agent.wire.envelope import MAX_BYTES, open_envelope
from simulator.__main__ import main
from simulator.batches import batches
from simulator.fleet import Fleet
from simulator.send import DeliveryError, encode_batch, send


class Receiver(ThreadingHTTPServer):
    """Stands in for a collector: keeps every body it accepts, and answers first what it is told to."""

    def __init__(self, first_answers: tuple[int, ...] = ()) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[bytes] = []
        self.answers = list(first_answers)
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def status_for(self, body: bytes) -> int:
        """Return the next status, and keep the body where it is a good one."""
        with self.lock:
            status = self.answers.pop(0) if self.answers else 200
            if status == 200:
                self.bodies.append(body)
            return status


class Handler(BaseHTTPRequestHandler):
    """Answers one connection after another."""

    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        """Take a batch."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.status_for(body)
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def serving(receiver: Receiver) -> Iterator[Receiver]:
    """Run a receiver on its own thread until the test ends."""
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield receiver
    receiver.shutdown()
    receiver.server_close()
    thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A collector in order."""
    yield from serving(Receiver())


@pytest.fixture
def busy_receiver() -> Iterator[Receiver]:
    """A collector that is busy at first."""
    yield from serving(Receiver((503, 429, 500)))


@pytest.fixture
def strict_receiver() -> Iterator[Receiver]:
    """A collector that refuses."""
    yield from serving(Receiver((422,) * 20))


def test_every_batch_arrives_once_and_whole(small: Fleet, receiver: Receiver) -> None:
    """What arrives are the bytes that were made, each once, whatever connection took them."""
    done: list[int] = []
    told = send(receiver.url, batches(small), done=done.append)
    assert sorted(receiver.bodies) == sorted(encode_batch(batch) for batch in batches(small))
    assert told.batches == len(receiver.bodies) == done[-1]
    assert told.gpu_rows == 2 * 8 * 720
    assert told.bytes == sum(map(len, receiver.bodies))


def test_a_busy_collector_is_asked_again(small: Fleet, busy_receiver: Receiver) -> None:
    """A collector that folds its log in answers 503 for a moment; the demo must not end over it."""
    told = send(busy_receiver.url, batches(small))
    assert told.retries == 3
    assert len(busy_receiver.bodies) == told.batches


def test_a_refusal_ends_the_demo_with_the_collectors_words(small: Fleet, strict_receiver: Receiver) -> None:
    """A batch that is wrong stays wrong, however often it is sent."""
    with pytest.raises(DeliveryError, match="refused a batch: 422"):
        send(strict_receiver.url, batches(small))


def test_the_batches_open_and_name_their_streams(small: Fleet) -> None:
    """One stream per agent, sequences from 0 on without gaps."""
    headers = [open_envelope(encode_batch(batch), MAX_BYTES)[0] for batch in batches(small)]
    for agent in ("s01", "s02", "scheduler/mini"):
        mine = [header for header in headers if header.agent == agent]
        assert len({header.stream for header in mine}) == 1
        assert [header.sequence for header in mine] == list(range(len(mine)))


def test_the_command_draws_its_progress_in_lines(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo's parent draws the bar from these lines, up to the last batch."""
    assert main(["--url", receiver.url, "--site", "small", "--progress"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1] == {"done": 5, "of": 5}
    assert len(receiver.bodies) == 5


def test_a_collector_that_refuses_ends_with_3_and_a_sentence(
    strict_receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """The world failed, not the user."""
    assert main(["--url", strict_receiver.url, "--site", "small"]) == 3
    assert "refused a batch" in capsys.readouterr().err
