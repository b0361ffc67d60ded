"""Free ports on loopback, and waiting for what listens there."""

import random
import socket
import time
from collections.abc import Callable

PATIENCE_SECONDS = 120.0  # a bound, never waited out: the machine is shared
# Below those that the kernel gives to whoever connects: a server that is dead for a moment finds its port free again.
PORTS = range(20_000, 32_000)
TRIES = 1000
_DRAWN = random.SystemRandom()  # not by a seed: workers whose tests set the same would draw the same ports


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    found: set[int] = set()
    for _ in range(TRIES):
        if len(found) == count:
            return sorted(found)
        port = _DRAWN.choice(PORTS)
        if port not in found and _is_free(port):
            found.add(port)
    raise OSError(f"no {count} free ports from {PORTS.start} to {PORTS.stop}")


def free_port() -> int:
    """Return a port that nobody listens on."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def until(true: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Return when it has come true; an AssertionError names what did not."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.02)


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
