"""gpuledger assistant: the tools of an assistant, over stdin and stdout or over streamable HTTP.

Over HTTP who comes is asked before any message is read, and each message stands alone. No session is kept, so nobody
can go on in somebody else's: each message shows its own key. A page in a browser has no business here: what carries an
Origin, or another Host than ours, is refused by mcp's own check against DNS rebinding.
"""

import argparse
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import analyzer.interfaces.mcp
import collector.http.server
from agent.log_format import configure
from analyzer.errors import ConfigError, UnansweredError
from analyzer.interfaces.cli.command import add_place
from analyzer.interfaces.mcp.server import create_server
from analyzer.interfaces.mcp.site import OwnSite, ServedSite, Site
from analyzer.server_client import TOKEN
from analyzer.settings.settings import Settings
from collector.access.access import Access
from collector.access.gate import Endpoint, Gate, endpoint_of
from collector.access.open_access import access_of, require_way_in
from collector.config import CollectorConfig, is_loopback, load, settings_of_store
from collector.http.health import Readiness, add_health
from collector.http.server import listen
from collector.problem import answer_with_problems, problem_response
from collector.registry.roles import Right
from collector.store.database import open_for_command

_OK = 0


def assistant(argv: list[str]) -> int:
    """Serve read-only tools over the ledger to an assistant, by MCP: stdin and stdout, or HTTP with --http.

    They read findings, runs, costs and topology, and reckon plans. None applies, accepts, mutes or writes anything.
    """
    parser = argparse.ArgumentParser(prog="gpuledger assistant", description=assistant.__doc__)
    add_place(parser)
    parser.add_argument(
        "--http",
        metavar="[HOST:]PORT",
        help=f"serve {PATH} there, with the keys of the collector (default host: 127.0.0.1)",
    )
    options = parser.parse_args(argv)
    # What others log, a name within, must never come between the lines of the protocol on stdout.
    configure(level="warning")
    for ours in (
        analyzer.interfaces.mcp.__name__,
        collector.http.server.__name__,
    ):  # what was proposed, and what was said of it
        logging.getLogger(ours).setLevel(logging.INFO)
    if options.http is None:
        _over_stdio(options)
    else:
        _over_http(options)
    return _OK


def _over_stdio(options: argparse.Namespace) -> None:
    if options.server:
        create_server(ServedSite(options.server, os.environ.get(TOKEN))).run()
    else:
        config, _, settings = _store(options)
        create_server(OwnSite(config, settings)).run()


def _over_http(options: argparse.Namespace) -> None:
    if options.server:
        host, config = _listening(options.http, options.config)
        if not is_loopback(host):
            raise ConfigError(
                f"--http {options.http} with --server would lend this machine's way to {options.server} to others; "
                "listen on 127.0.0.1, or read a --store"
            )
        site = ServedSite(options.server, None)  # our own token is ours: each client shows its own
        app = forwarding_app(create_server(site), LOOPBACK, site)
    else:
        own, file, settings = _store(options)  # a server's: their tokens are asked for here, too
        host, config = _listening(options.http, file)
        config = replace(own, listen=config.listen)
        access = access_of(config, config.store)
        app = guarded_app(create_server(OwnSite(config, settings, access)), _hosts(host, settings), access)
        require_way_in(access, config, options.config)
    listen(app, config, f"the tools are at %s{PATH}")


def _store(options: argparse.Namespace) -> tuple[CollectorConfig, Path | None, Settings]:
    """Return the settings of the store, and their file; what is wrong with either is said now, and not to a model."""
    config, file = settings_of_store(options.store, options.config, os.environ)
    settings = Settings.read(file)
    open_for_command(config, read_only=True).close()
    return config, file, settings


def _listening(where: str, settings: Path | None) -> tuple[str, CollectorConfig]:
    """Return the host to listen on, and the collector's settings with that address in the place of its own."""
    told = replace(load(settings, os.environ), listen=where if ":" in where else f"127.0.0.1:{where}")
    return told.address[0], told


def _hosts(host: str, settings: Settings) -> tuple[str, ...]:
    """Return the names by which clients may call us.

    Raises:
        ConfigError: it listens everywhere, and nobody has said how it is called.
    """
    if is_loopback(host):
        return LOOPBACK
    public = urlsplit(settings.site_url).hostname if settings.site_url else None
    named = [name for name in (host, public) if name and name not in ("0.0.0.0", "::")]  # noqa: S104 - not listened on
    if not named:
        raise ConfigError(
            f"--http {host} listens on every address; say in [analyzer] site_url by which host clients call it"
        )
    return tuple(named)


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
