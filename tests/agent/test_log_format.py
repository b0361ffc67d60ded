"""A thread that logs an exception builds no syntax tree, or another thread that does may fail (gh-106905)."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.log_format import INDENT, JsonLine, Record, TextLine, tell_of_failure, without_carets

ROOT = Path(__file__).parents[2]
CARETS = re.compile(r"[ |+]*[~^]+\n?")

# In the middle of a tree the collector stops one thread; another then logs an exception from first to last.
RACE = """
import ast, gc, json, logging, sys, threading
if sys.argv[1] == "ours":
    from agent.log_format import install
    install()
RECORDS, PARSES = 100, 500
turn, done, records, errors, parses = threading.Semaphore(0), threading.Semaphore(0), [], [], []

class Kept(logging.Handler):
    def emit(self, record):
        records.append(self.format(record))

def counted(*arguments, parse=ast.parse, **more):
    parses.append(threading.current_thread().name)
    return parse(*arguments, **more)

def give_turn(phase, _):
    if phase == "start" and threading.current_thread() is parsing and len(records) < RECORDS:
        turn.release()
        done.acquire(timeout=5)

def parse():
    for _ in range(PARSES):
        try:
            ast.parse("a = [b + c * d(e)[f], g]")
        except SystemError as error:
            errors.append(str(error))

