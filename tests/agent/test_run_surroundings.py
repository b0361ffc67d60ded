"""`gpuledger run` in surroundings that are hostile to it: the command runs, and its exit code comes back."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from agent.wire.recording import Recording, RecordingEnd, read_recording
from tests.agent.batches import rows_of
from tests.agent.gpu.fake.build import Scenario, healthy
from tests.agent.test_run import RUN, environment
from tests.waiting import PATIENCE_SECONDS, until

CODE = 6
Ended = subprocess.CompletedProcess[bytes]


@dataclass
class Around:
    """What is around one run: its streams, its environment, where it works, and what is done before it begins."""

    here: Path
    flags: tuple[str, ...] = ()
    within: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    stderr: int | None = subprocess.PIPE
    before: str = ""  # Python that becomes the run
    shell: str = ""  # of a shell that becomes the run: redirections, limits

    def run(self, code: int = CODE) -> Ended:
        """Run a command that writes a file and says DATA, and ends with this code."""
        ran = self.here / "ran"
        line = [*RUN, *self.flags, "--", "sh", "-c", f"echo DATA; touch {ran}; exit {code}"]
        if self.before:
            line = [sys.executable, "-c", f"import os, sys; {self.before}; os.execvp(sys.argv[1], sys.argv[1:])", *line]
        if self.shell:
            line = ["sh", "-c", f'{self.shell}exec "$@" {self.redirected}', "sh", *line]
        around = {name: value for name, value in environment(**self.within).items() if name not in self.without}
        ended = subprocess.run(
            line,
            cwd=self.here,
            env=around,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            timeout=PATIENCE_SECONDS,
        )
        assert ran.exists(), "the command ran"
        ran.unlink()
        return ended

    redirected: str = ""


def full(here: Path) -> Iterator[Around]:
    """A disk that is full is where stderr goes."""
    with Path("/dev/full").open("wb") as end:
        yield Around(here, stderr=end.fileno())


def broken(here: Path) -> Iterator[Around]:
    """Nobody reads stderr any more."""
    reading, writing = os.pipe()
    os.close(reading)
    yield Around(here, stderr=writing)
    os.close(writing)


def left(here: Path) -> Iterator[Around]:
    """The reader of stderr leaves after a line."""
    reading, writing = os.pipe()
    reader = subprocess.Popen(["head", "-n", "1"], stdin=reading, stdout=subprocess.DEVNULL)
    os.close(reading)
    yield Around(here, stderr=writing)
    os.close(writing)
    reader.wait()


def unread(here: Path) -> Iterator[Around]:
    """The reader of stderr has stopped, and its pipe is full."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    yield Around(here, stderr=writing)
    os.close(reading)
    os.close(writing)


def nonblocking(here: Path) -> Iterator[Around]:
    """Somebody made stderr a descriptor that never waits."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    yield Around(here, stderr=writing)
    os.close(reading)
    os.close(writing)


def closed(redirected: str) -> Callable[[Path], Iterator[Around]]:
    """These streams are closed before it begins."""

    def around(here: Path) -> Iterator[Around]:
        yield Around(here, shell=" ", redirected=redirected)

    return around


def no_home(here: Path) -> Iterator[Around]:
    """As a service of systemd has it."""
    yield Around(here, without=("HOME", "USER", "LOGNAME", "XDG_STATE_HOME"))


def no_environment(here: Path) -> Iterator[Around]:
    """Only the path is left."""
    yield Around(here, without=tuple(name for name in os.environ if name not in ("PATH", "PYTHONNODEBUGRANGES")))


def no_folder(here: Path) -> Iterator[Around]:
    """The working folder was removed below it."""
    gone = here / "gone"
    gone.mkdir()
    yield Around(here, shell=f"cd {gone}; rmdir {gone}; ")


def limited(words: str) -> Callable[[Path], Iterator[Around]]:
    """A limit of the shell."""

    def around(here: Path) -> Iterator[Around]:
        yield Around(here, shell=f"ulimit {words}; ")

    return around


def no_place(here: Path) -> Iterator[Around]:
    """Neither the working folder nor that of temporary files can be written."""
    yield Around(here, within={"TMPDIR": "/proc"}, shell="cd /proc; ")


def ignored(number: signal.Signals) -> Callable[[Path], Iterator[Around]]:
    """A signal comes ignored, as from nohup."""

    def around(here: Path) -> Iterator[Around]:
        yield Around(here, before=f"import signal; signal.signal({int(number)}, signal.SIG_IGN)")

    return around


def blocked(here: Path) -> Iterator[Around]:
    """All signals come blocked."""
    yield Around(here, before="import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))")


def settings(text: str) -> Callable[[Path], Iterator[Around]]:
    """The host's settings are wrong: a word of the environment that nobody here wrote."""

    def around(here: Path) -> Iterator[Around]:
        yield Around(here, within={"GPULEDGER_AGENT_BEAT_SECONDS": text})

    return around


