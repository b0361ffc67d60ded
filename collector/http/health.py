"""Is the process alive (/healthz), and may batches be sent to it (/readyz)? Two questions, for two who act differently.

A supervisor restarts what is not alive; so only what a restart mends may make it so: a writer that has ended, a store
that DuckDB has given up after a fatal error. A balancer sends batches elsewhere while a collector is not ready: its
disk is full, its queue is full, its lake has been away for long. Restarting it then would make it worse.

Whoever can reach the port may ask. The sentences are ours: no path, no host and no error of a driver is in them.
"""

import asyncio
import logging
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from collector.config import CollectorConfig
from collector.errors import StoreError
from collector.lake.damage import glanced
from collector.pipeline.writer import Writer
from collector.store.database import Store
from collector.store.schemas import require_current
from collector.store.seal_mark import Mark, require_folder

_LOG = logging.getLogger(__name__)
_PATIENCE_SECONDS = 3.0  # for all checks together; below what balancers usually wait
_LOOKING_SECONDS = 15.0
_FILES_SECONDS = 60.0  # between two looks at the names and lengths of the lake's files, which may be many
FATAL = "database has been invalidated"  # DuckDB's words: nothing will work until it is opened anew


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and one sentence of how it is. `needed`: without it no batches are to be sent."""

    name: str
    ok: bool
    sentence: str
    needed: bool = True

    @property
    def refuses(self) -> bool:
        """Whether batches are to be sent elsewhere."""
        return self.needed and not self.ok


_Probe = Callable[[], Check]


class Readiness:
    """Asks every probe on a thread, one round at a time, and tells a change of the answer to the log once.

    Rounds do not pile up: who asks while one is under way waits for it, and all who do share the next, since the one
    under way may have looked before what they ask about came to be.
    """

    def __init__(self, probes: Sequence[_Probe], patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._probes = tuple(probes)
        self._patience = patience_seconds
        self._round: asyncio.Task[list[Check]] | None = None
        self._was_ready: bool | None = None
        self._thread: int | None = None  # that asks, or has asked last

    @property
    def is_ready(self) -> bool:
        """Whether it was so when somebody last looked; before that it is not known to be."""
        return self._was_ready is True

    async def keep_looking(self) -> None:
        """Look again and again, so that a change is told where no balancer asks."""
        while True:
            await self.checks()
            await asyncio.sleep(_LOOKING_SECONDS)

    async def checks(self) -> list[Check]:
        """Return how it is, in the order of the probes."""
        try:
            checks = await asyncio.wait_for(self._seen_from_now_on(), self._patience)
        except TimeoutError:
            words = f"the checks have not finished within {self._patience:g} s; {held_up(self._thread)}"
            checks = [Check("answer", False, words)]
        self._tell(checks)
        return checks

    async def _seen_from_now_on(self) -> list[Check]:
        if self._round is not None and not self._round.done():
            await asyncio.wait([self._round])
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(asyncio.to_thread(self.now))
        return await asyncio.shield(self._round)

    def now(self) -> list[Check]:
        """Return how it is; a probe that fails is a check that fails."""
        self._thread = threading.get_native_id()
        return [probe() for probe in self._probes]

    def _tell(self, checks: list[Check]) -> None:
        wrong = [check.sentence for check in checks if check.refuses]
        if wrong and self._was_ready is not False:
            _LOG.warning("not ready: %s", "; ".join(wrong))
        elif not wrong and self._was_ready is False:
            _LOG.warning("ready again")
        self._was_ready = not wrong


def held_up(thread: int | None, tasks: Path = Path("/proc/self/task"), load: Path = Path("/proc/loadavg")) -> str:
    """Return what a thread of ours waits for: a disk only where it sleeps in the kernel's hands, as for a disk.

    One that waits for Python's lock sleeps like any other: where more threads of the machine would run than there are
    processors, it is taken to wait for one.
    """
    try:
        state = (tasks / str(thread) / "stat").read_text().rpartition(")")[2].split()[0]
        running = int(load.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return "the reason is not known"
    if state == "D":
        return "a disk may hang"
    if state == "R" or running > (os.cpu_count() or 1):
        return "the CPUs are busy"
    return "something in the server blocks them"


def add_health(app: FastAPI, alive: Callable[[], bool], readiness: Readiness) -> None:
    """Add /healthz and /readyz: 200 or 503. That /healthz is answered at all says that the event loop turns."""

    app.state.alive = alive
    own = app.router.lifespan_context

    @asynccontextmanager
    async def looked_after(running: FastAPI) -> AsyncIterator[None]:
        async with own(running):
            looking = asyncio.create_task(readiness.keep_looking())
            try:
                yield
            finally:
                looking.cancel()

    app.router.lifespan_context = looked_after

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        healthy = alive()
        return JSONResponse({"healthy": healthy}, status_code=200 if healthy else 503)

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        checks = await readiness.checks()
        ready = not any(check.refuses for check in checks)
        told = [{"name": check.name, "ok": check.ok, "sentence": check.sentence} for check in checks]
        body = {"ready": ready, "checks": told}
        return JSONResponse(body, status_code=200 if ready else 503)


def is_alive(writer: Writer) -> bool:
    """Return whether going on can still lead somewhere: a restart mends what is wrong where it cannot."""
    failing = writer.failing
    return failing is None or not (writer.has_ended or FATAL in failing)


def of_collector(config: CollectorConfig, store: Store, writer: Writer) -> Readiness:
    """Return what a collector must have to take batches."""
    folders = [store.path.parent] if store.path else []
    if store.lake is not None and store.lake.folder is not None:
        folders.append(store.lake.folder)
    began = time.time()  # what an earlier process left unsealed is late only from then on
    readiness = Readiness(
        [
            lambda: check_store(store),
            lambda: _writes(writer),
            lambda: _has_room(config, writer),
            lambda: _seals(config, store, writer.mark, began),
            lambda: disk(folders, config.ready_free_bytes),
            LakeFiles(store),
            lambda: _clock(writer),
        ]
    )
    writer.metrics.watch("ready", "1 while batches are accepted (/readyz), else 0.", lambda: float(readiness.is_ready))
    return readiness


def check_store(store: Store) -> Check:
    """Check that the store answers and is of this release."""
    try:
        with store.hot_session() as session:
            require_current(session)
    except StoreError:
        return Check("store", False, "the store does not answer, or belongs to another release; see the log")
    return Check("store", True, "the store answers and belongs to this release")


class LakeFiles:
    """Looks whether the lake's files are there, as long as they were, and none is known to be damaged.

    Batches are taken and kept in the hot file while its catalogue is away, and beside files that are damaged.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked_at: float | None = None
        self._last = Check("lake", True, "the lake's files have not been checked yet")

    def __call__(self) -> Check:
        """Return how it is; what is wrong is looked at each time, so that it is seen at once that it is mended."""
        if (lost := self._lost()) is not None:
            return lost
        now = time.monotonic()
        if self._looked_at is None or not self._last.ok or now - self._looked_at >= _FILES_SECONDS:
            self._last, self._looked_at = self._look(), now
        return self._last

    def _lost(self) -> Check | None:
        """Return what is said where the lake's folder is not ours, or not there: nothing may be sealed into it."""
        folder = self._store.lake.folder if self._store.lake is not None else None
        if folder is None:
            return None
        try:
            with self._store.hot_session() as session:
                require_folder(session, folder)
        except StoreError:
            words = "the lake's folder is not the one that this store seals into; is its disk mounted? See the log"
            return Check("lake", False, words)
        return None

    def _look(self) -> Check:
        if self._store.lake is None:
            return Check("lake", True, "there is no lake")
        try:
            damages = glanced(self._store)
        except StoreError:
            return Check("lake", False, "the lake's catalogue does not answer; see the log", needed=False)
        if damages:
            words = f"{len(damages):,} of the lake's files are damaged or missing; gpuledger admin doctor lists them"
            return Check("lake", False, words, needed=False)
        return Check("lake", True, "the lake's files are present, and none is known to be damaged")


