"""The places for connections: a bounded number, from which a slow client cannot keep others."""

import contextlib
import socket
import threading


class Places:
    """At most `most` connections at once. Who comes when all are taken puts out the one that came first.

    A scrape takes milliseconds, so the oldest connection is a slow one.
    """

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._taken: list[socket.socket] = []

    def take(self, connection: socket.socket, patience_seconds: float) -> socket.socket | None:
        """Return what to leave the place with, or None where none became free, waiting for at most so long.

        Raises:
            OSError: this process has no file left.
        """
        if not self._free.acquire(blocking=False):
            self._put_out(1)
            if not self._free.acquire(timeout=patience_seconds):
                return None
        try:
            handle = connection.dup()  # TLS takes the connection over; by its double it can still be ended
        except OSError:
            self._free.release()
            raise
        with self._lock:
            self._taken.append(handle)
        return handle

    def leave(self, handle: socket.socket) -> None:
        """Give the place back; the connection is done with."""
        with self._lock:
            self._taken.remove(handle)
        handle.close()
        self._free.release()

    def empty(self) -> None:
        """Put everybody out."""
        self._put_out(len(self._taken))

    def _put_out(self, count: int) -> None:
        """End the oldest connections; their threads find out, and leave."""
        with self._lock:
            for handle in self._taken[:count]:
                with contextlib.suppress(OSError):  # it may have gone by itself
                    handle.shutdown(socket.SHUT_RDWR)
