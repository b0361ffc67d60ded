"""`gpuledger report --mail` and `gpuledger admin mail`, from the store to a server on loopback."""

import email
import shutil
from collections.abc import Callable
from email.policy import default
from pathlib import Path

import pytest

from collector.registry import open_registry, registry_file
from collector.store.database import Store
from gpuledger import main
from tests.analyzer.interfaces.conftest import Served
from tests.analyzer.reports import example_week

DAY_US = 86_400_000_000
WEDNESDAY = example_week.W46.end + 2 * DAY_US + 7 * 3_600_000_000
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the example week."""
    path = tmp_path_factory.mktemp("filled") / "store.duckdb"
    with Store.open(path) as opened, opened.session() as session:
        example_week.fill(session)
    return path


@pytest.fixture
def store(tmp_path: Path, filled: Path, served: Served) -> Path:
    """A copy of it, and the settings beside it."""
    path = tmp_path / "site" / "store.duckdb"
    path.parent.mkdir()
    shutil.copy(filled, path)
    own = served.settings
    (path.parent / "gpuledger.toml").write_text(
        f"""
[collector]
lake = "none"
[analyzer]
cluster = "alpha"
site_url = "https://gpuledger.example"
timezone = "Europe/Berlin"
[mail]
sender = "{own.sender}"
host = "{own.host}"
port = {own.port}
ca = "{own.ca}"
user = "{own.user}"
password_file = "{own.password_file}"
recipients = ["gpu-owners@example.com"]
teams = {{ team-nlp = "nlp@example.com" }}
timeout_seconds = 10
"""
    )
    return path


@pytest.fixture
def run(store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command at a time, by default on the Wednesday after the week."""

    def command(*words: str, at: int = WEDNESDAY) -> tuple[int, str, str]:
        monkeypatch.setattr("analyzer.interfaces.mail.cli._now", lambda: at)
        code = main([*words, "--store", str(store)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def text_of(raw: bytes) -> str:
    """Return the text part of a mail."""
    mail = email.message_from_bytes(raw, policy=default)
    (found,) = [part for part in mail.walk() if part.get_content_type() == "text/plain"]
    return str(found.get_content())


def test_it_is_sent_once_and_says_what_the_report_says(run: Run, served: Served) -> None:
    """The figures of the mail are those of `report` on the same store; a second run sends nothing."""
    code, out, _ = run("report", "--mail")
    assert (code, out.splitlines()[-1]) == (0, "week 2026-W46: 2 sent, 0 permanently refused")
    mails = dict(served.mailbox.got)
    assert sorted(mails) == ["gpu-owners@example.com", "nlp@example.com"]
    _, printed, _ = run("report", "2026-W46", "--plain")
    fleet = text_of(mails["gpu-owners@example.com"])
    compared = 0
    for label in (
        "productive",
        "idle allocation",
        "input starvation",
        "cross-rack transfers",
        "lost work",
        "throttling",
    ):
        row = next(line for line in printed.splitlines() if f" {label} " in line)
        said = next(line for line in fleet.splitlines() if f" {label} " in line)
        hours, money, percent = [word for word in row.split() if word[0].isdigit()][:3]
        assert said.split()[-2:] == [money, percent], hours
        compared += 1
    assert compared == 6
    assert "67,738   100.0" in fleet
    assert "month to date" in fleet
    own = text_of(mails["nlp@example.com"])
    assert "2026-11 to date: " in own
    assert "team-vision" not in own
    code, out, _ = run("report", "--mail")
    assert code == 0
    assert "already sent" in out
    assert len(served.mailbox.got) == 2


def test_a_server_that_is_down_is_told_and_the_next_run_goes_on(run: Run, served: Served, store: Path) -> None:
    """Exit code 3, one sentence, nothing half-sent; what waits is sent when its turn has come."""
    settings = store.parent / "gpuledger.toml"
    right = settings.read_text()
    settings.write_text(right.replace(f"port = {served.settings.port}", "port = 1"))
    code, out, err = run("report", "--mail")
    assert code == 3
    assert "2 waiting" in out
    assert "cannot be reached" in err
    settings.write_text(right)
    code, out, _ = run("admin", "mail")
    assert "2 waiting" in out
    code, out, _ = run("report", "--mail", at=WEDNESDAY + DAY_US // 24)
    assert code == 0
    assert len(served.mailbox.got) == 2


def test_who_is_refused_for_good_is_told_by_the_exit_code(run: Run, served: Served) -> None:
    """The others have their mail; `gpuledger admin mail` names who has not, and why."""
    served.mailbox.replies["nlp@example.com"] = "550 5.1.1 no such user"
    code, out, _ = run("report", "--mail")
    assert code == 1
    assert "refused   nlp@example.com: 550 5.1.1 no such user" in out
    assert [address for address, _ in served.mailbox.got] == ["gpu-owners@example.com"]
    code, out, _ = run("admin", "mail")
    assert code == 1
    assert "550 5.1.1 no such user" in out


def test_who_stopped_it_gets_none_and_can_come_back(run: Run, served: Served, store: Path) -> None:
    """Also by writing to a person, who has a command for it."""
    run("report", "2026-W45", "--mail", at=WEDNESDAY - 7 * DAY_US)
    assert run("admin", "mail", "--stop", "gpu-owners@example.com")[0] == 0
    served.mailbox.got.clear()
    _, out, _ = run("report", "--mail")
    assert "gpu-owners@example.com: unsubscribed" in out
    assert [address for address, _ in served.mailbox.got] == ["nlp@example.com"]
    run("admin", "mail", "--resume", "gpu-owners@example.com")
    run("report", "--mail")
    assert [address for address, _ in served.mailbox.got] == ["nlp@example.com", "gpu-owners@example.com"]
    with open_registry(registry_file(store)) as registry:
        assert {one.action for one in registry.audit.since(0)} >= {"stop mail", "resume mail"}
    assert run("admin", "mail", "--stop", "stranger@example.com")[0] == 2


def test_no_more_than_one_a_week(run: Run, served: Served) -> None:
    """Weeks that are asked for by hand do not come on top."""
    run("report", "--mail")
    _, out, _ = run("report", "--mail", "2026-W45", at=WEDNESDAY + 1)
    assert "already received an e-mail this week" in out
    assert len(served.mailbox.got) == 2


@pytest.mark.parametrize(
    ("words", "at", "said"),
    [
        (("--mail",), WEDNESDAY + 20 * DAY_US, "no longer mailed"),
        (("--mail", "7d"), WEDNESDAY, "is not a week"),
        (("--mail", "--dry-run"), WEDNESDAY, "--out DIR"),
        (("--dry-run",), WEDNESDAY, "is of --mail"),
        (("--mail", "--format", "html"), WEDNESDAY, "omit --format"),
        (("--mail", "--out", "x"), WEDNESDAY, "--dry-run"),
    ],
)
def test_what_cannot_be_mailed_is_said(run: Run, served: Served, words: tuple[str, ...], at: int, said: str) -> None:
    """Before anything is sent."""
    code, _, err = run("report", *words, at=at)
    assert code in (2, 3)
    assert said in err
    assert served.mailbox.got == []


def test_an_open_week_is_not_mailed(run: Run, served: Served, store: Path) -> None:
    """A mail cannot be taken back: its figures must be those that stay."""
    with Store.open(store) as opened, opened.session() as session:
        session.execute("UPDATE ledger_hours SET status = 'open' WHERE hour >= ?", [example_week.W46.end - DAY_US])
    code, _, err = run("report", "--mail")
    assert code == 3
    assert "may still change" in err
    assert served.mailbox.got == []


def test_a_trial_writes_files_and_touches_nothing_else(run: Run, served: Served, store: Path, tmp_path: Path) -> None:
    """No mail, no registry, no link that would stop anything."""
    folder = tmp_path / "trial"
    code, out, _ = run("report", "--mail", "--dry-run", "--out", str(folder))
    assert code == 0
    files = sorted(folder.iterdir())
    assert len(files) == len(out.splitlines()) == 2
    assert b"/mail/stop/trial" in files[0].read_bytes()
    assert served.mailbox.got == []
    assert not Path(str(registry_file(store))).exists()
