"""A load balancer in small: connections go to the collectors in turn, past those that do not answer."""

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from itertools import count

PIECE = 64 * 2**10


class Balancer:
    """Listens on a free port of its own, in a thread of its own."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._turn = count()
        self._thread = threading.Thread(target=self._run, name="balancer", daemon=True)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self.port = 0

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """End it, with all connections."""
        if self._thread.ident is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        self._loop = asyncio.new_event_loop()
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self._ports:
            port = self._ports[next(self._turn) % len(self._ports)]
            with contextlib.suppress(OSError):
                there = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(_copied(reader, there[1]), _copied(there[0], writer))
                return
        writer.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()
