"""Who is let in: with tokens in the settings, every path but /healthz needs one of them.

A token comes as `Authorization: Bearer TOKEN` (agents, Prometheus) or as the password of `Basic` (browsers ask for
it, whatever the user name).
"""

import base64
import binascii
import hmac
from collections.abc import Sequence

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS = frozenset({"/healthz"})


class TokenGate:
    """ASGI middleware that answers 401 to whoever presents no known token; without tokens it lets everyone through."""

    def __init__(self, app: ASGIApp, tokens: Sequence[str]) -> None:
        self._app = app
        self._tokens = [token.encode() for token in tokens]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._admits(dict(scope["headers"])):
            await self._app(scope, receive, send)
            return
        answer = JSONResponse(
            {"error": "this collector asks for a token; send it as Authorization: Bearer TOKEN", "reason": "token"},
            status_code=401,
            headers={"WWW-Authenticate": 'Basic realm="gpuledger"'},
        )
        await answer(scope, receive, send)

    def _admits(self, headers: dict[bytes, bytes]) -> bool:
        if not self._tokens:
            return True
        shown = presented(headers.get(b"authorization", b""))
        # Every token is compared in constant time, so that the time of the answer tells nothing of any of them.
        return any([hmac.compare_digest(shown, token) for token in self._tokens])  # noqa: C419 - no early end


def presented(authorization: bytes) -> bytes:
    """Return the token of an Authorization header; empty where it holds none."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""
