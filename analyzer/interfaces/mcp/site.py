"""The one way to the figures: the API below /v1, of a store in this process or of a server elsewhere.

Both are asked with the Authorization of whoever asks the assistant, and judge it by their own keys: an assistant can
never show more than the API shows to the same key.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from fastapi import FastAPI
from starlette.types import ASGIApp

from analyzer.errors import UnansweredError
from analyzer.interfaces.api.routes import add_api
from analyzer.interfaces.mcp.in_process import get
from analyzer.ledger.believed import believing
from analyzer.server_client import server_answer
from analyzer.settings.settings import Settings
from collector.access.access import Access
from collector.access.gate import Gate
from collector.store.database import Store
from collector.store.session import Session

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

    def __init__(self, path: Path, settings: Settings, access: Access | None = None) -> None:
        self._path = path
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
            raise UnansweredError("as many ask as may wait; come again in a moment", 503)
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
        return Store.open(self._path, read_only=True, memory_limit=settings.memory_limit, threads=settings.threads)

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
            raise UnansweredError(f"{self._server} does not answer as gpuledger does") from error


def _written(query: Query) -> str:
    given = {name: _word(value) for name, value in query.items() if value is not None and value != []}
    return urlencode(given, doseq=True)


def _word(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
