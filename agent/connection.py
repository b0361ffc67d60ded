"""A connection to where it was told, and nowhere else: it follows no redirect and no proxy of the environment."""

import http.client
import ssl
from pathlib import Path

# 1.0 and 1.1 are broken (RFC 8996), and Debian's Python leaves the choice to a file in /etc.
OLDEST = ssl.TLSVersion.TLSv1_2


def trusting(authority: Path | None) -> ssl.SSLContext:
    """Return a context for a client that believes this authority, or those of the system where it is None.

    Raises:
        OSError: the file cannot be read, or holds no certificate.
    """
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = OLDEST
    return context


def connection(
    host: str, port: int | None, timeout_seconds: float, tls: ssl.SSLContext | None
) -> http.client.HTTPConnection:
    """Return a connection over HTTPS where there is a context for it, else over HTTP; it opens with its first use."""
    if tls is not None:
        return http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=tls)
    return http.client.HTTPConnection(host, port, timeout=timeout_seconds)
