"""`gpuledger run`: every promise to the command that is watched, kept by real processes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.wire.recording import Recording, read_recording
from tests.agent.batches import rows_of
from tests.agent.gpu.fake.build import Scenario, healthy
from tests.waiting import PATIENCE_SECONDS, said_by_now, until

# -P, as the installed command: a folder of the user's must not be taken for ours.
ELSEWHERE = ["-P"] if sys.version_info >= (3, 11) else []  # whatever lies where the test works
RUN = [sys.executable, *ELSEWHERE, "-m", "gpuledger", "run"]
QUIET = [*RUN, "--quiet", "--"]
Ended = subprocess.CompletedProcess[str]

CLOCKS_APART_US = 10_000  # samples count on from a monotonic clock, the end is read from the wall's, which is slewed


def environment(**further: str) -> dict[str, str]:
    """Return our environment without what a launcher may have set around these tests."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "CUDA_", "LOCAL_"))}
    return ours | further


def run(
    here: Path, *words: str, flags: tuple[str, ...] = ("--quiet",), within: Mapping[str, str] | None = None
) -> Ended:
    """Run a command under observation, to its end, with these variables beside our own."""
    line = [*RUN, *flags, "--", *words]
    return subprocess.run(
        line, cwd=here, env=environment(**(within or {})), capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )


def recording(here: Path) -> Recording:
    """Return the only recording that lies here."""
    (path,) = here.glob("run-*.json")
    return read_recording(path)


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_the_exit_code_is_the_commands(tmp_path: Path, script: str, code: int) -> None:
    """Schedulers and scripts decide by it: 128 + n for a signal, as in a shell."""
    assert run(tmp_path, "sh", "-c", script).returncode == code
    end = recording(tmp_path).end
    assert end is not None
    assert end.exit_code == code


def test_a_command_that_is_not_there_fails_as_in_a_shell(tmp_path: Path) -> None:
    """127 for nothing of that name, 126 for what may not be run; no recording of nothing is left."""
    (tmp_path / "text").write_text("no program")
    missing, text = run(tmp_path, "no-such-command"), run(tmp_path, "./text")
    assert (missing.returncode, missing.stderr) == (127, "gpuledger: command not found: 'no-such-command'\n")
    assert text.returncode == 126
    assert list(tmp_path.glob("run-*")) == []


def test_input_and_output_are_the_commands_alone(tmp_path: Path) -> None:
    """A pipeline must work as before, byte for byte; what we say goes to stderr."""
    payload = bytes(range(256)) * 1000
    ended = subprocess.run(
        [*QUIET, "cat"], cwd=tmp_path, env=environment(), input=payload, capture_output=True, timeout=PATIENCE_SECONDS
    )
    assert ended.stdout == payload
    assert ended.stderr == b""


