"""Ask an ASGI application of this process, as a client would: one GET, one answer, nothing on the network."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Message


async def get(app: ASGIApp, path: str, query: str, headers: Sequence[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    """Return the status and the body that the application answers with; what it raises is raised here."""
    status, body = 500, bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))

    await app(_scope(path, query, headers), receive, send)
    return status, bytes(body)


def _scope(path: str, query: str, headers: Sequence[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": quote(path, safe="/%").encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 80),
        "state": {},
    }
