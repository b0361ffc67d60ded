"""A request says once for which host it is, and no client fills the log."""

import logging
import socket

import pytest

from collector.http.server import AT_ONCE, EACH_SECONDS, Bounded
from tests.collector.access.serving import Site


def answered(site: Site, head: str) -> int:
    """Send a head as it is and return the status of the answer."""
    with socket.create_connection(("127.0.0.1", site.port)) as line:
        line.sendall(f"{head}\r\n\r\n".encode())
        return int(line.recv(4096).split()[1])


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /metrics HTTP/1.1\r\nHost: localhost", 200),
        ("GET /metrics HTTP/1.1", 400),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost", 400),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\nHost: localhost", 400),
        ("GET /healthz HTTP/1.1", 400),
        ("GET /healthz HTTP/1.0", 200),
        ("GET /metrics HTTP/1.0", 400),
        ("POST /v1/batches HTTP/1.1\r\nContent-Length: 0", 400),
        ("POST /v1/enrol HTTP/1.1\r\nContent-Length: 0", 400),
    ],
)
def test_a_request_names_one_host(collector: Site, head: str, status: int) -> None:
    """A proxy before us may look at the first, and we at the last; without any, no name is checked at all."""
    assert answered(collector, head) == status


def test_a_line_of_one_kind_is_told_so_often_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Rubbish in a loop made a line a try: gigabytes by the morning."""
    clock = [0.0]
    logger = logging.getLogger("tests.rubbish")
    logger.addFilter(bound := Bounded(lambda: clock[0]))
    try:
        for number in range(1000):
            logger.warning("Invalid HTTP request received from %d", number)
        logger.warning("another kind")
        clock[0] = EACH_SECONDS
        logger.warning("Invalid HTTP request received from %d", 1000)
    finally:
        logger.removeFilter(bound)
    assert len(caplog.messages) == AT_ONCE + 2
    assert caplog.messages[-1] == ("Invalid HTTP request received from 1000 (and 980 more like it were not logged)")
