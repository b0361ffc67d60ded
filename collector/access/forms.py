"""What a browser sends to change something: a form, read whole and bounded, and what shows that our page made it."""

import asyncio
import hmac
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from collector.errors import AccessError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

FORM = "application/x-www-form-urlencoded"
FORM_BYTES = 65_536
_FORM_SECONDS = 10.0
_FIELDS_MOST = 100
FIELD = "csrf"
_HEADER = b"x-csrf-token"
SAFE = ("GET", "HEAD", "OPTIONS")


def is_form(headers: dict[bytes, bytes]) -> bool:
    """Return whether a request sends a form, as a page of any site can make a browser do."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == FORM.encode()


def same_site(method: str, headers: dict[bytes, bytes]) -> None:
    """Refuse a change that a page of another site makes a browser send: it adds a password by itself, and says so.

    Raises:
        AccessError: 403.
    """
    origin = headers.get(b"origin")
    if method not in SAFE and origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
        raise AccessError(403, "origin", "a page of another site may change nothing here")


def fields_of(content: bytes) -> dict[str, str]:
    """Return the fields of a form; of several of one name the first.

    Raises:
        AccessError: 400, it is no form.
    """
    try:
        pairs = parse_qsl(content.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MOST)
    except ValueError as error:
        raise AccessError(400, "form", "what was sent cannot be read as a form") from error
    return dict(reversed(pairs))


async def body_of(receive: "Receive") -> bytes:
    """Return a small body.

    Raises:
        AccessError: 413, it is larger than a form of ours can be, or 408, it took too long; no more of it is read.
    """
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            return await _read(receive)
    except TimeoutError as error:
        raise AccessError(408, "form", f"a form takes at most {_FORM_SECONDS:g} s to arrive") from error


async def _read(receive: "Receive") -> bytes:
    content, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise AccessError(400, "form", "the connection ended before the form did")
        content += message.get("body", b"")
        more = message.get("more_body", False)
        if len(content) > FORM_BYTES:
            raise AccessError(413, "form", f"a form has at most {FORM_BYTES:,} bytes")
    return content


async def own_change(scope: "Scope", receive: "Receive", headers: dict[bytes, bytes], token: str) -> "Receive":
    """Return what the route shall read the body from, once a change has shown the token of its session.

    It comes as the header X-CSRF-Token, or as the field `csrf` of a form.

    Raises:
        AccessError: 403, it shows none, or another's: a page of another site may have made the browser send it.
    """
    if scope["method"] in SAFE:
        return receive
    shown, again = headers.get(_HEADER, b"").decode("latin-1"), receive
    if not shown and is_form(headers):
        content = await body_of(receive)
        shown, again = fields_of(content).get(FIELD, ""), _again(content, receive)
    if not hmac.compare_digest(shown.encode(), token.encode()):
        raise AccessError(403, "csrf", "this change did not come from a page of this session: open the page again")
    return again


def _again(content: bytes, receive: "Receive") -> "Receive":
    """Return a body that was read once as it would have come; what comes after it is the connection's own."""
    waiting = [{"type": "http.request", "body": content, "more_body": False}]

    async def replay() -> Any:  # noqa: ANN401 - a message of ASGI
        return waiting.pop() if waiting else await receive()

    return replay
