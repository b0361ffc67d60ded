"""What a terminal says where a server does not answer as one of ours."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analyzer.errors import ConfigError, UnansweredError
from analyzer.interfaces.cli.command import ask
from analyzer.reports.request import Request
from analyzer.server_client import ask_server
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.dashboards.serving import served
from tests.waiting import PATIENCE_SECONDS


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Somebody at a port who says this to whoever comes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def once() -> None:
            with listening.accept()[0] as peer:
                peer.recv(65536)
                peer.sendall(answer)

        thread = threading.Thread(target=once)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        bytes([21, 3, 3, 0, 2, 2, 70]),  # a server of TLS that was spoken to without it
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe",
    ],
)
def test_a_wrong_port_is_a_sentence(answer: bytes) -> None:
    """A slip in the port, or http for https, is the first thing that goes wrong; it ended in a traceback."""
    with answering(answer) as port, pytest.raises(UnansweredError) as refused:
        ask_server(f"http://127.0.0.1:{port}", "/v1/doctor")
    assert str(refused.value).startswith(f"http://127.0.0.1:{port} is not a gpuledger server: check the port")


def test_https_where_there_is_none_is_said() -> None:
    """OpenSSL's word for it, WRONG_VERSION_NUMBER, sends people to look for versions."""
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, pytest.raises(UnansweredError) as refused:
        ask_server(f"https://127.0.0.1:{port}", "/v1/doctor")
    assert isinstance(refused.value.__cause__, ssl.SSLError)
    assert str(refused.value).endswith("does not answer: it does not speak TLS; is it http://?")


def test_a_word_that_is_none_is_told_as_such(tmp_path: Path) -> None:
    """`report gestern --server URL` is wrong usage, told in the words of --store, not in those of a library."""
    with Store.open(tmp_path / "store.duckdb") as store:
        config = ServerConfig(CollectorConfig(), Settings(), None)
        with served(create_server(config, store)) as client, pytest.raises(ConfigError) as refused:
            ask(str(client.base_url), Request("week", since="gestern"))
    assert str(refused.value).startswith("since: not a date, a time, a week like 2026-W46, ")
    assert str(refused.value).endswith("or a day like monday"), "and nothing of what else it might have been"
