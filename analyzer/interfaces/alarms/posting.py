"""Hand a body to a receiver by HTTP: one request, every wait bounded, no redirect followed."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from agent.connection import ask, host_of, why
from analyzer.interfaces.alarms.errors import LaterError, RefusedError
from analyzer.text.words import plain_sentence

_SECONDS = 10
_SAID_BYTES, _SAID_LETTERS = 1024, 200


def post(url: str, body: bytes, headers: Mapping[str, str], authority: Path | None = None, proxy: str = "") -> None:
    """Hand over a body of JSON; an https:// address may be one that is reached through a proxy.

    Raises:
        LaterError: out of reach, not in time, or 408, 429 or 5xx.
        RefusedError: any other answer that is not 2xx.
    """
    who = host_of(url)
    headers = {"Content-Type": "application/json", **headers}
    try:
        reply = ask(
            url, body, headers, timeout_seconds=_SECONDS, most_bytes=_SAID_BYTES, authority=authority, proxy=proxy
        )
    except OSError as error:
        raise LaterError(f"{who} does not answer: {why(error)}") from error
    if not reply.is_success:
        said = plain_sentence(reply.body.decode(errors="replace"))[:_SAID_LETTERS]
        words = f"{who} answers {reply.status}{f': {said}' if said else ''}"
        again = reply.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or reply.status >= 500
        raise (LaterError if again else RefusedError)(words)
