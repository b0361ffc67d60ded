"""The command itself: what it lists, what it refuses, and how failures end."""

import gc
import logging
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

import gpuledger
from agent.errors import SpoolError
from agent.log_format import Record
from collector.errors import ConfigError
from tests.waiting import PATIENCE_SECONDS


def world(_: list[str]) -> int:
    """Fail as a full disk does."""
    raise SpoolError("the spool /var/lib/gpuledger is full; free space or set agent.spool_bytes")


def settings(_: list[str]) -> int:
    """Fail as a wrong key does."""
    raise ConfigError("collector.lsten is no setting, did you mean listen?")


def extra(_: list[str]) -> int:
    """Fail as an agent's environment does when it is asked to serve."""
    raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")


def ours(_: list[str]) -> int:
    """Fail as a module of ours that does not exist does."""
    raise ModuleNotFoundError("No module named 'analyzer.nonesuch'", name="analyzer.nonesuch")


def interrupted(_: list[str]) -> int:
    """End as Ctrl-C does."""
    raise KeyboardInterrupt


def logs(_: list[str]) -> int:
    """Say with the exit code whether what it logs is formatted as ours is."""
    return int(logging.getLogRecordFactory() is not Record)


FAILING = {
    name: gpuledger.Command(name, f"tests.test_gpuledger:{name}", "")
    for name in ("world", "settings", "extra", "ours", "interrupted", "report", "logs")
}


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("world", 3, "the spool /var/lib/gpuledger is full"),
        ("settings", 2, "did you mean listen?"),
        ("extra", 2, "pip install --no-deps --require-hashes -r requirements-server.lock"),
        ("interrupted", 130, ""),
        ("reprot", 2, "did you mean 'report'?"),
    ],
)
def test_a_failure_is_one_sentence_and_an_exit_code(
    name: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script reads the code, a person the sentence; nobody reads a traceback."""
    assert gpuledger.main([name], FAILING) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert said.err.count("\n") <= 1


def test_our_own_mistake_is_not_dressed_up() -> None:
    """A missing module of ours is a fault of the release: its traceback is what helps."""
    with pytest.raises(ModuleNotFoundError):
        gpuledger.main(["ours"], FAILING)


def test_every_command_logs_without_carets() -> None:
    """Who adds one need not think of it; nor is anything left as it was by an earlier test."""
    logging.setLogRecordFactory(logging.LogRecord)
    assert gpuledger.main(["logs"], FAILING) == 0


def test_help_fits_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """80 columns and at most 16 commands: whoever looks for the first time reads all of it."""
    assert gpuledger.main(["--help"]) == 0
    shown = capsys.readouterr().out.splitlines()
    rows = [line for line in shown if line.startswith("  ")]
    assert max(map(len, shown)) <= 80
    assert len(rows) <= 16
    assert len(shown) <= 24
    assert {name.split()[0] for name in gpuledger.COMMANDS} == {row.split()[0] for row in rows}


class _Ended:
    """A part of a class during whose making SIGTERM comes."""

    def __set_name__(self, *_: object) -> None:
        signal.raise_signal(signal.SIGTERM)


def serve(_: list[str]) -> int:
    """Start, and be told to end in the middle of an import."""
    type("Loaded", (), {"part": _Ended()})
    return 0


def test_a_daemon_that_is_ended_while_it_is_loaded_ends_as_one_that_is_ended() -> None:
    """Python 3.11 makes an error of its own of whatever is raised while a class is made."""
    with pytest.raises(SystemExit) as ended:
        gpuledger.main(["serve"], {"serve": gpuledger.Command("serve", "tests.test_gpuledger:serve", "")})
    assert ended.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("name", gpuledger.COMMANDS)
def test_every_command_is_shown_by_the_help_of_what_it_stands_below(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that no help names is not found."""
    above = " ".join(name.split()[:-1])
    if not above:
        return
    while above not in gpuledger.COMMANDS and " " in above:
        above = " ".join(above.split()[:-1])
    with suppress(SystemExit):
        gpuledger.main([*above.split(), "--help"])
    short = name.removeprefix(above).strip()
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"  {short}  ")]
    assert len(shown) == 1
    assert len(shown[0]) <= 80