def test_it_says_what_it_watches_and_how_it_ended(tmp_path: Path) -> None:
    """The first line tells that it works; the last ones where the time went, or where the recording lies."""
    ended = run(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3", flags=())
    assert ended.stdout == "out\n"
    first, second, third, *rest = ended.stderr.splitlines()
    assert first.startswith("gpuledger: watching this host only; no GPU here (")
    assert first.endswith("; the report follows when the command ends")
    assert second == "err"
    assert third.startswith("gpuledger: sh -c 'echo out; echo err >&2; exit 3' ended after ")
    assert third.endswith(" s with exit code 3")
    assert any("run-" in line for line in rest), "the report or a hint names the recording"
    assert ended.returncode == 3


def test_the_command_begins_with_no_signal_blocked_or_ignored(tmp_path: Path) -> None:
    """We block signals and Python ignores two; a command that inherited that could not be stopped, or not by a pipe."""
    status = run(tmp_path, "grep", "Sig", "/proc/self/status").stdout
    masks = {
        line.split(":")[0]: int(line.split()[1], 16)
        for line in status.splitlines()
        if line.startswith(("SigBlk", "SigIgn"))
    }
    ours = (1 << 31) - 1  # above them are the C library's own two, which posix_spawn ignores by itself
    own = set(range(1, 32)) - {signal.SIGPIPE, signal.SIGXFSZ}  # Python's two
    inherited = sum(1 << number - 1 for number in own if signal.getsignal(number) is signal.SIG_IGN)  # as under nohup
    assert (masks["SigBlk"] & ours, masks["SigIgn"] & ours) == (0, inherited)


def test_the_command_knows_its_run(tmp_path: Path) -> None:
    """What it starts elsewhere can be booked to the same run."""
    said = run(tmp_path, "sh", "-c", "echo $GPULEDGER_RUN_ID").stdout.strip()
    assert said == recording(tmp_path).header.run_id
    assert re.fullmatch(rf"declared/[^/]+/{os.getuid()}/[0-9a-f-]{{36}}", said)


COUNTER = """
import signal, sys, time
seen, told, deadline = [], 0, time.monotonic() + 120
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda number, _: seen.append(signal.Signals(number).name))
print("ready", flush=True)
while sys.argv[-1] not in seen[:told] and time.monotonic() < deadline:
    time.sleep(0.005)
    for name in seen[told:]:
        print(name, flush=True)
        told += 1
"""


@pytest.mark.parametrize(
    ("names", "last"),
    [(("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGCONT"), "SIGUSR2"), (("SIGUSR2",), "SIGUSR1")],
)
def test_a_signal_to_us_reaches_the_command_once(tmp_path: Path, names: tuple[str, ...], last: str) -> None:
    """Schedulers warn by USR1 and end by TERM; checkpoints hang on it. The last is passed on after one too many."""
    line = [*QUIET, sys.executable, "-c", COUNTER, *names, last]
    watching = subprocess.Popen(line, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    assert watching.stdout.readline() == "ready\n"
    for name in names:
        watching.send_signal(getattr(signal, name))
        assert watching.stdout.readline() == f"{name}\n"
    watching.send_signal(getattr(signal, last))
    assert watching.communicate(timeout=PATIENCE_SECONDS)[0] == f"{last}\n"
    assert watching.returncode == 0


# A session of its own takes the terminal that it was given; what comes after finds it as a shell's command does.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A command on a terminal of its own, as a shell starts it."""

    def __init__(self, here: Path, line: list[str]) -> None:
        self._terminal, theirs = pty.openpty()
        taking = [sys.executable, "-c", TAKE_TERMINAL, *line]
        self._process = subprocess.Popen(
            taking, cwd=here, env=environment(), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._said = b""

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        return self._process.wait(PATIENCE_SECONDS)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._terminal, keys)

    def until(self, word: bytes) -> bytes:
        """Read until a word was printed."""

        def is_said() -> bool:
            self._said += said_by_now(self._terminal)
            return word in self._said

        until(is_said, f"{word!r} is printed", more=lambda: self._said)
        return self._said

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command alone, and not to what it started."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Hang up, and end what is left."""
        os.close(self._terminal)


def test_ctrl_c_reaches_the_command_once(tmp_path: Path) -> None:
    """The terminal sends it to both of us; passing it on would interrupt the command's own cleaning up."""
    terminal = Terminal(tmp_path, [*QUIET, sys.executable, "-c", COUNTER, "SIGINT", "SIGUSR2"])
    terminal.until(b"ready")
    terminal.type(b"\x03")
    terminal.until(b"SIGINT\r\n")
    terminal.signal(signal.SIGUSR2)  # passed on after it, and after one too many
    said = terminal.until(b"SIGUSR2\r\n")
    code = terminal.ended()
    terminal.close()
    assert said.count(b"SIGINT") == 1
    assert code == 0


# What a shell does for Ctrl-Z and fg: the job is a process group of its own, in the terminal's foreground.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
stopped = os.WIFSTOPPED(os.waitpid(job, os.WUNTRACED)[1])
os.tcsetpgrp(0, os.getpgrp())
print("stopped" if stopped else "not stopped", flush=True)
os.tcsetpgrp(0, job)
os.killpg(job, signal.SIGCONT)
code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
os.tcsetpgrp(0, os.getpgrp())
print("exit", code, flush=True)
"""


def test_ctrl_z_stops_both_and_fg_wakes_both(tmp_path: Path) -> None:
    """The shell gets its terminal back, and the run goes on as if nothing had been."""
    script = "print('ready', flush=True); input(); print('done', flush=True); raise SystemExit(6)"
    terminal = Terminal(tmp_path, [sys.executable, "-c", SHELL, *QUIET, sys.executable, "-c", script])
    terminal.until(b"ready")
    terminal.type(b"\x1a")
    assert b"not stopped" not in terminal.until(b"stopped")
    terminal.type(b"\n")
    terminal.until(b"done")
    terminal.until(b"exit 6")
    terminal.ended()
    terminal.close()


def test_no_zombie_is_left_even_of_strangers(tmp_path: Path) -> None:
    """As process 1 of a container we inherit orphans; unreaped they would fill the process table."""
    script = (
        "import os, sys, time\n"
        "pids = []\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(0.05); os._exit(0)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "def parent(pid):\n"
        "    try:\n"
        "        return int(open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1])\n"
        "    except OSError:\n"
        "        return 0  # it has ended since\n"
        "def adopted():\n"
        "    others = [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()]\n"
        "    return [pid for pid in others if parent(pid) == os.getppid()]\n"
        "deadline = time.monotonic() + 120\n"
        "while adopted() and time.monotonic() < deadline:\n"
        "    time.sleep(0.02)\n"
        "print(len(adopted()))\n"
    )
    subreaper = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    line = [sys.executable, "-c", subreaper, *QUIET, sys.executable, "-c", script]
    ended = subprocess.run(
        line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert (ended.stdout, ended.returncode) == ("0\n", 0)


@pytest.mark.parametrize("rank", ["LOCAL_RANK", "SLURM_LOCALID"])
def test_one_process_of_a_node_reports(tmp_path: Path, rank: str) -> None:
    """Eight ranks of torchrun must not read eight times, nor print eight reports."""
    other = run(tmp_path, "sh", "-c", "exit 5", flags=(), within={rank: "3"})
    assert (other.returncode, other.stderr) == (5, "")
    assert list(tmp_path.glob("run-*")) == []
    assert run(tmp_path, "true", within={rank: "0"}).returncode == 0
    assert recording(tmp_path)
    assert run(tmp_path, "no-such-command", within={rank: "3"}).returncode == 127


def test_the_recording_holds_the_host_and_the_runs_processes(tmp_path: Path) -> None:
    """On a machine without a GPU the host side alone says what the command did."""
    for seconds in (3, 10, 30, 60):  # it is the watcher that may come late, where many share the cores
        here = tmp_path / str(seconds)
        here.mkdir()
        # Seconds of its own, too: where many share the cores it gets few of those that pass.
        goes_on = f"(is_new := time.process_time() < {seconds / 3}) or time.monotonic() < end"
        busy = f"import time\nend = time.monotonic() + {seconds}\nwhile {goes_on}: is_new or time.sleep(0.02)"
        run(here, sys.executable, "-c", busy, flags=("--quiet", "--every", "0.5s"))
        found = recording(here)
        processes = [row for body in found.batches for row in rows_of(body, "process_samples")]
        if seen := sum(row["cpu_seconds"] or 0 for row in processes) > 0.3:
            break
    assert seen
    assert found.end is not None
    assert found.header.gpus == 0
    assert found.end.command_cpu_seconds > 0.5
    assert found.end.ended_at - found.header.started_at > 3_000_000
    hosts = [row for body in found.batches for row in rows_of(body, "host_samples")]
    assert hosts[-1]["ended_at"] >= found.end.ended_at - CLOCKS_APART_US
    assert {(row["run_id"], row["gpu_uuid"]) for row in processes} == {(found.header.run_id, None)}


def test_a_killed_watcher_leaves_the_command_and_a_readable_recording(tmp_path: Path) -> None:
    """Watching must not be able to end the work of a week."""
    line = [*QUIET, sys.executable, "-c", "print('ready', flush=True); input(); open('done', 'w')"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    watching = subprocess.Popen(line, cwd=tmp_path, env=environment(), **pipes)
    assert watching.stdout is not None
    assert watching.stdout.readline() == "ready\n"
    watching.kill()
    watching.wait()
    watching.communicate("go on\n")  # to the command, which has the same input
    until((tmp_path / "done").exists, "the command goes on")
    assert recording(tmp_path).end is None


def test_a_second_run_in_the_same_minute_overwrites_nothing(tmp_path: Path) -> None:
    """A recording is what the next run is compared with."""
    run(tmp_path, "true")
    run(tmp_path, "true")
    assert len({read_recording(path).header.run_id for path in tmp_path.glob("run-*.json")}) == 2


def test_where_nothing_can_be_written_the_recording_goes_elsewhere(tmp_path: Path) -> None:
    """Clusters have read-only working directories."""
    assert run(Path("/proc"), "true", within={"TMPDIR": str(tmp_path)}).returncode == 0
    assert recording(tmp_path).end


WRONG_FLAGS = (
    (("--price", "cheap"), "--price 'cheap' is not a valid price"),
    (("--against", "none.json"), "--against none.json: no such recording"),
    (("--report", "none/report.html"), "--report none/report.html: no such folder"),
    (("--profile", "none/p.html"), "--profile none/p.html: no such folder"),
    (("--profile", "p.pdf"), "--profile p.pdf must end with .html or .json"),
    (("--every", "often"), "'often' is not a valid duration"),
    (("--every", "0"), "--every 0 is too short: the minimum is 20ms"),
    (("--steps-from", "("), "--steps-from '(' is not a valid regular expression"),
    (("--steps-from", "x*"), "--steps-from 'x*' matches an empty line"),
)
# What the installed command does, for one line of words after the other: what it says ends with how it ended.
EACH = """
import json, sys, gpuledger
for words in json.loads(sys.argv[1]):
    try:
        code = gpuledger.main(words)
    except SystemExit as end:
        code = end.code
    print("ended with", code, file=sys.stderr, flush=True)
"""


def test_a_wrong_flag_is_found_before_the_command_runs(tmp_path: Path) -> None:
    """Not after a day of training."""
    lines = json.dumps([["run", "--quiet", *flags, "--", "touch", "ran"] for flags, _ in WRONG_FLAGS])
    ended = subprocess.run(
        [sys.executable, *ELSEWHERE, "-c", EACH, lines],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    said = ended.stderr.split("ended with 2\n")
    assert len(said) == len(WRONG_FLAGS) + 1, ended.stderr
    assert [sentence for (_, sentence), each in zip(WRONG_FLAGS, said, strict=False) if sentence not in each] == []
    assert not (tmp_path / "ran").exists()


def test_no_command_is_wrong_usage(tmp_path: Path) -> None:
    """With the way out."""
    ended = subprocess.run(RUN, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ended.returncode == 2
    assert "gpuledger run -- python train.py" in ended.stderr


def test_folders_of_the_user_are_not_taken_for_ours(tmp_path: Path) -> None:
    """agent/ is a common name in these times."""
    for name in ("agent", "analyzer", "collector"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not yours')")
    ended = run(tmp_path, "true", flags=())
    assert ended.returncode == 0
    assert "not yours" not in ended.stderr


def test_steps_are_counted_and_every_byte_passed_on(tmp_path: Path) -> None:
    """Time per step is what a run's owner knows by heart."""
    script = (
        "import sys, time\n"
        "for step in range(0, 500, 100):\n"
        "    print(f'step {step} loss 0.1', flush=True); time.sleep(0.3)\n"
        "sys.stderr.write('bar 1\\rbar 2\\r'); sys.exit(4)\n"
    )
    ended = run(
        tmp_path, sys.executable, "-c", script, flags=("--quiet", "--every", "0.2s", "--steps-from", r"step (\d+)")
    )
    assert ended.returncode == 4
    assert ended.stdout.splitlines() == [f"step {step} loss 0.1" for step in range(0, 500, 100)]
    assert ended.stderr == "bar 1\nbar 2\n", "in text, a return reads as a new line"
    rows = [row for body in recording(tmp_path).batches for row in rows_of(body, "progress")]
    assert sum(row["steps"] for row in rows) == 400


@pytest.fixture
def gpus(library: Path, tmp_path: Path) -> tuple[Scenario, Mapping[str, str]]:
    """Return a host of four GPUs whose processes nobody knows, and the environment that shows it."""
    scenario = healthy(tmp_path / "scenario", gpus=4).every(processes="")
    return scenario, {"LD_LIBRARY_PATH": str(library), "GPULEDGER_FAKE_NVML": str(scenario.path)}


def test_visible_gpus_are_watched_and_held_by_the_run(tmp_path: Path, gpus: tuple[Scenario, Mapping[str, str]]) -> None:
    """The ledger of a run is closed over the GPUs that it could use, whether it used them or not."""
    _, fake = gpus
    ended = run(tmp_path, "sh", "-c", "sleep 0.5; exit 9", flags=(), within={"CUDA_VISIBLE_DEVICES": "2,0", **fake})
    assert ended.stderr.startswith(
        "gpuledger: watching 2 x H100-80GB and this host; the report follows when the command ends\n"
    )
    found = recording(tmp_path)
    assert found.end is not None
    held = [row for body in found.batches for row in rows_of(body, "allocations")]
    assert [(row["rank"], row["gpu_uuid"][:12], row["exit_status"]) for row in held] == [
        (0, "GPU-00000002", "failed"),
        (1, "GPU-00000000", "failed"),
    ]
    assert {(row["run_id"], row["started_at"], row["ended_at"]) for row in held} == {
        (found.header.run_id, found.header.started_at, found.end.ended_at)
    }
    owned = [row for body in found.batches for row in rows_of(body, "ownership")]
    assert {row["gpu_uuid"] for row in owned} == {row["gpu_uuid"] for row in held}
    samples = [row for body in found.batches for row in rows_of(body, "gpu_samples")]
    assert {row["gpu_uuid"] for row in samples} == {row["gpu_uuid"] for row in held}
    one = sorted((row["started_at"], row["ended_at"]) for row in samples if row["gpu_uuid"] == held[0]["gpu_uuid"])
    assert one[0][0] <= found.header.started_at
    assert one[-1][1] >= found.end.ended_at - CLOCKS_APART_US
    assert all(left[1] == right[0] for left, right in pairwise(one))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="optional: a profile is the server's, which needs 3.11")
def test_a_profile_is_written_without_any_server(tmp_path: Path, gpus: tuple[Scenario, Mapping[str, str]]) -> None:
    """Signed with the user's own key, and self-measured: the exit code stays the command's."""
    from analyzer.capacity.profile.signature import read_profile

    within = {**gpus[1], "XDG_STATE_HOME": str(tmp_path / "state")}
    flags = ("--quiet", "--price", "2.60", "--profile", "p.html")
    assert run(tmp_path, "sh", "-c", "sleep 1.5; exit 9", flags=flags, within=within).returncode == 9
    for name in ("p.html", "p.json"):
        read = read_profile(tmp_path / name)
        assert (read.state, read.profile.made.by) == ("unknown_key", "run")
        assert [run.gpus for run in read.profile.runs] == [4]
    assert (tmp_path / "state" / "gpuledger" / "profile.key").stat().st_mode & 0o077 == 0


def test_no_visible_gpu_is_no_gpu(tmp_path: Path, gpus: tuple[Scenario, Mapping[str, str]]) -> None:
    """A command that hides the GPUs from itself did not leave them idle."""
    ended = run(tmp_path, "true", flags=(), within={"CUDA_VISIBLE_DEVICES": "", **gpus[1]})
    assert (
        "watching this host only; no GPU here (the environment's list of visible GPUs does not include any"
        in ended.stderr
    )
    assert recording(tmp_path).header.gpus == 0


def test_a_recording_is_json_a_line(tmp_path: Path) -> None:
    """So that it can be looked at without us."""
    run(tmp_path, "true")
    (path,) = tmp_path.glob("run-*.json")
    first, *batches, last = [json.loads(line) for line in path.read_text().splitlines()]
    assert first["recording"] == 1
    assert all(batch.keys() == {"batch"} for batch in batches)
    assert last["exit_code"] == 0
