"""A scheduler's commands are bounded in time and size, and the environment does not change what they print."""

import subprocess
import sys
from pathlib import Path

import pytest

from collector.errors import SchedulerError
from collector.schedulers.slurm.reader import Commands, SlurmReader
from tests.waiting import until

SAID = Path(__file__).parent / "data" / "slurm_22_05"
ROOT = Path(__file__).parents[3]

# In a process of its own: of this one, other threads open and close files too.
ASKING = """
import os, sys
from pathlib import Path
from collector.schedulers.slurm.reader import Commands
commands = Commands(Path(sys.argv[1]))
for asked in (1, 5):
    for _ in range(asked):
        commands.output("squeue")
    print(sorted(os.listdir("/proc/self/fd")))
"""


def script(directory: Path, name: str, text: str) -> None:
    """Put a command into a directory."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_what_a_command_prints_is_returned(tmp_path: Path) -> None:
    """And its arguments reach it as they are."""
    script(tmp_path, "squeue", 'echo "$@"; echo noise >&2')
    assert Commands(tmp_path).output("squeue", "--all", "a b;c") == b"--all a b;c\n"


def test_a_failure_is_told_in_the_commands_own_words(tmp_path: Path) -> None:
    """Slurm says what is wrong in its first line."""
    script(tmp_path, "squeue", 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(SchedulerError, match="squeue failed with 1: slurm_load_jobs error: Unable to contact"):
        Commands(tmp_path).output("squeue")


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The collector's host may not be one of the cluster's."""
    with pytest.raises(SchedulerError, match=r"squeue cannot be run: .*is Slurm's client installed"):
        Commands(tmp_path).output("squeue")


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """A controller that does not answer lets squeue wait for minutes, and a wrapper would wait with it."""
    script(tmp_path, "squeue", f"sleep 600 & echo $! > {tmp_path}/pid; wait")
    for seconds in (0.3, 3, 30, 180):  # a busy machine may not have started it by then
        with pytest.raises(SchedulerError, match=rf"took longer than {seconds} s"):
            Commands(tmp_path, timeout_seconds=seconds).output("squeue")
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
    child = (tmp_path / "pid").read_text().strip()
    until(lambda: _has_ended(child), "what the command started has ended")


def _has_ended(pid: str) -> bool:
    try:
        return (Path("/proc") / pid / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_an_answer_without_end_is_cut(tmp_path: Path) -> None:
    """It must not fill the collector's memory."""
    script(tmp_path, "squeue", "yes")
    with pytest.raises(SchedulerError, match=r"printed more than 1000 bytes; raise collector.slurm_bytes"):
        Commands(tmp_path, most_bytes=1000).output("squeue")


def test_the_services_environment_does_not_change_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users set formats and filters there; only the place of the configuration is kept. Text has times in seconds."""
    script(tmp_path, "sacct", "env")
    for name in ("SQUEUE_STATES", "SACCT_FORMAT", "SLURM_TIME_FORMAT", "SLURM_CLUSTERS", "SINFO_FORMAT"):
        monkeypatch.setenv(name, "odd")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    text = Commands(tmp_path).output("sacct").decode()
    assert "odd" not in text
    assert "SLURM_TIME_FORMAT=%s" in text
    assert "SLURM_CONF=/etc/slurm/slurm.conf" in text
    assert "SLURM_TIME_FORMAT" not in Commands(tmp_path).output("sacct", "--json").decode()


def test_a_cluster_without_json_is_read_as_text(tmp_path: Path) -> None:
    """The plugin is a package of its own; which way works is found out once."""
    asked = tmp_path / "asked"
    refuse = f'case "$*" in *--json*) echo "$*" >> {asked}; echo "unrecognized option --json" >&2; exit 1;; esac'
    script(tmp_path, "squeue", refuse)
    script(tmp_path, "sinfo", refuse)
    script(tmp_path, "sacct", f"{refuse}; cat {SAID}/sacct.txt")
    shown = f'case "$*" in *job*) cat {SAID}/scontrol_job.txt;; *) cat {SAID}/scontrol_node.txt;; esac'
    script(tmp_path, "scontrol", f"{refuse}; {shown}")
    reader = SlurmReader(Commands(tmp_path))
    first = (reader.queued(), reader.accounted(1_700_000_000_000_000), reader.nodes())
    assert [len(found) for found in first] == [11, 9, 3]
    refused = asked.read_text()
    assert (reader.queued(), reader.accounted(1_700_000_000_000_000), reader.nodes()) == first
    assert asked.read_text() == refused


def test_a_way_that_fails_later_is_left_for_another(tmp_path: Path) -> None:
    """An upgrade of Slurm may end one form while the collector runs."""
    script(tmp_path, "squeue", f"cat {SAID}/squeue.json")
    script(tmp_path, "scontrol", f"cat {SAID}/scontrol_job.txt")
    reader = SlurmReader(Commands(tmp_path))
    before = reader.queued()
    (tmp_path / "squeue").unlink()
    with pytest.raises(SchedulerError):
        reader.queued()
    assert reader.queued() == before


def test_no_file_is_left_open(tmp_path: Path) -> None:
    """It is asked half a million times a year."""
    script(tmp_path, "squeue", "echo")
    line = [sys.executable, "-c", ASKING, str(tmp_path)]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    after_one, after_six = ended.stdout.splitlines()
    assert after_one == after_six
