"""Run the collector alone in this process: `gpuledger serve --only collector`, and what the crash tests kill."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from collector.app import create_app
from collector.errors import ConfigError
from collector.store.database import Store
from collector.writer import Writer

if TYPE_CHECKING:
    from fastapi import FastAPI

    from collector.config import CollectorConfig

STOPPING_SECONDS = 20  # for what is on its way; agents send the rest again


def serve(config: "CollectorConfig") -> None:
    """Open the store and answer until a signal ends it.

    Raises:
        StoreError: the store cannot be opened.
        ConfigError: the address cannot be listened on.
    """
    with Store.open(config.store, memory_limit=config.memory_limit, threads=config.threads) as store:
        listen(create_app(config, store, Writer(store, config)), config)


def listen(app: "FastAPI", config: "CollectorConfig") -> None:
    """Serve an application at the configured address until a signal ends it.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    host, port = config.address
    settings = uvicorn.Config(
        app,
        host=host,
        port=port,
        access_log=False,
        ws="none",
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=STOPPING_SECONDS,
    )
    try:
        socket = settings.bind_socket()
    except SystemExit as error:  # how uvicorn says that the address is taken
        raise ConfigError(f"cannot listen on {config.listen}; is a collector already running there?") from error
    server = uvicorn.Server(settings)
    with socket, _signals_end(server):
        server.run(sockets=[socket])


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