def odd(**within: str) -> Callable[[Path], Iterator[Around]]:
    """Variables that tools read."""

    def around(here: Path) -> Iterator[Around]:
        yield Around(here, within=within)

    return around


def own_session(here: Path) -> Iterator[Around]:
    """No terminal anywhere."""
    yield Around(here, before="os.setpgid(0, 0) if os.getpid() == os.getsid(0) else os.setsid()")


def counted(redirected: str) -> Callable[[Path], Iterator[Around]]:
    """Steps are counted in what it prints, through streams that are closed."""

    def around(here: Path) -> Iterator[Around]:
        yield Around(here, flags=("--steps-from", "step"), shell=" ", redirected=redirected)

    return around


# These are not reported on: a report is made by another process, which they say nothing to.
QUIET = (
    "files",
    "few",
    "little",
    "SIG",
    "signals",
    "settings",
    "a proxy",
    "a progress",
    "a run's",
    "a folder",
    "warn",
    "a hash",
)
AROUND: dict[str, Callable[[Path], Iterator[Around]]] = {
    "stderr full": full,
    "stderr broken": broken,
    "stderr left by its reader": left,
    "stderr not read": unread,
    "stderr never waits": nonblocking,
    "stderr closed": closed("2>&-"),
    "stdin closed": closed("<&-"),
    "stdin and stderr closed": closed("<&- 2>&-"),
    "stderr read-only": closed("2</dev/null"),
    "stderr closed, steps counted": counted("2>&-"),
    "no home": no_home,
    "no environment": no_environment,
    "no folder": no_folder,
    "no place for a recording": no_place,
    "files of no size": limited("-f 0"),
    "few descriptors": limited("-n 24"),
    "little memory": limited("-v 700000"),
    "no core": limited("-c 0"),
    "SIGPIPE ignored": ignored(signal.SIGPIPE),
    "SIGCHLD ignored": ignored(signal.SIGCHLD),
    "SIGHUP ignored": ignored(signal.SIGHUP),
    "SIGTERM ignored": ignored(signal.SIGTERM),
    "signals blocked": blocked,
    "settings that are no number": settings("often"),
    "settings that are empty": settings(""),
    "no terminal": own_session,
    "dumb terminal": odd(TERM="dumb"),
    "no columns": odd(COLUMNS="0"),
    "columns that are no number": odd(COLUMNS="wide"),
    "a locale that is not there": odd(LC_ALL="xx_YY.UTF-8", LANG="xx_YY"),
    "the C locale": odd(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"),
    "another encoding": odd(PYTHONIOENCODING="ascii"),
    "a proxy": odd(HTTPS_PROXY="http://127.0.0.1:1", HTTP_PROXY="http://127.0.0.1:1"),
    "a progress socket that is not there": odd(GPULEDGER_PROGRESS="/nowhere/progress"),
    "a run's id of another": odd(GPULEDGER_RUN_ID="declared/elsewhere/0/old"),
    "a folder of temporary files that is not there": odd(TMPDIR="/nowhere"),
    "warnings are errors": odd(PYTHONWARNINGS="error"),
    "a hash seed": odd(PYTHONHASHSEED="0"),
}


# What can be around one run at once: none of these takes away what another is about. `make soak` tries each alone.
TOGETHER = (
    ("stderr full", "no home", "no environment"),
    ("stderr never waits", "no core", "no terminal", "no columns", "another encoding", "dumb terminal"),
    ("stdin closed", "the C locale"),
    ("no folder", "columns that are no number", "a locale that is not there"),
    ("SIGPIPE ignored", "SIGCHLD ignored", "SIGHUP ignored", "SIGTERM ignored"),
    (
        "a proxy", "a progress socket that is not there", "a run's id of another", "a hash seed",
        "a folder of temporary files that is not there",
    ),
)  # fmt: skip
ELSEWHERE = ("stderr closed",)  # it is with stdin, and where steps are counted: alone, too, in the soak


def surroundings() -> list[ParameterSet]:
    """Return what is around a run: one thing, or several; each of several alone as well, in the soak."""
    alone = {name: [pytest.mark.soak] if name in (*chain(*TOGETHER), *ELSEWHERE) else [] for name in AROUND}
    return [
        *(pytest.param(names, id=", ".join(names)) for names in TOGETHER),
        *(pytest.param((name,), id=name, marks=marks) for name, marks in alone.items()),
    ]


def together(arounds: Sequence[Around]) -> Around:
    """Return what is around one run of all of these."""
    within = [one.within for one in arounds]
    assert sum(map(len, within)) == len({name for each in within for name in each}), "one variable has one value"
    return replace(
        arounds[0],
        within={name: value for each in within for name, value in each.items()},
        without=tuple(chain(*(one.without for one in arounds))),
        before="; ".join(filter(None, (one.before for one in arounds))),
        shell="".join(one.shell for one in arounds),
        redirected=" ".join(filter(None, (one.redirected for one in arounds))),
    )


@pytest.mark.parametrize("names", surroundings())
def test_whatever_is_around_it_the_command_runs_and_its_code_comes_back(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Nothing of ours is worth a failed job, and nothing of ours is in its output."""
    with ExitStack() as stack:
        around = together([stack.enter_context(contextmanager(AROUND[name])(tmp_path)) for name in names])
        quiet = ("--quiet",) if all(name.startswith(QUIET) for name in names) else ()
        ended = replace(around, flags=(*quiet, *around.flags)).run()
    assert (ended.returncode, ended.stdout) == (CODE, b"DATA\n")


def test_a_closed_stdout_stays_the_commands_own_affair(tmp_path: Path) -> None:
    """What it would find without us it finds: here a stream that cannot be written."""
    line = ["sh", "-c", 'exec "$@" >&-', "sh", *RUN, "--", "sh", "-c", "echo DATA 2>/dev/null || exit 7"]
    assert subprocess.run(line, cwd=tmp_path, env=environment(), timeout=PATIENCE_SECONDS, check=False).returncode == 7


def test_a_closed_stream_is_closed_for_the_command_too(tmp_path: Path) -> None:
    """Its words must not land in a file that we opened meanwhile: the number is free for whoever is next."""
    line = ["sh", "-c", 'exec "$@" 2>&-', "sh", *RUN, "--", "sh", "-c", "echo x >&2 || true"]
    subprocess.run(line, cwd=tmp_path, env=environment(), timeout=PATIENCE_SECONDS, check=True)
    assert read_recording(only(tmp_path)).end is not None


def test_a_stopped_watcher_keeps_nothing_from_the_command(tmp_path: Path) -> None:
    """Somebody stops it, and wakes it: the command has gone on, and its code comes back."""
    line = [*RUN, "--quiet", "--", "sh", "-c", "echo ready; read end; touch ran; exit 6"]
    running = subprocess.Popen(line, cwd=tmp_path, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert running.stdin is not None
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    running.send_signal(signal.SIGSTOP)
    running.stdin.write(b"end\n")
    running.stdin.close()
    until((tmp_path / "ran").exists, "the command goes on")
    running.send_signal(signal.SIGCONT)
    assert running.wait(PATIENCE_SECONDS) == CODE
    running.stdout.close()


def test_a_disk_that_fills_up_below_the_recording_costs_the_recording_alone(tmp_path: Path) -> None:
    """Files may be this large, and no larger: as a full disk it ends what is written, not what works."""
    before = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))"
    ended = Around(tmp_path, flags=("--every", "20ms"), before=before).run()
    assert (ended.returncode, ended.stdout) == (CODE, b"DATA\n")
    assert b"could not be written" in (ended.stderr or b"")


def only(here: Path) -> Path:
    """Return the only recording that lies here."""
    (path,) = here.glob("run-*.json")
    return path


def test_where_the_folder_cannot_be_written_the_whole_path_is_told(tmp_path: Path) -> None:
    """Else nobody finds it: it lies among temporary files."""
    line = [*RUN, "--", "true"]
    here = environment(TMPDIR=str(tmp_path))
    ended = subprocess.run(line, cwd="/proc", env=here, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ended.returncode == 0
    assert str(only(tmp_path)) in ended.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1}\n', "is not a recording of gpuledger run"),
        ('{"recording":2,"run_id":"r","node":"n","command":"c","started_at":1,"gpus":0,"no_gpu":"",'
         '"gpu_seconds":1.0,"host_seconds":1.0}\n', "version 2"),
        ("", "is not a recording of gpuledger run"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_with_is_said_before_the_command_begins(tmp_path: Path, text: str, why: str) -> None:
    """Not after a day of training."""
    (tmp_path / "old.json").write_text(text)
    line = [*RUN, "--against", "old.json", "--", "touch", "ran"]
    ended = subprocess.run(
        line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert ended.returncode == 2
    assert why in ended.stderr
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def gpus(library: Path, tmp_path: Path) -> tuple[Scenario, Mapping[str, str]]:
    """Return a host of two GPUs that nobody uses, and the environment that shows it."""
    scenario = healthy(tmp_path / "scenario", gpus=2).every(processes="")
    return scenario, {"LD_LIBRARY_PATH": str(library), "GPULEDGER_FAKE_NVML": str(scenario.path)}


def test_a_driver_that_was_replaced_costs_the_gpus_and_not_the_run(
    tmp_path: Path, gpus: tuple[Scenario, Mapping[str, str]]
) -> None:
    """After an update of the driver library and kernel module differ until the host starts again."""
    scenario, fake = gpus
    scenario.host(**{"fail.nvmlInitWithFlags": 18})
    ended = Around(tmp_path, within=dict(fake)).run(code=2)
    assert ended.returncode == 2
    assert b"different versions" in (ended.stderr or b"")
    assert read_recording(only(tmp_path)).header.gpus == 0


def watched_beside(
    here: Path, scenario: Scenario, fake: Mapping[str, str], processes: Callable[[int, int], dict[int, str]]
) -> tuple[Recording, RecordingEnd, int]:
    """Watch a command beside a process of somebody else; `processes` says of both pids who is on which GPU."""
    other = subprocess.Popen(["sleep", str(PATIENCE_SECONDS)])
    line = [*RUN, "--quiet", "--every", "0.1s", "--", "sh", "-c", "echo $$ >new; mv new pid; read end"]
    running = subprocess.Popen(
        line, cwd=here, env=environment(**fake, GPULEDGER_FAKE_NVML_CALLS=str(here / "calls")), stdin=subprocess.PIPE
    )
    until((here / "pid").exists, "the command runs")
    for gpu, said in processes(int((here / "pid").read_text()), other.pid).items():
        scenario.gpu(gpu, processes=said)
    before = lists(here)
    until(lambda: lists(here) >= before + _LISTS, "the list of processes has been read since")
    running.communicate(b"end\n", timeout=PATIENCE_SECONDS)
    other.kill()
    other.wait()
    recording = read_recording(only(here))
    assert recording.end is not None
    return recording, recording.end, other.pid


_LISTS = 4  # of two GPUs, two readings of them: the first may have begun before


def lists(here: Path) -> int:
    """Return how often the driver was asked who is on a GPU."""
    return (here / "calls").read_text().count("nvmlDeviceGetComputeRunningProcesses")


def test_a_gpu_on_which_only_others_work_is_not_the_runs(
    tmp_path: Path, gpus: tuple[Scenario, Mapping[str, str]]
) -> None:
    """That a command could use a GPU does not make the load there its own."""
    recording, end, other = watched_beside(
        tmp_path, *gpus, lambda own, other: {0: f"{own}:1000000", 1: f"{other}:1000000"}
    )
    held = [row for body in recording.batches for row in rows_of(body, "allocations") if row["scheduler"] == "declared"]
    assert [row["gpu_uuid"][:12] for row in held] == ["GPU-00000000"]
    assert (end.foreign_gpus, end.shared_gpus) == (1, 0)
    assert re.fullmatch(rf"\S+ \(pid {other}\)", end.others)


def test_a_gpu_on_which_others_work_beside_the_run_is_shared(
    tmp_path: Path, gpus: tuple[Scenario, Mapping[str, str]]
) -> None:
    """What such a GPU does is told for all of them together."""
    _, end, other = watched_beside(tmp_path, *gpus, lambda own, other: {0: f"{own}:1000000,{other}:1000000"})
    assert (end.foreign_gpus, end.shared_gpus) == (0, 1)
    assert f"(pid {other})" in end.others


def test_what_a_launcher_leaves_behind_is_counted(tmp_path: Path) -> None:
    """It ends at once, and its work goes on unseen: no judgement of the second in which it was watched."""
    script = "setsid sh -c 'read end <fifo' </dev/null >worker.log 2>&1 &\necho started"
    os.mkfifo(tmp_path / "fifo")
    line = [*RUN, "--", "sh", "-c", script]
    ended = subprocess.run(
        line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    with (tmp_path / "fifo").open("w") as end:
        end.write("end\n")
    assert ended.returncode == 0
    said = " ".join(ended.stderr.split())
    reports = sys.version_info >= (3, 11)  # as the server does
    assert not reports or "Too short to judge" in said
    assert not reports or "left 1 process running" in said
    recorded = json.loads(only(tmp_path).read_text().splitlines()[-1])
    assert recorded["left_processes"] == 1
