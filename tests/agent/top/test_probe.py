"""The health check of the agent's container: its page, asked on the host itself."""

import socket
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from agent.cli.top import OF_EACH_BEAT, main
from agent.metrics.scrape_server import ScrapeServer
from agent.wire.contract import metric_name
from agent.wire.tables import TABLES
from tests.agent.top.test_command import agent, settings


def probed(folder: Path, port: int, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return how the check of an agent at a port ends, and what it says."""
    return main(settings(folder, port)), capsys.readouterr().err


def test_its_figure_is_one_of_every_beat() -> None:
    """A metric that was renamed would make every agent unwell."""
    table = TABLES["agent_samples"]
    assert OF_EACH_BEAT in {metric_name(table, column) for column in table.columns}


def test_an_agent_that_beats_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, and nothing said."""
    with agent() as server:
        assert probed(tmp_path, server.port, capsys) == (0, "")


def test_an_agent_whose_beat_hangs_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its port answers still, with nothing of its host."""
    server = ScrapeServer("127.0.0.1", 0, CollectorRegistry())
    server.start()
    try:
        code, said = probed(tmp_path, server.port, capsys)
    finally:
        server.stop()
    assert (code, said) == (1, "the agent responds but has not read its host for three intervals (10 s each)\n")


def test_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence, and exit code 1; settings that are wrong are the same to a supervisor."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, said = probed(tmp_path, port, capsys)
    assert (code, "cannot be reached" in said) == (1, True)
    (tmp_path / "wrong.toml").write_text("[agent]\nliste = 1\n")
    assert main(["--config", str(tmp_path / "wrong.toml")]) == 1


def test_one_without_a_port_is_accused_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was not looked at is not unwell."""
    file = tmp_path / "off.toml"
    file.write_text('[agent]\nlisten = "off"\n')
    assert main(["--config", str(file)]) == 0
    assert capsys.readouterr().err == "not checked: agent.listen is off\n"
