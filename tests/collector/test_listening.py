"""What a server does where it cannot have its port."""

import socket
import subprocess
import sys
from pathlib import Path

WORLD = 3  # systemd does not restart after 2, wrong settings


def test_a_port_that_is_taken_is_tried_again_by_a_supervisor(tmp_path: Path) -> None:
    """Who held the port for a moment ended the server for good: it was called wrong settings.

    In a process of its own, since uvicorn leaves its socket to the garbage collector, which warns in some later test.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = ["--store", str(tmp_path / "store.duckdb"), "--lake", "none", "--listen", address]
        command = [sys.executable, "-m", "gpuledger", "serve", "--only", "collector", *settings]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert f"gpuledger: cannot listen on {address}: another process listens there" in ended.stderr
    assert ended.returncode == WORLD
