"""A benchmark's GPUs are left alone, and nobody can hide another's."""

import json
import os
from collections.abc import Mapping, Set
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.control import (
    QUIET_DIRECTORY,
    QUIET_FILES_MAX,
    QUIET_SECONDS_MAX,
    Quiet,
    make_directory,
    read_wish,
    write_wish,
)
from agent.errors import ConfigError

INDICES = {"0": "GPU-a", "1": "GPU-b"}


def quiet(control: Path, now: list[float], holders: Mapping[str, Set[int]] | None = None) -> Quiet:
    """Return one host's, with these users on its GPUs."""
    return Quiet(control, lambda: holders or {}, lambda: INDICES, lambda: now[0])


@pytest.fixture
def control(tmp_path: Path) -> Path:
    """Return a control directory in which runs may ask."""
    make_directory(tmp_path)
    return tmp_path


def test_a_wish_holds_until_its_end(control: Path) -> None:
    """A benchmark that died must not leave its GPU unmeasured."""
    now = [1000.0]
    asked = quiet(control, now)
    write_wish(control, 60, {"1"}, lambda: now[0])
    assert asked.gpus() == {"GPU-b"}
    now[0] += 61
    assert asked.gpus() == frozenset()


def test_removing_the_file_ends_it(control: Path) -> None:
    """The benchmark is done, and wants to be seen again."""
    now = [1000.0]
    asked = quiet(control, now)
    path = write_wish(control, 60, {"GPU-a"}, lambda: now[0])
    assert asked.gpus() == {"GPU-a"}
    path.unlink()
    now[0] += 2
    assert asked.gpus() == frozenset()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_user_can_silence_only_the_gpus_that_the_user_holds(control: Path) -> None:
    """Otherwise anybody could hide anybody's GPUs from the bill."""
    now = [1000.0]
    path = write_wish(control, 60, {"0", "1"}, lambda: now[0])
    os.chown(path, 4242, -1)
    assert quiet(control, now, {"GPU-a": {4242}, "GPU-b": {1000}}).gpus() == {"GPU-a"}
    assert quiet(control, now, {"GPU-b": {1000}}).gpus() == frozenset()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_wish_that_counted_goes_on_counting(control: Path) -> None:
    """A GPU that is left alone shows no processes, and would else be read at every other beat."""
    now, holders = [1000.0], {"GPU-a": {4242}}
    asked = Quiet(control, lambda: holders, lambda: INDICES, lambda: now[0])
    os.chown(write_wish(control, 60, {"0"}, lambda: now[0]), 4242, -1)
    assert asked.gpus() == {"GPU-a"}
    holders.clear()
    now[0] += 2
    assert asked.gpus() == {"GPU-a"}


def test_a_wish_that_is_over_is_removed(control: Path) -> None:
    """Nobody tidies up after a benchmark; 64 old files would leave no room for the next one's wish."""
    now = [1000.0]
    path = write_wish(control, 60, {"0"}, lambda: now[0])
    asked = quiet(control, now)
    assert asked.gpus() == {"GPU-a"}
    assert path.exists()
    now[0] += 60
    assert asked.gpus() == frozenset()
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_wish_that_does_not_count_is_logged_once_for_each_user(
    control: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its user asks why the benchmark is disturbed; and nobody may fill the log with ever new files."""
    now = [1000.0]
    asked = quiet(control, now, {"GPU-b": {1000}})
    for name in ("first", "second"):
        path = write_wish(control, 60, {"0"}, lambda: now[0]).rename(control / QUIET_DIRECTORY / name)
        os.chown(path, 4242, -1)
        assert asked.gpus() == frozenset()
        now[0] += 2
    assert caplog.messages == ["quiet request 'first' ignored: no such GPU, or no process of user 4242 on it"]


def test_a_thousand_files_cost_no_more_than_the_first(control: Path) -> None:
    """The directory is open to everybody."""
    for number in range(QUIET_FILES_MAX + 10):
        (control / QUIET_DIRECTORY / f"{number:04}").write_text("{}")
    asked = quiet(control, [1000.0])
    assert asked.gpus() == frozenset()
    assert asked.left_out == 10


def test_a_link_and_a_pipe_are_no_wishes(control: Path) -> None:
    """Opening a pipe would hang the beat; following a link would read what the user may not."""
    os.mkfifo(control / QUIET_DIRECTORY / "pipe")
    (control / QUIET_DIRECTORY / "link").symlink_to("/etc/hostname")
    assert quiet(control, [1000.0]).gpus() == frozenset()


@given(st.one_of(st.binary(max_size=200), st.recursive(st.none() | st.text() | st.floats(), st.lists).map(json.dumps)))
def test_nothing_that_is_written_there_breaks_the_agent(tmp_path_factory: pytest.TempPathFactory, text: object) -> None:
    """Anybody may write there."""
    path = tmp_path_factory.mktemp("quiet") / "wish"
    path.write_bytes(text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogatepass"))
    read_wish(path)


def test_a_number_beyond_all_time_is_no_wish(control: Path) -> None:
    """Anybody may write four hundred digits, which are no float: that must not stop the reading of all GPUs."""
    (control / QUIET_DIRECTORY / "wish").write_text('{"gpus": ["0"], "until": 1' + "0" * 400 + "}")
    assert quiet(control, [1000.0]).gpus() == frozenset()


@pytest.mark.parametrize("length", [0, -1, QUIET_SECONDS_MAX + 1])
def test_silence_has_an_end(control: Path, length: float) -> None:
    """A GPU nobody measures for a week is a GPU nobody can account for."""
    with pytest.raises(ConfigError, match="up to 24 hours"):
        write_wish(control, length, {"0"})


def test_without_an_agent_there_is_nobody_to_ask(tmp_path: Path) -> None:
    """The sentence must name the place and the way out."""
    with pytest.raises(ConfigError, match="is the agent running on this host"):
        write_wish(tmp_path, 60, {"0"})
