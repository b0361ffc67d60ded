"""One POST of a batch over HTTP or HTTPS, and the collector's answer; nothing is decided here.

A batch that comes twice counts once, so that a connection may be kept (agent/connection.py).
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agent.connection import Connection, Reply, address
from agent.delivery.backoff import http_date
from agent.errors import ConfigError
from agent.wire.bounded import json_said
from agent.wire.envelope import CONTENT_TYPE, EPOCH_HEADER

TIMEOUT_SECONDS = 30.0
MAX_ANSWER_BYTES = 64 * 2**10
_BATCHES = "/v1/batches"
_BELIEVED = 2**62  # the largest number that is believed; microseconds and sequences are far below


@dataclass(frozen=True, slots=True)
class PostAnswer:
    """What was answered; what was not said is None. `server_time` is in microseconds, `date` that of the header.

    `reason` is the collector's word for a refusal: an answer without it is that of a proxy, or of something else.
    `put_aside` is how many rows of an accepted batch are not believed, and `disbelief` why the first is not.
    """

    status: int
    error: str = ""
    reason: str = ""
    sealed_through: int | None = None
    epoch: int | None = None
    server_time: int | None = None
    retry_after: str | None = None
    location: str | None = None
    date: datetime | None = None
    put_aside: int = 0
    disbelief: str = ""


class Link:
    """A connection to one collector, kept open while there is something to send.

    Raises:
        ConfigError: the address is none, or the certificate file cannot be read.
    """

    def __init__(self, url: str, token: str | None = None, ca_file: Path | None = None) -> None:
        try:
            parts = address(url)
        except ValueError as error:  # a port that is none, a bracket that is not closed
            raise ConfigError(f"{url!r} is not a collector's address; write it as http://host:8470") from error
        if token and not (token.isascii() and token.isprintable()):
            raise ConfigError("the token for the collector has characters that no HTTP header may have")
        self.host, self.url = parts.hostname or "", url.rstrip("/")
        self.secure = parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        self._headers = {"Content-Type": CONTENT_TYPE} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._token, self._ca_file = token, ca_file
        try:
            self._connection = Connection(url, TIMEOUT_SECONDS, authority=ca_file)
        except OSError as error:
            raise ConfigError(f"cannot read the certificates in {ca_file}: {error}") from error

    def post(self, body: bytes, epoch: int | None = None) -> PostAnswer:
        """Send one batch, under the epoch of its stream where that has changed hands, and return the answer.

        Raises:
            OSError: no answer came; whether the batch arrived is not known.
        """
        headers = self._headers | ({EPOCH_HEADER: str(epoch)} if epoch is not None else {})
        return _answer(
            self._connection.reply("POST", self._base + _BATCHES, body, headers, most_bytes=MAX_ANSWER_BYTES)
        )

    def owner(self, location: str) -> "Link | None":
        """Return a link to another collector of the same fleet: same token, same certificates.

        None where the location is no address, or where the token would be readable on its way: without TLS it goes to
        the host of the settings alone, whatever somebody answers in its name.
        """
        try:
            other = Link(location.removesuffix(_BATCHES), self._token, self._ca_file)
        except ConfigError:
            return None
        trusted = not self.secure and (not self._token or other.host == self.host)
        return other if other.secure or trusted else None

    def close(self) -> None:
        """Close the connection; the next post opens another."""
        self._connection.close()


def _answer(reply: Reply) -> PostAnswer:
    try:
        said = json_said(reply.body)
    except ValueError:
        said = None
    fields = said if isinstance(said, dict) else {}
    reasons = fields.get("reasons")
    return PostAnswer(
        status=reply.status,
        error=str(fields.get("error") or reply.reason)[:300],
        reason=str(fields.get("reason") or "")[:300],
        sealed_through=_number(fields.get("sealed_through")),
        epoch=_number(fields.get("epoch")),
        server_time=_number(fields.get("server_time")),
        retry_after=reply.headers.get("Retry-After"),
        location=reply.headers.get("Location"),
        date=http_date(reply.headers.get("Date")),
        put_aside=max(0, _number(fields.get("quarantined")) or 0),
        disbelief=str(reasons[0])[:300] if isinstance(reasons, list) and reasons else "",
    )


def _number(value: object) -> int | None:
    return value if type(value) is int and abs(value) < _BELIEVED else None
