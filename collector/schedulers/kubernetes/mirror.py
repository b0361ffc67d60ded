"""A collection of the API server as it is now: listed once in pieces, then kept up by what changed since."""

from collections.abc import Callable
from typing import Generic, TypeVar

from agent.wire.units import SECOND_US
from collector.errors import SchedulerError
from collector.schedulers.kubernetes.api import AnswerError, Api
from collector.schedulers.kubernetes.fields import Json, at, objects, text

T = TypeVar("T")
_PAGE = 500  # objects in one piece of a list
_PAGES_MAX = 2000
_WATCH_SECONDS = 2  # the server then ends its answer: what has changed comes at once, and the rest next time
_LIST_AGAIN_US = 1800 * SECOND_US  # though every change was told, or so it seems
_GONE = 410  # what changed since then is no longer remembered
_NOT_TOLD = (403, 404, 405)


class Mirror(Generic[T]):
    """Holds, by uid, what `read` made of each object, None being left out.

    `departed` holds the last state of those that were deleted since it was last emptied; one that went unseen, while
    nobody watched, is in neither. An `optional` collection that is not served, or not for us, is empty.
    """

    def __init__(self, api: Api, path: str, read: Callable[[Json], T | None], *, optional: bool = False) -> None:
        self.things: dict[str, T] = {}
        self.departed: dict[str, T] = {}
        self.served = True
        self._api = api
        self._path = path
        self._read = read
        self._optional = optional
        self._version: str | None = None
        self._listed_at = 0
        self._watched = True

    def refresh(self, now: int) -> None:
        """Bring it up to date. `now` is in microseconds UTC.

        Raises:
            SchedulerError: the server did not answer; what is held is as old as before.
        """
        if self._version is not None and self._watched and 0 <= now - self._listed_at < _LIST_AGAIN_US:
            try:
                self._follow(self._version)
                return
            except AnswerError as error:
                self._version = None
                self._watched = error.status not in _NOT_TOLD
        elif not self.served and 0 <= now - self._listed_at < _LIST_AGAIN_US:
            return
        self._list(now)

    def _list(self, now: int) -> None:
        try:
            found, version = self._pages()
        except AnswerError as error:
            if not self._optional or error.status not in _NOT_TOLD:
                raise
            found, version = {}, None
            self.served = False
        else:
            self.served = True
        self.things, self._version, self._listed_at = found, version, now

    def _pages(self) -> tuple[dict[str, T], str | None]:
        found: dict[str, T] = {}
        more: dict[str, str | int] = {}
        for _ in range(_PAGES_MAX):
            page = self._api.get(self._path, limit=_PAGE, **more)
            for thing in objects(page, "items"):
                self._take(found, thing)
            token = at(page, "metadata", "continue")  # opaque, and longer than any text that is kept
            if not isinstance(token, str) or not token:
                return found, text(page, "metadata", "resourceVersion")
            more = {"continue": token}
        raise SchedulerError(f"{self._path} has more than {_PAGE * _PAGES_MAX} objects")

    def _follow(self, version: str) -> None:
        """Take what changed since a version; where that is no longer known, a 410 asks for a new list."""
        changes = self._api.watch(
            self._path, resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds=_WATCH_SECONDS
        )
        for change in changes:
            thing, kind = at(change, "object"), text(change, "type")
            if kind == "ERROR" or not isinstance(thing, dict):
                status = at(thing, "code")
                raise AnswerError(status if isinstance(status, int) else _GONE, f"{self._path} cannot be watched")
            self._apply(kind, thing)
            self._version = text(thing, "metadata", "resourceVersion") or self._version

    def _apply(self, kind: str | None, thing: Json) -> None:
        if kind in ("ADDED", "MODIFIED"):
            self._take(self.things, thing)
        elif kind == "DELETED":
            self._take(self.departed, thing)
            self.things.pop(text(thing, "metadata", "uid") or "", None)

    def _take(self, into: dict[str, T], thing: Json) -> None:
        uid = text(thing, "metadata", "uid")
        if uid is None:
            return
        found = self._read(thing)
        if found is None:
            into.pop(uid, None)
        else:
            into[uid] = found