def disk(folders: Sequence[Path], least: int) -> Check:
    """Check that the disks of these folders have so many bytes free, each; a store in memory needs none."""
    if not folders:
        return Check("disk", True, "the store is in memory")
    try:
        free = min(shutil.disk_usage(folder).free for folder in folders)
    except OSError as error:
        return Check("disk", False, f"the store's disk does not answer: {error.strerror}")
    words = f"{_megabytes(free)} free on the store's disk; the minimum is {_megabytes(least)}"
    return Check("disk", free >= least, words)


def _writes(writer: Writer) -> Check:
    if writer.has_ended:
        return Check("writer", False, "the writer has stopped; restart the collector")
    if writer.failing is not None:
        return Check("writer", False, "the last commit failed, so agents keep their batches; see the log")
    return Check("writer", True, "the last commit succeeded")


def _has_room(config: CollectorConfig, writer: Writer) -> Check:
    batches, size = writer.waiting
    room = batches < config.queue_batches and size < config.queue_bytes
    words = f"{batches} of up to {config.queue_batches} batches wait to be written, {_megabytes(size)} of up to "
    return Check("queue", room, words + _megabytes(config.queue_bytes))


def _seals(config: CollectorConfig, store: Store, mark: Mark, began: float) -> Check:
    """Check that what arrived is sealed in time; a lake that is away for minutes makes nobody unready."""
    if store.lake is None:
        return Check("seal", True, "there is no lake to seal into")
    try:
        with store.hot_session() as session:
            (since,) = session.row("SELECT min(received_at) FROM receipts WHERE batch > ?", [mark.upto])
    except StoreError:
        return Check("seal", False, "the store does not report what waits to be sealed; see the log")
    if since is None:
        return Check("seal", True, "nothing waits to be sealed")
    late = time.time() - max(since / 1e6, began)
    words = f"data from {late:.0f} s ago is not sealed yet; the maximum is {config.ready_seal_seconds:g} s"
    return Check("seal", late <= config.ready_seal_seconds, words)


def _clock(writer: Writer) -> Check:
    """Check that the clock goes by what agents say, and by the time since the start; batches are taken by any."""
    doubt = writer.clock.doubt
    return Check("clock", doubt is None, doubt or "this host's clock goes by those of its agents", needed=False)


def _megabytes(count: int) -> str:
    return f"{count / 10**6:,.0f} MB"
