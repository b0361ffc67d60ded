"""Run the collector alone in this process: `gpuledger serve --only collector`, and what the crash tests kill."""

import gc
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from agent.connection import OLDEST
from collector.access.certificate import check_certificate, renew_certificate
from collector.access.open_access import require_way_in
from collector.access.open_tenant import tenant_of
from collector.config import CollectorConfig
from collector.errors import ListenError
from collector.http.app import create_app
from collector.http.connection import BoundedHttp
from collector.http.log_bounds import bound_the_log
from collector.http.notify import SupervisedServer
from collector.pipeline.writer import Writer
from collector.store.open_store import open_store

_LOG = logging.getLogger(__name__)
STOPPING_SECONDS = 20  # for what is on its way; agents send the rest again
_WRITERS = frozenset({"sealer", "upkeep", "pulse", "collector-writer", "backup", "analysis"})  # threads, once stopped
_RING_OBJECTS = 20_000  # made and still there, before rings are looked for among them


def serve(config: CollectorConfig, settings: Path | None = None) -> None:
    """Open the store and answer until a signal ends it; `settings` is the file that it was started with.

    Raises:
        ConfigError: nobody could come in.
        StoreError: the store cannot be opened.
        ListenError: the address cannot be listened on.
    """
    with open_store(config) as store:
        app = create_app(config, store, Writer(store, config, tenant=tenant_of(config, store)))
        require_way_in(app.state.access, config, settings)
        listen(app, config, "batches are taken at %s/v1/batches")


def listen(app: FastAPI, config: CollectorConfig, words: str) -> None:
    """Serve an application at the configured address until a signal ends it; SIGHUP reads the certificate again.

    `words` are logged with that address once it answers.

    Raises:
        ConfigError: the certificate cannot be used.
        ListenError: the address cannot be listened on.
    """
    check_certificate(config)
    settings = settings_of(app, config)
    try:
        socket = settings.bind_socket()
    except SystemExit as error:  # how uvicorn says that the address is taken
        raise ListenError(f"cannot listen on {config.listen}; is a collector already running there?") from error
    bound_the_log()
    where = f"{'https' if config.tls_certificate else 'http'}://{config.listen}"
    server = SupervisedServer(settings, app.state.alive, lambda: _LOG.info(words, where))
    _look_for_rings_seldom()
    with socket, _signals_end(server), _hangup_renews(server, config):
        server.run(sockets=[socket])
    _leave_the_busy()


def settings_of(app: FastAPI, config: CollectorConfig) -> uvicorn.Config:
    """Return how an application is served: with the certificate of the settings, where they name one."""
    host, port = config.address
    settings = uvicorn.Config(
        getattr(app.state, "entrance", app),  # an analyzer alone takes no batches, and has no door of their own
        host=host,
        port=port,
        access_log=False,
        http=BoundedHttp,
        ws="none",
        log_config=None,  # its records are written as all of ours
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # nobody is somebody else because a header says so
        ssl_certfile=config.tls_certificate or None,
        ssl_keyfile=config.tls_key or None,
        timeout_graceful_shutdown=STOPPING_SECONDS,
    )
    settings.load()
    if settings.ssl is not None:
        settings.ssl.minimum_version = OLDEST
    return settings


def _leave_the_busy() -> None:
    """End the process here where a thread of ours is in the store still: a compaction of a large day, a hanging lake.

    Python ends such threads by unwinding them, which aborts the process from within DuckDB. What they have not
    committed is as it was, and the store is made to be left so (tests/sealing).
    """
    busy = sorted({thread.name for thread in threading.enumerate()} & _WRITERS)
    if busy:
        _LOG.warning("ended while busy, which does no harm: %s", ", ".join(busy))
        logging.shutdown()
        os._exit(0)


def _look_for_rings_seldom() -> None:
    """Let Python look for rings of objects seldom, and not among those of the start, which stay.

    Every request makes some objects that live until its commit: with the usual thresholds an eighth of the event loop's
    time went into looking through them for rings, of which there are none (bench/README.md, ingest).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_RING_OBJECTS, 20, 50)


@contextmanager
def _signals_end(server: uvicorn.Server) -> Iterator[None]:
    """Let a signal end the server and not the process, which has a store to close.

    uvicorn stops on SIGINT and SIGTERM and then raises the signal again, for the handler that was there before. One
    that comes while the server still starts is this handler's: it must not be lost.
    """

    def end(*_: object) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _hangup_renews(server: uvicorn.Server, config: CollectorConfig) -> Iterator[None]:
    """Let SIGHUP read the certificate again; it would end the process otherwise."""

    def renew(*_: object) -> None:
        renew_certificate(getattr(server.config, "ssl", None), config)

    before = signal.signal(signal.SIGHUP, renew)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
