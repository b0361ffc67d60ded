"""The client is patient with a server that is busy, short with one that says no, and shows who it is."""

import base64
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from collector.errors import ServerError, TooMuchError
from collector.prometheus.client import Client, Server

CUT = 0  # a connection that ends before the answer does
EMPTY = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


class Scripted:
    """A server that answers what it is told, in order, and keeps what it was asked."""

    def __init__(self, *answers: tuple[int, bytes], context: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        left = list(answers)
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                scripted.asked.append((self.command, self.path, dict(self.headers), body))
                status, said = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(200 if status == CUT else status)
                self.send_header("Content-Length", str(len(said) + 100 * (status == CUT)))
                self.end_headers()
                self.wfile.write(said)
                self.close_connection = status == CUT

            do_GET = do_POST  # noqa: N815 - as above

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def scripted(*answers: tuple[int, bytes], context: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """Yield a server with these answers; the last is repeated."""
    server = Scripted(*answers, context=context)
    try:
        yield server
    finally:
        server.close()


def asking(url: str, **settings: Any) -> tuple[Client, list[float]]:
    """Return a client that does not really wait, and how long it would have."""
    pauses: list[float] = []
    return Client(Server(url, **settings), sleep=pauses.append), pauses


def assert_doubling(pauses: list[float], most: list[float]) -> None:
    """Each pause is half of this or more, by chance, so that many who failed at once do not come back at once."""
    assert all(limit / 2 <= pause < limit for pause, limit in zip(pauses, most, strict=True)), pauses


def test_a_busy_server_is_asked_again() -> None:
    """A history of four weeks is many questions: one that times out must not end it."""
    with scripted((503, b"busy"), (CUT, EMPTY), (200, EMPTY)) as server:
        client, pauses = asking(server.url)
        with client:
            assert len(client.evaluated("up", 0, 1000, 1000).times) == 0
        assert_doubling(pauses, [1.0, 2.0])
        assert client.repeated_questions == 2


def test_patience_ends() -> None:
    """Four times, and then a sentence that names the server."""
    with scripted((503, b'{"status":"error","error":"query timed out"}')) as server:
        client, pauses = asking(server.url)
        with client, pytest.raises(ServerError, match=r"refuses with 503: query timed out"):
            client.evaluated("up", 0, 1000, 1000)
        assert_doubling(pauses, [1.0, 2.0, 4.0])


@pytest.mark.parametrize(("status", "hint"), [(401, "--token-file"), (403, "--token-file"), (422, "too many samples")])
def test_who_says_no_is_not_asked_again(status: int, hint: str) -> None:
    """The answer would be the same; a wrong password asked four times may lock an account."""
    with scripted((status, b'{"status":"error","error":"too many samples"}')) as server:
        client, pauses = asking(server.url)
        with client, pytest.raises(ServerError, match=hint):
            client.evaluated("up", 0, 1000, 1000)
        assert pauses == []
        assert len(server.asked) == 1


def test_a_server_that_is_not_there() -> None:
    """The sentence names it."""
    client, _ = asking("http://127.0.0.1:1")
    with client, pytest.raises(ServerError, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        client.evaluated("up", 0, 1000, 1000)


def test_an_answer_has_a_bound() -> None:
    """Whatever answers at that address, it cannot fill our memory."""
    with scripted((200, EMPTY + b" " * 5000)) as server:
        client, _ = asking(server.url, most_bytes=1000)
        with client, pytest.raises(ServerError, match="more than 1000 bytes"):
            client.evaluated("up", 0, 1000, 1000)


def test_it_shows_who_it_is(tmp_path: Path) -> None:
    """A secret is in a file, which is read anew: short-lived tokens are renewed there."""
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    with scripted((200, EMPTY)) as server:
        client, _ = asking(server.url + "/tenant/", token=secret, headers={"X-Scope-OrgID": "ml"})
        with client:
            client.evaluated("up", 0, 1000, 1000)
            secret.write_text("second")
            client.evaluated("up", 0, 1000, 1000)
        client, _ = asking(server.url, user="reader", password=secret)
        with client:
            client.evaluated("up", 0, 1000, 1000)
    shown = [headers["Authorization"] for _, _, headers, _ in server.asked]
    basic = base64.b64encode(b"reader:second").decode()
    assert shown == ["Bearer first", "Bearer second", f"Basic {basic}"]
    assert server.asked[0][1] == "/tenant/api/v1/query_range"
    assert server.asked[0][2]["X-Scope-OrgID"] == "ml"


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://x", "http://", "http://me:secret@x:9090", "http://x/?a=b"])
def test_what_is_no_address_is_refused(url: str) -> None:
    """A password in an address ends in a process list."""
    with pytest.raises(ServerError) as refused:
        Server(url)
    assert "secret@" not in str(refused.value)


def test_a_certificate_is_verified(tmp_path: Path) -> None:
    """A token is not shown to whoever answers."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    made += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with scripted((200, EMPTY), context=context) as server:
        client, pauses = asking(server.url)
        with client, pytest.raises(ServerError, match="certificate"):
            client.evaluated("up", 0, 1000, 1000)
        assert pauses == []
        client, _ = asking(server.url, ca=certificate)
        with client:
            assert len(client.evaluated("up", 0, 1000, 1000).times) == 0


@pytest.mark.parametrize(
    ("more", "is_whole"),
    [
        (b"", True),
        (b',"infos":["a note"],"isPartial":false', True),
        (b',"isPartial":true', False),
        (b',"warnings":["receive series from Addr: 10.0.0.7:10901: rpc error: connection refused"]', False),
        (b',"warnings":["results truncated due to limit"]', False),
        (b',"warnings":["No StoreAPIs matched for this query"]', False),  # beside what other stores had
    ],
)
def test_names_without_those_of_a_store_that_is_away_are_refused(more: bytes, is_whole: bool) -> None:
    """An exporter's own pod, or a metric, that is missing there would pass for a holder, or for none at all."""
    with scripted((200, b'{"status":"success","data":["dcgm-exporter-x1"]' + more + b"}")) as server:
        client, _ = asking(server.url)
        with client:
            if is_whole:
                assert client.names("pod", "up", 0, 1) == ["dcgm-exporter-x1"]
                return
            with pytest.raises(ServerError, match="could not read all that it has"):
                client.names("pod", "up", 0, 1)


def test_a_store_that_begins_later_has_no_names() -> None:
    """Thanos then answers empty, with a warning."""
    with scripted(
        (200, b'{"status":"success","data":[],"warnings":["No StoreAPIs matched for this query"]}')
    ) as server:
        client, _ = asking(server.url)
        with client:
            assert client.names("pod", "up", 0, 1) == []


@pytest.mark.parametrize(
    ("status", "said", "too_much"),
    [
        (500, b"rpc error: code = ResourceExhausted desc = grpc: received message larger than max (8 vs 4)", True),
        (500, b'{"status":"error","errorType":"internal","error":"expanding series: context deadline exceeded"}', True),
        (422, b"the query exceeded the maximum number of chunks (err-mimir-max-chunks-per-query)", True),
        (400, b"exceeded maximum resolution of 11,000 points per timeseries", True),
        (429, b"the query would fetch too many samples (err-mimir-max-fetched-samples)", True),
        (500, b"panic: runtime error", False),
        (429, b"too many outstanding requests", False),
        (400, b"parse error: unexpected end of input", False),
    ],
)
def test_a_limit_is_told_from_a_refusal(status: int, said: bytes, too_much: bool) -> None:
    """What is too much at once is asked for in parts; what is wrong, or busy, would be in parts too."""
    with scripted((status, said)) as server:
        client, _ = asking(server.url)
        with client, pytest.raises(ServerError) as refused:
            client.evaluated("up", 0, 60_000, 60_000)
        assert isinstance(refused.value, TooMuchError) is too_much
