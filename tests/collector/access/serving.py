"""A collector over a real socket, with its access at hand; over TLS where a certificate is given."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from collector.access.access import Access
from collector.config import CollectorConfig
from collector.http.app import create_app
from collector.pipeline.writer import Writer
from collector.registry import Registry
from collector.store.database import Store
from tests.collector.serving import Client
from tests.waiting import PATIENCE_SECONDS, until


@dataclass(frozen=True)
class Site:
    """A collector in this process."""

    app: FastAPI
    client: Client
    store: Store

    @property
    def access(self) -> Access:
        """What stands before it."""
        found: Access = self.app.state.access
        return found

    @property
    def registry(self) -> Registry:
        """Its registry."""
        return self.access.registry

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.client.port

    def follow(self) -> None:
        """Let it read the registry now, as it does every two seconds."""
        self.access.directory.refresh()

    def batches(self) -> int:
        """Return how many batches it took."""
        with self.store.session() as session:
            return int(session.row("SELECT count(*) FROM receipts")[0])


@contextmanager
def site(config: CollectorConfig) -> Iterator[Site]:
    """Serve a collector from a thread."""
    with Store.open(config.store) as store, socket.create_server(("127.0.0.1", 0)) as listener:
        app = create_app(config, store, Writer(store, config))
        certificate = (config.tls_certificate or None, config.tls_key or None)
        with answering(app, listener, *certificate):
            yield Site(app, Client(listener.getsockname()[1]), store)


@contextmanager
def answering(
    app: FastAPI, listener: socket.socket, certificate: str | Path | None = None, key: str | Path | None = None
) -> Iterator[None]:
    """Run an application on a socket that listens."""
    settings = uvicorn.Config(
        getattr(app.state, "entrance", app),
        log_level="error",
        access_log=False,
        ws="none",
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        until(lambda: server.started, "the collector listens")
        yield
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
