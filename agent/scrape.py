"""Serve /metrics over HTTP: one request at a time, short ones, and nothing else."""

import http.server
import logging
import socketserver
import threading
from http import HTTPStatus

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from agent.errors import ConfigError

_LOG = logging.getLogger(__name__)
TIMEOUT_SECONDS = 5.0  # for a client to send its request: one slow client must not keep the others out for long


class ScrapeServer:
    """The HTTP server of one agent; start() it, stop() it. `port` is the one it listens on, also where 0 was asked.

    Raises:
        ConfigError: the address cannot be listened on.
    """

    def __init__(self, host: str, port: int, families: CollectorRegistry) -> None:
        handler = type("Handler", (_Handler,), {"families": families})
        try:
            self._server = _Server((host, port), handler)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port} ({error}); set listen to another address, or to off"
            ) from error
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.TCPServer):
    """Not http.server.HTTPServer, which asks the DNS for its own name before it listens."""

    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  the server's signature
        _LOG.debug("a scrape from %s broke off", client_address, exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    families: CollectorRegistry
    timeout = TIMEOUT_SECONDS
    server_version = "gpuledger-agent"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == "/metrics":
            self._answer(HTTPStatus.OK, generate_latest(self.families), CONTENT_TYPE_PLAIN_0_0_4)
        elif path == "/":
            self._answer(HTTPStatus.OK, b"gpuledger agent: see /metrics\n", "text/plain; charset=utf-8")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"there is only /metrics here\n", "text/plain; charset=utf-8")

    def _answer(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  the name is http.server's
        _LOG.debug(format, *arguments)
