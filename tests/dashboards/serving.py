"""Serve an application on a free port of this machine, and read its pages as a browser puts them together."""

import html
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi import FastAPI

from tests.waiting import PATIENCE_SECONDS, until


@contextmanager
def served(app: FastAPI, *, makes_ahead: bool = False, port: int = 0) -> Iterator[httpx.Client]:
    """Yield a client of the running application; what starts beside it starts, and ends with it.

    Pages are made when they are asked for. What a server makes before anybody asks takes longer than most tests, and is
    made for those that are about it.
    """
    if not makes_ahead and (prefetch := getattr(app.state, "prefetch", None)) is not None:
        prefetch.stop()
    settings = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", access_log=False, ws="none")
    socket = settings.bind_socket()
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), "the application starts")
        assert server.started, "the application ended at its start"
        base = f"http://127.0.0.1:{socket.getsockname()[1]}"
        # Nothing is encrypted here, and to read who is to be believed takes each client 30 ms.
        with httpx.Client(base_url=base, timeout=PATIENCE_SECONDS, verify=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        socket.close()


def whole(client: httpx.Client, path: str) -> str:
    """Return a page with the parts that its script asks for, in their places."""
    page = client.get(path)
    assert page.status_code == 200, page.text
    return with_parts(client, page.text)


def with_parts(client: httpx.Client, page: str) -> str:
    """Return the text of a page with the parts that its script asks for, in their places."""

    def part(found: re.Match[str]) -> str:
        answer = client.get(html.unescape(found["address"]))
        assert answer.status_code == 200, found["address"]
        return f"{found['before']}{answer.text}</section>"

    placeholder = (
        r'(?P<before><section class="part[^>]*data-part="(?P<address>[^"]+)"[^>]*>)<p class="coming">.*?</section>'
    )
    return re.sub(placeholder, part, page, flags=re.DOTALL)
