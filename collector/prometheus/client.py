"""Ask a Prometheus or VictoriaMetrics over HTTP: bounded in time, bytes and repetitions, foreign failures renamed.

One connection is kept from question to question (agent/connection.py).
"""

import base64
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from agent.connection import Connection, address, pause_seconds
from agent.wire.units import MILLISECOND_US
from collector.errors import ServerError
from collector.pipeline.decoding.range_checks import Array
from collector.prometheus.answer import SeriesAnswer, exported_samples, matrix

_COMPLAINT_BYTES = 4096
_TOO_BUSY = frozenset({429, 500, 502, 503, 504})  # worth another try; what else is refused stays refused
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
_PART_SECONDS = 86_400  # of what one question of `series` asks for

_Query = Sequence[tuple[str, str | int | float]]


@dataclass(frozen=True, slots=True)
class Server:
    """Where the server is, and how we show who we are. A secret is a file, read for every connection."""

    url: str  # with the path before /api/v1, where there is one
    token: Path | None = None  # file of a bearer token
    user: str | None = None  # of basic authentication, whose password is in the file `password`
    password: Path | None = None
    ca: Path | None = None  # file of the certificates to trust instead of the system's
    headers: Mapping[str, str] = field(default_factory=dict)  # such as X-Scope-OrgID
    timeout_seconds: float = 120.0  # of one answer
    attempts: int = 4  # of one question, with growing pauses
    most_bytes: int = 512 * 2**20  # of one answer

    def __post_init__(self) -> None:
        try:
            place = address(self.url)
            if place.query or place.fragment:
                raise ValueError("an address of a server has no query")
        except ValueError as error:
            words = f"{self.url!r} is no address of a server; it looks like http://prometheus:9090"
            raise ServerError(words) from error
        if place.username or place.password:
            raise ServerError("an address must not bear a password, which others could read; put it into a file")


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one series, in order: times in milliseconds UTC (int64) and values (float64), of equal length."""

    labels: Mapping[str, str]  # with __name__
    times: Array
    values: Array


class Client:
    """One server. Use it in one thread; close it."""

    def __init__(self, server: Server, sleep: Callable[[float], None] = time.sleep) -> None:
        self.server = server
        self.received_bytes = 0
        self.repeated_questions = 0
        self._place = urlsplit(server.url)
        self._sleep = sleep
        self._connection: Connection | None = None
        self._exports: bool | None = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @property
    def exports(self) -> bool:
        """Whether the server tells samples as they are stored by /api/v1/export, as VictoriaMetrics does.

        Raises:
            ServerError: it cannot be reached.
        """
        if self._exports is None:
            nothing: _Query = [("match[]", '{__name__="gpuledger_is_this_victoriametrics"}'), ("start", 0), ("end", 1)]
            status, _ = self._answered("/api/v1/export", nothing, refusals=(400, 404, 405, 422))
            self._exports = status == HTTPStatus.OK
        return self._exports

    def another(self) -> "Client":
        """Return a client of the same server for another thread."""
        found = Client(self.server, self._sleep)
        found._exports = self._exports
        return found

    def samples(self, selector: str, since: int, until: int) -> SeriesAnswer:
        """Return all samples of a selector as they were stored, between two times, milliseconds UTC, both told.

        Stale markers are not told, or as NaN.

        Raises:
            ServerError: the server cannot be reached, says no, or says what cannot be read.
        """
        if self.exports:
            query: _Query = [
                ("match[]", selector),
                ("start", since / 1000),
                ("end", until / 1000),
                ("reduce_mem_usage", 1),
            ]
            return exported_samples(self._read("/api/v1/export", query))
        # Prometheus 2 tells a sample at the very start of a range, Prometheus 3 does not: a millisecond more is asked.
        ask: _Query = [
            ("query", f"{selector}[{until - since + 1}ms]"),
            ("time", until / 1000),
            ("timeout", self._patience),
        ]
        return matrix(self._read("/api/v1/query", ask))

    def evaluated(self, expression: str, since: int, until: int, step: int) -> SeriesAnswer:
        """Return an expression's values at since, since + step, … until, milliseconds UTC; exceptions as `samples`."""
        ask: _Query = [
            ("query", expression),
            ("start", since / 1000),
            ("end", until / 1000),
            ("step", step / 1000),
            ("timeout", self._patience),
        ]
        return matrix(self._read("/api/v1/query_range", ask))

    def series(self, selector: str, since: int, until: int) -> Iterator[Series]:
        """Yield every series of a selector like kube_pod_info{namespace="research"} with its samples as stored.

        Times are microseconds UTC; a sample at `since` is told, one at `until` is not. Long spans are asked for in
        parts of a day, so that a series comes once a part.

        Raises:
            ServerError: the server cannot be reached or says no.
        """
        start, end = since // MILLISECOND_US, until // MILLISECOND_US
        while start < end:
            part = min(start + _PART_SECONDS * 1000, end)
            answer = self.samples(selector, start, part - 1)
            at = 0
            for labels, length in zip(answer.labels, answer.lengths, strict=True):
                yield Series(labels, answer.times.slice(at, length), answer.values.slice(at, length))
                at += length
            start = part

    def names(self, label: str, selector: str, since: int, until: int) -> list[str]:
        """Return the values of a label among the series of a selector; times and exceptions as `samples`."""
        path = f"/api/v1/label/{label}/values"
        found = self.json(path, [("match[]", selector), ("start", since / 1000), ("end", until / 1000)])
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

    def json(self, path: str, query: _Query = ()) -> Any:  # noqa: ANN401 - JSON
        """Return what is under `data` of an answer; exceptions as `samples`."""
        try:
            said = orjson.loads(self._read(path, query, get=True))
        except orjson.JSONDecodeError as error:
            raise ServerError(f"{self.server.url}{path} is no Prometheus: its answer is no JSON") from error
        return said.get("data") if isinstance(said, dict) else None

    @property
    def _patience(self) -> str:
        return f"{self.server.timeout_seconds:g}s"

    def _read(self, path: str, query: _Query, *, get: bool = False) -> bytes:
        return self._answered(path, query, get=get)[1]

    def _answered(
        self, path: str, query: _Query, *, get: bool = False, refusals: tuple[int, ...] = ()
    ) -> tuple[int, bytes]:
        """Ask until there is an answer, or patience ends. What is refused for good is not asked again."""
        for attempt in range(1, self.server.attempts + 1):
            try:
                status, said = self._ask(path, query, get)
                if status == HTTPStatus.OK or status in refusals:
                    return status, said
                if status not in _TOO_BUSY or attempt == self.server.attempts:
                    raise ServerError(self._refused(path, status, said))
            except OSError as error:
                self.close()
                if attempt == self.server.attempts or isinstance(error, ssl.SSLError):
                    raise self._lost(error) from error
            self.repeated_questions += 1
            self._sleep(pause_seconds(attempt - 1, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))
        raise AssertionError("BUG: a last attempt that neither returned nor raised")

    def _ask(self, path: str, query: _Query, get: bool) -> tuple[int, bytes]:
        connection = self._connection = self._connection or self._connected()
        target, form = self._place.path.rstrip("/") + path, urlencode(query)
        headers = {"Accept-Encoding": "identity", **self.server.headers, **self._secret()}
        most, seconds = self.server.most_bytes, 2 * self.server.timeout_seconds  # until it comes, and until it has come
        if get:
            target = f"{target}?{form}" if form else target
            reply = connection.reply("GET", target, None, headers, most_bytes=most, whole_seconds=seconds)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            reply = connection.reply("POST", target, form, headers, most_bytes=most, whole_seconds=seconds)
        if not reply.is_whole:
            raise ServerError(f"{self.server.url} said more than {most} bytes at once")
        self.received_bytes += len(reply.body)
        return reply.status, reply.body

    def _connected(self) -> Connection:
        try:
            return Connection(self.server.url, self.server.timeout_seconds, authority=self.server.ca)
        except OSError as error:
            raise ServerError(f"the certificates in {self.server.ca} cannot be used: {error}") from error

    def _secret(self) -> dict[str, str]:
        if self.server.token is not None:
            return {"Authorization": f"Bearer {_secret_in(self.server.token)}"}
        if self.server.user is None:
            return {}
        password = _secret_in(self.server.password) if self.server.password else ""
        pair = base64.b64encode(f"{self.server.user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}

    def _refused(self, path: str, status: int, said: bytes) -> str:
        try:
            answer = orjson.loads(said)
            words = str(answer["error"]) if isinstance(answer, dict) and "error" in answer else ""
        except orjson.JSONDecodeError:
            words = ""
        words = words or said[:_COMPLAINT_BYTES].decode(errors="replace").strip() or "-"
        hint = "; name a file with --token-file, or --user and --password-file" if status in (401, 403) else ""
        return f"{self.server.url}{path} refuses with {status}: {words[:500]}{hint}"

    def _lost(self, error: Exception) -> ServerError:
        return ServerError(f"{self.server.url} cannot be asked: {error or type(error).__name__}")


def _secret_in(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ServerError(f"the secret in {file} cannot be read: {why}") from error
