"""Everything that decides who may come in, for one server: built once, started and stopped with it.

The keys that open doors are in memory: what changed in the registry is read every few seconds. A request never waits
for the registry. While that does not answer, what was known goes on for an hour, so that no sample is refused because
PostgreSQL restarts; a revocation is then seen late.

An address may show so many keys or join tokens that open nothing at once, then one in a while. Nobody guesses 256 bits.
What it stops is a loop that makes us look into the registry, and fills the audit.

Who read money or names, and who was refused, is noted once an hour for each route, however often they come. The first
reading of an hour is written within seconds, the number of the others when the hour is over or the server ends: a crash
loses that number, and never that somebody has read. Paths are those of the routes and carry no name, so that erasing a
person's name leaves nothing of it here.
"""

import asyncio
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress

from starlette.types import ASGIApp, Scope

from agent.wire.units import DAY_US, HOUR_US
from collector.access.secret import PresentedSecret, Session, Sessions, digest, is_one_of, matches, parsed
from collector.background import Background, now_us
from collector.errors import AccessError, RegistryError
from collector.registry import AccessKey, Registry
from collector.registry.audit import AuditEntry, AuditKind
from collector.registry.roles import KEY_ROLES, SETTINGS, Principal

AT_ONCE = 10
EACH_SECONDS = 6.0
_MOST_ADDRESSES = 10_000  # remembered; who is forgotten may try so often again


class Attempts:
    """The failures of every address; any thread may tell and ask."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        most: int = _MOST_ADDRESSES,
        at_once: int = AT_ONCE,
        each_seconds: float = EACH_SECONDS,
    ) -> None:
        self._now = now
        self._at_once, self._each_seconds = at_once, each_seconds
        self._most = most
        self._lock = threading.Lock()
        self._spent_until: OrderedDict[str, float] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """Return how long this address has to wait before it may try again; 0 where it may."""
        with self._lock:
            ahead = self._spent_until.get(address, 0.0) - self._now()
        return max(0.0, ahead - (self._at_once - 1) * self._each_seconds)

    def failed(self, address: str) -> None:
        """Note that it showed what opens nothing."""
        with self._lock:
            now = self._now()
            self._spent_until[address] = max(self._spent_until.pop(address, 0.0), now) + self._each_seconds
            while len(self._spent_until) > self._most:
                self._spent_until.popitem(last=False)


_LOG = logging.getLogger(__name__)
FRESH_SECONDS = 2.0  # how old what we know may be, while the registry answers
_HURRIED_SECONDS = 0.5  # how often a key that nobody knows may make us look at once
TRUSTED_SECONDS = 3600.0  # how long it goes on without the registry
_NO_HASH = digest("")


class Directory:
    """The live keys by their id. Safe to use from several threads."""

    def __init__(self, registry: Registry, now: Callable[[], int] = now_us) -> None:
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
            raise AccessError(401, "token", "this key is not valid here: it is unknown or was revoked")
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
            _LOG.error("%s; known keys stay valid for an hour, and revocations are not seen", error)
        self._silent = True


MOST_LINES = 10_000  # of one hour; what is beyond is counted under one name
_OTHERS = "others"

_Line = tuple[AuditKind, str, str, str]  # kind, actor, action, subject


class Usage:
    """Counts in memory, and writes to the audit when told to. Safe to use from several threads."""

    def __init__(self, registry: Registry, now: Callable[[], int] = now_us) -> None:
        self._registry = registry
        self._now = now
        self._lock = threading.Lock()
        self._hour = self._this_hour()
        self._counts: dict[_Line, int] = {}
        self._waiting: list[AuditEntry] = []
        self._used: set[str] = set()  # keys to write down; there are no more of them than keys
        self._seen: set[str] = set()  # those of this hour
        self._silent = False

    def note(self, kind: AuditKind, actor: str, action: str, subject: str) -> None:
        """Count one request; `actor` is a key's id, `subject` the route."""
        line: _Line = (kind, actor, action, subject)
        with self._lock:
            self._turn()
            if line not in self._counts and len(self._counts) >= MOST_LINES:
                line = (kind, _OTHERS, action, _OTHERS)
            if line not in self._counts:
                self._counts[line] = 0
                self._waiting.append(AuditEntry(self._hour, *line))
            else:
                self._counts[line] += 1

    def key(self, key_id: str) -> None:
        """Note that a key opened something, once an hour."""
        if key_id in self._seen:  # without the lock: what comes twice is written twice, and that is all
            return
        with self._lock:
            self._seen.add(key_id)
            self._used.add(key_id)

    def flush(self, *, last: bool = False) -> None:
        """Write what waits; with `last` also the counts of the hour that has not ended."""
        with self._lock:
            self._turn(at_once=last)
            entries, self._waiting = self._waiting, []
            used, self._used = self._used, set()
        try:
            self._registry.audit.add(entries)
            entries = []  # they are there: what fails now must not write them twice
            if used:
                self._registry.keys.used(sorted(used), self._now())
        except RegistryError as error:
            self._keep(entries, used, error)
            return
        self._silent = False

    def _keep(self, entries: list[AuditEntry], used: set[str], error: RegistryError) -> None:
        """Keep what could not be written, up to a bound."""
        with self._lock:
            self._waiting = (entries + self._waiting)[: 2 * MOST_LINES]
            self._used |= used
        if not self._silent:
            _LOG.error("the audit log cannot be written; its entries wait: %s", error)
        self._silent = True

    def _turn(self, *, at_once: bool = False) -> None:
        """Close the hour where it is over: what was counted beyond the first is written now."""
        hour = self._this_hour()
        if hour == self._hour and not at_once:
            return
        self._waiting += [AuditEntry(self._hour, *line, count=more) for line, more in self._counts.items() if more]
        self._waiting = self._waiting[: 2 * MOST_LINES]
        self._hour = hour
        self._seen = set()
        self._counts = dict.fromkeys(self._counts, 0) if at_once else {}

    def _this_hour(self) -> int:
        return self._now() // HOUR_US * HOUR_US


