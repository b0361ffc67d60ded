"""What is made of a receiver that does not answer as one."""

import socket
import threading

import pytest

from analyzer.interfaces.alarms.hook import LaterError, post
from tests.waiting import PATIENCE_SECONDS


def test_who_does_not_speak_http_is_asked_again_later() -> None:
    """A load balancer that hands the port to something else for a minute must cost no alarm, and end no thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def once() -> None:
            with listening.accept()[0] as peer:
                peer.recv(65536)
                peer.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")

        thread = threading.Thread(target=once)
        thread.start()
        with pytest.raises(LaterError, match=r"^127\.0\.0\.1:[0-9]+ does not answer: SSH-2.0-OpenSSH_9.9"):
            post(f"http://127.0.0.1:{listening.getsockname()[1]}/hook", b"{}", {})
        thread.join(PATIENCE_SECONDS)
