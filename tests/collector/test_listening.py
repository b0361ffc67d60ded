"""What a server does where it cannot have its port."""

import socket
from pathlib import Path

import pytest

from collector.config import CollectorConfig
from collector.errors import ConfigError, ListenError
from collector.server import serve


def test_a_port_that_is_taken_is_tried_again_by_a_supervisor(tmp_path: Path) -> None:
    """systemd does not restart after exit code 2 (wrong settings): who held the port for a moment ended the server."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = f"cannot listen on {address}; is a collector already running there"
        with pytest.raises(ListenError, match=words) as said:
            serve(CollectorConfig(store=tmp_path / "store.duckdb", lake="none", listen=address))
    assert not isinstance(said.value, ConfigError)
