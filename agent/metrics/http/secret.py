"""What a scraper must bring: a bearer token, or a user and a password."""

import base64
import binascii
import hashlib
import hmac


class Secret:
    """Admits those who bring the token or the user with the password; everybody where none is set.

    Comparing takes as long for a wrong secret as for the right one.
    """

    def __init__(self, token: str = "", user: str = "", password: str = "") -> None:
        self._bearer = _digest(token.encode()) if token else None
        self._basic = _digest(f"{user}:{password}".encode()) if user else None

    @property
    def asks(self) -> bool:
        """Whether anything must be brought."""
        return self._bearer is not None or self._basic is not None

    @property
    def challenges(self) -> list[str]:
        """What can be brought, as values of WWW-Authenticate. Source: RFC 9110, 11.6.1."""
        schemes = {"Bearer": self._bearer, "Basic": self._basic}
        return [f'{scheme} realm="gpuledger"' for scheme, expected in schemes.items() if expected is not None]

    def admits(self, authorization: str | None) -> bool:
        """Return whether the value of the header Authorization is the right one."""
        scheme, _, brought = (authorization or "").partition(" ")
        expected = {"bearer": self._bearer, "basic": self._basic}.get(scheme.lower())
        if expected is None:
            return not self.asks
        said = brought.strip().encode("latin-1", "replace")
        return hmac.compare_digest(expected, _digest(_decoded(said) if scheme.lower() == "basic" else said))


def _decoded(said: bytes) -> bytes:
    try:
        return base64.b64decode(said, validate=True)
    except binascii.Error:
        return b""


def _digest(secret: bytes) -> bytes:
    """Return what is compared in place of a secret: of one length, whatever the secret's."""
    return hashlib.sha256(secret).digest()
