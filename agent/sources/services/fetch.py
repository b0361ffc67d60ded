"""One page over HTTP, within a time and a size, and from nowhere but where it was asked for."""

import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from agent.connection import ask
from agent.errors import SourceError
from agent.sources.services.declared import Service

PAGE_BYTES_MAX = 2 * 2**20
_WHOLE_SECONDS = 5.0  # for all of it, however slowly it trickles


def fetch(service: Service, ca_file: Path | None = None, seconds: Callable[[], float] = time.monotonic) -> str:
    """Return the page. Redirects and proxies are not followed: the agent talks to whom it was told, and nobody else.

    Raises:
        SourceError: it cannot be had, is too large or too slow.
    """
    try:
        reply = ask(
            service.url,
            headers={"Accept": "text/plain", "Accept-Encoding": "identity"},
            timeout_seconds=_WHOLE_SECONDS,
            most_bytes=PAGE_BYTES_MAX,
            authority=ca_file,
            clock=seconds,
        )
    except OSError as error:
        raise SourceError(f"{service.url} cannot be read ({error or type(error).__name__})") from error
    if reply.status != HTTPStatus.OK:
        raise SourceError(f"{service.url} answers {reply.status}; agent.services should name its /metrics")
    if not reply.is_whole:
        raise SourceError(f"{service.url} is larger than {PAGE_BYTES_MAX} bytes")
    return reply.body.decode("utf-8", "replace")
