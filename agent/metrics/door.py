"""What stands between the port of /metrics and who connects to it: a secret to bring, and a certificate."""

import base64
import binascii
import hashlib
import hmac
import logging
import socket
import ssl
from pathlib import Path

from agent.connection import OLDEST, is_loopback
from agent.errors import ConfigError

_LOG = logging.getLogger(__name__)

Signature = tuple[tuple[int, int, int], ...]


class _Certificate:
    """The TLS context of a certificate and its key, for servers.

    A renewed certificate is taken at the next handshake. One that cannot be read is logged once, and the old one
    stays: while it is being replaced, certificate and key do not fit.

    Raises:
        ConfigError: the files cannot be read, or are no certificate and its key.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._failing = False
        try:
            self._signature = self._signed()
            self._context = self._made()
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(
                f"agent.tls_certificate {certificate} and agent.tls_key {key} cannot be used: {_why(error)}"
            ) from error

    def context(self) -> ssl.SSLContext:
        """Return the context for the next handshake."""
        try:
            signature = self._signed()
            if signature != self._signature:
                self._context, self._signature = self._made(), signature
                _LOG.info("the certificate %s was renewed", self._certificate)
            self._failing = False
        except OSError as error:
            if not self._failing:
                _LOG.warning("the certificate %s cannot be reloaded: %s", self._certificate, _why(error))
            self._failing = True
        return self._context

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = OLDEST
        # Without a password of ours OpenSSL would ask for that of an encrypted key on the terminal.
        context.load_cert_chain(self._certificate, self._key, password="")
        return context

    def _signed(self) -> Signature:
        stats = (path.stat() for path in (self._certificate, self._key))
        return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats)


def _why(error: OSError) -> str:
    return error.strerror or str(error)


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


class Door:
    """A secret to bring, and a certificate to encrypt with; either may be missing.

    Raises:
        ConfigError: the certificate cannot be used.
    """

    def __init__(
        self, secret: Secret | None = None, tls_certificate: Path | None = None, tls_key: Path | None = None
    ) -> None:
        self.secret = secret or Secret()
        self._certificate = _Certificate(tls_certificate, tls_key) if tls_certificate and tls_key else None

    def stream(self, connection: socket.socket, timeout_seconds: float) -> socket.socket:
        """Return the connection, encrypted where there is a certificate.

        Raises:
            OSError: the client does not speak TLS, or is too slow.
        """
        connection.settimeout(timeout_seconds)
        if self._certificate is None:
            return connection
        return self._certificate.context().wrap_socket(connection, server_side=True)

    def warn(self, host: str) -> None:
        """Say in the log where others than this host's own users can read along, and what to do about it."""
        if is_loopback(host):
            return
        if not self.secret.asks:
            _LOG.warning(
                "/metrics on %s can be read by anyone who can reach it; set scrape_token, or listen on 127.0.0.1", host
            )
        elif self._certificate is None:
            _LOG.warning("the credentials for /metrics on %s are sent as plain text; set tls_certificate", host)
