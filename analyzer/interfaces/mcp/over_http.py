"""The server over streamable HTTP: who comes is asked before any message is read, and each message stands alone.

No session is kept, so nobody can go on in somebody else's: each message shows its own key. A page in a browser has no
business here: what carries an Origin, or another Host than ours, is refused by mcp's own check against DNS rebinding.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from analyzer.errors import UnansweredError
from analyzer.interfaces.mcp.site import Site
from collector.access.access import Access
from collector.access.gate import Endpoint, Gate, endpoint_of
from collector.http.health import Readiness, add_health
from collector.problem import answer_with_problems, problem_response
from collector.registry.roles import Right

PATH: Final = "/mcp"
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
REQUEST_BYTES = 2 * 2**20  # a task file or a proposal of a megabyte, written as JSON
_MCP = Endpoint("POST", PATH, Right.READ, by_team=True)  # each reading within asks for its own right once more


class _Forwarded:
    """Lets in whom the server lets in: it is asked with what the message shows, and its refusal is the answer."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a message on, or answer it."""
        if scope["type"] == "http" and scope["path"] == PATH:
            shown = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            try:
                await self._site.ask("/v1/hours", {"limit": 1}, shown)
            except UnansweredError as error:
                if error.status != 404:  # an empty ledger refuses nobody
                    status = error.status if error.status in (401, 403) else 503
                    await problem_response(status, str(error))(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def guarded_app(server: MCPServer[Any], hosts: Sequence[str], access: Access) -> FastAPI:
    """Return the application with the keys of a registry before it; it starts and stops what follows them."""
    app = _app(server, hosts, access)
    app.add_middleware(Gate, access=access, named=_named)
    return app


def forwarding_app(server: MCPServer[Any], hosts: Sequence[str], site: Site) -> FastAPI:
    """Return the application with a server's judgement before it."""
    app = _app(server, hosts)
    app.add_middleware(_Forwarded, site=site)
    return app


def _named(method: str, path: str) -> Endpoint:
    return _MCP if path == PATH else endpoint_of(method, path)


def _app(server: MCPServer[Any], hosts: Sequence[str], access: Access | None = None) -> FastAPI:
    allowed = [name for host in hosts for name in (host, f"{host}:*")]
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=REQUEST_BYTES,
        transport_security=TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=[]),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if access is not None:
            access.start()
        try:
            async with inner.router.lifespan_context(inner):
                yield
        finally:
            if access is not None:
                access.stop()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    (route,) = [each for each in inner.routes if isinstance(each, Route)]
    app.router.routes.append(Route(PATH, route.endpoint, methods=["POST"]))
    answer_with_problems(app)
    add_health(app, lambda: True, Readiness([]))
    return app
