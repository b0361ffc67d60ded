"""The certificate of /metrics: read at the start, and again when its files have changed."""

import logging
import ssl
from pathlib import Path

from agent.connection import OLDEST
from agent.errors import ConfigError

_LOG = logging.getLogger(__name__)

Signature = tuple[tuple[int, int, int], ...]


class Certificate:
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
                _LOG.warning("the certificate %s cannot be read again: %s", self._certificate, _why(error))
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
