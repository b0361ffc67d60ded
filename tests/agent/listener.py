"""A server on loopback that remembers what it was asked."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.waiting import PATIENCE_SECONDS


class Listener:
    """A server that keeps the head of what each connection says, and answers all with an empty JSON object."""

    def __init__(self, status: str = "200 OK") -> None:
        self._answer = f"HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = f"http://{self.place}"
        self.heads: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection, suppress(OSError):
                    connection.settimeout(PATIENCE_SECONDS)
                    self.heads.append(connection.recv(65536).decode(errors="replace"))
                    connection.sendall(self._answer)

    def close(self) -> None:
        """Stop listening."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(PATIENCE_SECONDS)


@contextmanager
def listening(status: str = "200 OK") -> Iterator[Listener]:
    """Yield a listener."""
    listener = Listener(status)
    try:
        yield listener
    finally:
        listener.close()
