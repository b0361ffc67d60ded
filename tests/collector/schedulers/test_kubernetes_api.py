"""The API server over a real socket: who we say we are, how much it may say, how long it may take."""

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from collector.config import CollectorConfig
from collector.errors import ConfigError, SchedulerError
from collector.http.app import configured
from collector.pipeline.writer import Writer
from collector.schedulers.kubernetes.api import AnswerError, Api, Server
from collector.store.database import Store
from tests.collector.schedulers.api_server import Cluster, served
from tests.collector.schedulers.kubernetes_things import PODS, running
from tests.waiting import PATIENCE_SECONDS


@contextmanager
def saying(said: bytes) -> Iterator[Server]:
    """Serve one answer, whatever is asked, and then nothing more."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(said)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield Server(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_seconds=PATIENCE_SECONDS)
    listener.close()
    thread.join(PATIENCE_SECONDS)


def test_the_token_is_read_for_every_question(tmp_path: Path) -> None:
    """The kubelet renews it within the hour, while the collector runs for months."""
    cluster, token = Cluster(), tmp_path / "token"
    cluster.tokens = {"first"}
    token.write_text("first\n")
    with served(cluster, token) as server:
        api = Api(server)
        api.get("/api/v1")
        cluster.tokens = {"second"}
        with pytest.raises(AnswerError, match=r"401: Unauthorized; see kubernetes/base/rights.yaml"):
            api.get("/api/v1")
        token.write_text("second\n")
        assert api.get("/api/v1")["kind"] == "APIResourceList"
        api.close()


def test_a_token_that_is_missing_is_named(tmp_path: Path) -> None:
    """Whoever mounts no service account reads which file was looked for."""
    with served(Cluster(), tmp_path / "nowhere") as server, pytest.raises(SchedulerError, match="nowhere"):
        Api(server).get("/api/v1")


def test_the_server_s_certificate_is_checked(tmp_path: Path) -> None:
    """The token must go to nobody else."""
    made = [certificate(tmp_path, name) for name in ("server", "another")]
    cluster = Cluster()
    cluster.put(PODS, running())
    with served(cluster, certificate=made[0]) as server:
        api = Api(server)
        assert len(api.get(PODS, limit=5)["items"]) == 1
        api.close()
        with pytest.raises(SchedulerError, match="CERTIFICATE_VERIFY_FAILED"):
            Api(replace(server, ca=made[1])).get(PODS, limit=5)


def certificate(place: Path, name: str) -> Path:
    """Return a file with a key and its certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: apt-get install openssl")
    file = place / f"{name}.pem"
    key = place / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    about = ["-days", "2", "-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *about, "-keyout", str(key), "-out", str(file)], check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file


def test_a_connection_that_was_closed_meanwhile_is_made_anew() -> None:
    """Servers close what is quiet for a minute, which is how often they are asked."""
    cluster = Cluster()
    with served(cluster) as server:
        api = Api(server)
        api.get("/api/v1")
        assert api._connection is not None
        assert api._connection._open is not None
        assert api._connection._open.sock is not None
        api._connection._open.sock.shutdown(socket.SHUT_RDWR)
        assert api.get("/api/v1")["kind"] == "APIResourceList"
        api.close()


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b"", "cannot be reached"),
        (b"\x00\x01garbage", "cannot be reached"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nno JSON..", "not JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "not an object"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100000, "not JSON"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", "500"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "the response was cut off: 49 bytes are missing"),
    ],
)
def test_what_is_no_answer_is_said_in_a_sentence(said: bytes, complaint: str) -> None:
    """A proxy in between, or a server that is being rolled, may say anything."""
    with saying(said) as server, closing(Api(server)) as api, pytest.raises(SchedulerError, match=complaint):
        api.get("/api/v1")


def test_an_answer_that_is_too_long_is_left() -> None:
    """It must not take the collector's memory."""
    cluster = Cluster()
    cluster.put(PODS, running(labels={"x": "y" * 5000}))
    with served(cluster) as server:
        api = Api(replace(server, most_bytes=2000))
        with pytest.raises(SchedulerError, match=r"more than 2000 bytes; raise collector\.kubernetes_bytes"):
            api.get(PODS, limit=5)
        with pytest.raises(SchedulerError, match="more than 2000 bytes"):
            list(api.watch(PODS, resourceVersion="0"))
        assert api.get("/api/v1")["kind"] == "APIResourceList"
        api.close()


def test_a_server_that_says_nothing_is_left() -> None:
    """One that hangs holds up nothing but its own poll, and that for a while only."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = Server(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_seconds=0.2)
        with pytest.raises(SchedulerError, match="timed out"):
            Api(silent).get("/api/v1")


def test_a_watch_that_is_cut_short_keeps_what_was_whole() -> None:
    """Half a line is half an object; what is missing comes with the next watch."""
    body = b'{"type":"ADDED","object":{}}\n{"type":"MOD'
    said = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body
    with saying(said) as server, closing(Api(server)) as api:
        assert [change["type"] for change in api.watch(PODS, resourceVersion="1")] == ["ADDED"]


def test_outside_a_cluster_its_address_must_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the way out."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    config = CollectorConfig(store=Path("unused"), kubernetes="prod")
    with Store.open(None, memory_limit="200MB") as store:
        writer = Writer(store, config)
        with pytest.raises(ConfigError, match="kubernetes_api"):
            configured(config, store, writer)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
        assert len(configured(config, store, writer)) == 1


@pytest.mark.parametrize("wrong", [{"kubernetes": "a/b"}, {"kubernetes_api": "host:6443"}])
def test_bad_settings_are_named(wrong: dict[str, str]) -> None:
    """A cluster's name is a part of every run's id."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        CollectorConfig(**wrong)  # type: ignore[arg-type]
