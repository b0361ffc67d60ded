"""Ask an API server over plain HTTP: bounded in time and in what it may say, foreign failures renamed.

One connection is kept from question to question. The service account's token is read for every question, since the
kubelet renews it within the hour.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from agent.connection import Connection, Response
from collector.errors import SchedulerError
from collector.schedulers.kubernetes.fields import Json, text

_LINE_BYTES = 8 * 2**20  # of one watched object; the server's own store takes no more than 1.5 MiB
_COMPLAINT_BYTES = 4096
CLUSTER_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class AnswerError(SchedulerError):
    """The API server answered, but not with what was asked for. `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Server:
    """Where the API server is, and how we show who we are; without files, as from outside a cluster, not at all."""

    url: str
    token: Path | None = None
    ca: Path | None = None
    timeout_seconds: float = 30.0
    most_bytes: int = 64 * 2**20


class Api:
    """One API server. Use it in one thread."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._place = urlsplit(server.url)
        self._connection: Connection | None = None

    def get(self, path: str, **query: str | int) -> Json:
        """Return an answer of one piece.

        Raises:
            AnswerError: the server says no.
            SchedulerError: it cannot be reached, is too slow, or says too much.
        """
        response, until = self._ask(path, query)
        try:
            said = self._read(response, until)
        except OSError as error:
            raise self._lost(error) from error
        return self._parsed(said, path)

    def watch(self, path: str, **query: str | int) -> Iterator[Json]:
        """Yield what changes until the server ends the answer; what is cut short is simply not told.

        Raises:
            AnswerError: the server says no.
            SchedulerError: as for `get`.
        """
        response, until = self._ask(path, {"watch": 1, **query})
        taken, line = 0, b"-"
        try:
            while line := response.line(_LINE_BYTES + 1):
                taken += len(line)
                self._check(taken, until)
                if not line.endswith(b"\n"):
                    break  # cut short
                if line.strip():
                    yield self._parsed(line, path)
        except OSError as error:
            raise self._lost(error) from error
        finally:
            response.close()
            if line:  # it was left before its end, so that the connection is of no more use
                self.close()

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _ask(self, path: str, query: dict[str, str | int]) -> tuple[Response, float]:
        target = f"{self._place.path.rstrip('/')}{path}{'?' if query else ''}{urlencode(query)}"
        headers = {"Accept": "application/json"}
        if self._server.token is not None:
            headers["Authorization"] = f"Bearer {_token(self._server.token)}"
        connection = self._connection = self._connection or self._connected()
        try:
            response = connection.response("GET", target, headers=headers)
        except OSError as error:
            raise self._lost(error) from error
        until = time.monotonic() + self._server.timeout_seconds
        if response.status != HTTPStatus.OK:
            raise self._refused(response, path, until)
        return response, until

    def _connected(self) -> Connection:
        try:
            return Connection(self._server.url, self._server.timeout_seconds, authority=self._server.ca)
        except OSError as error:
            raise SchedulerError(f"the certificates in {self._server.ca} cannot be used: {error}") from error
        except ValueError as error:
            raise SchedulerError(f"the API server's address cannot be used: {error}") from error

    def _read(self, response: Response, until: float) -> bytes:
        parts: list[bytes] = []
        taken = 0
        while chunk := response.piece():
            taken += len(chunk)
            self._check(taken, until)
            parts.append(chunk)
        return b"".join(parts)

    def _check(self, taken: int, until: float) -> None:
        if taken > self._server.most_bytes:
            self.close()
            raise SchedulerError(
                f"the API server said more than {self._server.most_bytes} bytes; raise collector.kubernetes_bytes"
            )
        if time.monotonic() > until:
            self.close()
            raise SchedulerError(
                f"the API server took longer than {self._server.timeout_seconds:g} s; "
                "raise collector.kubernetes_timeout_seconds"
            )

    def _refused(self, response: Response, path: str, until: float) -> AnswerError:
        try:
            said = self._read(response, until)[:_COMPLAINT_BYTES]
        except OSError:
            said = b""
        try:
            message = text(json.loads(said), "message") or ""
        except (ValueError, RecursionError):
            message = ""
        hint = "; see kubernetes/base/rights.yaml for the rights it needs" if response.status in (401, 403) else ""
        return AnswerError(response.status, f"{path} is refused with {response.status}: {message or '-'}{hint}")

    def _parsed(self, said: bytes, path: str) -> Json:
        try:
            found = json.loads(said)
        except (ValueError, RecursionError) as error:
            raise SchedulerError(f"the answer to {path} is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise SchedulerError(f"the answer to {path} is no object")
        return found

    def _lost(self, error: Exception) -> SchedulerError:
        self.close()
        return SchedulerError(
            f"the API server at {self._server.url} cannot be reached: {error or type(error).__name__}"
        )


def _token(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise SchedulerError(f"the token in {file} cannot be read: {error.strerror}") from error
