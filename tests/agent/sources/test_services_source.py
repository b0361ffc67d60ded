"""Services are asked over real HTTP: quick ones, slow ones, dead ones and strange ones."""

import gzip
import http.server
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent.errors import SourceError, UnreadError
from agent.source import Row
from agent.sources.service_page import read_page
from agent.sources.services import PAGE_BYTES_MAX, Service, ServiceSource, fetch
from tests.waiting import PATIENCE_SECONDS, until


@dataclass
class Server:
    """A service that counts its requests: ten tokens each. `gate` holds its answers back while it is closed."""

    answered: int = 0
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    wants: tuple[str, str] | None = None  # a header, without which it answers 401
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
            is_in = state.wants is None or self.headers.get(state.wants[0]) == state.wants[1]
            self.send_response(state.status if is_in else 401)
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


def test_a_service_that_cannot_be_read_is_a_service_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """Its row says why, and no amount: silence is not idleness. The log says it when it begins, and when it ends."""
    caplog.set_level("INFO")
    with serving() as server, closing(source_of(server.service)) as source:
        rows(source)
        server.status = 500
        unread = {"run_id": f"declared/here/{server.port}", "engine": "vllm", "state": "server_error"}
        assert rows(source) == rows(source) == [{**unread, "slo_seconds": None}]
        assert "the server itself fails" in source.coverage()[0]
        server.status = 200
        assert [row["requests"] for row in rows(source)] == [3], "it answered two that we could not read"
        assert (source.followed[0].failures, source.coverage()) == (2, [])
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


ENOUGH = b"tgi_queue_size 1\n"


@pytest.mark.parametrize(
    ("about", "state", "why"),
    [
        ({"status": 404}, "no_page", "returned 404"),
        ({"status": 401}, "key_wanted", "wants a key .*;token_file="),
        ({"status": 403}, "key_wanted", "wants a key"),
        ({"status": 500}, "server_error", "the server itself fails"),
        ({"status": 307, "headers": {"Location": "/metrics/"}}, "redirect", "redirects to /metrics/ .*name that"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:9/x"}}, "redirect", "returned 302"),
        ({"body": b"#" * (PAGE_BYTES_MAX + 1)}, "too_large", "larger than"),
        ({"headers": {"Content-Length": "1000000"}, "body": ENOUGH}, "unreachable", "was cut off"),
        ({"headers": {"Content-Encoding": "gzip"}, "body": ENOUGH}, "unreachable", "cannot be read"),
        ({"headers": {"Content-Encoding": "gzip"}, "body": gzip.compress(ENOUGH)[:-9]}, "unreachable", "cut off"),
        ({"headers": {"Content-Encoding": "br"}, "body": ENOUGH}, "foreign", "packed with 'br'"),
        (
            {"headers": {"Content-Encoding": "gzip"}, "body": gzip.compress(b"#" * (PAGE_BYTES_MAX + 1))},
            "too_large",
            "larger than",
        ),
        ({"body": b"# HELP tgi_request_count Requests\n"}, "empty", "is empty"),
        ({"body": b"node_load1 0.5\n"}, "foreign", "is not a metrics page"),
    ],
)
def test_a_page_that_cannot_be_had(about: dict[str, object], state: str, why: str) -> None:
    """Nothing is followed to where nobody sent us, and nothing may fill the agent's memory; each says its way out."""
    with serving(**about) as server, pytest.raises(UnreadError, match=why) as refused:
        fetch(server.service)
    assert refused.value.state == state


@pytest.mark.parametrize("wbits", [zlib.MAX_WBITS | 16, zlib.MAX_WBITS])
def test_what_is_packed_unasked_is_read(wbits: int) -> None:
    """A proxy may pack what it passes on."""
    packer = zlib.compressobj(wbits=wbits)
    body = packer.compress(b"http_requests 1\n" * 50_000 + ENOUGH) + packer.flush()
    coding = "deflate" if wbits == zlib.MAX_WBITS else "gzip"
    with serving(body=body, headers={"Content-Encoding": coding}) as server:
        assert fetch(server.service) == "tgi_queue_size 1"


def test_a_page_of_many_megabytes_costs_its_few_lines() -> None:
    """A web framework's histograms before the engine's."""
    body = b'http_request_duration_seconds_bucket{handler="/v1/x",le="0.1",method="POST"} 2.0\n' * 50_000 + ENOUGH
    with serving(body=body) as server:
        assert fetch(server.service) == "tgi_queue_size 1"


@pytest.mark.parametrize(
    ("content", "header", "value"),
    [("s3cret\n", "Authorization", "Bearer s3cret"), ("X-Api-Key: s3 cret", "X-Api-Key", "s3 cret")],
)
def test_a_key_is_brought_from_its_file(tmp_path: Path, content: str, header: str, value: str) -> None:
    """A token, or a header as a whole; the file is read each time, so that a new key needs no restart."""
    file = tmp_path / "token"
    file.write_text(content)
    with serving(wants=(header, value)) as server:
        assert "vllm:" in fetch(replace(server.service, token_file=file))
        file.write_text("another")
        with pytest.raises(UnreadError, match=f"refuses the key in {file}") as refused:
            fetch(replace(server.service, token_file=file))
        assert "another" not in str(refused.value)


@pytest.mark.parametrize("content", [None, "", "two\nlines", "ü", "x" * 20_000])
def test_a_key_that_is_none_is_said_to_be(tmp_path: Path, content: str | None) -> None:
    """Nothing is asked with it."""
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with serving() as server:
        with pytest.raises(UnreadError, match=f"wants a key, and {file}"):
            fetch(replace(server.service, token_file=file))
        assert server.answered == 0


def test_since_when_a_process_runs_its_headers_may_say() -> None:
    """llama.cpp's page does not, and two of them may take turns behind one address."""
    body = b"llamacpp:requests_processing 1\n"
    with serving(body=body, headers={"Process-Start-Time-Unix": "1794873600"}) as server:
        page = read_page(fetch(server.service))
    assert page is not None
    assert page.processes == {(frozenset(), 1794873600.0)}


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
        assert [row["state"] for row in rows(source)] == ["foreign"]
        assert source.followed[0].failures == 1


def test_what_is_not_told_is_asked_for_once(caplog: pytest.LogCaptureFixture) -> None:
    """Which of several models counts, nobody but the owner knows."""
    body = b'nv_inference_request_success{model="a"} 1\nnv_inference_request_success{model="b"} 1\n'
    with serving(body=body) as server, closing(source_of(server.service)) as source:
        assert [row["state"] for row in rows(source) + rows(source)] == ["model_wanted"] * 2
        assert "name the one that counts" in source.coverage()[0]
    assert len([record for record in caplog.records if "name the one that counts" in record.message]) == 1


def until_two(source: ServiceSource) -> list[Row]:
    """Read until both services have a row."""
    found: list[Row] = []

    def both() -> bool:
        found[:] = rows(source)
        return len(found) == 2

    until(both, "both services have a row")
    return found
