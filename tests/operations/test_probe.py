"""The health check of a container: the server of the same settings, asked on the machine itself."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from collector.config import CollectorConfig
from collector.http.probe import main, trouble
from tests.collector.batches import body
from tests.collector.serving import running


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_a_server_that_is_ready(tmp_path: Path, host: str) -> None:
    """What listens on every address is asked on loopback."""
    config = CollectorConfig(store=tmp_path / "store.duckdb", gather_seconds=0, tokens=("at least sixteen characters",))
    with running(config) as collector:
        assert trouble(replace(config, listen=f"{host}:{collector.client.port}")) is None


def test_a_server_that_is_not_ready_says_why(tmp_path: Path) -> None:
    """The container's log then says more than "unhealthy"."""
    config = CollectorConfig(store=tmp_path / "store.duckdb", gather_seconds=0)
    with running(config) as collector:
        with collector.store.session() as session:
            session.execute("DROP TABLE gpu_samples")
        collector.client.post(body())
        said = trouble(replace(config, listen=f"127.0.0.1:{collector.client.port}"))
    assert said == "the last commit failed, so agents keep their batches; see the log"


def test_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1, and a sentence; settings that are wrong are the same to a supervisor."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = tmp_path / "gpuledger.toml"
    settings.write_text(f'[collector]\nlisten = "127.0.0.1:{port}"\n')
    assert main([str(settings)]) == 1
    assert "nothing answers" in capsys.readouterr().err
    settings.write_text("[collector]\nliste = 1\n")
    assert main([str(settings)]) == 1
