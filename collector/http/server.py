"""Run the collector alone in this process: `gpuledger serve --only collector`, and what the crash tests kill.

What comes before a body is bounded in bytes and in time. uvicorn keeps whatever a header holds, and waits for its end
as long as it takes: one sender could fill the memory with a single endless header, and a few thousand could hold all
connections by sending a byte a minute. So is the log: of lines of one kind so many a minute, and then how many more
there were. A client that sends rubbish in a loop makes uvicorn and asyncio log a line for each try: gigabytes by the
morning, and among them nobody finds the line that matters.

systemd is told how it is: READY when the port listens, WATCHDOG while the loop turns, STOPPING at the end. The protocol
is one datagram of text to the socket that $NOTIFY_SOCKET names (sd_notify(3)); outside systemd nothing is said. Where
the collector is not alive by its own judgement it ends, and systemd starts it anew.
"""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agent.connection import OLDEST
from collector.access.open_access import ServedCertificate, check_certificate, require_way_in, tenant_of
from collector.config import CollectorConfig
from collector.errors import ListenError, StoreError
from collector.http.app import create_app
from collector.pipeline.writer import Writer
from collector.store.database import open_store


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which closes the connection of whoever sends an endless head, or none."""

    head_bytes: ClassVar[int] = 64 * 2**10  # of a request's line, headers and trailers
    head_seconds: ClassVar[float] = 20.0  # for them to arrive, from the connection or the first byte on

    _timer: asyncio.TimerHandle | None = None
    _in_head = False
    _unfinished = 0  # bytes of a head whose end is not in sight
    _headers = 0  # bytes of headers and trailers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; a head of which the end is not in sight counts whole."""
        super().data_received(data)
        if self._in_head:
            self._unfinished += len(data)
            if self._unfinished > self.head_bytes:
                self._end("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head, self._unfinished, self._headers = True, 0, 0
        if self._timer is None:
            self._expect()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header or, behind a body, a trailer."""
        self._headers += len(name) + len(value)
        if self._headers > self.head_bytes:
            raise ValueError("the head of the request is too long")  # the parser's caller answers 400 and closes
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there; a body has limits of its own."""
        self._in_head = False
        self._forget()
        super().on_headers_complete()

    def _expect(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self._end, "The head of the request took too long.")

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, why: str) -> None:
        self._forget()
        if self.transport.is_closing():
            return
        if self._in_head:
            self.send_400_response(why)
        else:
            self.transport.close()  # nothing was asked
        self._in_head = False


AT_ONCE = 20  # lines of one kind in one minute
EACH_SECONDS = 60.0
_KINDS_MOST = 1_000
_NOISY = ("uvicorn.error", "asyncio")  # what logs by the will of who sends


class Bounded(logging.Filter):
    """Lets so many records of one kind through; a kind is who logs, and the words before what they are filled with."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, int, str], tuple[float, int]] = {}  # since when, and how many

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record is told; the first of another minute tells how many were not."""
        kind, now = (record.name, record.levelno, str(record.msg)[:200]), self._now()
        with self._lock:
            began, count = self._kinds.get(kind, (now, 0))
            left_out = 0
            if now - began >= EACH_SECONDS:
                left_out, began, count = max(0, count - AT_ONCE), now, 0
            if len(self._kinds) >= _KINDS_MOST and kind not in self._kinds:
                self._kinds.clear()
            self._kinds[kind] = (began, count + 1)
        if left_out:
            record.msg = f"{record.getMessage()} (and {left_out:,} more like it were not logged)"
            record.args = ()
        return count < AT_ONCE


def _bound_the_log() -> None:
    """Bound what is logged at the will of who sends."""
    for name in _NOISY:
        logger = logging.getLogger(name)
        if not any(isinstance(each, Bounded) for each in logger.filters):
            logger.addFilter(Bounded())


SOCKET, WATCHDOG = "NOTIFY_SOCKET", "WATCHDOG_USEC"
CERTIFICATE_SECONDS = 10.0  # between two looks whether it was renewed
_LOOKING_SECONDS = 5.0  # between two looks whether the server can go on, where no watchdog wants them more often
_GIVEN_UP = (
    "the store takes nothing more until it is opened anew; start the server again, as systemd and Kubernetes do: what "
    "was acknowledged is on disk, and agents send the rest again"
)
_FAILED = 3  # what a command ends with whose world is not as it must be
_FEEDINGS = 3  # in the time that the watchdog waits
STOPPING_MICROSECONDS = 90_000_000  # for requests, the last commit, a seal and the log; then systemd may kill


