"""The command: a task file in, the answer out, as text, page and JSON; what is wrong is a sentence and exit code 2."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.planner import plan
from collector.store.database import Store
from gpuledger import main
from tests.analyzer.capacity.planner_small_site import fill
from tests.analyzer.ledger.fleet import Fleet
from tests.analyzer.reports import example_week
from tests.docs.commands import ROOT, first_yaml

PAGE = ROOT / "docs" / "planning.md"
SAMPLE = re.compile(r"(<!-- sample -->\n```text\n)(.*?)(```\n<!-- end -->)", re.DOTALL)
TWO_TASKS = """
start: 2026-11-27T05:00
nodes: {one: {cpus: 4, memory: 8 GB}}
tasks:
  load: {cpus: 2, memory: 1 GB, gpu: none, duration: 1 h}
  fit: {cpus: 2, memory: 1 GB, gpu: none, duration: 2 h, after: [load]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that the command runs in, with the document's file and a small one."""
    (tmp_path / "jobs.yaml").write_text(first_yaml(PAGE))
    (tmp_path / "two.yaml").write_text(TWO_TASKS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return a function that gives what was printed."""
    return lambda: capsys.readouterr().out


def test_the_document_shows_what_the_command_says(
    folder: Path, said: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    """Its sample answers its own file. Equal plans may come from another solver, so the sentence is held to it."""
    assert plan(["jobs.yaml", "--plain"]) == 0
    text = said()
    page = PAGE.read_text("utf-8")
    if request.config.getoption("--update-golden"):
        page = SAMPLE.sub(lambda found: f"{found[1]}$ gpuledger capacity plan jobs.yaml\n{text}{found[3]}", page)
        PAGE.write_text(page, "utf-8")
    shown = SAMPLE.search(page)
    assert shown is not None
    assert _paragraph(shown[2]) == _paragraph(text)
    assert "Move data-prep from cpuB to ssdA in group C (local SSD saves 2 h of transfers)." in _paragraph(text)
    assert "Delay alignment 6 h (it has 7 h 30 min of slack)." in _paragraph(text)
    assert all(len(line) <= 80 for line in text.splitlines())


def _paragraph(text: str) -> str:
    """Return the answer's sentences, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    return " ".join(text.split("\n\n")[1].split()) if lines else ""


def test_a_deadline_of_the_command_line_goes_before_the_files(folder: Path, said: Callable[[], str]) -> None:
    """And --check says by its exit code that no plan keeps it."""
    assert plan(["jobs.yaml", "--finish-by", "in 8 h", "--check", "--plain"]) == 1
    assert "Impossible: earliest Fri 18:00 (5 h late) with every task at its P50;" in _paragraph(said())
    assert plan(["jobs.yaml", "--finish-by", "in 8 h", "--plain"]) == 0
    assert plan(["jobs.yaml", "--check", "--plain"]) == 0


def test_it_writes_a_page_and_exact_figures(folder: Path, said: Callable[[], str]) -> None:
    """To a file, or to a program."""
    assert plan(["two.yaml", "--format", "html", "--out", "plan.html"]) == 0
    assert "<title>gpuledger Plan two.yaml</title>" in (folder / "plan.html").read_text("utf-8")
    assert plan(["two.yaml", "--json"]) == 0
    report = json.loads(said())
    assert (report["end_at"] - report["start_at"], report["verdict"]) == (3 * 3600 * 1_000_000, "no_deadline")
    assert [one["task"] for one in report["tasks"]] == ["load", "fit"]


def test_it_reads_what_is_piped_to_it(folder: Path, said: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a program makes needs no name."""
    monkeypatch.setattr("sys.stdin", io.StringIO(TWO_TASKS))
    assert plan(["-", "--plain"]) == 0
    assert said().startswith("plan of standard input   2 tasks, 1 node\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["absent.yaml"], "cannot read absent.yaml: No such file or directory"),
        (["two.yaml", "--finish-by", "someday"], "--finish-by must be a moment"),
        (["two.yaml", "--finish-by", "2026-11-27T04:00"], "is not after the plan's start"),
    ],
)
def test_what_cannot_be_planned_is_a_sentence(folder: Path, words: list[str], told: str) -> None:
    """Exit code 2, as for all that is wrong in what was given."""
    with pytest.raises(ConfigError, match=re.escape(told)):
        plan(words)
    assert main(["capacity", "plan", *words]) == 2


def test_nodes_and_durations_come_from_the_ledger(folder: Path, said: Callable[[], str]) -> None:
    """What stands in the file as history and inventory is looked up in the store, and told."""
    with Store.open(folder / "gpuledger.duckdb", memory_limit="500MB") as store:
        fill(Fleet(store))
    (folder / "gpuledger.toml").write_text('[analyzer]\ntimezone = "Europe/Berlin"\n')
    task = "{cpus: 2, memory: 1 GB, gpu: 1, duration: {history: nightly}}"
    file = folder / "fleet.yaml"
    file.write_text(f"start: 2025-11-11T01:00\nnodes: {{inventory: [train]}}\ntasks: {{prep: {task}}}")
    assert plan(["fleet.yaml", "--finish-by", "in 45 min", "--plain"]) == 0
    text = said()
    assert "Estimated finish Tue 01:30 (P50), 02:00 (P90); deadline 01:45, P(on time)" in _paragraph(text)
    assert "nightly         6 runs with 1 GPU" in text
    file.write_text(file.read_text().replace("gpu: 1", "gpu: 2"))
    with pytest.raises(ConfigError, match="3 runs with 2 GPUs completed, and a spread needs 5"):
        plan(["fleet.yaml"])


def test_an_inventory_that_offers_nothing_says_why(folder: Path) -> None:
    """A ledger without what its nodes have is no fleet without nodes."""
    with Store.open(folder / "gpuledger.duckdb") as store, store.session() as session:
        example_week.fill(session)
    _, _, tasks = TWO_TASKS.partition("tasks:")
    (folder / "fleet.yaml").write_text(f"nodes: inventory\ntasks:{tasks}")
    with pytest.raises(ConfigError, match=r"has no node for a plan now .n01: its cores or its memory are not known"):
        plan(["fleet.yaml"])


def test_a_start_and_a_solver_can_be_chosen(folder: Path, said: Callable[[], str]) -> None:
    """--start goes before the file's, and a plan of one solver compares that one."""
    assert plan(["two.yaml", "--plain", "--start", "2026-11-28T07:00", "--solver", "heft"]) == 0
    text = said()
    assert "Sat 28 Nov 2026 07:00" in text
    assert "OLB (next" not in text
