"""No call home: the kernel is watched while a real server and a real agent work, and told every address of theirs."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.collector.access.conftest import TOKEN, bearer
from tests.collector.access.tracing import Asked, Traced, asked
from tests.collector.batches import body
from tests.collector.serving import Client
from tests.fleet.ports import free_port
from tests.operations.site import Site
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[3]
SEALED = re.compile(r"^gpuledger_collector_sealed_rows_total [1-9]", re.MULTILINE)


def answers(client: Client, path: str = "/healthz") -> bool:
    """Whether the server is there."""
    try:
        return client.get(path).status == 200
    except OSError:
        return False


def of_the_network(found: set[Asked]) -> set[Asked]:
    """Return those that can leave the host; names of users are asked of the C library's own sockets."""
    own = ("/var/run/nscd", "/run/nscd", "/run/systemd/userdb", "/var/run/dbus")
    return {one for one in found if one.address != "AF_NETLINK" and not one.address.startswith(own)}


def test_the_watch_sees_what_it_must(tmp_path: Path) -> None:
    """A process that calls home is seen to: by TCP, by a datagram, by IPv6 and by a child."""
    code = (
        "import socket, subprocess, sys\n"
        "s = socket.socket(); s.settimeout(0.1)\n"
        "try: s.connect(('127.0.0.9', 9))\n"
        "except OSError: pass\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.8', 8))\n"
        "t = socket.socket(socket.AF_INET6)\n"
        "try: t.connect(('::1', 7))\n"
        "except OSError: pass\n"
        "if len(sys.argv) == 1:\n"
        "    subprocess.run([sys.executable, '-c', 'import socket; socket.socket().bind((\"127.0.0.7\", 0))'])\n"
    )
    traced = Traced([sys.executable, "-c", code], tmp_path, os.environ, ROOT)
    traced.process.wait(PATIENCE_SECONDS)
    found = asked((tmp_path / "trace").read_text())
    traced._log.close()
    expected = {("connect", "127.0.0.9:9"), ("sendto", "127.0.0.8:8"), ("bind", "127.0.0.7:0")}
    assert expected <= {(one.call, one.address) for one in found}
    assert Asked("connect", "[::1]:7") in found or not socket.has_ipv6


@pytest.mark.parametrize("lake", ["", pytest.param("none", marks=pytest.mark.soak)])
def test_a_server_listens_where_it_was_told_and_connects_to_nobody(tmp_path: Path, lake: str) -> None:
    """With its lake, its extensions, its analysis and its pages: one socket, the one in the settings."""
    client = Client(free_port())
    with Site(tmp_path / "s.duckdb", lake=not lake) as site:  # what its first pass books: it need not make another
        site.take([1])
        if not lake:
            site.seal()
    listen = f"127.0.0.1:{client.port}"
    flags = ["--store", str(tmp_path / "s.duckdb"), "--listen", listen, "--analyze-every", "60", "--seal-seconds", "1"]
    flags += ["--lake", lake] if lake else []
    environment = os.environ | {"GPULEDGER_COLLECTOR_TOKENS": TOKEN}
    traced = Traced([sys.executable, "-m", "gpuledger", "serve", *flags], tmp_path, environment, ROOT)
    try:
        until(lambda: answers(client), "the server answers", process=traced.process)
        assert client.post(body(2, sent_at=time.time_ns() // 1000), bearer(TOKEN)).status == 200
        booked = lambda: client.get("/v1/hours", bearer(TOKEN)).status == 200  # noqa: E731
        sealed = lambda: SEALED.search(client.get("/metrics", bearer(TOKEN)).text) or lake  # noqa: E731
        until(booked, "an hour is in the ledger", process=traced.process)
        until(sealed, "what came is in the lake", process=traced.process)
        for path in ("/", "/metrics", "/v1/openapi.json", "/v1/read?what=week&format=json", "/readyz"):
            client.get(path, bearer(TOKEN))
    finally:
        found = traced.stop()
    assert of_the_network(found) == {Asked("bind", listen)}, (tmp_path / "log").read_text()


def test_an_agent_speaks_to_its_collector_alone(tmp_path: Path) -> None:
    """It measures, joins, sends and serves /metrics; the first address is the collector's, the others are its own."""
    client = Client(free_port())
    metrics = Client(free_port())
    store = str(tmp_path / "s.duckdb")
    server = [sys.executable, "-m", "gpuledger", "serve", "--only", "collector", "--lake", "none", "--store", store]
    making = [sys.executable, "-m", "gpuledger", "admin", "access", "join", "--store", store]
    join = subprocess.run(making, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (tmp_path / "join").write_text(join)
    settings = {
        "COLLECTOR": f"http://127.0.0.1:{client.port}", "LISTEN": f"127.0.0.1:{metrics.port}", "BEAT_SECONDS": "0.2s",
        "BATCH_SECONDS": "0.2s", "SPOOL": str(tmp_path / "spool"), "JOIN_TOKEN_FILE": str(tmp_path / "join"),
        "KEY_FILE": str(tmp_path / "key"), "KUBELET": "", "PROGRESS": str(tmp_path / "progress.sock"),
    }  # fmt: skip
    environment = os.environ | {f"GPULEDGER_AGENT_{name}": value for name, value in settings.items()}
    with (tmp_path / "collector.log").open("wb") as log:
        collector = subprocess.Popen(
            [*server, "--listen", f"127.0.0.1:{client.port}"], cwd=ROOT, stdout=log, stderr=log
        )
    traced = Traced([sys.executable, "-m", "gpuledger", "agent"], tmp_path, environment, ROOT)
    try:
        until((tmp_path / "key").exists, "the agent has its key", process=traced.process)
        key = bearer((tmp_path / "key").read_text().strip())
        until(lambda: answers(metrics, "/metrics"), "the agent serves its metrics", process=traced.process)
        assert "gpuledger_" in metrics.get("/metrics").text
        assert client.get("/v1/schema", key).status == 200
    finally:
        found = traced.stop()
        collector.terminate()
        collector.wait(PATIENCE_SECONDS)
    assert of_the_network(found) == {
        Asked("bind", f"127.0.0.1:{metrics.port}"),
        Asked("connect", f"127.0.0.1:{client.port}"),
        Asked("bind", str(tmp_path / "progress.sock")),
    }, (tmp_path / "log").read_text()
