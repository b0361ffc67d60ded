"""Hand a body to a receiver by HTTP: one request, every wait bounded, no redirect followed."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from analyzer.alarms.errors import LaterError, RefusedError
from analyzer.exchange import host_of, opener
from analyzer.report.words import plain_sentence

SECONDS = 10
_SAID_BYTES, _SAID_LETTERS = 1024, 200


def post(url: str, body: bytes, headers: Mapping[str, str], authority: Path | None = None) -> None:
    """Hand over a body of JSON.

    Raises:
        LaterError: out of reach, not in time, or 408, 429 or 5xx.
        RefusedError: any other answer that is not 2xx.
    """
    who = host_of(url)
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})  # noqa: S310 - checked
    try:
        with opener(url, authority).open(request, timeout=SECONDS) as answer:
            answer.read(_SAID_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            said = plain_sentence(error.read(_SAID_BYTES).decode(errors="replace"))[:_SAID_LETTERS]
        words = f"{who} answers {error.code}{f': {said}' if said else ''}"
        again = error.code in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or error.code >= 500
        raise (LaterError if again else RefusedError)(words) from error
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", error)
        raise LaterError(f"{who} does not answer: {getattr(why, 'strerror', None) or why}") from error
