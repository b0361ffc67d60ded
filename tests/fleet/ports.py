"""Free ports on loopback, and whether somebody listens there."""

import random
import socket

from tests.waiting import PATIENCE_SECONDS

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


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS).close()
    except OSError:
        return False
    return True
