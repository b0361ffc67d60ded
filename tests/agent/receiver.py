"""A collector's stand-in: it takes batches over real HTTP, answers as it is told, and remembers what it was sent."""

import contextlib
import http.server
import json
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tests.agent.batches import identity


@dataclass
class Reply:
    """An answer: status, the JSON of its body, further headers; `raw` in place of JSON."""

    status: int = 200
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None


class Receiver:
    """Listens on a free port. `answer` gets each body and says what to answer; None drops the connection unanswered."""

    def __init__(
        self, answer: Callable[[bytes], Reply | None] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._scheme = "http" if tls is None else "https"
        self.bodies: list[bytes] = []
        self.authorizations: list[str | None] = []
        self.epochs: list[str | None] = []
        self.open: list[socket.socket] = []
        self.answer = answer or self.accept
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.receiver = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self.hang_up()
        self._server.server_close()
        self._thread.join()

    @property
    def connections(self) -> int:
        """How often somebody connected."""
        return len(self.open)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    @property
    def port(self) -> int:
        """Its port."""
        return int(self._server.server_address[1])

    def hang_up(self) -> None:
        """Close every connection, as a collector does with those that are idle."""
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def accept(self, body: bytes) -> Reply:
        """Take a batch and call it sealed."""
        _, sequence = identity(body)
        return Reply(body={"sequence": sequence, "sealed_through": sequence, "server_time": time.time_ns() // 1000})


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    receiver: Receiver

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is killed in mid-sentence is what these tests are about."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body of an answer are two writes, and the second would wait 40 ms
    server: _Server
    connection: socket.socket

    def setup(self) -> None:
        """Count connections."""
        super().setup()
        self.server.receiver.open.append(self.connection)

    def do_GET(self) -> None:
        """Say that we are here."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """Answer as told."""
        receiver = self.server.receiver
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return
        receiver.bodies.append(body)
        receiver.authorizations.append(self.headers["Authorization"])
        receiver.epochs.append(self.headers["Gpuledger-Epoch"])
        reply = receiver.answer(body) if self.path == "/v1/batches" else Reply(404)
        if reply is None:
            self.close_connection = True
            return
        content = json.dumps(reply.body).encode() if reply.raw is None else reply.raw
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Be silent."""
