"""Every command of the documents: it exists, has these flags, and does what it is shown for."""

import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import pytest

from collector.store.database import Store
from gpuledger import COMMANDS, main
from tests.analyzer.reports import example_week
from tests.docs.commands import PAGES, ROOT, Shown, blocks, first_yaml, mentions
from tests.operations.commands import said

# What needs a world that is not here; each is run by tests of its own.
ELSEWHERE = {
    "demo": "tests/dashboards/test_demo.py",
    "run": "tests/agent/test_run.py",
    "agent": "tests/agent",
    "agent pause": "tests/agent",
    "agent quiet": "tests/agent",
    "agent doctor": "tests/agent/test_doctor_page.py",
    "agent top": "tests/agent/top",
    "import prometheus": "tests/collector/importing",
    "import slurm": "tests/collector/importing",
    "bill prices import": "tests/analyzer/prices/test_importing.py",
    "bill reconcile": "tests/analyzer/finops/test_reconcile_commands.py",
    "capacity request": "tests/analyzer/capacity/test_gate_cli.py",
    "capacity request show": "tests/analyzer/capacity/test_gate_cli.py",
    "capacity request override": "tests/analyzer/capacity/test_gate_cli.py",
    "capacity profile": "tests/analyzer/capacity/test_profile_cli.py",
    "capacity profile verify": "tests/analyzer/capacity/test_profile_cli.py",
    "admin mail": "tests/analyzer/interfaces/test_mail_command.py",
    "admin alarms test": "tests/analyzer/interfaces/test_alarms_command.py",
    "assistant": "tests/analyzer/interfaces/test_mcp_over_stdio.py",
}
# A running server, a run's output, recordings, runs of two weeks, a language model.
WORDS = ("--server", "--log ", ".json", "--at ", "--from-text ")
ALL = {shown.text: shown for page in PAGES for shown in blocks(page)}.values()  # each once, however often it is shown
HERE = [one for one in ALL if one.name not in ELSEWHERE and not any(word in f"{one.text} " for word in WORDS)]


@pytest.fixture(scope="module")
def help_of() -> Callable[[str], str]:
    """Return a function that gives what `gpuledger COMMAND --help` prints, each once."""
    known: dict[str, str] = {}

    def printed(name: str) -> str:
        if name not in known:
            known[name] = _help(name.split())
        return known[name]

    return printed


def _help(words: list[str]) -> str:
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out), suppress(SystemExit):
        main([*words, "--help"])
    return out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_named_exists_and_has_its_flags(page: Path, help_of: Callable[[str], str]) -> None:
    """A flag that was renamed lives on in the documents until somebody copies it."""
    for shown in (*blocks(page), *mentions(page)):
        assert shown.name, f"{shown.page}: gpuledger {shown.text} is no command"
        told = help_of(shown.name)
        if not shown.flags <= set(_flags(told)):  # report week, agent pause, access add
            told = help_of(" ".join([*shown.name.split(), shown.words[len(shown.name.split())]]))
        missing = shown.flags - set(_flags(told)) - {"--help"}
        assert not missing, f"{shown.page}: gpuledger {shown.text} has no {', '.join(missing)}"


def _flags(told: str) -> list[str]:
    return re.findall(r"--[a-z][a-z-]*", told)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the example week's store and the settings beside it."""
    folder = tmp_path_factory.mktemp("docs")
    store = folder / "gpuledger.duckdb"
    with Store.open(store) as opened, opened.session() as session:
        example_week.fill(session)
    (folder / "gpuledger.toml").write_text(
        '[collector]\nlake = "none"\n[analyzer]\ncluster = "alpha"\ntimezone = "Europe/Berlin"\n'
        'budgets = "budgets.toml"\n'
    )
    (folder / "budgets.toml").write_text(
        '[[budget]]\nteam = "team-nlp"\nusd_per_month = 900000\nfrom = 2026-01-01\nsource = "of the test"\n'
    )
    shutil.copy(ROOT / "tests" / "data" / "logs" / "smi_units.csv", folder / "gpu_log.csv")
    (folder / "jobs.yaml").write_text(first_yaml(ROOT / "docs" / "planning.md"))
    return folder


@pytest.fixture(scope="module")
def finding(site: Path) -> str:
    """Return the id of the first finding in the list."""
    _, told, _ = said(["findings", "--store", str(site / "gpuledger.duckdb"), "--plain"])
    return str(re.findall(r"\bf-[a-z0-9]{5,}", told)[0])


@pytest.mark.parametrize("shown", HERE, ids=lambda one: f"{one.page}: {one.text}")
def test_it_does_what_it_is_shown_for(
    site: Path, finding: str, shown: Shown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands in the document, but for ids, files and days that only the reader knows."""
    monkeypatch.chdir(site)
    monkeypatch.setenv("GPULEDGER_COLLECTOR_STORE", str(site / "gpuledger.duckdb"))
    ids = [finding if re.fullmatch(r"f-\w{5}", word) else word for word in shown.words]
    words = [_known(word, site, capsys, restores=shown.name == "admin restore") for word in ids]
    code = main(words)
    printed = capsys.readouterr()
    assert code == 0 or (code == 1 and ("--check" in words or "verify" in words)), (
        f"gpuledger {' '.join(words)}: {printed.err or printed.out}"
    )


def _known(word: str, site: Path, capsys: pytest.CaptureFixture[str], *, restores: bool) -> str:
    """Return what the reader would write in the place of a word."""
    if word == "7fk3q2zx":
        main(["admin", "access", "add", "--role", "read", "--name", "of the documents"])
        main(["admin", "access", "list"])
        return str(re.findall(r"^(\w{8})\b.*of the documents", capsys.readouterr().out, re.MULTILINE)[-1])
    return {
        "demo/demo.duckdb": str(site / "gpuledger.duckdb"),
        "/var/lib/gpuledger/gpuledger.duckdb": str(site / ("restored" if restores else "") / "gpuledger.duckdb"),
        "/srv/backup": str(site / "admin backup"),
        "80417": "81500",
        "2026-10": "2026-11",
    }.get(word, word)


def test_nothing_is_left_out_without_a_place_where_it_is_run() -> None:
    """The list of what is run elsewhere must not outlive what it names."""
    root = Path(__file__).parents[2]
    assert all((root / place).exists() for place in ELSEWHERE.values())
    assert set(ELSEWHERE) <= set(COMMANDS) | {"agent pause", "agent quiet"}
    assert len(HERE) > 20
