"""The port of /metrics: who may read it, and that no client can hurt the host or keep others out."""

import base64
import gzip
import http.client
import logging
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from agent.clock import Clock
from agent.config import AgentConfig
from agent.connection import trusting
from agent.daemon.agent import Agent
from agent.errors import ConfigError, ListenError
from agent.metrics.door import Door, Secret
from agent.metrics.families import registry
from agent.metrics.scrape_server import MOST_CONNECTIONS, ScrapeServer
from agent.metrics.snapshot import Snapshot
from agent.sampling.wiring import HostSources
from tests.agent.no_gpus import NoGpus
from tests.waiting import PATIENCE_SECONDS, until

Server = Callable[..., ScrapeServer]


class Slow(Collector):
    """A scrape that takes until it is let go; `at_once` is how many were ever made at the same time."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        self.at_once = 0
        self._now = 0

    def collect(self) -> Iterator[Metric]:
        """Wait, then tell nothing."""
        self._now += 1
        self.at_once = max(self.at_once, self._now)
        self.begun.set()
        self.go.wait(PATIENCE_SECONDS)
        self._now -= 1
        yield from ()


def empty() -> CollectorRegistry:
    """Return the families of a host of which nothing was read."""
    return registry(Snapshot(lambda: 0))


@pytest.fixture
def serve() -> Iterator[Server]:
    """Return a function that starts a server."""
    started: list[ScrapeServer] = []

    def start(
        door: Door | None = None, families: CollectorRegistry | None = None, request_seconds: float = PATIENCE_SECONDS
    ) -> ScrapeServer:
        made = ScrapeServer("127.0.0.1", 0, families or empty(), door, request_seconds)
        made.start()
        started.append(made)
        return made

    yield start
    for server in started:
        server.stop()


@contextmanager
def asked(
    server: ScrapeServer, path: str = "/metrics", method: str = "GET", **headers: str
) -> Iterator[http.client.HTTPResponse]:
    """Ask, and give the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def status(server: ScrapeServer, path: str = "/metrics", method: str = "GET", **headers: str) -> int:
    """Ask, and return the status of the answer."""
    with asked(server, path, method, **headers) as answer:
        return answer.status


