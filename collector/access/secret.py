"""What people and programs show to come in: keys and join tokens, the header of a request, the cookie of a session.

Keys and join tokens are, as people hold them, gl_<role>_<id>_<secret>. The secret is shown once, and kept as a hash. A
request shows `Authorization: Bearer TOKEN`, or the password of `Basic`, whatever the user's name.

Who is logged in with a browser has a session of a key, in this process's memory, bounded in number and in time. It is
not more than its key: with every request the key is looked up again, so that one that was revoked or has expired opens
nothing within seconds. A person's, who signed in without a key, lasts half a day. A restart ends all sessions; whoever
has a key logs in again.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collector.registry.roles import Principal

_PREFIX = "gl"
JOIN = "join"
_SECRET_BYTES = 32  # from the system's generator: no guess and no table hits 256 bits
_ID_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # without those that are read for one another
_ID_LENGTH = 8
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class PresentedSecret:
    """A key or join token as it was shown: its parts. repr() does not tell the secret."""

    role: str
    id: str
    secret: str

    def __repr__(self) -> str:
        return f"PresentedSecret({self.role}, {self.id})"

    @property
    def text(self) -> str:
        """The whole, as it is handed to its holder."""
        return "_".join((_PREFIX, self.role, self.id, self.secret))


def new_secret(role: str) -> PresentedSecret:
    """Return a new one."""
    name = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))
    return PresentedSecret(role, name, secrets.token_urlsafe(_SECRET_BYTES))


def parsed(text: str) -> PresentedSecret | None:
    """Return the parts of what somebody shows, or None where it is none of ours."""
    parts = text.split("_", 3)  # the secret may hold the character itself
    if len(text) > _LONGEST or len(parts) != 4 or parts[0] != _PREFIX or not all(parts):
        return None
    return PresentedSecret(*parts[1:])


def digest(secret: str) -> str:
    """Return what is kept of a secret: registry/keys.py says why one SHA-256 is right."""
    return hashlib.sha256(secret.encode()).hexdigest()


def matches(secret: str, kept: str) -> bool:
    """Return whether a secret is the one of which this was kept, in a time that tells nothing of it."""
    return hmac.compare_digest(digest(secret), kept)


def presented(authorization: bytes) -> bytes:
    """Return the token of an Authorization header; empty where it holds none."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def is_one_of(shown: bytes, tokens: Sequence[bytes]) -> bool:
    """Return whether this is one of the tokens; each is compared in constant time, and there is no early end."""
    return any([hmac.compare_digest(shown, token) for token in tokens])  # noqa: C419


COOKIE = "gpuledger"
SECURE_COOKIE = "__Host-gpuledger"  # a browser takes this name only from TLS, for the whole host and no other
IDLE_SECONDS = 12 * 3600.0
LASTING_SECONDS = 7 * 86_400.0
PERSON_SECONDS = 12 * 3600.0  # after which the provider is asked anew whether somebody is still who they were
_MOST = 10_000  # the one that was used longest ago ends first
MOST_OF_A_KEY = 50  # so that the holder of one key cannot push out the others


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that is logged in. `key_id` None is a token of the settings; `token` goes with each change.

    `person` is who has signed in without a key; `key_id` is their id then.
    """

    key_id: str | None
    token: str
    ends_at: float  # by the clock of the store
    person: Principal | None = None


class Sessions:
    """The sessions of one server; any thread may ask. What it keeps of a cookie is its hash."""

    def __init__(self, now: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        self._now = now
        self._most = most
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[Session, float]] = OrderedDict()  # with when it was last used

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, key_id: str | None, person: Principal | None = None) -> str:
        """Begin a session and return what the browser's cookie shall say."""
        cookie = secrets.token_urlsafe(_SECRET_BYTES)
        now = self._now()
        ends_at = now + (LASTING_SECONDS if person is None else PERSON_SECONDS)
        session = Session(key_id, secrets.token_urlsafe(_SECRET_BYTES), ends_at, person)
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
