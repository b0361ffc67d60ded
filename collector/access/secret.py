"""Keys and join tokens as people hold them: gl_<role>_<id>_<secret>. The secret is shown once, and kept as a hash."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass

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
        return f"Shown({self.role}, {self.id})"

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
