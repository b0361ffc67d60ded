"""One POST of a batch over HTTP or HTTPS, and the collector's answer; nothing is decided here."""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agent.errors import ConfigError
from agent.wire.envelope import CONTENT_TYPE

TIMEOUT_SECONDS = 30.0
MAX_ANSWER_BYTES = 64 * 2**10
BATCHES = "/v1/batches"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the collector said. `sealed_through` and `server_time` (microseconds) are None where it did not say."""

    status: int
    error: str = ""
    sealed_through: int | None = None
    server_time: int | None = None
    retry_after: str | None = None
    location: str | None = None


class Link:
    """A connection to one collector, kept open while there is something to send.

    Raises:
        ConfigError: the address is none, or the certificate file cannot be read.
    """

    def __init__(self, url: str, token: str | None = None, ca_file: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{url!r} is not a collector's address; write it as http://host:8470")
        self.url = url.rstrip("/")
        self.host = parts.hostname
        self.secure = parts.scheme == "https"
        self._port = parts.port
        self._path = parts.path.rstrip("/") + BATCHES
        self._headers = {"Content-Type": CONTENT_TYPE} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._token, self._ca_file = token, ca_file
        self._tls = _context(ca_file) if self.secure else None
        self._connection: http.client.HTTPConnection | None = None

    def post(self, body: bytes) -> Answer:
        """Send one batch and return the answer.

        Raises:
            OSError, http.client.HTTPException: no answer came; whether the batch arrived is not known.
        """
        connection = self._connection or self._connected()
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            content = response.read(MAX_ANSWER_BYTES)
            if response.will_close or not response.isclosed():
                self.close()
            return _answer(response, content)
        except BaseException:
            self.close()
            raise

    def other(self, url: str) -> "Link":
        """Return a link to another collector of the same fleet: same token, same certificates."""
        return Link(url.removesuffix(BATCHES), self._token, self._ca_file)

    def close(self) -> None:
        """Close the connection; the next post opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            self._connection = http.client.HTTPSConnection(
                self.host, self._port, timeout=TIMEOUT_SECONDS, context=self._tls
            )
        else:
            self._connection = http.client.HTTPConnection(self.host, self._port, timeout=TIMEOUT_SECONDS)
        return self._connection


def _context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConfigError(f"cannot read the certificates in {ca_file}: {error}") from error


def _answer(response: http.client.HTTPResponse, content: bytes) -> Answer:
    try:
        said = json.loads(content)
    except ValueError:
        said = None
    fields = said if isinstance(said, dict) else {}
    return Answer(
        status=response.status,
        error=str(fields.get("error") or response.reason)[:300],
        sealed_through=_number(fields.get("sealed_through")),
        server_time=_number(fields.get("server_time")),
        retry_after=response.getheader("Retry-After"),
        location=response.getheader("Location"),
    )


def _number(value: object) -> int | None:
    return value if type(value) is int else None