_STOP_SECONDS = 10.0


class Access(Background):
    """The tokens of the settings, the keys of the registry, and who used them. `is_loopback`: nobody else can come.

    Keys end by `now`, microseconds UTC, and what is kept for a time expires by it.
    """

    def __init__(
        self,
        registry: Registry,
        tokens: Sequence[str] = (),
        now: Callable[[], int] = now_us,
        *,
        is_loopback: bool,
    ) -> None:
        super().__init__("access", _STOP_SECONDS)
        self.registry = registry
        self.tokens = [token.encode() for token in tokens]
        self.now = now
        self.directory = Directory(registry, now)
        self.usage = Usage(registry)
        self.sessions = Sessions()
        self.attempts = Attempts()
        self.comes_by_tls = False  # what people send, whoever ends it: set by who knows the site's address
        self.public_origin: bytes | None = None  # and where they reach it, as browsers say it
        self.open_token = secrets.token_urlsafe()  # of the forms of a server that asks for nothing
        # How people are told what programs get as a problem; None, or an answer of None: as programs.
        self.to_people: Callable[[Scope, AccessError], ASGIApp | None] | None = None
        self.signs_in = False  # whether people may come without a key, by the site's own provider
        self._is_loopback = is_loopback
        self._expired_at = 0

    @property
    def asks(self) -> bool:
        """Whether a token, key or session must be shown: always but on loopback of a site that has never made one."""
        return bool(self.tokens) or self.signs_in or not self._is_loopback or self.directory.has_begun

    @property
    def is_shut(self) -> bool:
        """Whether nobody can come in: a key must be shown, and the registry says that there never was one."""
        is_open = bool(self.tokens) or self.signs_in or self.directory.has_begun
        return self.asks and not is_open and self.directory.is_heard

    async def holder(self, shown: bytes) -> Principal:
        """Return whose token or key it is that somebody shows.

        Raises:
            AccessError: 401, it is none of ours, or no more; 503, the registry has been silent for too long.
        """
        if is_one_of(shown, self.tokens):
            return SETTINGS
        key = parsed(shown.decode("latin-1"))
        if key is None:
            raise AccessError(401, "token", "this collector requires a token; send it as Authorization: Bearer TOKEN")
        if not self.directory.knows(key):  # of an id that is known and one that is not alike: how long tells neither
            await self.directory.hurry()
        return self.directory.principal(key)

    def logged_in(self, session: Session) -> Principal:
        """Return who a browser's session is of: a person, or its key as that is now. Raises as holder()."""
        if session.person is not None:
            return session.person
        return SETTINGS if session.key_id is None else self.directory.holder(session.key_id)

    def stop(self) -> None:
        """End, write down who was here, and close the registry."""
        super().stop()
        self.usage.flush(last=True)
        self.registry.close()

    def _expire(self) -> None:
        """Once a day drop what of the audit and of capacity requests is older than must be kept."""
        now = self.now()
        if now - self._expired_at > DAY_US:
            self._expired_at = now
            with suppress(RegistryError):  # tomorrow is soon enough
                self.registry.audit.expire(now)
                self.registry.capacity.expire(now)

    def _run(self) -> None:
        while not self._ending.wait(FRESH_SECONDS):
            try:
                self.directory.refresh()
                self.usage.flush()
                self._expire()
            except Exception:  # noqa: BLE001  and tried again: else what is revoked would go on
                _LOG.exception("BUG: the keys are not followed")
