"""A real Prometheus, a real VictoriaMetrics, and an exporter that serves what a test puts there."""

import http.client
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.ports import free_port
from tests.waiting import PATIENCE_SECONDS, until


class Exporter:
    """Serves a page; `page` may be changed, and None refuses the scrape. `scrapes` counts those that were answered."""

    def __init__(self) -> None:
        self.page: str | None = ""
        self.scrapes = 0
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = exporter.answered()
                self.send_response(500 if page is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write((page or "").encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answered(self) -> str | None:
        """Return the page of the next scrape; a subclass may make it of the number of scrapes so far."""
        self.scrapes += 1
        return self.page

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def need(program: str, package: str) -> str:
    """Return the path of a program, or skip."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is missing: apt-get install {package}")
    return found


@contextmanager
def prometheus(
    folder: Path,
    scrape: str = "",
    remote_write: str = "",
    data: Path | None = None,
    rules: Sequence[Path] = (),
    alertmanager: str = "",
) -> Iterator[str]:
    """Run a Prometheus and yield its address; `scrape` and `remote_write` are YAML below these keys.

    It evaluates `rules`, and tells the Alertmanager at this address what fires.
    """
    program, port = need("prometheus", "prometheus"), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n"
        f"scrape_configs: {scrape or '[]'}\nremote_write: {remote_write or '[]'}\n"
        f"rule_files: {json.dumps([str(file) for file in rules])}\n" + _alerting(alertmanager)
    )
    arguments = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={data or folder / 'data'}",
        "--storage.tsdb.retention.time=20y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with _running(arguments, folder / "log", port, "/-/ready"):
        yield f"http://127.0.0.1:{port}"


def _alerting(alertmanager: str) -> str:
    target = alertmanager.removeprefix("http://")
    return f"alerting: {{alertmanagers: [{{static_configs: [{{targets: [{target!r}]}}]}}]}}\n" if target else ""


@contextmanager
def alertmanager(folder: Path, config: str) -> Iterator[str]:
    """Run an Alertmanager of one and yield its address; `config` is its YAML."""
    program, port = need("prometheus-alertmanager", "prometheus-alertmanager"), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "alertmanager.yml").write_text(config)
    arguments = [
        program,
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    with _running(arguments, folder / "log", port, "/-/ready"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def victoriametrics(folder: Path) -> Iterator[str]:
    """Run a VictoriaMetrics and yield its address."""
    program, port = need("victoria-metrics", "victoria-metrics"), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [
        program,
        f"-storageDataPath={folder / 'data'}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=20y",
        "-search.latencyOffset=0s",
        "-memory.allowedPercent=10",
    ]
    with _running(arguments, folder / "log", port, "/health"):
        yield f"http://127.0.0.1:{port}"


def post(url: str, path: str, body: bytes) -> None:
    """Send something to a server of a test."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_SECONDS)
    try:
        connection.request("POST", path, body)
        answer = connection.getresponse()
        assert answer.status < 300, answer.read()
        answer.read()
    finally:
        connection.close()


@contextmanager
def _running(arguments: list[str], log: Path, port: int, ready: str) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=out)
        try:
            until(lambda: _answers(port, ready), f"{arguments[0]} answers", process=process, more=log.read_text)
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
