"""The one way to the figures: the API below /v1, of a store in this process or of a server elsewhere."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlencode

from anyio import from_thread
from fastapi import FastAPI
from starlette.types import ASGIApp, Message

from analyzer.capacity.planner.ledger import HISTORY_PATH, NODES_PATH, History, StockNode
from analyzer.capacity.planner.problem import UnseenError
from analyzer.errors import LedgerError, UnansweredError
from analyzer.interfaces.api.routes import add_api
from analyzer.ledger.believed import believing
from analyzer.queries.ledger_query import QueuedRun
from analyzer.server_client import WRONG_USAGE, server_answer, typed
from analyzer.settings.settings import Settings
from collector.access.access import Access
from collector.access.gate import Gate
from collector.config import CollectorConfig
from collector.store.database import Store, open_for_command
from collector.store.session import Session


async def get(app: ASGIApp, path: str, query: str, headers: Sequence[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    """Return the status and the body that the application answers with; what it raises is raised here."""
    status, body = 500, bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))

    await app(_scope(path, query, headers), receive, send)
    return status, bytes(body)


def _scope(path: str, query: str, headers: Sequence[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": quote(path, safe="/%").encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 80),
        "state": {},
    }


_WAITING_MOST = 32
Query = Mapping[str, object]  # of a parameter its value, or a list of them; None and empty ones are left out


class Site(Protocol):
    """Where the ledger is read."""

    async def ask(self, path: str, query: Query, authorization: str | None) -> dict[str, Any]:
        """Return the document at an address below /v1, as the holder of this Authorization may see it.

        Raises:
            UnansweredError: it is refused, or does not answer.
        """


class OwnSite:
    """A store that this process reads. It is open only while it is read: a server or an analysis may begin meanwhile.

    One question at a time is answered, and few wait. Without `access` whoever asks may see everything, as with any
    reading command: who can start this process can read its files.
    """

    def __init__(self, config: CollectorConfig, settings: Settings, access: Access | None = None) -> None:
        self._config = config
        self._settings = settings
        self._store: Store | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        add_api(app, self._session, settings)
        self._app: ASGIApp = app if access is None else Gate(app, access)

    async def ask(self, path: str, query: Query, authorization: str | None) -> dict[str, Any]:
        """Return a document of the store. Raises as Site.ask()."""
        headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1", "replace"))]
        if self._waiting >= _WAITING_MOST:
            raise UnansweredError("too many concurrent requests; retry in a few seconds", 503)
        self._waiting += 1
        try:
            async with self._turn:
                status, body = await self._answered(path, _written(query), headers)
        finally:
            self._waiting -= 1
        document = json.loads(body)
        if status != 200:
            why = str(document.get("detail", "the ledger does not answer"))
            raise UnansweredError(why, status, why, str(document.get("reason", "")))
        return dict(document)

    async def _answered(self, path: str, query: str, headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
        self._store = await asyncio.to_thread(self._opened)
        try:
            return await get(self._app, path, query, headers)
        finally:
            self._store.close()
            self._store = None

    def _opened(self) -> Store:
        settings = self._settings
        return open_for_command(
            self._config, read_only=True, memory_limit=settings.memory_limit, threads=settings.threads
        )

    def _session(self) -> Session:
        if self._store is None:
            raise AssertionError("BUG: the store is read outside of a question")
        return believing(self._store)


class ServedSite:
    """A running server. With `token` it is our own key that asks; with None what each question shows, and no more."""

    def __init__(self, server: str, token: str | None) -> None:
        self._server = server
        self._own = None if token is None else f"Bearer {token}"

    async def ask(self, path: str, query: Query, authorization: str | None) -> dict[str, Any]:
        """Return a document of the server. Raises as Site.ask()."""
        where = f"{path}?{_written(query)}" if query else path
        try:
            text = await asyncio.to_thread(
                server_answer, self._server, where, authorization=self._own or authorization or ""
            )
            return dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise UnansweredError(f"{self._server} is not a gpuledger server") from error


def _written(query: Query) -> str:
    given = {name: _word(value) for name, value in query.items() if value is not None and value != []}
    return urlencode(given, doseq=True)


def _word(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


@dataclass(frozen=True, slots=True)
class SiteLedger:
    """What the holder of one Authorization may read of a site."""

    site: Site
    shown: str | None

    def history(self, name: str, gpus: int, sku: str | None = None) -> History:
        """Return what runs of a name with so many GPUs of a kind took.

        Raises:
            UnseenError: there are too few.
            LedgerError: it is refused.
        """
        asked: Query = {"name": name, "gpus": gpus, **({} if sku is None else {"sku": sku})}
        try:
            document = self._asked(HISTORY_PATH, asked)
        except UnansweredError as error:
            if error.reason == WRONG_USAGE:
                raise UnseenError(error.said or str(error)) from error
            raise
        with _of_this_release():
            history: History = typed(History, document)
            return history

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the hosts with what is free of them now.

        Raises:
            LedgerError: the ledger is empty, or it is refused.
        """
        try:
            document = self._asked(NODES_PATH, {})
        except UnansweredError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                raise LedgerError(
                    "nodes: inventory shows what other teams hold, which a team's key may not see; list the nodes that "
                    "the plan may use in the file (topology lists hosts)"
                ) from error
            raise
        with _of_this_release():
            nodes: tuple[StockNode, ...] = typed(tuple[StockNode, ...], document.get("nodes"))
            return nodes

    def queue(self) -> tuple[QueuedRun, ...]:
        """Return the runs that wait for GPUs. Raises LedgerError: the ledger is empty, or it is refused."""
        document = self._asked(NODES_PATH, {})
        with _of_this_release():
            runs: tuple[QueuedRun, ...] = typed(tuple[QueuedRun, ...], document.get("queue"))
            return runs

    def _asked(self, path: str, query: Query) -> dict[str, Any]:
        return from_thread.run(self.site.ask, path, query, self.shown)


@contextmanager
def _of_this_release() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UnansweredError("the server runs an incompatible release; upgrade it") from error
