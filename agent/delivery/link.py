"""The link to one collector: the POST of a batch, the waits after a failure, and the key of this host."""

import email.utils
import json
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from http import HTTPStatus
from pathlib import Path

from agent.config import AgentConfig
from agent.connection import Connection, Reply, address, ask, is_loopback, pause_seconds
from agent.errors import ConfigError
from agent.files import Disk
from agent.wire.bounded import json_said
from agent.wire.envelope import CONTENT_TYPE, EPOCH_HEADER

_FIRST_SECONDS = 1.0
LONGEST_SECONDS = 300.0
LONGEST_ASKED_SECONDS = 3600.0  # beyond this a Retry-After is a mistake, and obeying it an outage


class Backoff:
    """The waits of one sender. `fraction` draws from [0, 1)."""

    def __init__(self, fraction: Callable[[], float] = random.random) -> None:
        self._fraction = fraction
        self._failures = 0

    def succeeded(self) -> None:
        """Begin anew at the shortest wait."""
        self._failures = 0

    def seconds(self, asked: float | None = None) -> float:
        """Return how long to wait after one more failure.

        Between half of the doubled wait and all of it, so that a thousand agents do not come back in one second. Never
        less than the collector asked for, and up to as much again: it asked the thousand for the same.
        """
        fraction = self._fraction()
        wait = pause_seconds(self._failures, _FIRST_SECONDS, LONGEST_SECONDS, lambda: fraction)
        most = min(LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(self._failures, 30))
        self._failures += 1
        if asked is None:
            return wait
        asked = min(asked, LONGEST_ASKED_SECONDS)
        return max(wait, asked + min(asked, most) * fraction)


def retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds that a Retry-After header asks for, as seconds or as a date; None where it is neither.

    `now` is the clock of who answered: ours may differ from it by hours.
    """
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header.strip())
    until = http_date(header)
    return None if until is None else max(0.0, (until - (now or datetime.now(timezone.utc))).total_seconds())


def http_date(header: str | None) -> datetime | None:
    """Return the moment of an HTTP date, None where it is none."""
    try:
        moment = email.utils.parsedate_to_datetime(header or "")
    except (ValueError, TypeError, OverflowError, IndexError):  # what the parser raises depends on what is wrong
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


# One POST of a batch over HTTP or HTTPS, and the collector's answer; nothing is decided here.
#
# A batch that comes twice counts once, so that a connection may be kept (agent/connection.py).
_TIMEOUT_SECONDS = 30.0
_MAX_ANSWER_BYTES = 64 * 2**10
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
            raise ConfigError("the collector token has characters that are not valid in an HTTP header")
        self.host, self.url = parts.hostname or "", url.rstrip("/")
        self.secure = parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        self._headers = {"Content-Type": CONTENT_TYPE} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._token, self._ca_file = token, ca_file
        try:
            self._connection = Connection(url, _TIMEOUT_SECONDS, authority=ca_file)
        except OSError as error:
            raise ConfigError(f"cannot read the certificates in {ca_file}: {error}") from error

    def post(self, body: bytes, epoch: int | None = None) -> PostAnswer:
        """Send one batch, under the epoch of its stream where that has changed hands, and return the answer.

        Raises:
            OSError: no answer came; whether the batch arrived is not known.
        """
        headers = self._headers | ({EPOCH_HEADER: str(epoch)} if epoch is not None else {})
        return _answer(
            self._connection.reply("POST", self._base + _BATCHES, body, headers, most_bytes=_MAX_ANSWER_BYTES)
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
    fields = _fields(reply.body)
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


_LOG = logging.getLogger(__name__)
# A host's own key for the collector: had once for a join token, kept in a file that its user alone can read.
#
# The link asks for it when the first batch is due, and again with every further try, so that an agent measures and
# keeps what it measures while the collector is away, and one that was refused goes on as soon as an operator has made
# it right.
_ENROL = "/v1/enrol"
_LONGEST = 1000  # characters of a file that holds a key or token


def link_of(config: AgentConfig) -> Link:
    """Return the link to the collector: with the token of the settings, else with the host's key, else for a new one.

    Raises:
        ConfigError: the address is none, or a file of the settings cannot be read.
    """
    if config.token:
        return Link(config.collector, config.token, config.ca_file)
    key = _read(config.key_file) if config.key_file is not None and config.key_file.exists() else ""
    if key or config.join_token_file is None:
        return Link(config.collector, key, config.ca_file)
    if config.key_file is None:
        raise ConfigError("agent.join_token_file needs agent.key_file, to keep the key that it brings")
    _read(config.join_token_file)  # a missing one is found at the start
    return JoiningLink(config, config.join_token_file, config.key_file)


class JoiningLink(Link):
    """A link that shows a join token first, and from then on the key that it got for it."""

    def __init__(self, config: AgentConfig, join_token_file: Path, key_file: Path) -> None:
        super().__init__(config.collector, None, config.ca_file)
        self._join, self._key_file, self._node = join_token_file, key_file, config.node_name
        if not self.secure and not is_loopback(self.host):
            _LOG.warning("this host's key will be sent from %s as plain text; use https://", self.url)

    def post(self, body: bytes, *more: int | None) -> PostAnswer:
        """Send one batch; without a key ask for one first, and return the refusal where there is none to be had.

        Raises:
            OSError: no answer came, or the key cannot be written.
        """
        if not self._token and (refusal := self._enrol()) is not None:
            return refusal
        return super().post(body, *more)

    def _enrol(self) -> PostAnswer | None:
        if not self._key_file.parent.is_dir():  # asked first: the token has so many uses and no more
            return self._cannot_keep("its folder does not exist")
        try:
            answer, key = self._key(_read(self._join))
        except ConfigError as error:
            raise OSError(str(error)) from error
        if answer.status != HTTPStatus.CREATED or not key:
            # Never a status that judges the batch (400, 409, 413, 422): it waits until this is put right.
            status = answer.status if answer.status >= 500 else HTTPStatus.FORBIDDEN
            return PostAnswer(status, f"not enrolled: {answer.error}", "enrol")
        try:
            write_private(self._key_file, key)
        except OSError as error:  # the same token gives another key, as long as this one has opened nothing
            return self._cannot_keep(error.strerror or str(error))
        self._token = key
        self._headers = self._headers | {"Authorization": f"Bearer {key}"}
        _LOG.info("this host is enrolled as %s; its key is in %s", self._node, self._key_file)
        return None

    def _cannot_keep(self, why: str) -> PostAnswer:
        return PostAnswer(HTTPStatus.FORBIDDEN, f"not enrolled: cannot write key_file {self._key_file}: {why}", "enrol")

    def _key(self, token: str) -> tuple[PostAnswer, str]:
        """Show the join token; return what was answered, and the key in it."""
        body = json.dumps({"token": token, "node": self._node}).encode()
        reply = ask(
            self.url + _ENROL,
            body,
            {"Content-Type": "application/json"},
            timeout_seconds=_TIMEOUT_SECONDS,
            most_bytes=_MAX_ANSWER_BYTES,
            authority=self._ca_file,
        )
        said = _fields(reply.body)
        key = said.get("key")
        sentence = str(said.get("error") or reply.reason)[:300]
        return PostAnswer(reply.status, sentence), key if isinstance(key, str) and _is_shown(key) else ""


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, whole or not at all, safe from a power cut.

    Raises:
        OSError: it cannot be written.
    """
    Disk(private=True).write(path, f"{text}\n".encode())


def _read(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(_LONGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not text'}") from error
    if not _is_shown(text):
        raise ConfigError(
            f"{path} does not hold a key or token; expected the one line that gpuledger admin access printed"
        )
    return text


def _is_shown(text: str) -> bool:
    """Return whether this can stand in a header: nothing else of it is checked, and it is never told."""
    return bool(text) and len(text) < _LONGEST and text.isascii() and text.isprintable() and " " not in text


def _fields(content: bytes) -> dict[str, object]:
    try:
        said = json_said(content)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
