"""Ask an API server over plain HTTP, keep up what it says of a collection, and read single fields of its JSON.

It is bounded in time and in what it may say, foreign failures renamed. One connection is kept from question to
question. The service account's token is read for every question, since the kubelet renews it within the hour. Any field
may be absent or of another kind; unknown is None.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

from agent.connection import Connection, Response
from agent.wire.units import SECOND_US
from collector.errors import SchedulerError

_TEXT_MAX = 512  # characters of one text that is kept

Json = Mapping[str, Any]


def at(thing: object, *path: str) -> object:
    """Return what lies below these names, or None where there is nothing."""
    for name in path:
        if not isinstance(thing, Mapping):
            return None
        thing = thing.get(name)
    return thing


def text(thing: object, *path: str) -> str | None:
    """Return a text that is not empty, what is no Unicode as question marks, and not too long."""
    found = at(thing, *path)
    if not isinstance(found, str) or not found:
        return None
    return found[:_TEXT_MAX].encode("utf-8", "replace").decode()


def whole_number(thing: object, *path: str) -> int | None:
    """Return a number that counts something; a flag is none."""
    found = at(thing, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def objects(thing: object, *path: str) -> Iterator[Json]:
    """Yield the objects of a list."""
    found = at(thing, *path)
    if isinstance(found, list):
        yield from (one for one in found if isinstance(one, Mapping))


def texts(thing: object, *path: str) -> dict[str, str]:
    """Return an object of texts, as labels are."""
    found = at(thing, *path)
    if not isinstance(found, Mapping):
        return {}
    known = {key: text(found, key) for key in found if isinstance(key, str)}
    return {key: value for key, value in known.items() if value is not None}


def timestamp_us(thing: object, *path: str) -> int | None:
    """Return a time like 2026-11-21T08:15:00Z or with parts of seconds, in microseconds UTC."""
    found = text(thing, *path)
    if found is None:
        return None
    try:
        when = datetime.fromisoformat(found)
    except ValueError:
        return None
    if when.tzinfo is None:
        return None
    return int(when.timestamp()) * SECOND_US + when.microsecond if when.year > 1970 else None


def condition(thing: object, kind: str) -> Json | None:
    """Return the condition of this type in an object's status."""
    return next((one for one in objects(thing, "status", "conditions") if one.get("type") == kind), None)


def holds(thing: object, kind: str) -> bool:
    """Return whether the condition of this type is there and true."""
    found = condition(thing, kind)
    return found is not None and found.get("status") == "True"


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
                f"the API server sent more than {self._server.most_bytes} bytes; raise collector.kubernetes_bytes"
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
            raise SchedulerError(f"the answer to {path} is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise SchedulerError(f"the answer to {path} is not an object")
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


T = TypeVar("T")
_PAGE = 500  # objects in one piece of a list
_PAGES_MAX = 2000
_WATCH_SECONDS = 2  # the server then ends its answer: what has changed comes at once, and the rest next time
_LIST_AGAIN_US = 1800 * SECOND_US  # though every change was told, or so it seems
_GONE = 410  # what changed since then is no longer remembered
_NOT_TOLD = (403, 404, 405)


class Mirror(Generic[T]):
    """Holds, by uid, what `read` made of each object, None being left out.

    `departed` holds the last state of those that were deleted since it was last emptied; one that went unseen, while
    nobody watched, is in neither. An `optional` collection that is not served, or not for us, is empty.
    """

    def __init__(self, api: Api, path: str, read: Callable[[Json], T | None], *, optional: bool = False) -> None:
        self.things: dict[str, T] = {}
        self.departed: dict[str, T] = {}
        self.served = True
        self._api = api
        self._path = path
        self._read = read
        self._optional = optional
        self._version: str | None = None
        self._listed_at = 0
        self._watched = True

    def refresh(self, now: int) -> None:
        """Bring it up to date. `now` is in microseconds UTC.

        Raises:
            SchedulerError: the server did not answer; what is held is as old as before.
        """
        if self._version is not None and self._watched and 0 <= now - self._listed_at < _LIST_AGAIN_US:
            try:
                self._follow(self._version)
                return
            except AnswerError as error:
                self._version = None
                self._watched = error.status not in _NOT_TOLD
        elif not self.served and 0 <= now - self._listed_at < _LIST_AGAIN_US:
            return
        self._list(now)

    def _list(self, now: int) -> None:
        try:
            found, version = self._pages()
        except AnswerError as error:
            if not self._optional or error.status not in _NOT_TOLD:
                raise
            found, version = {}, None
            self.served = False
        else:
            self.served = True
        self.things, self._version, self._listed_at = found, version, now

    def _pages(self) -> tuple[dict[str, T], str | None]:
        found: dict[str, T] = {}
        more: dict[str, str | int] = {}
        for _ in range(_PAGES_MAX):
            page = self._api.get(self._path, limit=_PAGE, **more)
            for thing in objects(page, "items"):
                self._take(found, thing)
            token = at(page, "metadata", "continue")  # opaque, and longer than any text that is kept
            if not isinstance(token, str) or not token:
                return found, text(page, "metadata", "resourceVersion")
            more = {"continue": token}
        raise SchedulerError(f"{self._path} has more than {_PAGE * _PAGES_MAX} objects")

    def _follow(self, version: str) -> None:
        """Take what changed since a version; where that is no longer known, a 410 asks for a new list."""
        changes = self._api.watch(
            self._path, resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds=_WATCH_SECONDS
        )
        for change in changes:
            thing, kind = at(change, "object"), text(change, "type")
            if kind == "ERROR" or not isinstance(thing, dict):
                status = at(thing, "code")
                raise AnswerError(status if isinstance(status, int) else _GONE, f"{self._path} cannot be watched")
            self._apply(kind, thing)
            self._version = text(thing, "metadata", "resourceVersion") or self._version

    def _apply(self, kind: str | None, thing: Json) -> None:
        if kind in ("ADDED", "MODIFIED"):
            self._take(self.things, thing)
        elif kind == "DELETED":
            self._take(self.departed, thing)
            self.things.pop(text(thing, "metadata", "uid") or "", None)

    def _take(self, into: dict[str, T], thing: Json) -> None:
        uid = text(thing, "metadata", "uid")
        if uid is None:
            return
        found = self._read(thing)
        if found is None:
            into.pop(uid, None)
        else:
            into[uid] = found