def log():
    for _ in range(RECORDS // 2):
        turn.acquire()
        try:
            ({}["x" + ("y" * 2)] + 1) * 2
        except KeyError:
            logging.getLogger("race").exception("lost")
        finally:
            done.release()

logging.getLogger().addHandler(Kept())
ast.parse = counted
parsing = threading.Thread(target=parse, name="parsing")
threads = [*(threading.Thread(target=log, name="logging", daemon=True) for _ in range(2)), parsing]
gc.callbacks.append(give_turn)
gc.set_threshold(5)
for thread in threads:
    thread.start()
parsing.join()
gc.callbacks.clear()
whole = sum("Traceback" in each and each.endswith("KeyError: 'xyy'") for each in records)
carets = sum("^^" in each for each in records)
print(json.dumps([len(errors), len(records), whole, carets, parses.count("logging")]))
"""

# Each way in which a command's records come to stderr: nothing configured, the agent's, and uvicorn's own.
WAYS = """
import logging, sys, uvicorn
if sys.argv[1] == "ours":
    from agent.log_format import install
    install()

def failing(logger):
    try:
        try:
            len([][0] + 1)
        except IndexError as error:
            raise ValueError("no first") from error
    except ValueError:
        logging.getLogger(logger).exception("lost")

failing("collector.http.server")
uvicorn.Config(None, log_level="warning")
failing("uvicorn.error")
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
failing("agent")
"""

# What a daemon may have to tell: DuckDB's message of several lines, what a thread and the process end by, a warning.
EVENTS = """
import logging, sys, threading, warnings
from agent.log_format import configure
configure(sys.argv[1], "info")
configure(sys.argv[1], "warning")  # settings that are read again write nothing twice
logging.getLogger("collector.upkeep").error("roll_up failed: %s", "Out of Memory\\n\\nPossible solutions:\\n* less")
logging.getLogger("collector").info("below the level")
warnings.warn("old")
thread = threading.Thread(target=lambda: {}["gone"], name="sealer")
thread.start()
thread.join()
[][0]
"""
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def child(folder: Path, script: str, word: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a script with a word, where positions within lines are known; `code` is how it must end."""
    file = folder / "script.py"  # only of a file does a traceback show lines
    file.write_text(script)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONNODEBUGRANGES"}
    words = [sys.executable, str(file), word]
    environment["PYTHONPATH"] = str(ROOT)
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == code, ran.stderr
    return ran


_WITH_CARETS = pytest.mark.skipif(sys.version_info < (3, 11), reason="optional: 3.10 has no carets and no groups")


def test_who_logs_disturbs_nobody_who_parses(tmp_path: Path) -> None:
    """Two threads log, one parses, a collection in each tree: no error, and every record whole."""
    errors, records, whole, carets, parses_of_loggers = json.loads(child(tmp_path, RACE, "ours").stdout)
    assert (errors, records, whole, carets, parses_of_loggers) == (0, 100, 100, 0, 0)


@pytest.mark.skipif(sys.version_info >= (3, 11, 8), reason="optional: this Python builds trees in several threads")
@_WITH_CARETS
def test_with_the_formatter_of_the_library_it_fails(tmp_path: Path) -> None:
    """The race above must be able to fail: a formatter that parses makes the other thread's trees fail."""
    errors, records, whole, carets, _ = json.loads(child(tmp_path, RACE, "the library's").stdout)
    assert errors > 0
    assert (records, whole, carets) == (100, 100, 100)


@_WITH_CARETS
def test_all_who_write_records_leave_the_carets_out(tmp_path: Path) -> None:
    """Nothing but the carets is gone: of the last resort, of uvicorn, and of a command that configures logging."""
    ours, before = (child(tmp_path, WAYS, whose).stderr.splitlines() for whose in ("ours", "the library's"))
    assert ours == [line for line in before if not CARETS.fullmatch(line)]
    assert len(ours) < len(before)
    assert [line for line in ours if "lost" in line] == ["lost", "ERROR:    lost", "ERROR agent: lost"]


def grouped() -> BaseException:
    """Return an exception group with causes and contexts of each kind."""
    try:
        try:
            os.environ["NO SUCH KEY"] + "1"
        except KeyError:
            int("x") + 1
    except ValueError as error:
        inner = error
    try:
        raise ExceptionGroup("several", [inner, ExceptionGroup("more", [OSError("disk")])]) from inner
    except ExceptionGroup as error:
        return error


@_WITH_CARETS
def test_causes_contexts_and_groups_are_told_whole() -> None:
    """What led to an exception is most of what its reader looks for."""
    error = grouped()
    caught = (type(error), error, error.__traceback__)
    before = logging.Formatter().formatException(caught).splitlines()
    assert without_carets(caught).splitlines() == [line for line in before if not CARETS.fullmatch(line)]
    assert without_carets((None, None, None)) == "NoneType: None"


def test_a_record_that_cannot_be_written_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake in a call of ours must not look for carets either."""
    monkeypatch.setattr(logging.Handler, "handleError", tell_of_failure)
    logging.StreamHandler().handle(Record("agent", logging.INFO, "/agent/spool.py", 7, "%d batches", ("few",), None))
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "--- Logging error ---"
    assert not [line for line in told if CARETS.fullmatch(line)]
    assert told[-4:] == [
        "TypeError: %d format: a real number is required, not str",
        "Logged from file spool.py, line 7",
        "Message: '%d batches'",
        "Arguments: ('few',)",
    ]


def record(message: str, *arguments: object, error: BaseException | None = None) -> Record:
    """Return a record of the spool, as a logger makes it."""
    caught = None if error is None else (type(error), error, error.__traceback__)
    return Record("agent.spool", logging.WARNING, "/agent/spool.py", 7, message, arguments, caught)


def test_in_text_an_event_is_a_line_with_its_traceback_below(tmp_path: Path) -> None:
    """A failure of six lines came without time, level and logger; nobody knew what had failed, or when."""
    lines = child(tmp_path, EVENTS, "text", code=1).stderr.splitlines()
    events = [line for line in lines if not line.startswith(INDENT)]
    said = [re.sub(rf"^{TIME} ", "", line) for line in events]
    assert said[0] == "ERROR collector.upkeep: roll_up failed: Out of Memory Possible solutions: * less"
    assert said[1].startswith(f"WARNING py.warnings: {tmp_path}/script.py")
    assert said[2:] == [
        "CRITICAL gpuledger: BUG: thread sealer ended by an exception",
        "CRITICAL gpuledger: BUG: uncaught exception",
    ]
    assert all(re.match(f"{TIME} ", line) for line in events)
    assert lines[-1] == f"{INDENT}IndexError: list index out of range"
    assert f"{INDENT}KeyError: 'gone'" in lines


def test_in_json_an_event_is_a_line_whole(tmp_path: Path) -> None:
    """Whoever collects logs takes lines: what is beside them belongs to nothing."""
    events = [json.loads(line) for line in child(tmp_path, EVENTS, "json", code=1).stderr.splitlines()]
    assert [(event["level"], event["logger"]) for event in events] == [
        ("error", "collector.upkeep"),
        ("warning", "py.warnings"),
        ("critical", "gpuledger"),
        ("critical", "gpuledger"),
    ]
    assert events[0]["message"] == "roll_up failed: Out of Memory\n\nPossible solutions:\n* less"
    assert "traceback" not in events[0]
    assert all(re.fullmatch(TIME, event["time"]) for event in events)
    assert [event["traceback"].splitlines()[-1] for event in events[2:]] == [
        "KeyError: 'gone'",
        "IndexError: list index out of range",
    ]


@given(st.text(), st.text())
def test_no_message_begins_a_line_or_moves_a_terminal(message: str, failure: str) -> None:
    """What clients send is in messages: they could write events that never were, or hide others."""
    of_both = record("%s", message, error=OSError(failure))
    first, *below = TextLine().format(of_both).split("\n")
    assert first.split(" ", 1)[1].startswith("WARNING agent.spool: ")
    assert all(line.startswith(INDENT) for line in below)
    whole = "".join([first, *below])
    assert not [char for char in whole if ord(char) < 32 or 127 <= ord(char) < 160 or char in "\u2028\u2029"]
    line = JsonLine().format(of_both)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == message


@pytest.mark.parametrize(
    "file", [*sorted((ROOT / "systemd").glob("*.service")), ROOT / "Dockerfile"], ids=lambda f: f.name
)
def test_what_we_start_knows_no_positions(file: Path) -> None:
    """The traceback of a library that is printed past the log shows no carets then either."""
    assert re.search(r"^(Environment=|ENV .*)PYTHONNODEBUGRANGES=1$", file.read_text(), re.MULTILINE)


def test_a_log_that_is_set_up_in_a_test_is_gone_after_it(tmp_path: Path) -> None:
    """The next one's threads are watched by pytest again, and its records go where they went (tests/conftest.py)."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_protocol\n")
    (tmp_path / "test_it.py").write_text(
        "import logging, sys, threading\n"
        "from agent.log_format import ToStderr, configure\n"
        "BEFORE = []\n"
        "def state():\n"
        "    ours = [each for each in logging.getLogger().handlers if isinstance(each, ToStderr)]\n"
        "    return sys.excepthook, threading.excepthook, len(ours), logging.getLogger().level\n"
        "def test_before(): BEFORE.append(state())\n"
        "def test_sets_up():\n"
        "    configure('json', 'debug')\n"
        "    assert state() != BEFORE[0]\n"
        "def test_after(): assert state() == BEFORE[0]\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]
    done = subprocess.run(
        words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert "3 passed" in done.stdout, done.stdout
