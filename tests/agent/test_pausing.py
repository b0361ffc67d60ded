"""An operator lets a host be, and the agent says so."""

import json
import os
from pathlib import Path

import pytest

from agent.control import PAUSE_FILE, PAUSE_SECONDS_MAX, PauseWatch, Pausing, end_pause, read_pause, write_pause
from agent.errors import ConfigError


def test_a_pause_holds_until_its_end_and_no_longer(tmp_path: Path) -> None:
    """One that is forgotten must not leave a host unmeasured for ever."""
    now = [1000.0]
    write_pause(tmp_path, 7200, "benchmark", lambda: now[0])
    watch = PauseWatch(tmp_path, lambda: now[0])
    assert watch.look()
    now[0] += 7199
    assert watch.look()
    now[0] += 1
    assert not watch.look()


@pytest.mark.parametrize(("length", "said"), [(10, "10.0 s"), (7200, "2 h 00 min 00 s")])
def test_the_log_says_for_how_long(tmp_path: Path, caplog: pytest.LogCaptureFixture, length: float, said: str) -> None:
    """A pause of seconds is not one of 0 minutes."""
    write_pause(tmp_path, length, "NCCL tests", lambda: 1000.0)
    PauseWatch(tmp_path, lambda: 1000.0).look()
    assert caplog.messages == [f"paused for {said} (NCCL tests): nothing is read"]


def test_it_can_be_ended_sooner(tmp_path: Path) -> None:
    """The benchmark is over, and the host is wanted back."""
    write_pause(tmp_path, 7200, "")
    assert end_pause(tmp_path)
    assert read_pause(tmp_path) is None
    assert not end_pause(tmp_path)


@pytest.mark.parametrize("length", [0, -1, PAUSE_SECONDS_MAX + 1, float("nan")])
def test_a_pause_of_no_sensible_length_is_refused(tmp_path: Path, length: float) -> None:
    """Who wants silence for a month stops the service, where everybody sees it."""
    with pytest.raises(ConfigError, match="a pause can last up to 7 days"):
        write_pause(tmp_path, length, "")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"until": "soon"}', '{"until": 1e99}', '{"until": NaN}', '{"why": 1}', "[" * 5000]
)
def test_what_cannot_be_understood_is_no_pause(tmp_path: Path, text: str) -> None:
    """A broken file must not silence a host."""
    (tmp_path / PAUSE_FILE).write_text(text)
    assert read_pause(tmp_path, lambda: 1000.0) is None


def test_what_others_may_write_says_nothing(tmp_path: Path) -> None:
    """Otherwise anybody on the host could hide it."""
    write_pause(tmp_path, 60, "")
    (tmp_path / PAUSE_FILE).chmod(0o666)
    assert read_pause(tmp_path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_users_file_says_nothing(tmp_path: Path) -> None:
    """The directory may be one that others may write to."""
    write_pause(tmp_path, 60, "")
    os.chown(tmp_path / PAUSE_FILE, 12345, -1)
    assert read_pause(tmp_path) is None


def test_a_pipe_in_its_place_hangs_no_beat(tmp_path: Path) -> None:
    """The directory may be one that others may write to, and who opens a pipe waits until somebody writes."""
    os.mkfifo(tmp_path / PAUSE_FILE)
    assert read_pause(tmp_path) is None


def test_a_number_beyond_all_time_is_no_pause(tmp_path: Path) -> None:
    """JSON may write a whole number of four hundred digits, which is no float."""
    (tmp_path / PAUSE_FILE).write_text('{"until": 1' + "0" * 400 + "}")
    assert read_pause(tmp_path) is None


def test_the_file_says_until_when_and_why(tmp_path: Path) -> None:
    """Who finds a silent host looks there first."""
    assert write_pause(tmp_path, 60, "NCCL tests", lambda: 1000.0) == Pausing(1060.0, "NCCL tests")
    assert json.loads((tmp_path / PAUSE_FILE).read_text()) == {"until": 1060.0, "why": "NCCL tests"}
