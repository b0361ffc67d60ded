"""What outlives a restart, and what becomes of the agent when it does not."""

import json
from pathlib import Path

import pytest

from agent.files import StateFile


def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    """An energy counter's epoch must not change because the agent was upgraded."""
    first = StateFile(tmp_path / "agent.json")
    first.keep("energy", {"GPU-1": [7, 12.5]})
    first.close()
    assert StateFile(tmp_path / "agent.json").section("energy") == {"GPU-1": [7, 12.5]}


def test_the_disk_is_written_once_a_minute_however_often_something_changes(tmp_path: Path) -> None:
    """Every write is synced, and the disk is the runs'."""
    now = [0.0]
    kept = StateFile(tmp_path / "agent.json", lambda: now[0])
    for second in range(120):
        now[0] = second
        kept.keep("energy", {"joules": second})
    assert json.loads((tmp_path / "agent.json").read_text())["energy"] == {"joules": 60}
    kept.close()
    assert json.loads((tmp_path / "agent.json").read_text())["energy"] == {"joules": 119}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"a": "x"}'])
def test_a_broken_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    """A disk that lied about one small file must not keep an agent from its host."""
    (tmp_path / "agent.json").write_bytes(content)
    kept = StateFile(tmp_path / "agent.json")
    assert kept.section("a") == {}
    kept.keep("a", {"b": 1})
    kept.close()
    assert StateFile(tmp_path / "agent.json").section("a") == {"b": 1}


def test_a_place_that_cannot_be_written_is_counted_and_forgotten(tmp_path: Path) -> None:
    """Losing it costs little; ending the agent would cost all."""
    kept = StateFile(tmp_path / "none" / "agent.json")
    kept.keep("a", {"b": 1})
    kept.close()
    assert kept.failures == 2
    assert kept.section("a") == {"b": 1}
