"""Hand a body to a receiver by HTTP: one request, every wait bounded, no redirect followed."""

import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from analyzer.alarms.errors import LaterError, RefusedError
from analyzer.report.words import plain_sentence
from collector.trust import trusting

SECONDS = 10
_SAID_BYTES, _SAID_LETTERS = 1024, 200


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry what we say, and its signature, to somebody whom nobody named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - urllib's own arguments
        return None


def post(url: str, body: bytes, headers: Mapping[str, str], authority: Path | None = None) -> None:
    """Hand over a body of JSON.

    Raises:
        LaterError: out of reach, not in time, or 408, 429 or 5xx.
        RefusedError: any other answer that is not 2xx.
    """
    who = _who(url)
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})  # noqa: S310 - checked
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    try:
        if url.startswith("https://"):
            handlers.append(urllib.request.HTTPSHandler(context=trusting(authority)))
        with urllib.request.build_opener(*handlers).open(request, timeout=SECONDS) as answer:
            answer.read(_SAID_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            said = plain_sentence(error.read(_SAID_BYTES).decode(errors="replace"))[:_SAID_LETTERS]
        words = f"{who} answers {error.code}{f': {said}' if said else ''}"
        again = error.code in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or error.code >= 500
        raise (LaterError if again else RefusedError)(words) from error
    except OSError as error:
        why = getattr(error, "reason", error)
        raise LaterError(f"{who} does not answer: {getattr(why, 'strerror', None) or why}") from error


def _who(url: str) -> str:
    """Name a receiver without what its address may hold of a secret: user, path and query."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
