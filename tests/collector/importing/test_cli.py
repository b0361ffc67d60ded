"""`gpuledger import slurm` as people call it."""

import json
from pathlib import Path

import pytest

import gpuledger
from collector.store.database import Store
from tests.analyzer.ledger.fleet import HOUR
from tests.collector.importing.site import T
from tests.collector.schedulers import modern

DATA = Path(__file__).parents[1] / "schedulers" / "data" / "slurm_22_05"
SINCE = ("--since", "2026-11-21", "--until", "2026-11-22")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run the command; return its exit code and what it said."""
    code = gpuledger.main(["import", "slurm", *words])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return the flags of sacct's and squeue's JSON of one real cluster, in the newer types."""
    flags = []
    for name, turned in (("sacct", modern.sacct), ("squeue", modern.squeue)):
        (tmp_path / f"{name}.json").write_text(json.dumps(turned(json.loads((DATA / f"{name}.json").read_text()))))
        flags += ["--file", str(tmp_path / f"{name}.json")]
    return flags


def test_files_from_elsewhere_are_enough(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The accounting database is often where this machine is not."""
    store = tmp_path / "store.duckdb"
    code, out, _ = said(capsys, *files, *SINCE, "--store", str(store))
    assert code == 0
    assert out.startswith("slurm/testcluster: ")
    assert "on hosts without metrics, so not assigned to a GPU" in out
    code, again, _ = said(capsys, *files, *SINCE, "--store", str(store), "--cluster", "testcluster")
    assert "new: 0 allocations, 0 other names, 0 states of hosts" in again
    with Store.open(store, read_only=True) as opened, opened.session() as session:
        (runs,) = session.row("SELECT count(DISTINCT run_id) FROM allocations WHERE started_at IS NOT NULL")
    assert f" {runs} runs with GPUs" in again


def test_a_dry_run_leaves_no_store(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what it would bring."""
    code, out, _ = said(capsys, *files, *SINCE, "--store", str(tmp_path / "s.duckdb"), "--dry-run")
    assert (code, "runs with GPUs" in out) == (0, True)
    assert not (tmp_path / "s.duckdb").exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--since", "someday"), 2, "someday"),
        (("--timezone", "Mars/Olympus"), 2, "Mars/Olympus"),
        (("--file", "absent.json"), 3, "cannot read absent.json"),
        (("--slurm-commands", "/nowhere"), 3, "is Slurm's client installed?"),
        (("--slurm-cluster", "beta"), 2, "not beta"),
    ],
)
def test_what_is_wrong_is_a_sentence_and_an_exit_code(
    words: tuple[str, ...],
    code: int,
    sentence: str,
    files: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And no store is left behind by a mistake in the words."""
    more = files if "--slurm-cluster" in words else []
    found, _, err = said(capsys, *SINCE, *words, *more, "--store", str(tmp_path / "s.duckdb"))
    assert (found, sentence in err) == (code, True)
    assert not (tmp_path / "s.duckdb").exists()


def test_of_several_clusters_one_must_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two clusters number their jobs alike: in one ledger they would be one another's."""
    head = "Cluster|JobID|State|Start|End|NodeList|AllocTRES"
    lines = [f"{name}|7|COMPLETED|{T // 10**6}|{(T + HOUR) // 10**6}|n1|gres/gpu=1" for name in ("a", "b")]
    (tmp_path / "jobs").write_text("\n".join([head, *lines]))
    words = ("--file", str(tmp_path / "jobs"), "--since", "2025-11-01", "--store", str(tmp_path / "s.duckdb"))
    code, _, err = said(capsys, *words)
    assert (code, "a, b" in err) == (2, True)
    code, out, _ = said(capsys, *words, "--slurm-cluster", "b")
    assert (code, out.startswith("slurm/b: 1 run with GPUs")) == (0, True)
