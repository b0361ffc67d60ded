"""/v1/backup: have the server back itself up, and see how that goes. Needs the right to change everything."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Body, FastAPI
from fastapi.responses import JSONResponse, Response

from collector.backup.backup_maker import KEEP
from collector.backup.default_folder import place_of
from collector.backup.job import BackupJob
from collector.errors import BackupError
from collector.problem import problem_response
from collector.store.database import Store

if TYPE_CHECKING:
    from collector.config import CollectorConfig

PATH = "/v1/backup"
_MOST_KEPT = 1000


def add_backups(app: FastAPI, config: "CollectorConfig", store: Store) -> None:
    """Add the two routes, and let a backup that is under way end before the store is closed."""
    job = BackupJob(store, place_of(config, config.store))
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
            return problem_response(HTTPStatus.CONFLICT, "a backup is being made already; GET says when it has ended")
        return JSONResponse(_state(job), HTTPStatus.ACCEPTED)


def _state(job: BackupJob) -> dict[str, Any]:
    last = job.last
    return {"started_at": job.started_at, "last": None if last is None else asdict(last)}


def _stop_with(app: FastAPI, job: BackupJob) -> None:
    own = app.router.lifespan_context

    @asynccontextmanager
    async def both(running: FastAPI) -> AsyncIterator[None]:
        async with own(running):
            try:
                yield
            finally:
                job.stop()

    app.router.lifespan_context = both