class Supervisor:
    """The service manager above this process, if there is one."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        name = environment.get(SOCKET, "")
        self._address = "\0" + name[1:] if name.startswith("@") else name  # an abstract socket
        patience = environment.get(WATCHDOG, "")
        self.feed_seconds = int(patience) / 1e6 / _FEEDINGS if self._address and patience.isdecimal() else None

    def tell(self, state: str) -> None:
        """Send one message; a manager that does not listen is not our trouble."""
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.sendto(state.encode(), self._address)


class _SupervisedServer(uvicorn.Server):
    """uvicorn's server, which tells a supervisor what becomes of it, and ends where going on leads nowhere.

    `alive` is asked before the watchdog is fed. `answers` is called once the port listens.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        alive: Callable[[], bool],
        answers: Callable[[], None],
        supervisor: Supervisor | None = None,
        certificate: ServedCertificate | None = None,
    ) -> None:
        super().__init__(config)
        self._certificate = certificate
        self._looking: asyncio.Task[None] | None = None
        self._alive = alive
        self._answers = answers
        self._supervisor = supervisor or Supervisor()
        self._watching: asyncio.Task[None] | None = None
        self.has_failed = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so once the port listens."""
        await super().startup(sockets)
        if self.started:
            self._answers()
            self._supervisor.tell("READY=1\nSTATUS=accepting batches")
            self._watching = asyncio.create_task(self._watch(self._supervisor.feed_seconds or _LOOKING_SECONDS))
            if self._certificate is not None:
                self._looking = asyncio.create_task(self._look_at(self._certificate))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that the end has begun, and that it may take its time: what waits is written first."""
        for task in (self._watching, self._looking):
            if task is not None:
                task.cancel()
        self._supervisor.tell(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={STOPPING_MICROSECONDS}\nSTATUS=writing queued batches")
        await super().shutdown(sockets)

    async def _look_at(self, certificate: ServedCertificate) -> None:
        while True:
            await asyncio.sleep(CERTIFICATE_SECONDS)
            await asyncio.to_thread(certificate.look)

    async def _watch(self, every_seconds: float) -> None:
        while self._alive():
            self._supervisor.tell("WATCHDOG=1")
            await asyncio.sleep(every_seconds)
        self.has_failed = self.should_exit = True
        _LOG.error(_GIVEN_UP)


_LOG = logging.getLogger(__name__)
STOPPING_SECONDS = 20  # for what is on its way; agents send the rest again
_WRITERS = frozenset(
    {"sealer", "maintenance", "metrics", "collector-writer", "backup", "analysis"}
)  # threads, once stopped
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
        listen(app, config, "accepting batches at %s/v1/batches")


def listen(app: FastAPI, config: CollectorConfig, words: str) -> None:
    """Serve an application at the configured address until a signal ends it; what renews the certificate needs no
    signal, and SIGHUP reads it at once.

    `words` are logged with that address once it answers.

    Raises:
        ConfigError: the certificate cannot be used.
        ListenError: the address cannot be listened on.
        StoreError: the store was given up by DuckDB while it served.
    """
    check_certificate(config)
    settings = settings_of(app, config)
    bound = _listening_at(config)
    _bound_the_log()
    where = f"{'https' if config.tls_certificate else 'http'}://{config.listen}"
    certificate = None if settings.ssl is None else ServedCertificate(settings.ssl, config)
    app.state.certificate = certificate  # the doctor asks
    server = _SupervisedServer(settings, app.state.alive, lambda: _LOG.info(words, where), certificate=certificate)
    _look_for_rings_seldom()
    with bound, _signals_end(server), _hangup_renews(certificate):
        server.run(sockets=[bound])
    _leave_the_busy(_FAILED if server.has_failed else 0)
    if server.has_failed:
        raise StoreError(_GIVEN_UP)


_CAUSES = {
    errno.EADDRINUSE: "another process listens there; is a collector already running?",
    errno.EADDRNOTAVAIL: "this host has no such address",
    errno.EACCES: "this user may not; ports below 1024 need CAP_NET_BIND_SERVICE",
}


def _listening_at(config: CollectorConfig) -> socket.socket:
    """Return a socket that is bound to the configured address.

    Raises:
        ListenError: it cannot be had.
    """
    try:
        found = socket.getaddrinfo(*config.address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, place = found[0]
        bound = socket.socket(family, kind)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(place)
        except BaseException:
            bound.close()
            raise
    except OSError as error:
        why = _CAUSES.get(error.errno or 0) or error.strerror or str(error)
        raise ListenError(f"cannot listen on {config.listen}: {why}") from error
    bound.set_inheritable(True)
    return bound


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


def _leave_the_busy(code: int) -> None:
    """End the process here, and so, where a thread of ours is in the store still: a large compaction, a hanging lake.

    Python ends such threads by unwinding them, which aborts the process from within DuckDB. What they have not
    committed is as it was, and the store is made to be left so (tests/sealing).
    """
    busy = sorted({thread.name for thread in threading.enumerate()} & _WRITERS)
    if busy:
        _LOG.warning("stopped while busy, which is safe: %s", ", ".join(busy))
        logging.shutdown()
        os._exit(code)


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
def _hangup_renews(certificate: ServedCertificate | None) -> Iterator[None]:
    """Let SIGHUP read the certificate again at once; it would end the process otherwise."""

    def renew(*_: object) -> None:
        if certificate is not None:
            certificate.renew()

    before = signal.signal(signal.SIGHUP, renew)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
