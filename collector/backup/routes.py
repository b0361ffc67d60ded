"""/v1/backup: have the server back itself up, and see how that goes. Needs the right to change everything.

One backup is made at a time, on a thread, below one folder.
"""

import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI
from fastapi.responses import JSONResponse, Response

from collector.backup.backup_maker import KEEP, make_backup
from collector.backup.manifest import place_of
from collector.config import CollectorConfig
from collector.errors import BackupError, CollectorError
from collector.problem import problem_response
from collector.store.database import Store

_LOG = logging.getLogger(__name__)
_STOPPING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the newest backup went. `path` and what follows are None where `error` says why there is none."""

    started_at: int  # microseconds UTC
    ended_at: int
    error: str | None = None
    path: str | None = None
    files: int | None = None
    bytes: int | None = None
    new_bytes: int | None = None


class _BackupJob:
    """Makes backups of one store. `root` bounds where they may lie, whoever asks."""

    def __init__(self, store: Store, root: Path) -> None:
        self._store = store
        self._root = root
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self.started_at: int | None = None  # of the one under way; microseconds UTC
        self.last: Outcome | None = None

    def folder(self, to: str) -> Path:
        """Return the folder that is meant: below the root, by a path from there or by a whole one.

        Raises:
            BackupError: it is not below the root.
        """
        root = self._root.absolute()
        folder = root if "\0" in to else (root / to).resolve()
        if "\0" in to or not folder.is_relative_to(root.resolve()):
            raise BackupError(f"{to} is not below {root}, where this server may write backups: set collector.backups")
        return folder

    def start(self, to: str, keep: int) -> bool:
        """Begin; False where one is under way.

        Raises:
            BackupError: `to` is not below the root.
        """
        folder = self.folder(to)
        with self._lock:
            if self.started_at is not None or self._ending.is_set():
                return False
            self.started_at = time.time_ns() // 1000
            self._thread = threading.Thread(target=self._run, args=(folder, keep), name="backup", daemon=True)
            self._thread.start()
            return True

    def stop(self) -> None:
        """End what is under way before its next file; nothing is left of it."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(_STOPPING_SECONDS)

    def _run(self, folder: Path, keep: int) -> None:
        started = self.started_at or 0
        try:
            outcome = self._made(folder, keep, started)
        except CollectorError as error:
            _LOG.error("the backup failed: %s", error)
            outcome = Outcome(started, time.time_ns() // 1000, error=str(error))
        except BaseException:
            self.last = Outcome(started, time.time_ns() // 1000, error="BUG: the backup failed; the log says where")
            self.started_at = None
            raise
        self.last = outcome
        self.started_at = None

    def _made(self, folder: Path, keep: int, started: int) -> Outcome:
        made = make_backup(self._store, folder, keep=keep, stopping=self._ending.is_set)
        _LOG.warning("backup %s: %d bytes, %d of them new", made.path, made.manifest.bytes, made.new_bytes)
        return Outcome(
            started,
            time.time_ns() // 1000,
            path=str(made.path),
            files=len(made.manifest.files),
            bytes=made.manifest.bytes,
            new_bytes=made.new_bytes,
        )


PATH = "/v1/backup"
_MOST_KEPT = 1000


def add_backups(app: FastAPI, config: CollectorConfig, store: Store) -> None:
    """Add the two routes, and let a backup that is under way end before the store is closed."""
    job = _BackupJob(store, place_of(config, config.store))
    app.state.backups = job
    _stop_with(app, job)

    @app.get(PATH)
    def backup_state() -> dict[str, Any]:
        """Say whether a backup is being made, and how the last one of this process went."""
        return _state(job)

    @app.post(PATH, status_code=202, responses={400: {"description": "No such folder"}, 409: {"description": "Busy"}})
    def begin_backup(
        to: Annotated[str, Body(max_length=1000)] = "", keep: Annotated[int, Body(ge=1, le=_MOST_KEPT)] = KEEP
    ) -> Response:
        """Begin a backup below the folder that the settings name; GET says when it has ended."""
        try:
            begun = job.start(to, keep)
        except BackupError as error:
            return problem_response(HTTPStatus.BAD_REQUEST, str(error))
        if not begun:
            return problem_response(HTTPStatus.CONFLICT, "a backup is already running; GET says when it has finished")
        return JSONResponse(_state(job), HTTPStatus.ACCEPTED)


def _state(job: _BackupJob) -> dict[str, Any]:
    last = job.last
    return {"started_at": job.started_at, "last": None if last is None else asdict(last)}


def _stop_with(app: FastAPI, job: _BackupJob) -> None:
    own = app.router.lifespan_context

    @asynccontextmanager
    async def both(running: FastAPI) -> AsyncIterator[None]:
        async with own(running):
            try:
                yield
            finally:
                job.stop()

    app.router.lifespan_context = both
