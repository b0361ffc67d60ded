"""Tell systemd how it is: READY when the port listens, WATCHDOG while the loop turns, STOPPING at the end.

The protocol is one datagram of text to the socket that $NOTIFY_SOCKET names (sd_notify(3)); outside systemd nothing
is said. While the collector is not alive by its own judgement the watchdog is not fed, and systemd starts it anew.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping

import uvicorn

SOCKET, WATCHDOG = "NOTIFY_SOCKET", "WATCHDOG_USEC"
_FEEDINGS = 3  # in the time that the watchdog waits
STOPPING_MICROSECONDS = 90_000_000  # for requests, the last commit, a seal and the log; then systemd may kill


class Supervisor:
    """The service manager above this process, if there is one."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        name = environment.get(SOCKET, "")
        self._address = "\0" + name[1:] if name.startswith("@") else name  # an abstract socket
        patience = environment.get(WATCHDOG, "")
        self.feed_seconds = int(patience) / 1e6 / _FEEDINGS if self._address and patience.isdecimal() else None

    def tell(self, state: str) -> None:
        """Send one message; a manager that does not listen is not our trouble."""
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.sendto(state.encode(), self._address)


class SupervisedServer(uvicorn.Server):
    """uvicorn's server, which tells a supervisor what becomes of it. `alive` is asked before the watchdog is fed.

    `answers` is called once the port listens.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        alive: Callable[[], bool],
        answers: Callable[[], None],
        supervisor: Supervisor | None = None,
    ) -> None:
        super().__init__(config)
        self._alive = alive
        self._answers = answers
        self._supervisor = supervisor or Supervisor()
        self._feeding: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so once the port listens."""
        await super().startup(sockets)
        if self.started:
            self._answers()
            self._supervisor.tell("READY=1\nSTATUS=takes batches")
            if self._supervisor.feed_seconds:
                self._feeding = asyncio.create_task(self._feed(self._supervisor.feed_seconds))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that the end has begun, and that it may take its time: what waits is written first."""
        if self._feeding is not None:
            self._feeding.cancel()
        self._supervisor.tell(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={STOPPING_MICROSECONDS}\nSTATUS=writes what waits")
        await super().shutdown(sockets)

    async def _feed(self, every_seconds: float) -> None:
        while True:
            if self._alive():
                self._supervisor.tell("WATCHDOG=1")
            await asyncio.sleep(every_seconds)
