"""Everything that decides who may come in, for one server: built once, started and stopped with it."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US
from collector.access.attempts import Attempts
from collector.access.directory import FRESH_SECONDS, Directory
from collector.access.presented import is_one_of
from collector.access.secret import parsed
from collector.access.sessions import Session, Sessions
from collector.access.usage import Usage
from collector.errors import AccessError, RegistryError
from collector.registry import Registry
from collector.registry.roles import SETTINGS, Principal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope


_LOG = logging.getLogger(__name__)
_STOP_SECONDS = 10.0


class Access:
    """The tokens of the settings, the keys of the registry, and who used them. `is_loopback`: nobody else can come."""

    def __init__(self, registry: Registry, tokens: Sequence[str] = (), *, is_loopback: bool) -> None:
        self.registry = registry
        self.tokens = [token.encode() for token in tokens]
        self.directory = Directory(registry)
        self.usage = Usage(registry)
        self.sessions = Sessions()
        self.attempts = Attempts()
        self.comes_by_tls = False  # what people send, whoever ends it: set by who knows the site's address
        self.open_token = secrets.token_urlsafe()  # of the forms of a server that asks for nothing
        # How people are told what programs get as a problem; None, or an answer of None: as programs.
        self.to_people: Callable[[Scope, AccessError], ASGIApp | None] | None = None
        self._is_loopback = is_loopback
        self._expired_at = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access", daemon=True)

    @property
    def asks(self) -> bool:
        """Whether a token or key must be shown: always but on loopback of a site that has never made one."""
        return bool(self.tokens) or not self._is_loopback or self.directory.has_begun

    @property
    def is_shut(self) -> bool:
        """Whether nobody can come in: a key must be shown, and the registry says that there never was one."""
        return self.asks and not self.tokens and self.directory.is_heard and not self.directory.has_begun

    async def holder(self, shown: bytes) -> Principal:
        """Return whose token or key it is that somebody shows.

        Raises:
            AccessError: 401, it is none of ours, or no more; 503, the registry has been silent for too long.
        """
        if is_one_of(shown, self.tokens):
            return SETTINGS
        key = parsed(shown.decode("latin-1"))
        if key is None:
            raise AccessError(401, "token", "this collector asks for a token; send it as Authorization: Bearer TOKEN")
        if not self.directory.knows(key):  # of an id that is known and one that is not alike: how long tells neither
            await self.directory.hurry()
        return self.directory.principal(key)

    def logged_in(self, session: Session) -> Principal:
        """Return who a browser's session is of, as its key is now. Raises as holder()."""
        return SETTINGS if session.key_id is None else self.directory.holder(session.key_id)

    def start(self) -> None:
        """Begin to follow the registry."""
        self._thread.start()

    def stop(self) -> None:
        """Write down who was here, close the registry, and end."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)
        self.usage.flush(last=True)
        self.registry.close()

    def _expire(self) -> None:
        """Once a day drop what of the audit and of capacity requests is older than must be kept."""
        now = time.time_ns() // 1000
        if now - self._expired_at > DAY_US:
            self._expired_at = now
            with suppress(RegistryError):  # tomorrow is soon enough
                self.registry.audit.expire(now)
                self.registry.capacity.expire(now)

    def _run(self) -> None:
        while not self._stop.wait(FRESH_SECONDS):
            try:
                self.directory.refresh()
                self.usage.flush()
                self._expire()
            except Exception:  # noqa: BLE001  and tried again: else what is revoked would go on
                _LOG.exception("BUG: the keys are not followed")
