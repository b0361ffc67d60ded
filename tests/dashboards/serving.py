"""Serve an application on a free port of this machine."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi import FastAPI


@contextmanager
def served(app: FastAPI) -> Iterator[httpx.Client]:
    """Yield a client of the running application; what starts beside it starts, and ends with it."""
    settings = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False, ws="none")
    socket = settings.bind_socket()
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.02)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{socket.getsockname()[1]}", timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(20)
        socket.close()
