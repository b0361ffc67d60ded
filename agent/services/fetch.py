"""One page over HTTP, within a time and a size, and from nowhere but where it was asked for."""

import http.client
import time
from collections.abc import Callable
from pathlib import Path

from agent.connection import connection, trusting
from agent.errors import SourceError
from agent.services.declared import Service

PAGE_BYTES_MAX = 2 * 2**20
WHOLE_SECONDS = 5.0  # for all of it, however slowly it trickles
CHUNK_BYTES = 65536


def fetch(service: Service, ca_file: Path | None = None, seconds: Callable[[], float] = time.monotonic) -> str:
    """Return the page. Redirects and proxies are not followed: the agent talks to whom it was told, and nobody else.

    Raises:
        SourceError: it cannot be had, is too large or too slow.
    """
    deadline = seconds() + WHOLE_SECONDS
    tls = None if service.scheme == "http" else trusting(ca_file)
    asked = connection(service.host, service.port, WHOLE_SECONDS, tls)
    try:
        asked.request("GET", service.path, headers={"Accept": "text/plain", "Accept-Encoding": "identity"})
        with asked.getresponse() as answer:
            if answer.status != http.client.OK:
                raise SourceError(f"{service.url} answers {answer.status}; agent.services should name its /metrics")
            return _body(answer, service, lambda: deadline - seconds()).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise SourceError(f"{service.url} cannot be read ({error or type(error).__name__})") from error
    finally:
        asked.close()


def _body(answer: http.client.HTTPResponse, service: Service, left: Callable[[], float]) -> bytes:
    parts: list[bytes] = []
    size = 0
    while chunk := answer.read1(CHUNK_BYTES):
        parts.append(chunk)
        size += len(chunk)
        if size > PAGE_BYTES_MAX:
            raise SourceError(f"{service.url} is larger than {PAGE_BYTES_MAX} bytes")
        if left() <= 0:
            raise SourceError(f"{service.url} took longer than {WHOLE_SECONDS:g} s")
    if answer.length:
        raise SourceError(f"{service.url} was cut off: {answer.length} bytes are missing")
    return b"".join(parts)
