"""No test is told by a clock: one helper waits, and who else looks at the time says here why."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import nodes_of
from tests.waiting import until

ROOT = Path(__file__).parent.parent

# What asks for the time, lets it pass, or counts a process's open files. A turn of a loop, sleep(0), lets none pass.
CLOCKS = {
    "time": ("sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time"),
    "asyncio": ("sleep",),
}
ASKED = {name for names in CLOCKS.values() for name in names}
# Without one of these words no file looks at a clock: to parse all would take seconds.
WORDS = re.compile("|".join((*sorted(ASKED), "/proc/self/fd", r"Event\(\)")))
IN_A_SCRIPT = re.compile(r"\bsleep\((?!0\))|\bsleep \d|\b(monotonic|perf_counter|process_time)\(|/proc/self/fd")

LIVES = "a process that lives until it is killed"
MOMENT = "the moment of a kill: whatever was done by then, what is asserted must hold"
CLOCKS_IN_TESTS = {
    "tests/collector/access/test_erasure.py": LIVES,
    "tests/agent/test_privacy.py": "a rank that goes on speaking until it is killed",
    "tests/agent/test_run.py": "commands that take their time and are watched meanwhile; what could hang is bounded",
    "tests/agent/test_spool_kill.py": MOMENT,
    "tests/analyzer/findings/test_history_commands.py": LIVES,
    "tests/collector/test_leaving.py": "the query is under way; were it not yet, the end would be the same",
    "tests/collector/test_memory.py": "senders that ask again sooner than they are told to",
    "tests/collector/test_decoding_decoders.py": LIVES,
    "tests/agent/sources/test_progress_callbacks.py": "loaders that take their time, which the run itself measures",
    "tests/agent/sources/test_processes.py": "workers that live until they are killed; processor time is what is read",
    "tests/collector/importing/month.py": "no test: says to whoever makes the month how long that took",
    "tests/collector/schedulers/test_commands.py": "a command that hangs, and the open files of a process of its own",
    "tests/collector/lake/test_sealing.py": MOMENT,
    "tests/collector/schedulers/slurm/cluster.py": "jobs that run until they are ended, and Slurm's own seconds",
    "tests/analyzer/interfaces/mail_smtp.py": "a mailer that looks at a mail longer than a command is waited for",
    "tests/collector/schedulers/slurm/test_end_of_job.py": "a command that hangs",
    "tests/collector/schedulers/slurm/test_import.py": "jobs that take their time, and accounting's seconds",
    "tests/collector/schedulers/slurm/test_slurm.py": "jobs that run until they are let go",
    "tests/collector/tenancy/test_two_analyzers.py": MOMENT,
    "tests/test_watchdog.py": LIVES,
    "tests/waiting.py": "the one that waits",
    "tests/watchdog.py": "runs by itself after the tests, and goes on until nothing is left to kill",
}


def clocks(path: Path) -> Iterator[str]:
    """Yield where a file looks at a clock, in its own words or in those of a script that it starts."""
    if not WORDS.search(path.read_text("utf-8")):
        return
    nodes = nodes_of(path)
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    turns = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _is_a_turn(node)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in CLOCKS:
            yield from (f"{node.lineno} {each.name}" for each in node.names if each.name in CLOCKS[node.module])
        elif isinstance(node, ast.Attribute) and node.attr in ASKED:
            if node.attr in CLOCKS.get(ast.unparse(node.value), ()) and id(node) not in turns:
                yield f"{node.lineno} {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and _pauses(node):
            yield f"{node.lineno} {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from (f"{node.lineno} {found[0]}" for found in IN_A_SCRIPT.finditer(node.value))


def _is_a_turn(call: ast.Call) -> bool:
    """Return whether a call lets the other tasks of a loop go on once, and no time pass."""
    return len(call.args) == 1 and ast.unparse(call.args[0]) == "0"


def _pauses(call: ast.Call) -> bool:
    """Return whether a call waits for an event that nobody sets."""
    waits = isinstance(call.func, ast.Attribute) and call.func.attr == "wait"
    return waits and re.fullmatch(r"(threading\.)?Event\(\)\.wait", ast.unparse(call.func)) is not None


def test_every_look_at_a_clock_has_its_reason() -> None:
    """What is told by a clock is told otherwise on a machine that is busy: wait for what comes, with `until`."""
    found = {
        path.relative_to(ROOT).as_posix(): list(clocks(path))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__)
    }
    assert {name: where for name, where in found.items() if where and name not in CLOCKS_IN_TESTS} == {}
    assert [name for name in CLOCKS_IN_TESTS if not found.get(name)] == [], "they look at no clock any more"


def test_what_never_comes_is_named() -> None:
    """Who reads the failure learns what was waited for, and what there was instead."""
    with pytest.raises(AssertionError, match=r"(?s)a third batch: not within 0 s.*two came"):
        until(lambda: False, "a third batch", 0.0, more=lambda: "two came")


def test_a_process_that_ends_is_not_waited_for() -> None:
    """It will bring nothing any more: minutes of waiting would say less than its exit code."""
    with (
        subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as process,
        pytest.raises(AssertionError, match="the server answers: the process ended with 7"),
    ):
        until(lambda: False, "the server answers", process=process)


def test_what_comes_is_returned() -> None:
    """It is asked for once more until it is there, and then no more."""
    answers = iter([None, "", "here"])
    assert until(lambda: next(answers), "a word") == "here"
