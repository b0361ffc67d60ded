"""Who is logged in with a browser: sessions of keys, in this process's memory, bounded in number and in time.

A session is not more than its key: with every request the key is looked up again, so that one that was revoked or has
expired opens nothing within seconds. A restart ends all sessions; whoever has a key logs in again.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from collector.access.secret import digest

COOKIE = "gpuledger"
SECURE_COOKIE = "__Host-gpuledger"  # a browser takes this name only from TLS, for the whole host and no other
IDLE_SECONDS = 12 * 3600.0
LASTING_SECONDS = 7 * 86_400.0
_MOST = 10_000  # the one that was used longest ago ends first
MOST_OF_A_KEY = 50  # so that the holder of one key cannot push out the others
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that is logged in. `key_id` None is a token of the settings; `token` goes with each change."""

    key_id: str | None
    token: str
    ends_at: float  # by the clock of the store


class Sessions:
    """The sessions of one server; any thread may ask. What it keeps of a cookie is its hash."""

    def __init__(self, now: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        self._now = now
        self._most = most
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[Session, float]] = OrderedDict()  # with when it was last used

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, key_id: str | None) -> str:
        """Begin a session and return what the browser's cookie shall say."""
        cookie = secrets.token_urlsafe(_SECRET_BYTES)
        now = self._now()
        session = Session(key_id, secrets.token_urlsafe(_SECRET_BYTES), now + LASTING_SECONDS)
        with self._lock:
            own = [name for name, (one, _) in self._open.items() if one.key_id == key_id]
            for name in own[: max(0, len(own) - MOST_OF_A_KEY + 1)]:
                del self._open[name]
            self._open[digest(cookie)] = (session, now)
            while len(self._open) > self._most:
                self._open.popitem(last=False)
        return cookie

    def of(self, cookie: str) -> Session | None:
        """Return the session of a cookie, and note that it is in use; None where there is none, or no more."""
        name, now = digest(cookie), self._now()
        with self._lock:
            found = self._open.pop(name, None)
            if found is None or now >= found[0].ends_at or now - found[1] > IDLE_SECONDS:
                return None
            self._open[name] = (found[0], now)
            return found[0]

    def end(self, cookie: str) -> None:
        """End the session of a cookie, if there is one."""
        with self._lock:
            self._open.pop(digest(cookie), None)


def cookie_of(header: bytes, name: str | None = None) -> str:
    """Return what a Cookie header says of our session (or of another name); empty where it says nothing.

    What comes by TLS is asked for SECURE_COOKIE alone: the other may have been set by whoever answers for a sister
    domain, or for this one without TLS.
    """
    wanted = (SECURE_COOKIE, COOKIE) if name is None else (name,)
    pairs = [part.strip().partition("=") for part in header.decode("latin-1").split(";")]
    said = {key: value for key, _, value in reversed(pairs)}  # the first of a name counts
    return next((said[key] for key in wanted if said.get(key)), "")
