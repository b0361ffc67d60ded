"""The keys that open doors here, in memory: what changed in the registry is read every few seconds.

A request never waits for the registry. While the registry does not answer, what was known goes on for an hour, so that
no sample is refused because PostgreSQL restarts; a revocation is then seen late.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from collector.access.secret import PresentedSecret, digest, matches
from collector.errors import AccessError, RegistryError
from collector.registry import AccessKey, Registry
from collector.registry.roles import KEY_ROLES, Principal

_LOG = logging.getLogger(__name__)
FRESH_SECONDS = 2.0  # how old what we know may be, while the registry answers
_HURRIED_SECONDS = 0.5  # how often a key that nobody knows may make us look at once
TRUSTED_SECONDS = 3600.0  # how long it goes on without the registry
_NO_HASH = digest("")


class Directory:
    """The live keys by their id. Safe to use from several threads."""

    def __init__(self, registry: Registry, now: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._registry = registry
        self._now = now
        self._keys: dict[str, AccessKey] = {}
        self._change = 0
        self._read_at = time.monotonic()
        self._tried_at = self._read_at
        self._silent = False
        self._lock = threading.Lock()
        self.refresh()

    @property
    def has_begun(self) -> bool:
        """Whether a key or join token was ever made: from then on nobody comes in without one."""
        return self._change > 0

    @property
    def is_heard(self) -> bool:
        """Whether the registry answered when it was last asked: else nobody knows what there is."""
        return not self._silent

    def refresh(self) -> None:
        """Read what has changed; a registry that does not answer is told to the log once."""
        with self._lock:
            self._refresh()

    async def hurry(self) -> None:
        """Return when the registry was read after this call: a key may be a second old.

        However many ask, it is read twice a second at most; they wait on the loop, and hold no thread meanwhile.
        """
        asked = time.monotonic()
        await asyncio.sleep(max(0.0, self._tried_at + _HURRIED_SECONDS - asked))
        await asyncio.to_thread(self._refresh_unless_since, asked)

    def _refresh_unless_since(self, asked: float) -> None:
        with self._lock:
            if self._tried_at < asked:
                self._refresh()

    def knows(self, shown: PresentedSecret) -> bool:
        """Return whether this is a key, by its id and its secret; how long it takes tells neither."""
        return self._found(shown) is not None

    def principal(self, shown: PresentedSecret) -> Principal:
        """Return whose key this is.

        Raises:
            AccessError: 401, it is no key, or no more; 503, the registry has been silent for too long.
        """
        return self._principal(self._found(shown))

    def holder(self, key_id: str) -> Principal:
        """Return whose key it is that a browser logged in with. Raises as principal()."""
        return self._principal(self._keys.get(key_id))

    def _found(self, shown: PresentedSecret) -> AccessKey | None:
        key = self._keys.get(shown.id)
        right = matches(shown.secret, key.hash if key is not None else _NO_HASH)
        return key if key is not None and right and key.role == shown.role else None

    def _principal(self, key: AccessKey | None) -> Principal:
        if time.monotonic() - self._read_at > TRUSTED_SECONDS:
            raise AccessError(503, "registry", "the registry has not answered for an hour, so no key is trusted")
        if key is None or key.role not in KEY_ROLES:
            raise AccessError(401, "token", "this key opens nothing here: it is unknown, or it was revoked")
        if not key.live(self._now()):
            raise AccessError(401, "expired", f"the key {key.id} has expired; gpuledger admin access rotate {key.id}")
        teams = frozenset(key.teams) if key.teams is not None else None
        return Principal(key.id, key.role, key.name, key.node, teams)

    def _refresh(self) -> None:
        self._tried_at = time.monotonic()
        try:
            changed, self._change = self._registry.keys.changed(self._change)
        except RegistryError as error:
            self._fails(error)
            return
        for key in changed:
            if key.revoked_at is None:
                self._keys[key.id] = key
            else:
                self._keys.pop(key.id, None)
        self._answers()

    def _answers(self) -> None:
        self._read_at = time.monotonic()
        if self._silent:
            _LOG.warning("the registry answers again")
        self._silent = False

    def _fails(self, error: RegistryError) -> None:
        if not self._silent:
            _LOG.error("%s; keys that are known go on for an hour, and what is revoked is not heard", error)
        self._silent = True
