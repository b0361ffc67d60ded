"""gpuledger agent top against the agent's real page: in a pipe, behind a secret and TLS, on a terminal, alone."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.cli.top import top
from agent.errors import ConfigError, SourceError
from agent.metrics.door import Door, Secret
from agent.metrics.families import Scraped, registry
from agent.metrics.scrape_server import ScrapeServer
from tests.agent.situations import lived, time_sliced
from tests.analyzer.interfaces.mail_smtp import certificate
from tests.waiting import PATIENCE_SECONDS, said_by_now, until

TOKEN = "a token for this test"


@contextmanager
def agent(door: Door | None = None) -> Iterator[ScrapeServer]:
    """Run the page of an agent whose one GPU two runs share."""
    situation = time_sliced()
    families = registry(lived(situation), Scraped(version="1.2.3", node="n14"))
    server = ScrapeServer("127.0.0.1", 0, families, door, PATIENCE_SECONDS)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def settings(folder: Path, port: int, more: str = "") -> list[str]:
    """Return the words that name an agent's settings."""
    file = folder / "gpuledger.toml"
    file.write_text(f'[agent]\nlisten = "127.0.0.1:{port}"\n{more}')
    return ["--config", str(file)]


def test_in_a_pipe_it_looks_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cron job must end, and its log must hold no escapes."""
    with agent() as server:
        assert top(settings(tmp_path, server.port)) == 0
    out = capsys.readouterr().out
    assert out.startswith("host n14   1 GPU   agent 1.2.3")
    assert "\x1b" not in out


def test_as_json_it_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In base units; what is not known is null."""
    with agent() as server:
        assert top([*settings(tmp_path, server.port), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (gpu,) = said["gpus"]
    assert (said["node"], gpu["index"], gpu["up"], gpu["power_watts"]) == ("n14", 0, True, 612.5)
    assert len(gpu["held"]) == 2


def test_it_brings_what_the_agent_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Secret and certificate stand in the settings that the agent itself was started with."""
    chain, key = certificate(tmp_path, "10.9.8.7")
    with agent(Door(Secret(TOKEN), chain, key)) as server:
        tls = f'tls_certificate = "{chain}"\ntls_key = "{key}"\n'
        assert top(settings(tmp_path, server.port, f'{tls}scrape_token = "{TOKEN}"\n')) == 0
        assert "host n14" in capsys.readouterr().out
        with pytest.raises(SourceError, match="returned 401; use --config to name the settings"):
            top(settings(tmp_path, server.port, tls))


def test_an_agent_that_is_away_is_said_with_the_way_out(tmp_path: Path) -> None:
    """Whoever types this on a host without an agent learns what to do."""
    with agent() as server:
        port = server.port
    with pytest.raises(SourceError, match=r"cannot be reached.*agent --once"):
        top(settings(tmp_path, port))
    with pytest.raises(ConfigError, match="listen is off"):
        top(["--config", str(_off(tmp_path))])


def _off(folder: Path) -> Path:
    file = folder / "off.toml"
    file.write_text('[agent]\nlisten = "off"\n')
    return file


def test_on_a_terminal_it_looks_again_and_puts_all_back(tmp_path: Path) -> None:
    """The second look knows what was slowed since; an agent that goes leaves the last look with a word."""
    # Where the tests run in a shell's background, Ctrl-C is ignored, and a child would inherit that; not a handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    with agent() as server:
        command = [sys.executable, "-m", "gpuledger", "agent", "top", "--every", "1", *settings(tmp_path, server.port)]
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        try:
            seen = _until(ours, "top --node n14", 2)
            assert seen.count("\x1b[H") >= 2
            server.stop()
            _until(ours, "! the agent at", 1)
            _until(ours, "host n14", 1)  # under it, or with the next look
            process.send_signal(2)
            assert "\x1b[?25h" in _until(ours, "\x1b[?1049l", 1)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
            os.close(ours)


def _until(terminal: int, text: str, times: int) -> str:
    seen: list[str] = []

    def is_drawn() -> bool:
        seen.append(said_by_now(terminal).decode(errors="replace"))  # a read may end within a letter
        return "".join(seen).count(text) >= times

    until(is_drawn, f"{text!r} is drawn", more=lambda: repr("".join(seen)))
    return "".join(seen)


def test_it_needs_nothing_that_a_gpu_host_lacks() -> None:
    """An agent's installation has no DuckDB, and this loads no NVML: it may run beside any work."""
    script = (
        "import sys; sys.argv = ['gpuledger']; import gpuledger; gpuledger.COMMANDS['agent top'].load(); "
        "heavy = ('duckdb', 'fastapi', 'pynvml', 'analyzer.reports.reader'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
