"""`gpuledger recommendations accept`, `reject`, `savings`, `runs compare`: on a store, on a server, on recordings."""

from functools import cache
from pathlib import Path

import pytest

from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.cli import recording
from analyzer.interfaces.cli.decisions import accept, reject
from analyzer.interfaces.cli.report import compare, savings
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from collector.store.database import Store
from tests.analyzer.interfaces.api_sites import site
from tests.analyzer.reports.example_recording import write_recording
from tests.analyzer.small_site import analysed_site
from tests.collector.access.conftest import add_key

PLAIN = ["--since", "2025-W46"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store on disk with the small site, analysed."""
    path = tmp_path_factory.mktemp("commands") / "store.duckdb"
    fleet = analysed_site()
    with Store.open(path) as made, fleet.store.session() as source, made.session() as target:
        for (table,) in source.rows("SELECT table_name FROM duckdb_tables() WHERE NOT temporary"):
            rows = source.arrow(f"SELECT * FROM {table}")
            if rows.num_rows and table != "migrations":
                target.insert(table, rows)
    return path


def advised(store: Path) -> list[str]:
    """Return the ids of what is recommended."""
    with Store.open(store, read_only=True) as opened, opened.session() as session:
        reader = Reader(session, Settings())
        period = reader.period("2025-W46")
        return [one.id for one in reader.advice(reader.findings(period), period)]


def test_what_is_decided_on_a_store_is_in_the_savings(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Accepted, said to be applied, rejected with its reason: three lists."""
    first, second, third, *_ = advised(store)
    at = ["--store", str(store)]
    assert accept([first, *PLAIN, *at]) == 0
    assert "once it is seen to be applied" in " ".join(capsys.readouterr().out.split())
    assert accept([second, "--applied-at", "2025-11-10", *PLAIN, *at]) == 0
    assert "applied on Mon 10 Nov 00:00" in " ".join(capsys.readouterr().out.split())
    assert reject([third, "--because", "they need whole GPUs", *PLAIN, *at]) == 0
    capsys.readouterr()
    assert savings(at) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "1 applied, 1 accepted and not seen to be applied, 1 rejected" in text
    assert "they need whole GPUs" in text
    assert "not provable" in text
    assert accept([third, *at, *PLAIN]) == 0
    savings(at)
    assert "2 accepted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--applied-at", "2999-01-01"], "is in the future"),
        (["--applied-at", "someday"], "is not a valid time"),
    ],
)
def test_a_moment_that_cannot_be_is_refused(store: Path, words: list[str], said: str) -> None:
    """Before the store is opened."""
    with pytest.raises(ConfigError, match=said):
        accept(["r-aaaaa", *words, "--store", str(store)])


def test_a_rejection_needs_a_reason(store: Path) -> None:
    """It keeps the recommendation away, and somebody will ask why."""
    with pytest.raises(ConfigError, match="say why"):
        reject(["r-aaaaa", "--because", " ", "--store", str(store)])
    with pytest.raises(SystemExit):
        reject(["r-aaaaa", "--store", str(store)])


def test_a_server_is_told_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody stops a server to decide."""
    with site(tmp_path) as running:
        monkeypatch.setenv("GPULEDGER_TOKEN", add_key(running.registry, "owner"))
        one, other = (each["id"] for each in running.items("/v1/recommendations")[:2])
        server = ["--server", str(running.client.base_url)]
        assert accept([one, "--applied-at", "2025-11-10", *server]) == 0
        assert reject([other, "--because", "no", *server]) == 0
        with pytest.raises(ConfigError, match="is in the future"):
            accept([one, "--applied-at", "2999-01-01", *server])
        assert "applied on Mon 10 Nov 00:00" in capsys.readouterr().out  # as in Berlin, where the site is
        assert savings(server) == 0
        assert "1 applied, 0 accepted and not seen to be applied, 1 rejected" in capsys.readouterr().out
        assert {each["id"]: each["stage"] for each in running.json("/v1/savings")["items"]} == {
            one: "applied",
            other: "rejected",
        }


def test_a_comparison_needs_two_things(store: Path) -> None:
    """Two runs, or a name and a moment, and never all three."""
    for words in (["a"], ["a", "b", "--at", "2025-11-10"]):
        with pytest.raises(ConfigError, match="compare two runs"):
            compare([*words, "--store", str(store)])
    with pytest.raises(ConfigError, match="--price is of recordings"):
        compare(["a", "b", "--price", "2", "--store", str(store)])
    with pytest.raises(LedgerError, match="the same run"):
        compare(["notebook", "notebook", "--store", str(store)])
    with pytest.raises(LedgerError, match="no run named"):
        compare(["nothing", "--at", "2025-11-10", "--store", str(store)])
    with pytest.raises(LedgerError, match="entirely before"):
        compare(["notebook", "--at", "2025-11-10", "--store", str(store)])


def test_a_recording_that_is_not_there_is_named(store: Path) -> None:
    """Instead of a run that nobody meant, or of a store."""
    for words in (["a.json", "b.json"], [str(store), "b"], [str(store), "--at", "2025-11-10"]):
        with pytest.raises(ConfigError, match="is not a file"):
            compare(words)


def test_two_recordings_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What gpuledger run leaves behind, without any store."""
    monkeypatch.chdir(tmp_path)
    write_recording(tmp_path / "before.json", 45, waiting=True)
    write_recording(tmp_path / "now.json", 30, waiting=False)
    monkeypatch.setattr(recording, "recording_report", cache(recording.recording_report))  # each takes a ledger
    assert compare(["before.json", "now.json"]) == 0
    assert "AGAINST before" in capsys.readouterr().out
    assert compare(["before.json", "now.json", "--json"]) == 0
    assert '"schema": "gpuledger/compare_recordings"' in capsys.readouterr().out


def test_two_runs_side_by_side(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By any unique end of their ids."""
    assert compare(["notebook", "trials", "--store", str(store)]) == 0
    assert "two runs side by side" in capsys.readouterr().out
