"""Services are asked over real HTTP: quick ones, slow ones, dead ones and strange ones."""

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import pytest

from agent.errors import SourceError
from agent.source import Row
from agent.sources.services import PAGE_BYTES_MAX, Service, ServiceSource, fetch
from tests.waiting import PATIENCE_SECONDS, until


@dataclass
class Server:
    """A service that counts its requests: ten tokens each. `gate` holds its answers back while it is closed."""

    answered: int = 0
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    gate: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def page(self) -> bytes:
        """Return the page as it is now."""
        self.answered += 1
        return (
            self.body
            or (
                f'vllm:num_requests_running{{model_name="m"}} 1\nvllm:request_success_total{{finished_reason="stop"}} '
                f"{self.answered}\nvllm:generation_tokens_total {self.answered * 10}\n"
            ).encode()
        )

    @property
    def service(self) -> Service:
        """Return its address, as the settings would name it."""
        return Service("http", "127.0.0.1", self.port, "/metrics", f"declared/here/{self.port}")


@contextmanager
def serving(**about: object) -> Iterator[Server]:
    """Serve until the end of the block."""
    state = Server(**about)  # type: ignore[arg-type]
    state.gate.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.gate.wait(PATIENCE_SECONDS)
            page = state.page()
            self.send_response(state.status)
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(page)
            except (BrokenPipeError, ConnectionResetError):
                return  # who asked had enough

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.port = server.server_port
        try:
            yield state
        finally:
            state.gate.set()
            server.shutdown()
            thread.join()


class Watch:
    """A clock that a test turns on: ten seconds from one reading to the next."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.seconds


def source_of(
    *services: Service, patience: float = PATIENCE_SECONDS, watch: Callable[[], float] | None = None
) -> ServiceSource:
    """Return a source that waits for its services, so that no test depends on how quick this machine is."""
    return ServiceSource(services, fetch, lambda service: f"service/here/{service.port}", watch or Watch(), patience)


def rows(source: ServiceSource) -> list[Row]:
    """Return the rows of one reading."""
    return list(source.read()["service_samples"])


def test_requests_and_tokens_are_those_between_two_readings() -> None:
    """The first reading has no amounts, and every later one only its own."""
    with serving() as server, closing(source_of(server.service)) as source:
        assert [row.get("requests") for row in rows(source)] == [None]
        (row,) = rows(source)
        assert (row["run_id"], row["requests"], row["tokens_out"]) == (f"declared/here/{server.port}", 1, 10)
        assert (row["running"], row["engine"]) == (1, "vllm")


def test_a_slow_service_delays_no_other() -> None:
    """Its answer is told with the next reading, and nothing of it is lost."""
    with serving() as quick, serving() as slow, closing(source_of(quick.service, slow.service, patience=0.5)) as source:
        until_two(source)
        before, alone = slow.answered, [f"declared/here/{quick.port}"]
        slow.gate.clear()
        until(lambda: [row["run_id"] for row in rows(source)] == alone, "the quick one has a row, the slow one none")
        slow.gate.set()
        until(lambda: slow.answered == before + 1, "the slow one has answered")
        told = {row["run_id"]: row for row in until_two(source)}
        assert told[f"declared/here/{slow.port}"]["requests"] == 1


def test_a_service_that_is_gone_has_no_row(caplog: pytest.LogCaptureFixture) -> None:
    """Silence is not idleness; it is said once when it begins, and once when it ends."""
    caplog.set_level("INFO")
    with serving() as server, closing(source_of(server.service)) as source:
        rows(source)
        server.status = 500
        assert rows(source) == rows(source) == []
        server.status = 200
        assert [row["requests"] for row in rows(source)] == [3], "it answered two that we could not read"
        assert source.followed[0].failures == 2
    said = [record.message for record in caplog.records if str(server.port) in record.message]
    assert len(said) == 2
    assert "returned 500" in said[0]
    assert "can be read again" in said[1]


def test_amounts_are_not_told_of_a_time_that_nobody_saw() -> None:
    """An hour of requests is not what was done in ten seconds."""
    watch = Watch()
    with serving() as server, closing(source_of(server.service, watch=watch)) as source:
        rows(source)
        watch.seconds = 3600
        assert [row.get("requests") for row in rows(source)] == [None]
        watch.seconds = 3610
        assert [row.get("requests") for row in rows(source)] == [1]


def test_a_service_that_nobody_declared_is_asked_for_its_run() -> None:
    """The cgroup behind its port tells, or it has a name of its own."""
    with serving() as server:
        service = Service("http", "127.0.0.1", server.port, "/metrics", slo_seconds=0.5)
        with closing(source_of(service)) as source:
            assert [(row["run_id"], row["slo_seconds"]) for row in rows(source)] == [
                (f"service/here/{server.port}", 0.5)
            ]


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"status": 404}, "returned 404"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:9/elsewhere"}}, "returned 302"),
        ({"body": b"#" * (PAGE_BYTES_MAX + 1)}, "larger than"),
        ({"headers": {"Content-Length": "1000000"}, "body": b"cut off"}, "was cut off"),
    ],
)
def test_a_page_that_cannot_be_had(about: dict[str, object], why: str) -> None:
    """Nothing is followed to where nobody sent us, and nothing may fill the agent's memory."""
    with serving(**about) as server, pytest.raises(SourceError, match=why):
        fetch(server.service)


def test_a_page_that_trickles_is_given_up() -> None:
    """A byte a second is within every timeout of a socket; the whole page has one too."""
    moments = iter([0.0, 100.0])
    with serving() as server, pytest.raises(SourceError, match="took longer"):
        fetch(server.service, seconds=lambda: next(moments))


def test_nobody_there() -> None:
    """A refused connection is one sentence that names the address."""
    with serving() as server:
        gone = server.service
    with pytest.raises(SourceError, match=f"{gone.port}/metrics cannot be read"):
        fetch(gone)


def test_a_page_of_something_else_is_said_to_be() -> None:
    """The settings name the wrong port: better said than shown as a service without requests."""
    with serving(body=b"node_load1 0.5\n") as server, closing(source_of(server.service)) as source:
        assert rows(source) == []
        assert source.followed[0].failures == 1


def until_two(source: ServiceSource) -> list[Row]:
    """Read until both services have a row."""
    found: list[Row] = []

    def both() -> bool:
        found[:] = rows(source)
        return len(found) == 2

    until(both, "both services have a row")
    return found
