"""The collector over real sockets: in a thread for most tests, in a process of its own for those that kill it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from agent.wire.envelope import CONTENT_TYPE
from collector.config import CollectorConfig
from collector.http.app import create_app
from collector.pipeline.writer import Writer
from collector.store.database import Store, open_store
from collector.store.lake import LakeSettings
from tests.waiting import PATIENCE_SECONDS, until


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The answer's JSON."""
        return json.loads(self.text)


@dataclass(frozen=True)
class Client:
    """Talks to a collector on this machine; a connection a request, so that a killed server leaves nothing behind."""

    port: int

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a batch."""
        return self.request("POST", "/v1/batches", body, {"Content-Type": CONTENT_TYPE} | dict(headers or {}))

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Get a page."""
        return self.request("GET", path, None, headers or {})

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send anything."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()


@dataclass(frozen=True)
class Running:
    """A collector in this process: its client, its store and its writer."""

    client: Client
    store: Store
    writer: Writer

    def count(self, table: str) -> int:
        """Return the rows of a table."""
        with self.store.session() as session:
            return int(session.row(f"SELECT count(*) FROM {table}")[0])


@contextmanager
def running(
    config: CollectorConfig, writer_type: type[Writer] = Writer, *, lake: bool | LakeSettings = False
) -> Iterator[Running]:
    """Serve a collector from a thread, with a lake or as most tests have it, without."""
    opened = open_store(config) if lake is True else Store.open(config.store, lake=lake or None)
    with opened as store, socket.create_server(("127.0.0.1", 0)) as listener:
        writer = writer_type(store, config)
        app = create_app(config, store, writer)
        server = uvicorn.Server(uvicorn.Config(app.state.entrance, log_level="error", access_log=False, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started, "the collector listens")
            yield Running(Client(listener.getsockname()[1]), store, writer)
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)


class CollectorProcess:
    """A collector in a process of its own, as an operator runs it."""

    def __init__(self, store: Path) -> None:
        self.store = store
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.client = Client(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it answers."""
        self._process = self._spawned()
        until(self._answers, "the collector answers", process=self._process)

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it as a power cut would: no signal handler runs, nothing is flushed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)

    def stop(self) -> int:
        """End it as systemd does, and return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(PATIENCE_SECONDS)

    def _spawned(self) -> "subprocess.Popen[bytes]":
        code = "import sys; from agent import child; sys.exit(child.load('tests.collector.alone').serve(sys.argv[1:]))"
        flags = ["--store", str(self.store), "--listen", f"127.0.0.1:{self.client.port}"]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.Popen([sys.executable, "-c", code, *flags], env=environment)

    def _answers(self) -> bool:
        try:
            return self.client.get("/healthz").status == 200
        except OSError:
            return False