def said(server: ScrapeServer, raw: bytes) -> bytes:
    """Send bytes, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_metrics_are_served(serve: Server) -> None:
    """Prometheus reads text and its version."""
    with asked(serve()) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert b"# TYPE gpuledger_agent_build_info gauge" in answer.read()


def test_there_is_nothing_else(serve: Server) -> None:
    """What listens on a GPU host must be small enough to be read."""
    server = serve()
    assert status(server, "/") == 200
    assert status(server, "/etc/passwd") == 404
    assert status(server, "/metrics?name=up") == 200
    with asked(server, method="POST") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_who_asks_for_the_head_gets_the_head(serve: Server) -> None:
    """Load balancers look with HEAD whether somebody is there."""
    with asked(serve(), method="HEAD") as answer:
        assert answer.status == 200
        assert int(answer.headers["Content-Length"]) > 0
        assert answer.read() == b""


def test_an_answer_is_compressed_for_who_asks(serve: Server) -> None:
    """Over the network a scrape is a tenth; who does not ask reads it with curl."""

    class Long(Collector):
        def collect(self) -> Iterator[Metric]:
            yield Metric("long", "word " * 1000, "gauge")

    families = CollectorRegistry()
    families.register(Long())
    server = serve(families=families)
    with asked(server) as plain, asked(server, Accept_Encoding="deflate, gzip;q=0.5") as packed:
        assert packed.headers["Content-Encoding"] == "gzip"
        content = packed.read()
        assert gzip.decompress(content) == plain.read()
        assert len(content) < 500
    with asked(server, Accept_Encoding="gzip;q=0") as answer:
        assert answer.headers["Content-Encoding"] is None


def test_a_port_that_is_taken_is_named(serve: Server) -> None:
    """Found at the start, with the way out."""
    port = serve().port
    with pytest.raises(ListenError, match=rf"cannot listen on 127.0.0.1:{port}.*or to off"):
        ScrapeServer("127.0.0.1", port, empty())


def test_a_stopped_server_lets_the_port_go() -> None:
    """New settings are taken by starting anew on the same port."""
    first = ScrapeServer("127.0.0.1", 0, empty())
    first.start()
    first.stop()
    second = ScrapeServer("127.0.0.1", first.port, empty())
    second.start()
    assert status(second) == 200
    second.stop()


def test_it_listens_on_the_newer_internet_too() -> None:
    """There are clusters without IPv4."""
    try:
        server = ScrapeServer("::1", 0, empty())
    except ConfigError:
        pytest.skip("this host has no ::1")
    server.start()
    with socket.create_connection(("::1", server.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")
    server.stop()


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        ("Bearer right", 200),
        ("bearer right", 200),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("Bearer right more", 401),
        ("Basic " + base64.b64encode(b"mira:good").decode(), 200),
        ("Basic " + base64.b64encode(b"mira:bad").decode(), 401),
        ("Basic " + base64.b64encode(b"mira").decode(), 401),
        ("Basic no base64 at all", 401),
        ("Digest right", 401),
        ("right", 401),
    ],
)
def test_a_secret_opens(serve: Server, authorization: str, expected: int) -> None:
    """Either of the two that are set, and nothing else."""
    server = serve(Door(Secret("right", "mira", "good")))
    assert status(server, Authorization=authorization) == expected


def test_who_brings_no_secret_learns_what_to_bring(serve: Server) -> None:
    """And nothing more: there is no list of paths for who may not read."""
    server = serve(Door(Secret("right", "mira", "good")))
    for path in ("/metrics", "/", "/else"):
        with asked(server, path) as answer:
            assert answer.status == 401
            challenges = answer.headers.get_all("WWW-Authenticate")
            assert challenges == ['Bearer realm="gpuledger"', 'Basic realm="gpuledger"']
            assert answer.read() == b"Unauthorized\n"
    until(lambda: server.answered["unauthorized"] == 3, "three had no secret")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/2\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n folded: x\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"431"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n" + b"x" * 5000, b"405"),
    ],
)
def test_what_is_no_request_is_refused(serve: Server, raw: bytes, expected: bytes) -> None:
    """Port scans and mistaken clients get a short answer, and are counted."""
    server = serve()
    assert said(server, raw).startswith(b"HTTP/1.1 " + expected)
    until(lambda: server.answered["refused"] == 1, "one is refused")


def test_slow_clients_keep_nobody_out(serve: Server) -> None:
    """The places are bounded; who has been there longest makes room."""
    server = serve()
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(MOST_CONNECTIONS + 4)]
    for connection in idle[::2]:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n")  # and no more
    for _ in range(3):
        assert status(server) == 200
    for connection in idle:
        connection.close()
    until(lambda: server.answered["broken"] == len(idle), "all the idle are gone")


def test_a_client_that_stays_silent_is_put_out(serve: Server) -> None:
    """One byte now and then is not asking: the time is for all of it."""
    server = serve(request_seconds=0.05)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as connection:
        assert connection.recv(1) == b""
    until(lambda: server.answered["broken"] == 1, "the silent one is put out")


def test_scrapes_are_made_one_at_a_time(serve: Server) -> None:
    """Ten impatient servers must not take ten cores from the host's work."""
    slow, families = Slow(), CollectorRegistry(auto_describe=False)
    families.register(slow)
    server = serve(families=families)
    asking = [threading.Thread(target=status, args=(server,)) for _ in range(5)]
    for thread in asking:
        thread.start()
    assert slow.begun.wait(PATIENCE_SECONDS)
    slow.go.set()
    for thread in asking:
        thread.join()
    assert slow.at_once == 1
    until(lambda: server.answered["served"] == 5, "five are served")


