"""The log of `gpuledger serve` and of the agent: as the settings say, from the first event to the last."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analyzer.errors import AnalyzerError
from analyzer.interfaces.cli.report import report
from collector.config import load
from collector.errors import ConfigError
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
KEYS = {"time", "level", "logger", "message"}


@contextmanager
def running(*words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run one of our commands, and end it by a signal."""
    line = [sys.executable, "-m", "gpuledger", *words]
    environment = os.environ | variables
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


def first_line(process: subprocess.Popen[str]) -> str:
    """Return the first line of what is logged."""
    assert process.stderr is not None
    return process.stderr.readline()


def rest(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines after it, to the end of the process."""
    assert process.stderr is not None
    return process.stderr.read().splitlines()


@pytest.mark.parametrize("only", [[], ["--only", "collector"]], ids=["site", "collector"])
def test_the_servers_log_is_json_to_its_last_line_and_its_store_the_next_ones(tmp_path: Path, only: list[str]) -> None:
    """INFO was lost, and what was told came as bare text. It ends with a signal, folds its log in, and lets go."""
    store = str(tmp_path / "s.duckdb")
    words = ["serve", *only, "--store", store, "--listen", "127.0.0.1:0", "--log-format", "json"]
    with running(*words) as process:
        event = json.loads(first_line(process))
        assert (event["level"], event["logger"]) == ("info", "collector.http.server")
        assert "127.0.0.1:0" in event["message"]
        process.send_signal(signal.SIGTERM)
        assert [line for line in rest(process) if not json.loads(line).keys() >= KEYS] == []
    with pytest.raises(AnalyzerError, match="the ledger is empty"):  # the store was given back to whoever is next
        report(["--store", store])


def test_the_agents_log_is_as_the_settings_say(tmp_path: Path) -> None:
    """A host's log is collected like the server's."""
    paths = {
        f"GPULEDGER_AGENT_{key}": str(tmp_path / key.lower())
        for key in ("SPOOL", "STATE", "KEY_FILE", "CONTROL", "PROGRESS")
    }
    with running("agent", "--listen", "off", GPULEDGER_AGENT_LOG_FORMAT="json", **paths) as process:
        events = [json.loads(first_line(process))]
        process.send_signal(signal.SIGTERM)
        events += [json.loads(line) for line in rest(process)]
    assert all(event.keys() >= KEYS for event in events)
    assert "agent" in {event["logger"] for event in events}


def test_what_is_no_level_is_a_sentence() -> None:
    """A slip of the pen must not silence a server."""
    with pytest.raises(ConfigError, match=r"collector.log_level is 'loud': not debug, info, warning or error"):
        load(None, {"GPULEDGER_COLLECTOR_LOG_LEVEL": "loud"})
    with pytest.raises(ConfigError, match=r"collector.log_format is 'xml': not text or json"):
        load(None, {"GPULEDGER_COLLECTOR_LOG_FORMAT": "xml"})
