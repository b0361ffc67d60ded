"""What the server calls for every request: batches go straight to who takes them, all else through the framework.

Six layers of a framework, each a coroutine of its own, cost as much as half the decoding of a small batch.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class AsgiMount:
    """An ASGI application before another; `direct` are the ones that are posted to, by path."""

    def __init__(self, app: "ASGIApp", direct: Mapping[str, "ASGIApp"]) -> None:
        self._app = app
        self._direct = direct

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass the request on."""
        posted = scope["type"] == "http" and scope["method"] == "POST"
        await (self._direct.get(scope["path"], self._app) if posted else self._app)(scope, receive, send)
