"""The screens that were drawn before they were built: which test holds each, that it fits, what a pipe gets."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from collector.store.database import Store
from gpuledger import main
from tests.analyzer.reports import example_week
from tests.waiting import PATIENCE_SECONDS

GOLDEN, TESTS = Path(__file__).parents[2] / "golden", Path(__file__).parents[2]
# Each screen with its golden file, and the test that makes it.
SCREENS = {
    "run": ("report/recording.txt", "analyzer/reports/test_recording.py"),
    "run, after the change": ("report/recording_against.txt", "analyzer/reports/test_recording.py"),
    "report week": ("report/week.txt", "analyzer/reports/test_week.py"),
    "report run": ("report/run.txt", "analyzer/reports/test_reading.py"),
    "findings": ("report/findings.txt", "analyzer/reports/test_reading.py"),
    "findings explain": ("report/explain.txt", "analyzer/reports/test_reading.py"),
    "profile": ("capacity/profile_decided.txt", "analyzer/capacity/test_profile_text.py"),
    "profile, in a pipe": ("capacity/profile_ascii.txt", "analyzer/capacity/test_profile_text.py"),
    "gate": ("capacity/gate_fail.txt", "analyzer/capacity/test_gate_text.py"),
    "the weekly e-mail": ("mail/week.txt", "analyzer/interfaces/test_mail_content.py"),
    "import prometheus": ("import_prometheus.txt", "collector/importing/test_onboarding.py"),
    "import prometheus, in a pipe": ("import_prometheus_ascii.txt", "collector/importing/test_onboarding.py"),
    "doctor agent": ("doctor/agent.txt", "agent/test_doctor_page.py"),
    "top": ("live/fleet.txt", "analyzer/interfaces/test_live_look.py"),
    "top --node": ("live/host.txt", "analyzer/interfaces/test_live_look.py"),
    "top agent": ("top_agent/healthy.txt", "agent/top/test_screen.py"),
}
DRAWN = re.compile("[▁-▏]")  # bars and sparklines


@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_is_held_by_a_golden_file_of_80_columns(screen: str) -> None:
    """People compare what they see with what was drawn, and paste it into mails of 80 columns."""
    golden, test = SCREENS[screen]
    lines = (GOLDEN / golden).read_text("utf-8").splitlines()
    assert max(map(len, lines)) <= 80, [line for line in lines if len(line) > 80]
    name = golden.rpartition("/")[2].removesuffix(".txt")
    assert name in (TESTS / test).read_text("utf-8"), f"{test} no longer makes {golden}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store that holds the example week, with its settings beside it."""
    folder = tmp_path_factory.mktemp("screens")
    (folder / "gpuledger.toml").write_text('[analyzer]\ncluster = "alpha"\ntimezone = "Europe/Berlin"\n')
    with Store.open(folder / "gpuledger.duckdb") as opened, opened.session() as session:
        example_week.fill(session)
    return folder / "gpuledger.duckdb"


def command(*words: str) -> list[str]:
    """Return the command line of one of ours."""
    return [sys.executable, "-m", "gpuledger", *words]


@pytest.mark.parametrize("words", [("report",), ("report", "run", "81234")])
def test_a_report_draws_on_a_terminal_and_is_plain_in_a_pipe(
    store: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same lines and figures: bars of blocks and colour for the eye, ASCII for a mail or a grep."""
    assert main([*words, "--store", str(store)]) == 0
    piped = capsys.readouterr().out
    assert piped.isascii()
    assert "#" in piped
    assert "\x1b" not in piped
    shown = _on_a_terminal(command(*words, "--store", str(store)))
    assert DRAWN.search(shown)
    assert "\x1b[" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n")
    assert max(map(len, plain.splitlines())) <= 80
    assert _figures(plain) == _figures(piped)


def test_a_terminal_that_knows_no_codes_is_sent_none(store: Path) -> None:
    """TERM=dumb is a shell within an editor, or a console: codes are garbage there."""
    shown = _on_a_terminal(command("report", "--store", str(store)), term="dumb")
    assert DRAWN.search(shown)
    assert "\x1b" not in shown


def _figures(text: str) -> list[str]:
    return re.findall(r"\d[\d,.]*", text)


def _on_a_terminal(line: list[str], term: str = "xterm") -> str:
    """Return what a command writes on a terminal of 80 columns that knows UTF-8."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environment = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": term, "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    try:
        while select.select([ours], [], [], PATIENCE_SECONDS)[0]:
            try:
                more = os.read(ours, 65536)
            except OSError:  # its other end is closed: all is said
                break
            seen += more
    finally:
        code = process.wait(PATIENCE_SECONDS)
        os.close(ours)
    assert code == 0, seen
    return seen.decode()
