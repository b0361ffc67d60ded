"""The server's certificate: checked at the start, read again when the process is told to (SIGHUP)."""

import logging
import ssl
from typing import TYPE_CHECKING

from collector.errors import ConfigError

if TYPE_CHECKING:
    from collector.config import CollectorConfig

_LOG = logging.getLogger(__name__)


def check_certificate(config: "CollectorConfig") -> None:
    """Check that the certificate and the key of the settings can be used, where there are any.

    Raises:
        ConfigError: they cannot be read, or do not belong together.
    """
    if config.tls_certificate:
        try:
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), config)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(
                f"collector.tls_certificate {config.tls_certificate} and collector.tls_key {config.tls_key} "
                f"cannot be used: {error.strerror or error}"
            ) from error


def renew_certificate(context: ssl.SSLContext | None, config: "CollectorConfig") -> None:
    """Let handshakes from now on show the certificate that lies there now; one that cannot be used changes nothing."""
    if context is None:
        return
    try:
        check_certificate(config)  # aside first: a context would keep a certificate without its key
        _load(context, config)
    except (ConfigError, OSError) as error:
        _LOG.error("the old certificate stays: %s", error)
        return
    _LOG.warning("the certificate %s was read again", config.tls_certificate)


def _load(context: ssl.SSLContext, config: "CollectorConfig") -> None:
    # Without a password of ours OpenSSL would ask for that of an encrypted key on the terminal.
    context.load_cert_chain(config.tls_certificate, config.tls_key, password="")
