"""gpuledger top on a real terminal, in a pipe, and against a server that goes away."""

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from analyzer.interfaces.live.cli import top
from collector.store.database import Store
from tests.analyzer.finops.focus_books import MS_PER_HOUR, Books
from tests.waiting import PATIENCE_SECONDS, said_by_now, until


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with one run that works, and one that sleeps."""
    path = tmp_path_factory.mktemp("top") / "gpuledger.duckdb"
    books = Books(Store.open(path))
    books.run("slurm/alpha/1", "team-a", "dear")
    books.run("slurm/alpha/2", "team-b", "asleep")
    books.gpu_hour([("slurm/alpha/1", "productive", "compute", MS_PER_HOUR)], price=9_000_000)
    books.gpu_hour([("slurm/alpha/2", "held_idle", "abandoned", MS_PER_HOUR)], gpu="GPU-2")
    books.store.close()
    return path


def test_in_a_pipe_it_looks_once(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cron job must end, and its log must hold no escapes."""
    assert top(["--store", str(store)]) == 0
    out = capsys.readouterr().out
    assert "dear 1" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("every", ["0", "0.5", "4000", "soon"])
def test_an_odd_interval_is_refused(store: Path, every: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A look every few milliseconds would be a load that nobody meant."""
    with pytest.raises(SystemExit):
        top(["--store", str(store), "--every", every])
    assert "seconds from 1 to 3600" in capsys.readouterr().err


class Terminal:
    """A real terminal of 80 columns and 24 rows with the command on it."""

    def __init__(self, *arguments: str, term: str = "xterm") -> None:
        self.ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        environment = os.environ | {"TERM": term, "NO_COLOR": "1"}
        command = [sys.executable, "-m", "gpuledger", "top", *arguments]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.seen = ""

    def read_until(self, text: str) -> str:
        """Return what was drawn up to a text that must come."""
        from_here = len(self.seen)

        def is_drawn() -> bool:
            self.seen += said_by_now(self.ours).decode(errors="replace")  # may end within a letter
            return text in self.seen[from_here:]

        until(is_drawn, f"{text!r} is drawn", more=lambda: repr(self.seen[from_here:]))
        return self.seen[from_here:]

    def press(self, key: str) -> None:
        """Press a key."""
        os.write(self.ours, key.encode())

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


def test_keys_sort_and_end_it_and_the_terminal_is_as_before(store: Path) -> None:
    """A terminal left without echo or cursor is what people remember of a tool."""
    with Terminal("--store", str(store), "--every", "3600") as terminal:
        first = terminal.read_until("q quit")
        assert first.index("dear 1") < first.index("asleep 2")
        terminal.press("a")
        sorted_anew = terminal.read_until("q quit")
        assert sorted_anew.index("asleep 2") < sorted_anew.index("dear 1")
        terminal.press("q")
        assert terminal.read_until("\x1b[?1049l").count("\x1b[?25h") == 1
        assert terminal.ended() == 0


def test_a_store_that_goes_away_leaves_the_last_look_with_a_word(store: Path, tmp_path: Path) -> None:
    """A screen on the wall must not end with the first restart of what it reads."""
    copy = tmp_path / "gpuledger.duckdb"
    copy.write_bytes(store.read_bytes())
    with Terminal("--store", str(copy), "--every", "3600") as terminal:
        terminal.read_until("q quit")
        copy.unlink()
        terminal.press(" ")
        drawn = terminal.read_until("q quit")
        assert drawn.index("! ") < drawn.index("dear 1")
        terminal.press("q")
        assert terminal.ended() == 0


def test_what_is_wrong_at_the_start_ends_it_with_a_sentence(tmp_path: Path) -> None:
    """An empty screen would hide the reason."""
    with Terminal("--store", str(tmp_path / "none.duckdb")) as terminal:
        assert "\x1b[?1049h" not in terminal.read_until("gpuledger: ")
        assert terminal.ended() != 0


def test_a_terminal_that_knows_no_codes_gets_one_look(store: Path) -> None:
    """TERM=dumb can be drawn on once, and not again."""
    with Terminal("--store", str(store), "--every", "3600", term="dumb") as terminal:
        assert "\x1b" not in terminal.read_until("asleep 2")
        assert terminal.ended() == 0