@pytest.mark.parametrize("name", ["bill", "capacity", "admin"])
def test_a_group_alone_shows_its_commands_and_fails(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A script that forgot the command must notice."""
    assert gpuledger.main([name]) == 2
    assert gpuledger.main([name, "--help"]) == 0
    first, second = capsys.readouterr().out.split(f"gpuledger {name}:")[1:]
    assert first == second


def test_a_group_within_a_group_is_one_too(capsys: pytest.CaptureFixture[str]) -> None:
    """`gpuledger lake` is told to be `admin lake`, which then must say what there is."""
    assert gpuledger.main(["admin", "lake"]) == 2
    shown = capsys.readouterr().out
    assert ("  check " in shown, "  aside " in shown) == (True, True)


@pytest.mark.parametrize(("was", "name"), gpuledger.RENAMED.items())
def test_an_old_spelling_names_the_new_one_and_runs_nothing(
    was: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands were regrouped once; what somebody remembers ends in one line, and no alias is kept."""
    assert gpuledger.main([*was.split(), "--json"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"gpuledger: {was!r} is now: gpuledger {name}\n")
    assert any(command == name or command.startswith(f"{name} ") for command in gpuledger.COMMANDS)


def test_without_a_command_it_helps_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """A script that forgot the command must notice."""
    assert gpuledger.main([]) == 2
    assert "where every GPU-second went" in capsys.readouterr().out


def test_it_runs_as_a_module_and_loads_nothing_heavy() -> None:
    """`gpuledger agent` on a GPU host must not pay for the server; each command is imported when it is called."""
    code = (
        "import sys, gpuledger\n"
        "assert gpuledger.main(['--version']) == 0\n"
        "heavy = {'duckdb', 'fastapi', 'pyarrow', 'numpy', 'plotly', 'rich', 'pynvml', 'psutil'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "[]"
    ran = subprocess.run(
        [sys.executable, "-m", "gpuledger", "--help"], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert ran.returncode == 0


def test_a_report_starts_without_what_only_servers_and_analyses_need() -> None:
    """It took half a second more: one constant brought the server, another pyarrow and numpy."""
    code = (
        "import sys, gpuledger\n"
        "try: gpuledger.main(['report', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'fastapi', 'starlette', 'sqlalchemy', 'pyarrow', 'numpy', 'nanoarrow', 'plotly'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("findngs", "findings"), ("bil", "bill"), ("bill prces", "bill prices"), ("capacity sise", "capacity size")],
)
def test_a_slip_names_the_nearest_command(typed: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, also within a group."""
    assert gpuledger.main(typed.split()) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"did you mean {meant!r}?" in said


def test_a_gpu_hosts_python_runs_the_agents_commands_and_names_what_the_others_need() -> None:
    """Ubuntu 22.04 has 3.10: what an older Python cannot do is one sentence, not a traceback out of the server."""
    told = {name: gpuledger.too_old(command, (3, 10)) for name, command in gpuledger.COMMANDS.items()}
    assert {name for name, sentence in told.items() if sentence is None} == {
        "agent",
        "agent probe",
        "run",
        "agent top",
        "agent doctor",
    }
    assert told["serve"] == "gpuledger serve needs Python 3.11 or newer, and this is 3.10"
    assert all(gpuledger.too_old(command, (3, 11)) is None for command in gpuledger.COMMANDS.values())


def test_garbage_is_looked_for_once_a_command_is_loaded() -> None:
    """It is not while modules are imported; a server that went on so would grow until it is killed."""
    gpuledger.COMMANDS["report"].load()
    assert gc.isenabled()
    with pytest.raises(ModuleNotFoundError):
        gpuledger.Command("none", "tests.none_such:main", "").load()
    assert gc.isenabled()


def test_what_a_command_loads_is_never_looked_through_for_garbage() -> None:
    """A third of the processor time of `gpuledger report` went into that, most of it when the command had ended."""
    code = (
        "import gc, gpuledger; gpuledger.COMMANDS['report'].load(); print(gc.get_freeze_count(), len(gc.get_objects()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    frozen, looked_through = map(int, ran.stdout.split())
    assert frozen > 20 * looked_through, ran.stderr


@pytest.mark.parametrize("words", [["--help"], ["agent", "--help"], ["capacity", "--help"]])
def test_a_reader_that_leaves_is_told_nothing_more(words: list[str]) -> None:
    """`gpuledger agent --help | true`: no traceback, whichever of the two texts was being written."""
    command = [sys.executable, "-m", "gpuledger", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        process.wait(PATIENCE_SECONDS)
    assert b"Traceback" not in said
    assert b"Exception ignored" not in said
