"""A connection to where it was told, and nowhere else: it follows no redirect and no proxy of the environment."""

import http.client
import ssl


def connection(
    host: str, port: int | None, timeout_seconds: float, tls: ssl.SSLContext | None
) -> http.client.HTTPConnection:
    """Return a connection over HTTPS where there is a context for it, else over HTTP; it opens with its first use."""
    if tls is not None:
        return http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=tls)
    return http.client.HTTPConnection(host, port, timeout=timeout_seconds)
