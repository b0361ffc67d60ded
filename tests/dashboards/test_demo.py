"""The demo: the real pipeline over a fleet that does not exist."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from analyzer.interfaces.cli.report import findings, report
from analyzer.ledger.teams import team_book
from analyzer.prices.price_book import price_book
from analyzer.settings.settings import Settings
from collector.errors import ConfigError
from dashboards.cli import demo as demo_command
from dashboards.demo import DemoConfig, DemoResult, demo, write_settings
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parent.parent.parent


def test_the_demo_settings_are_good(tmp_path: Path) -> None:
    """What the demo writes beside its store is read by every command, and strictly."""
    write_settings(tmp_path)
    settings = Settings.beside(tmp_path / "demo.duckdb", {})
    assert settings.cluster == "alpha"
    assert price_book(settings).version != price_book(settings).__class__().version
    assert team_book(settings) is not None


def test_settings_that_are_there_stay(tmp_path: Path) -> None:
    """Who has set prices beside a store does not want them replaced by a demo."""
    (tmp_path / "prices.toml").write_text("# mine\n")
    write_settings(tmp_path)
    assert (tmp_path / "prices.toml").read_text() == "# mine\n"


def test_a_small_fleet_goes_all_the_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Agents' batches over HTTP, store, ledger, report and page: each stage is the product's own."""
    store = tmp_path / "demo.duckdb"
    with demo(DemoConfig(once=True, port=0, store=store, small=True)) as shown:
        assert "GPU-hours owned" in shown.report
        assert "WHERE IT WENT" in shown.report
        assert shown.gpu_rows > 0
        page = httpx.get(shown.url)
        assert page.status_code == 200
        assert "The fleet" in page.text
        doctor = httpx.get(f"{shown.url}/v1/doctor", timeout=PATIENCE_SECONDS).json()
        assert [line for section in doctor["sections"] for line in section["lines"] if line["answer"] == "bad"] == []
    assert report(["--store", str(store), "--json"]) == 0
    assert [record.message for record in caplog.records] == [], "a first look begins without a warning"
    week = json.loads(capsys.readouterr().out)
    entries = week["breakdown"]["entries"]
    of_teams = [entry for team in week["teams"] for entry in team["breakdown"]["entries"]]
    assert sum(entry["milliseconds"] for entry in entries) == sum(entry["milliseconds"] for entry in of_teams)
    avoidable = sum(entry["milliseconds"] for entry in entries if entry["class"] == "avoidable")
    assert findings(["--store", str(store), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert sum(finding["milliseconds"] for finding in found) == avoidable


def test_a_store_that_is_not_kept_is_removed() -> None:
    """A demo leaves nothing behind."""
    with demo(DemoConfig(once=True, port=0, small=True)) as shown:
        assert shown.store.exists()
    assert not shown.store.parent.exists()


def test_a_taken_port_is_a_sentence() -> None:
    """The demo meets a machine on which something already listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="cannot be had"), demo(DemoConfig(port=taken.getsockname()[1])):
            pass


@pytest.mark.parametrize(
    ("words", "port", "said"),
    [
        (["--once"], 0, "gpuledger demo --once --store demo/demo.duckdb"),
        (["--once", "--store", "kept.duckdb"], 0, "gpuledger findings --store kept.duckdb"),
        (["--once", "--port", "8471"], 8471, "nothing is kept"),
    ],
)
def test_the_demo_says_how_to_read_on(
    words: list[str],
    port: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The report's own "next" finds no store in this directory; and without a page no port needs to be free."""
    asked: list[DemoConfig] = []

    @contextmanager
    def built(config: DemoConfig) -> Iterator[DemoResult]:
        asked.append(config)
        yield DemoResult("report\n", {"report": 0.1}, 1, "http://127.0.0.1:1", Path("s.duckdb"))

    monkeypatch.setattr("dashboards.demo.demo", built)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert demo_command(words) == 0
    assert asked[0].port == port
    assert said in capsys.readouterr().err
