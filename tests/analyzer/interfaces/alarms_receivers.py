"""Real receivers on loopback: a webhook that answers as it is told to, and Alertmanager itself."""

import json
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.ports import free_port
from tests.waiting import PATIENCE_SECONDS, until


class Hook:
    """A webhook: what it got, and what it answers next."""

    def __init__(self) -> None:
        self.answers = 200
        self.location: str | None = None
        self.got: list[tuple[dict[str, str], bytes]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook?team=gpu"

    def events(self) -> list[dict[str, Any]]:
        """Return what it took, as JSON."""
        return [json.loads(body) for _, body in self.got]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if hook.answers == 200:
                    hook.got.append((dict(self.headers), body))
                self.send_response(hook.answers)
                if hook.location:
                    self.send_header("Location", hook.location)
                self.send_header("Content-Length", "5")
                self.end_headers()
                self.wfile.write(b"words")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler

    def __enter__(self) -> "Hook":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def alertmanager(directory: Path, hook: str) -> Iterator[str]:
    """Run Alertmanager, which hands what it gets to a webhook, and yield its address."""
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("needs Alertmanager: make services")
    config = {
        "route": {"receiver": "hook", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"},
        "receivers": [{"name": "hook", "webhook_configs": [{"url": hook, "send_resolved": True}]}],
    }
    (directory / "alertmanager.yml").write_text(json.dumps(config))
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        program, f"--config.file={directory / 'alertmanager.yml'}", f"--storage.path={directory / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}", "--cluster.listen-address=",
    ]  # fmt: skip
    with (
        (directory / "alertmanager.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as running,
    ):
        try:
            until(lambda: ready(f"{url}/-/ready"), "Alertmanager is ready", process=running)
            yield url
        finally:
            running.terminate()


def ready(url: str) -> bool:
    """Return whether an address answers."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
