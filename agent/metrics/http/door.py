"""What stands between the port of /metrics and who connects to it."""

import ipaddress
import logging
import socket
from pathlib import Path

from agent.metrics.http.certificate import Certificate
from agent.metrics.http.secret import Secret

_LOG = logging.getLogger(__name__)


class Door:
    """A secret to bring, and a certificate to encrypt with; either may be missing.

    Raises:
        ConfigError: the certificate cannot be used.
    """

    def __init__(
        self, secret: Secret | None = None, tls_certificate: Path | None = None, tls_key: Path | None = None
    ) -> None:
        self.secret = secret or Secret()
        self._certificate = Certificate(tls_certificate, tls_key) if tls_certificate and tls_key else None

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
        if _is_loopback(host):
            return
        if not self.secret.asks:
            _LOG.warning(
                "/metrics on %s can be read by everybody who reaches it; set scrape_token, or listen on 127.0.0.1", host
            )
        elif self._certificate is None:
            _LOG.warning("the secret of /metrics on %s goes over the network as plain text; set tls_certificate", host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