def test_a_scrape_that_fails_costs_no_place(serve: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A mistake of ours in one family must not end the metrics for good."""

    class Broken(Collector):
        def collect(self) -> Iterator[Metric]:
            raise KeyError("a mistake")

    families = CollectorRegistry(auto_describe=False)
    families.register(Broken())
    server = serve(families=families)
    for _ in range(MOST_CONNECTIONS + 1):
        with pytest.raises(http.client.RemoteDisconnected):
            status(server)
    assert status(server, "/") == 200
    assert "BUG: a scrape failed" in caplog.text


def test_what_became_of_connections_is_counted(serve: Server) -> None:
    """Who is kept out should show on a dashboard."""
    server = serve()
    status(server)
    status(server, "/nothing")
    until(lambda: server.answered.total() == 2, "two are answered")
    counted = {sample.labels["outcome"]: sample.value for sample in server.family().samples}
    assert counted == {"served": 1, "unauthorized": 0, "refused": 1, "broken": 0, "crowded": 0}


@pytest.mark.parametrize(
    ("host", "secret", "words"),
    [
        ("127.0.0.1", "", None),
        ("::1", "", None),
        ("localhost", "", None),
        ("0.0.0.0", "", "read by anyone who can reach it; set scrape_token"),
        ("gpu7.example", "", "read by anyone"),
        ("10.1.2.3", "right", "as plain text; set tls_certificate"),
    ],
)
def test_an_open_door_is_mentioned(host: str, secret: str, words: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """Once, in the log: an operator may want it so, and must not have it unawares."""
    with caplog.at_level(logging.WARNING):
        Door(Secret(secret)).warn(host)
    assert (words in caplog.text) if words else caplog.text == ""


class Authority:
    """Certificates for localhost, each signed by itself, made by openssl."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is missing: apt-get install openssl")
        self.certificate, self.key = directory / "agent.crt", directory / "agent.key"
        self._directory = directory
        self.renew()

    def renew(self) -> None:
        """Make a new certificate and key, in place of the old ones."""
        new = [self._directory / name for name in ("new.crt", "new.key")]
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        names = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*command, *names, "-out", new[0], "-keyout", new[1]], check=True, capture_output=True)
        new[0].rename(self.certificate)
        new[1].rename(self.key)

    def handshake(self, port: int, authorization: str = "") -> str:
        """Return the status line of a request over TLS that trusts this certificate alone.

        Raises:
            OSError: it is another certificate, or none.
        """
        context = trusting(self.certificate)
        with (
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(f"GET /metrics HTTP/1.1\r\nAuthorization: {authorization}\r\n\r\n".encode())
            return connection.recv(65536).split(b"\r\n")[0].decode()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return a certificate."""
    return Authority(tmp_path)


def test_metrics_are_served_encrypted(serve: Server, authority: Authority) -> None:
    """And to nobody in plain text on the same port."""
    server = serve(Door(Secret(), authority.certificate, authority.key))
    assert authority.handshake(server.port) == "HTTP/1.1 200 OK"
    with pytest.raises(OSError):  # noqa: PT011  how the connection ends is the kernel's to say
        status(server)


def test_a_renewed_certificate_is_taken(serve: Server, authority: Authority) -> None:
    """Short-lived certificates are renewed while the agent runs."""
    server = serve(Door(Secret(), authority.certificate, authority.key))
    assert authority.handshake(server.port) == "HTTP/1.1 200 OK"
    authority.renew()
    assert authority.handshake(server.port) == "HTTP/1.1 200 OK"


def test_a_certificate_in_the_making_leaves_the_old_one(
    serve: Server, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Between its two files being replaced they do not fit; that is said once, and mends itself."""
    server = serve(Door(Secret(), authority.certificate, authority.key))
    key = authority.key.read_bytes()
    authority.key.write_text("half a")
    assert [authority.handshake(server.port) for _ in range(2)] == ["HTTP/1.1 200 OK"] * 2
    assert caplog.text.count("cannot be reloaded") == 1
    authority.key.write_bytes(key)
    assert authority.handshake(server.port) == "HTTP/1.1 200 OK"


def test_a_slow_handshake_keeps_nobody_out(serve: Server, authority: Authority) -> None:
    """A handshake is the client's time, not everybody's."""
    server = serve(Door(Secret(), authority.certificate, authority.key))
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(MOST_CONNECTIONS + 1)]
    assert authority.handshake(server.port) == "HTTP/1.1 200 OK"
    for connection in idle:
        connection.close()


def test_a_certificate_that_cannot_be_read_is_found_at_the_start(authority: Authority, tmp_path: Path) -> None:
    """Not at the first scrape, when nobody looks; an encrypted key must not ask on the terminal."""
    with pytest.raises(ConfigError, match=r"tls_certificate .*nowhere.*No such file"):
        Door(Secret(), tmp_path / "nowhere", authority.key)
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", str(authority.key), "-out", str(locked), "-aes128", "-passout", "pass:secret"]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ConfigError, match=r"locked.key cannot be used"):
        Door(Secret(), authority.certificate, locked)


def test_the_agents_settings_reach_the_port(authority: Authority) -> None:
    """A certificate and a token in the file, and yet plain text for everybody, would be worse than neither."""
    config = AgentConfig(
        listen="127.0.0.1:0",
        tls_certificate=authority.certificate,
        tls_key=authority.key,
        scrape_token="right",
        control=None,
    )
    agent = Agent(config, HostSources([], NoGpus(), lambda: None), Clock())
    stop = threading.Event()
    beating = threading.Thread(target=agent.run, args=(stop,))
    beating.start()
    assert agent.port is not None
    assert authority.handshake(agent.port) == "HTTP/1.1 401 Unauthorized"
    assert authority.handshake(agent.port, "Bearer right") == "HTTP/1.1 200 OK"
    stop.set()
    beating.join()
